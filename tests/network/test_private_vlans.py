"""Ports of one network that do not all reach each other."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.network_specs import Isolation
from tests.network.conftest import Neutron


def isolation(neutron: Neutron, port: Any) -> Isolation | None:
    """What the driver holds of it."""
    neutron.settle()
    held: Isolation | None = neutron.driver.ports.get(port["id"]).spec.isolation
    return held


def kind(port: Any) -> tuple[str | None, str | None]:
    return port["pvlan_type"], port["pvlan_community"]


def test_a_port_is_promiscuous_isolated_or_of_a_community(neutron: Neutron) -> None:
    assert neutron.network()["pvlan"] is False
    network = neutron.network(pvlan=True)
    assert kind(neutron.create("port", network_id=network["id"])) == ("promiscuous", None)
    port = neutron.create("port", "admin", network_id=network["id"], pvlan_type="isolated", binding__host_id="h1")
    path = f"/ports/{port['id']}"
    assert (kind(port), isolation(neutron, port)) == (("isolated", None), Isolation())
    wish = {"port": {"pvlan_type": "community", "pvlan_community": "web"}}
    changed = neutron.expect(200, "PUT", path, wish, "admin")["port"]
    assert (kind(changed), isolation(neutron, port)) == (("community", "web"), Isolation("web"))
    neutron.expect(200, "PUT", path, {"port": {"name": "n"}}, "admin")
    assert neutron.get("/ports?pvlan_community=web", "admin")["ports"][0]["id"] == port["id"]
    # Who leaves a community does not have to say so twice.
    changed = neutron.expect(200, "PUT", path, {"port": {"pvlan_type": None}}, "admin")["port"]
    assert (kind(changed), isolation(neutron, port)) == (("promiscuous", None), None)
    neutron.settle()
    (dhcp,) = neutron.get(f"/ports?network_id={network['id']}&device_owner=network:dhcp")["ports"]
    assert kind(dhcp) == ("promiscuous", None)


@pytest.mark.parametrize(
    "wish",
    [
        {"pvlan_type": "community"},
        {"pvlan_type": "isolated", "pvlan_community": "web"},
        {"pvlan_community": "web"},
        {"pvlan_type": "isolated", "port_security_enabled": False},
    ],
)
def test_what_contradicts_itself_is_refused(neutron: Neutron, wish: dict[str, Any]) -> None:
    network = neutron.network(pvlan=True)
    neutron.refused(400, "BadRequest", "POST", "/ports", {"port": {"network_id": network["id"], **wish}})
    port = neutron.create("port", network_id=network["id"], security_groups=[])
    neutron.refused(400, "BadRequest", "PUT", f"/ports/{port['id']}", {"port": wish})
    assert kind(neutron.get(f"/ports/{port['id']}")["port"]) == ("promiscuous", None)


@pytest.mark.parametrize("wrong", ["", "1web", "bad name!", "web\n", "x" * 233])
def test_a_community_has_a_name(neutron: Neutron, wrong: str) -> None:
    network = neutron.network(pvlan=True)
    wish = {"network_id": network["id"], "pvlan_type": "community", "pvlan_community": wrong}
    neutron.expect(400, "POST", "/ports", {"port": wish})


def test_a_port_that_is_isolated_keeps_its_filter(neutron: Neutron) -> None:
    network = neutron.network(pvlan=True)
    port = neutron.create("port", network_id=network["id"], pvlan_type="isolated", security_groups=[])
    neutron.refused(400, "BadRequest", "PUT", f"/ports/{port['id']}", {"port": {"port_security_enabled": False}})
    body = {"network": {"pvlan": True, "port_security_enabled": False}}
    neutron.refused(400, "BadRequest", "POST", "/networks", body)
    neutron.refused(
        400, "BadRequest", "PUT", f"/networks/{network['id']}", {"network": {"port_security_enabled": False}}
    )


def test_other_networks_know_nothing_of_it(neutron: Neutron) -> None:
    network = neutron.network()
    port = neutron.create("port", network_id=network["id"])
    assert kind(port) == (None, None)
    for wish in ({"pvlan_type": "isolated"}, {"pvlan_type": "community", "pvlan_community": "web"}):
        neutron.refused(400, "BadRequest", "POST", "/ports", {"port": {"network_id": network["id"], **wish}})
        neutron.refused(400, "BadRequest", "PUT", f"/ports/{port['id']}", {"port": wish})


def test_a_network_begins_and_ends_with_its_ports(neutron: Neutron) -> None:
    network = neutron.network()
    port = neutron.create("port", "admin", network_id=network["id"], binding__host_id="h1")
    neutron.expect(200, "PUT", f"/networks/{network['id']}", {"network": {"pvlan": True}})
    changed = neutron.get(f"/ports/{port['id']}", "admin")["port"]
    assert (kind(changed), changed["revision_number"]) == (("promiscuous", None), port["revision_number"] + 1)
    neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"pvlan_type": "isolated"}}, "admin")
    assert isolation(neutron, port) == Isolation()
    neutron.expect(200, "PUT", f"/networks/{network['id']}", {"network": {"pvlan": False}})
    assert (kind(neutron.get(f"/ports/{port['id']}", "admin")["port"]), isolation(neutron, port)) == (
        (None, None),
        None,
    )
