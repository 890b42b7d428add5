"""A host that is let back, and what comes between. docs/instance-ha.md, «The way back»."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from cloudctl.db.columns import utc
from cloudctl.drivers.errors import Unreachable
from cloudctl.drivers.fake.fencer import FakeFencer
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from tests.instance_ha.asking import STOPPED, Ha
from tests.instance_ha.test_host_recovery import on, place, service

LONG = 200  # seconds: a report that says the same is a new one


@pytest.fixture
def segment(ha: Ha) -> str:
    return ha.segment()


@pytest.fixture
def host(ha: Ha, segment: str) -> str:
    """One that was recovered from, and has been let alone since."""
    made = ha.host(segment, "fake-1")
    ha.reported()
    ha.cloud.settle()
    pass_time(ha, LONG)
    return made


def pass_time(ha: Ha, seconds: int) -> None:
    for _ in range(seconds):
        ha.cloud.advance(1)


def let_return(ha: Ha, segment: str, host: str) -> None:
    done = ha.ask("PUT", f"/segments/{segment}/hosts/{host}", {"host": {"on_maintenance": False}})
    assert done.status == 200


def test_a_host_that_dies_again_while_it_is_looked_at_is_not_used(
    ha: Ha, segment: str, host: str, hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    hypervisor.behaviour.delay("inventory", 20)
    let_return(ha, segment, host)
    pass_time(ha, 5)
    assert fencer.fenced == set()
    again = ha.reported()
    pass_time(ha, 60)
    hypervisor.behaviour.clear()
    ha.cloud.settle()
    assert ha.status(again) == "finished"
    found = service(ha, "fake-1")
    assert (found["status"], found["forced_down"], fencer.fenced) == ("disabled", True, {"fake-1"})
    let_return(ha, segment, host)
    ha.cloud.settle()
    found = service(ha, "fake-1")
    assert (found["status"], found["forced_down"], fencer.fenced) == ("enabled", False, set())


def test_a_host_is_not_fenced_while_its_fencer_still_releases_it(
    ha: Ha, segment: str, host: str, hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    fencer.behaviour.delay("ensure_unfenced", 20)
    let_return(ha, segment, host)
    pass_time(ha, 5)
    again = ha.reported()
    ha.cloud.settle()
    assert ha.status(again) == "finished"
    assert fencer.fenced == {"fake-1"} and not hypervisor.machines["fake-1"].up


def test_a_fencer_that_acted_without_a_proof_releases_the_host_as_well(
    ha: Ha, segment: str, hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    host = ha.host(segment, "fake-1")
    fencer.behaviour.fail("ensure_fenced", times=None, after=True)
    told = ha.reported()
    ha.cloud.advance(5)
    assert fencer.fenced == {"fake-1"}
    ha.ask("POST", f"/notifications/{told}/fenced", {"fenced": {"reason": "it has no light"}})
    ha.cloud.settle()
    assert ha.status(told) == "finished"
    let_return(ha, segment, host)
    ha.cloud.settle()
    assert fencer.fenced == set() and service(ha, "fake-1")["status"] == "enabled"


def test_a_fencer_that_has_no_part_in_it_keeps_no_host_from_returning(
    ha: Ha, segment: str, hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    host = ha.host(segment, "fake-1")
    fencer.behaviour.fail("ensure_fenced", times=None)
    fencer.behaviour.fail("ensure_unfenced", times=None)
    told = ha.reported()
    ha.cloud.advance(5)
    hypervisor.fail_host("fake-1")
    ha.ask("POST", f"/notifications/{told}/fenced", {"fenced": {"reason": "I pulled the plug"}})
    ha.cloud.settle()
    hypervisor.recover_host("fake-1")
    let_return(ha, segment, host)
    ha.cloud.settle()
    assert service(ha, "fake-1")["status"] == "enabled"


def test_a_host_on_planned_maintenance_is_none_of_the_fencers_business(
    ha: Ha, segment: str, hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    host = ha.host(segment, "fake-1", on_maintenance=True)
    hypervisor.fail_host("fake-1")
    let_return(ha, segment, host)
    ha.cloud.settle()
    assert not fencer.behaviour.calls["ensure_unfenced"]


def reported_late(ha: Ha, at: datetime) -> str:
    """A certain report that was made at that time."""
    said = {"hostname": "fake-1", "type": "COMPUTE_HOST", "generated_time": at.isoformat(), "payload": STOPPED}
    answer = ha.ask("POST", "/notifications", {"notification": said})
    assert answer.status == 202, answer
    return str(answer.json()["notification"]["notification_uuid"])


def test_what_was_reported_before_a_host_was_let_back_does_not_fence_it(
    ha: Ha, segment: str, host: str, fencer: FakeFencer
) -> None:
    before = utc(ha.cloud.clock.seconds())
    pass_time(ha, 2)
    let_return(ha, segment, host)
    ha.cloud.settle()
    late = reported_late(ha, before)
    ha.cloud.settle()
    found = ha.notification(late)
    said = "the host was let back after what this reports, and the host answers"
    assert (found["status"], found["message"], fencer.fenced) == ("ignored", said, set())
    assert service(ha, "fake-1")["status"] == "enabled"
    pass_time(ha, LONG)
    again = ha.reported()
    ha.cloud.settle()
    assert (ha.status(again), fencer.fenced) == ("finished", {"fake-1"})


def test_a_host_that_is_dead_again_is_recovered_from_even_if_the_report_looks_late(
    ha: Ha, segment: str, host: str, hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    """The monitor's clock may be behind."""
    before = utc(ha.cloud.clock.seconds())
    pass_time(ha, 2)
    let_return(ha, segment, host)
    ha.cloud.settle()
    hypervisor.fail_host("fake-1")
    pass_time(ha, 11)
    late = reported_late(ha, before)
    pass_time(ha, LONG)
    ha.cloud.settle()
    assert (ha.status(late), fencer.fenced) == ("finished", {"fake-1"})


