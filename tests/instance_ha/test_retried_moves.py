"""What a retry does with the servers of a dead host that have not arrived."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import frozen

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.fencer import FakeFencer
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.testing.cloud import MemoryCloud
from tests.instance_ha.asking import Ha
from tests.instance_ha.test_host_recovery import on, place
from tests.there import there


@pytest.fixture
def host(ha: Ha) -> str:
    return ha.host(ha.segment(), "fake-1")


def pass_time(ha: Ha, seconds: int) -> None:
    for _ in range(seconds):
        ha.cloud.advance(1)


def failed_once(ha: Ha, hypervisor: FakeHypervisor, server: str) -> str:
    """The notification whose first attempt to move this server has failed."""
    hypervisor.behaviour.fail("ensure_running", error=DriverError("it does not start"), id=server)
    told = ha.reported()
    pass_time(ha, 40)
    assert (ha.status(told), ha.vmoves(told)[0]["status"]) == ("error", "failed")
    return told


def test_a_server_that_somebody_has_brought_up_meanwhile_is_left_where_it_runs(
    ha: Ha, host: str, hypervisor: FakeHypervisor
) -> None:
    server = on(ha, "fake-1")
    told = failed_once(ha, hypervisor, server)
    assert ha.compute.act(server, {"reboot": {"type": "HARD"}}).status == 202
    pass_time(ha, 5)
    runs, status = place(ha, server)
    assert status == "ACTIVE" and runs != "fake-1"
    log = there(hypervisor.guests.get(server)).log
    ha.cloud.settle()
    assert (ha.status(told), place(ha, server)) == ("finished", (runs, "ACTIVE"))
    assert there(hypervisor.guests.get(server)).log == log
    (move,) = ha.vmoves(told)
    assert (move["status"], move["message"]) == ("ignored", f"it is on {runs}")


def test_a_server_that_may_run_where_its_move_failed_waits_for_a_proof(
    ha: Ha, host: str, hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    server = on(ha, "fake-1")
    told = failed_once(ha, hypervisor, server)
    second, _ = place(ha, server)
    assert second != "fake-1"
    hypervisor.fail_host(second)
    pass_time(ha, 400)
    assert place(ha, server)[0] == second and fencer.fenced == {"fake-1"}
    assert ha.status(told) == "error" and f"it may run on {second}" in ha.notification(told)["message"]
    hypervisor.recover_host(second)
    ha.cloud.settle()
    assert (ha.status(told), place(ha, server)[1]) == ("finished", "ACTIVE")


@frozen
class Waiting:
    """Two hosts with room for one server each: one is fenced, and its server waits for the other one's to go."""

    ha: Ha
    hypervisor: FakeHypervisor
    told: str
    server: str
    other: str


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    cloud = MemoryCloud({"driver": {"hypervisor": {"fake": {"hosts": 2, "memory_mib": 3000}}}})
    ha, hypervisor = Ha(cloud.client("admin")), cloud.cloud.drivers.hypervisor
    assert isinstance(hypervisor, FakeHypervisor)
    ha.host(ha.segment(), "fake-1")
    server, other = on(ha, "fake-1", flavorRef="2"), on(ha, "fake-2", flavorRef="2")
    told = ha.reported()
    pass_time(ha, 600)
    assert ha.status(told) == "error" and "No valid host" in ha.notification(told)["message"]
    yield Waiting(ha, hypervisor, told, server, other)
    cloud.close()


def test_having_waited_for_room_uses_up_no_retry(waiting: Waiting) -> None:
    ha = waiting.ha
    waiting.hypervisor.behaviour.fail("ensure_running", error=DriverError("it does not start"), id=waiting.server)
    ha.compute.delete(f"/servers/{waiting.other}")
    ha.cloud.settle()
    assert (ha.status(waiting.told), place(ha, waiting.server)) == ("finished", ("fake-2", "ACTIVE"))


def test_a_move_that_keeps_failing_is_retried_as_often_as_may_be_even_if_it_waits_in_between(waiting: Waiting) -> None:
    ha, behaviour = waiting.ha, waiting.hypervisor.behaviour
    behaviour.fail("ensure_running", times=None, error=DriverError("it does not start"), id=waiting.server)
    ha.compute.delete(f"/servers/{waiting.other}")
    ha.cloud.settle()
    assert (ha.status(waiting.told), behaviour.calls["ensure_running"]) == ("failed", 4)
