"""The audit of network backends: what differs is told, and mended where somebody knows how it shall be."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.boundary import call
from cloudctl.drivers.specs import NetworkSpec
from cloudctl.network import audit
from tests.network.conftest import Neutron

UNKNOWN = "6f1d2c3b-0000-4000-8000-000000000000"


@pytest.fixture
def driver(neutron: Neutron) -> Any:
    return neutron.driver


@pytest.fixture
def look(neutron: Neutron, driver: Any) -> Any:
    """What the audit finds now: (kind, id, whether it is mended)."""

    def found() -> list[tuple[str, str, bool]]:
        neutron.clock.advance(1)
        ended: list[Any] = []
        call(audit.check(neutron.db, driver)).addBoth(ended.append)
        return sorted((each.kind, each.resource_id, each.submitted) for each in ended[0])

    return found


@pytest.fixture
def port(neutron: Neutron) -> Any:
    """Plugged, in a network with a router."""
    network = neutron.network()
    neutron.join(neutron.router(), subnet_id=network["subnets"][0])
    made = neutron.create("port", "admin", network_id=network["id"], **{"binding:host_id": "fake-1"})
    neutron.settle()
    return made


def test_where_all_is_well_nothing_is_found(port: Any, look: Any) -> None:
    assert look() == []


def test_what_is_missing_is_made_again(neutron: Neutron, port: Any, driver: Any, look: Any) -> None:
    router = driver.routers.values()[0].id
    driver.ports.delete(port["id"])
    driver.networks.delete(port["network_id"])
    driver.routers.delete(router)
    missing = [("network", port["network_id"]), ("port", port["id"]), ("router", router)]
    assert look() == [(f"{type}-missing", id, True) for type, id in missing]
    assert look() == [], "tasks are under way"
    neutron.settle()
    assert look() == []
    assert driver.ports.get(port["id"]).hosts == ("fake-1",)


def test_a_port_that_is_on_another_host_is_missing(neutron: Neutron, port: Any, driver: Any, look: Any) -> None:
    driver.ports.put(port["id"], evolve(driver.ports.get(port["id"]), hosts=("fake-2",)))
    assert look() == [("port-missing", port["id"], True)]


def test_what_nobody_knows_is_left_alone(neutron: Neutron, driver: Any, look: Any) -> None:
    driver.networks.put(UNKNOWN, NetworkSpec(UNKNOWN))
    for _ in range(2):
        assert look() == [("network-unknown", UNKNOWN, False)]
        neutron.settle()


def test_what_others_have_changed_is_made_so_again(neutron: Neutron, port: Any, driver: Any, look: Any) -> None:
    (group,) = port["security_groups"]
    driver.changed |= {group, port["id"]}
    before = driver.behaviour.calls.copy()
    assert look() == [("port-drifted", port["id"], True), ("security-group-drifted", group, True)]
    neutron.settle()
    done = driver.behaviour.calls - before
    assert done["ensure_port"] == 1
    assert done["ensure_security_group"] == 2  # the port has it made, too


def test_what_has_just_changed_is_not_in_question(neutron: Neutron, port: Any, driver: Any, look: Any) -> None:
    driver.ports.delete(port["id"])
    neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"name": "other"}}, user="admin")
    neutron.clock.advance(-1)  # `look` advances it
    assert look() == []
