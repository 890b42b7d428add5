"""A host dies while servers move from it, or to it: their records may name the other host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.drivers.errors import DriverError, Unreachable
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.specs import Power
from cloudctl.tasks import queue
from cloudctl.tasks.tables import HELD
from tests.instance_ha.asking import Ha
from tests.instance_ha.test_host_recovery import on, place
from tests.there import there

LIVE = {"os-migrateLive": {"host": "fake-2", "block_migration": "auto"}}
CUT = Unreachable("the way is cut")


@pytest.fixture
def watched(ha: Ha) -> None:
    segment = ha.segment()
    for host in ("fake-1", "fake-2"):
        ha.host(segment, host)


def moves(ha: Ha, hypervisor: FakeHypervisor, action: Any, method: str, **how: Any) -> str:
    """A server of fake-1 that moves to fake-2. The answer of `method` is lost, or the call is."""
    server = on(ha, "fake-1")
    hypervisor.behaviour.fail(method, error=CUT, id=server, **how)
    assert ha.compute.act(server, action, "2.56").status == 202
    ha.cloud.advance(0.1)
    return server


def goes(ha: Ha, hypervisor: FakeHypervisor) -> str:
    return moves(ha, hypervisor, {"migrate": {"host": "fake-2"}}, "ensure_defined")


def goes_back(ha: Ha, hypervisor: FakeHypervisor) -> str:
    server = on(ha, "fake-2")
    assert ha.compute.act(server, {"migrate": {"host": "fake-1"}}, "2.56").status == 202
    ha.cloud.settle()
    hypervisor.behaviour.fail("ensure_defined", error=CUT, id=server)
    assert ha.compute.act(server, {"revertResize": None}).status == 202
    ha.cloud.advance(0.1)
    return server


def has_gone_live(ha: Ha, hypervisor: FakeHypervisor) -> str:
    return moves(ha, hypervisor, LIVE, "ensure_migrated", after=True)


@pytest.mark.parametrize(
    ("under_way", "recorded", "dead"),
    [(goes, "fake-2", "fake-1"), (goes_back, "fake-2", "fake-1"), (has_gone_live, "fake-1", "fake-2")],
)
def test_a_guest_that_is_lost_on_its_way_runs_elsewhere(
    ha: Ha,
    watched: None,
    hypervisor: FakeHypervisor,
    under_way: Callable[[Ha, FakeHypervisor], str],
    recorded: str,
    dead: str,
) -> None:
    """It was overlooked, since it was recorded on the other host, which was alive."""
    server = under_way(ha, hypervisor)
    assert (place(ha, server)[0], there(hypervisor.guests.get(server)).spec.host) == (recorded, dead)
    hypervisor.fail_host(dead)
    told = ha.reported(dead)
    ha.cloud.settle()
    (move,) = ha.vmoves(told)
    assert (ha.status(told), move["status"], move["message"]) == ("finished", "succeeded", None)
    found = there(hypervisor.guests.get(server))
    assert (place(ha, server), found.power) == ((found.spec.host, "ACTIVE"), Power.RUNNING)
    assert found.spec.host != dead


def test_a_guest_that_has_left_is_not_made_anew(ha: Ha, watched: None, hypervisor: FakeHypervisor) -> None:
    server = moves(ha, hypervisor, {"migrate": {"host": "fake-2"}}, "ensure_defined", after=True)
    log = there(hypervisor.guests.get(server)).log
    told = ha.reported("fake-1")
    ha.cloud.settle()
    (move,) = ha.vmoves(told)
    assert (ha.status(told), move["status"], move["message"]) == ("finished", "ignored", "it is on fake-2")
    assert place(ha, server) == ("fake-2", "VERIFY_RESIZE") and there(hypervisor.guests.get(server)).log.startswith(log)


def test_if_both_hosts_are_dead_it_goes_by_the_recovery_of_the_recorded_one(
    ha: Ha, watched: None, hypervisor: FakeHypervisor
) -> None:
    server = goes(ha, hypervisor)
    for host in ("fake-1", "fake-2"):
        hypervisor.fail_host(host)
    first = ha.reported("fake-1")
    for _ in range(1000):
        ha.cloud.advance(1)
    assert "it may run on fake-2" in ha.notification(first)["message"] and place(ha, server)[0] == "fake-2"
    second = ha.reported("fake-2")
    ha.cloud.settle()
    assert (ha.status(first), ha.status(second), place(ha, server)) == ("finished", "finished", ("fake-3", "ACTIVE"))


def test_a_running_guest_whose_move_is_held_stays_where_it_is(ha: Ha, hypervisor: FakeHypervisor) -> None:
    segment = ha.segment()
    for host in ("fake-1", "fake-2"):
        ha.host(segment, host)
    network = ha.cloud.cloud.drivers.network
    assert isinstance(network, FakeNetworkBackend)
    server = on(ha, "fake-1")
    hypervisor.behaviour.fail("ensure_migrated", error=DriverError("no"), id=server)
    network.behaviour.fail("ensure_port_absent", times=None, error=DriverError("the switch is broken"))
    wish = {"os-migrateLive": {"host": "fake-2", "block_migration": "auto"}}
    assert ha.compute.act(server, wish, "2.56").status == 202
    for _ in range(100):
        ha.cloud.advance(10)
    assert len(ha.cloud.transact(lambda conn: list(queue.listing(conn, states=(HELD,))))) == 1
    network.behaviour.clear()
    before = there(hypervisor.guests.get(server))
    log = before.log
    hypervisor.fail_host("fake-2")
    told = ha.reported("fake-2")
    for _ in range(10):
        ha.cloud.advance(10)
    after = there(hypervisor.guests.get(server))
    assert (after.spec.host, after.power, after.log) == ("fake-1", Power.RUNNING, log)
    assert "its move is held" in str(ha.vmoves(told))
