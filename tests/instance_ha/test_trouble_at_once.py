"""Two hosts die together, one comes and goes, and the database is away in the midst of it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from cloudctl.drivers.fake.fencer import FakeFencer
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.testing.cloud import MemoryCloud
from tests.instance_ha.asking import Ha


@pytest.fixture
def network(cloud: MemoryCloud) -> FakeNetworkBackend:
    found = cloud.cloud.drivers.network
    assert isinstance(found, FakeNetworkBackend)
    return found


@pytest.fixture
def servers(ha: Ha) -> list[str]:
    """One on each host, and all hosts are watched over."""
    segment = ha.segment()
    for number in (1, 2, 3):
        ha.host(segment, f"fake-{number}")
    return [ha.compute.boot(availability_zone=f"nova:fake-{number}") for number in (1, 2, 3)]


def places(ha: Ha, servers: list[str]) -> list[tuple[str, str]]:
    found = [ha.compute.server(each) for each in servers]
    return [(each["OS-EXT-SRV-ATTR:host"], each["status"]) for each in found]


def statuses(ha: Ha) -> list[tuple[str, str]]:
    found = ha.get("/notifications?sort_key=id&sort_dir=asc")["notifications"]
    return [(each["hostname"], each["status"]) for each in found]


def test_guests_of_two_hosts_that_die_together_run_on_the_third(
    cloud: MemoryCloud,
    ha: Ha,
    servers: list[str],
    hypervisor: FakeHypervisor,
    network: FakeNetworkBackend,
    fencer: FakeFencer,
) -> None:
    for host in ("fake-1", "fake-2"):
        hypervisor.fail_host(host)
        network.silent.add(host)
    for _ in range(20):
        cloud.advance(5)
    cloud.settle()
    assert statuses(ha) == [("fake-1", "finished"), ("fake-2", "finished")] and fencer.fenced == {"fake-1", "fake-2"}
    assert places(ha, servers) == [("fake-3", "ACTIVE")] * 3


def test_a_host_that_comes_and_goes_is_fenced_when_it_has_stayed_away(
    cloud: MemoryCloud,
    ha: Ha,
    servers: list[str],
    hypervisor: FakeHypervisor,
    network: FakeNetworkBackend,
    fencer: FakeFencer,
) -> None:
    for _ in range(10):
        hypervisor.fail_host("fake-1")
        network.silent.add("fake-1")
        for _ in range(4):
            cloud.advance(10)
        hypervisor.recover_host("fake-1")
        network.silent.clear()
        cloud.advance(20)
    assert not fencer.fenced and statuses(ha) == []
    hypervisor.fail_host("fake-1")
    network.silent.add("fake-1")
    for _ in range(20):
        cloud.advance(5)
    cloud.settle()
    assert fencer.fenced == {"fake-1"} and statuses(ha) == [("fake-1", "finished")]


@pytest.mark.parametrize("after", [0, 1, 2, 5])
def test_a_recovery_goes_on_when_the_database_is_there_again(
    cloud: MemoryCloud, ha: Ha, servers: list[str], monkeypatch: pytest.MonkeyPatch, logged_failures: Any, after: int
) -> None:
    uuid = ha.reported("fake-1")
    for _ in range(after):
        cloud.advance(0.1)

    def away(*_: Any, **__: Any) -> Any:
        raise OperationalError("SELECT 1", {}, Exception("the database is away"))

    with monkeypatch.context() as patched:
        patched.setattr(cloud.db, "transact", away)
        for _ in range(30):
            cloud.advance(1)
    for _ in range(60):
        cloud.advance(1)
    cloud.settle()
    assert ha.status(uuid) == "finished"
    assert [host != "fake-1" and status == "ACTIVE" for host, status in places(ha, servers)] == [True] * 3
    assert [each["status"] for each in ha.vmoves(uuid)] == ["succeeded"]
    assert logged_failures.flush(OperationalError)
