"""What the counters of volumes cost those who ask for them."""

from __future__ import annotations

from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.quotas import quotas


def test_the_sums_are_looked_up_once_and_not_at_each_request() -> None:
    one, other = (quotas(VolumeOptions(), ["__DEFAULT__"]).resources for _ in range(2))
    assert [each.name for each in one if each.used is not None]
    for before, after in zip(one, other, strict=True):
        assert before.used is after.used, before.name
