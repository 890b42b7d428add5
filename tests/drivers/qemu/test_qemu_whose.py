"""Which of its two processes has a guest that moves: a rule about what they say of themselves."""

from __future__ import annotations

import pytest
from attrs import evolve

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.qemu.moves import Seen, Whose, there_like_here, whose
from cloudctl.drivers.specs import GuestSpec, PortSpec, VolumeConnection

NONE = Seen()


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        # It has not begun, is on its way, has failed, was called off.
        (Seen("running"), "inmigrate", Whose.HERE),
        (Seen("running", "active"), "inmigrate", Whose.HERE),
        (Seen("paused", "setup"), "inmigrate", Whose.HERE),
        (Seen("running", "failed"), None, Whose.HERE),
        (Seen("running", "cancelled"), None, Whose.HERE),
        # It stands still, and all of it is being sent. What has been sent is through with it a moment later.
        (Seen("finish-migrate", "device"), "inmigrate", Whose.OPEN),
        (Seen("finish-migrate", "completed"), "running", Whose.OPEN),
        (Seen("postmigrate", "device"), "running", Whose.OPEN),
        # Whoever is through with it has it no more, whatever became of the other one.
        (Seen("postmigrate", "completed"), "running", Whose.THERE),
        (Seen("postmigrate", "completed"), None, Whose.THERE),
        # So QEMU calls a paused one that was not taken.
        (Seen("postmigrate", "failed"), None, Whose.HERE),
        # An earlier copy, of one that was suspended and went on.
        (Seen("running", "completed"), "inmigrate", Whose.HERE),
        # The one that it had is gone: the other one has it, or is about to, or nobody has.
        (NONE, "running", Whose.THERE),
        (NONE, "paused", Whose.THERE),
        (NONE, "inmigrate", Whose.OPEN),
        (NONE, None, Whose.HERE),
    ],
)
def test_one_process_has_it(here: Seen, there: str | None, expected: Whose) -> None:
    assert whose(here, Seen(there)) is expected


def test_the_same_machine_is_made_there_with_other_ways_to_its_parts() -> None:
    def volume(host: str) -> VolumeConnection:
        return VolumeConnection("volume", {"driver_volume_type": "nbd", "data": {"export": host}}, boot_index=1)

    def port(host: str) -> PortSpec:
        return PortSpec("port", "network", "fa:16:3e:00:00:01", binding={"vif_type": "tap", "host": host})

    has = GuestSpec("id", "name", "here", 1, 16, 1, volumes=(volume("here"),), ports=(port("here"),))
    wished = evolve(has, name="other", host="there", memory_mib=32, volumes=(volume("there"),), ports=(port("there"),))
    made = there_like_here(has, wished)
    assert made == evolve(has, host="there", volumes=wished.volumes, ports=wished.ports)
    with pytest.raises(Unfit):
        there_like_here(has, evolve(wished, ports=()))
