"""A reserve comes in the place of a host, with its zone and whatever else its aggregates say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cloudctl.testing.cloud import MemoryCloud
from tests.instance_ha.asking import Ha

JOINS = {"instance_ha": {"add_reserved_host_to_aggregate": True}}


@pytest.fixture
def ha() -> Iterator[Ha]:
    cloud = MemoryCloud(JOINS)
    yield Ha(cloud.client("admin"))
    cloud.close()


class Zone:
    """An aggregate that is a zone, with fake-1, and a segment of fake-1 with the reserve fake-3."""

    def __init__(self, ha: Ha) -> None:
        self.ha = ha
        made = ha.client.post("/compute/v2.1/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "z1"}})
        self.path = f"/compute/v2.1/os-aggregates/{made.json()['aggregate']['id']}"
        self.act("add_host", "fake-1")
        segment = ha.segment("rack-2", "reserved_host")
        ha.host(segment, "fake-1")
        self.reserve = f"/segments/{segment}/hosts/{ha.host(segment, 'fake-3', reserved=True)}"
        self.server = ha.compute.boot(availability_zone="z1")

    def act(self, action: str, host: str) -> int:
        return int(self.ha.client.post(f"{self.path}/action", {action: {"host": host}}).status)

    @property
    def hosts(self) -> list[str]:
        found: list[str] = self.ha.client.get(self.path).json()["aggregate"]["hosts"]
        return found

    @property
    def place(self) -> Any:
        return self.ha.compute.server(self.server)["OS-EXT-SRV-ATTR:host"]

    def recover(self) -> str:
        uuid = self.ha.reported()
        self.ha.cloud.settle()
        return self.ha.status(uuid)


def test_it_joins_them_and_stays_where_it_got_a_guest(ha: Ha) -> None:
    zone = Zone(ha)
    assert (zone.recover(), zone.place, zone.hosts) == ("finished", "fake-3", ["fake-1", "fake-3"])
    assert ha.get(zone.reserve)["host"]["reserved"] is False


@pytest.mark.parametrize("is_in", [False, True])
def test_one_without_room_leaves_them_unless_it_was_in_before(is_in: bool) -> None:
    cloud = MemoryCloud({**JOINS, "driver": {"hypervisor": {"fake": {"hosts": 2, "memory_mib": 3000}}}})
    ha = Ha(cloud.client("admin"))
    segment = ha.segment("rack-2", "reserved_host")
    ha.host(segment, "fake-1")
    ha.host(segment, "fake-2", reserved=True)
    for host in ("fake-1", "fake-2"):
        ha.compute.boot(flavorRef="2", availability_zone=f"nova:{host}")
    path = "/compute/v2.1/os-aggregates"
    number = ha.client.post(path, {"aggregate": {"name": "a"}}).json()["aggregate"]["id"]
    for host in ("fake-1", "fake-2")[: 1 + is_in]:
        assert ha.client.post(f"{path}/{number}/action", {"add_host": {"host": host}}).status == 200
    uuid = ha.reported()
    cloud.advance(60)
    assert "No valid host" in ha.notification(uuid)["message"]
    assert ha.client.get(f"{path}/{number}").json()["aggregate"]["hosts"] == ["fake-1", "fake-2"][: 1 + is_in]
    cloud.close()


def test_it_joins_none_unless_the_operator_wants_it(cloud: MemoryCloud) -> None:
    zone = Zone(Ha(cloud.client("admin")))
    assert (zone.recover(), zone.place, zone.hosts) == ("failed", "fake-1", ["fake-1"])


def test_a_zone_that_it_cannot_join_is_told_and_its_guest_waits(ha: Ha) -> None:
    zone = Zone(ha)
    other = ha.client.post("/compute/v2.1/os-aggregates", {"aggregate": {"name": "b", "availability_zone": "z2"}})
    path = f"/compute/v2.1/os-aggregates/{other.json()['aggregate']['id']}/action"
    assert ha.client.post(path, {"add_host": {"host": "fake-3"}}).status == 200
    assert (zone.recover(), zone.place, zone.hosts) == ("failed", "fake-1", ["fake-1"])