@pytest.mark.parametrize("method", ["ensure_unfenced", "hosts", "inventory"])
def test_a_host_that_may_return_does_so_however_long_a_driver_is_away(
    ha: Ha, segment: str, host: str, hypervisor: FakeHypervisor, fencer: FakeFencer, logged_failures: Any, method: str
) -> None:
    driver = fencer if method == "ensure_unfenced" else hypervisor
    driver.behaviour.fail(method, times=None)
    let_return(ha, segment, host)
    pass_time(ha, 1000)
    assert service(ha, "fake-1")["status"] == "disabled"
    driver.behaviour.clear()
    # Of those that look at all hosts, time and again.
    logged_failures.flush(Unreachable)
    pass_time(ha, 120)
    assert service(ha, "fake-1")["status"] == "enabled" and fencer.fenced == set()


def test_a_host_that_nobody_was_sure_of_and_that_answers_before_it_is_fenced_is_left_alone(
    ha: Ha, segment: str, hypervisor: FakeHypervisor, fencer: FakeFencer
) -> None:
    host = ha.host(segment, "fake-1", reserved=True)
    server = on(ha, "fake-1")
    hypervisor.fail_host("fake-1")
    # The switch that is broken is its controller's, too.
    fencer.behaviour.fail("ensure_fenced", times=None)
    pass_time(ha, 11)
    told = ha.reported(event="STOPPED", host_status="UNKNOWN")
    pass_time(ha, 120)
    assert "no proof that host fake-1 is fenced" in ha.notification(told)["message"]
    assert service(ha, "fake-1")["status"] == "disabled"
    hypervisor.recover_host("fake-1")
    pass_time(ha, 30)
    fencer.behaviour.clear()
    ha.cloud.settle()
    found = ha.notification(told)
    assert (found["status"], found["message"]) == ("ignored", "host_status is not NORMAL, and the host answers again")
    assert fencer.fenced == set() and place(ha, server) == ("fake-1", "ACTIVE")
    assert service(ha, "fake-1")["status"] == "enabled"
    member = ha.get(f"/segments/{segment}/hosts/{host}")["host"]
    assert (member["on_maintenance"], member["reserved"]) == (False, True)
