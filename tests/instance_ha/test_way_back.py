"""A host that is let back, and what comes between. docs/instance-ha.md, «The way back»."""

from __future__ import annotations

import pytest

from cloudctl.drivers.fake.fencer import FakeFencer
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from tests.instance_ha.asking import Ha
from tests.instance_ha.test_host_recovery import service

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
