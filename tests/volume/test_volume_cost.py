"""What volumes cost, counted: look-ups and transactions, and no seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloudctl.testing.cloud import Client, MemoryCloud, connection
from cloudctl.testing.databases import WRITES
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.quotas import quotas
from cloudctl.volume.search import metadata_values
from tests.statements import asked
from tests.volume.asking import V3


def test_the_sums_are_looked_up_once_and_not_at_each_request() -> None:
    one, other = (quotas(VolumeOptions(), ["__DEFAULT__"]).resources for _ in range(2))
    assert [each.name for each in one if each.used is not None]
    for before, after in zip(one, other, strict=True):
        assert before.used is after.used, before.name


def written(cloud: MemoryCloud, work: Callable[[], Any]) -> int:
    """The transactions that write while this is done, until nothing is left to do."""
    cloud.advance(0.0)  # what a start has left to do
    texts: list[str] = []
    connection(cloud.cloud).set_trace_callback(texts.append)
    try:
        assert work().status == 202
        cloud.advance(0.0)
    finally:
        connection(cloud.cloud).set_trace_callback(None)
    cloud.settle()
    return sum(text == WRITES for text in texts)


def test_a_volume_is_made_and_removed_in_the_request_a_claim_and_one_transaction_more(
    cloud: MemoryCloud, demo: Client
) -> None:
    assert written(cloud, lambda: demo.post(f"{V3}/volumes", {"volume": {"size": 1}})) == 3
    (volume,) = demo.get(f"{V3}/volumes/detail").json()["volumes"]
    assert volume["status"] == "available"
    assert written(cloud, lambda: demo.delete(f"{V3}/volumes/{volume['id']}")) == 3
    assert demo.get(f"{V3}/volumes/{volume['id']}").status == 404


class Compared(str):
    """A text that counts how often one is compared with another."""

    times = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)


class Found:
    """A connection whose volumes have these metadata."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        self.rows = rows

    def execute(self, _query: object) -> Found:
        return self

    def scalars(self) -> list[dict[str, str]]:
        return self.rows


def test_the_usage_of_a_project_is_read_at_once_for_all_types(cloud: MemoryCloud, admin: Client, make: Any) -> None:
    volume = make(size=2)
    project, counted = volume["os-vol-tenant-attr:tenant_id"], []
    for size, name in ((1, "a"), (3, "b")):
        admin.post(f"{V3}/types", {"volume_type": {"name": name}})
        id = make(size=size, volume_type=name)["id"]
        assert cloud.client("demo").post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}}).status == 202
        with asked() as statements:
            found = admin.get(f"{V3}/os-quota-sets/{project}?usage=true").json()["quota_set"]
        counted.append(len(statements))
    assert counted[0] == counted[1]
    used = {name: each["in_use"] for name, each in found.items() if name.endswith(("_a", "_b", "___DEFAULT__"))}
    assert used == {
        "volumes___DEFAULT__": 1, "gigabytes___DEFAULT__": 2, "snapshots___DEFAULT__": 0,
        "volumes_a": 1, "gigabytes_a": 2, "snapshots_a": 1, "volumes_b": 1, "gigabytes_b": 6, "snapshots_b": 1,
    }  # fmt: skip


def test_a_summary_compares_no_value_with_all_others() -> None:
    rows: list[dict[str, str]] = [{"key": Compared(number)} for number in (*range(500), *range(500))]
    conn: Any = Found(rows)
    assert metadata_values(conn) == {"key": [str(number) for number in range(500)]}
    assert Compared.times < 3000
