"""Ports of floating IPs that lead to ports of fixed addresses. Reference: network.md, section 8."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.specs import PortForwarding
from tests.network.conftest import Neutron


@pytest.fixture
def external(neutron: Neutron) -> Any:
    return neutron.external()


@pytest.fixture
def network(neutron: Neutron) -> Any:
    return neutron.network()


@pytest.fixture
def router(neutron: Neutron, network: Any, external: Any) -> Any:
    return neutron.router(network, external=external)


@pytest.fixture
def port(neutron: Neutron, network: Any, router: Any) -> Any:
    return neutron.create("port", network_id=network["id"])


@pytest.fixture
def ip(neutron: Neutron, external: Any) -> Any:
    return neutron.create("floatingip", floating_network_id=external["id"])


def path(ip: Any, forwarding: Any = None) -> str:
    return f"/floatingips/{ip['id']}/port_forwardings" + (f"/{forwarding['id']}" if forwarding else "")


def body(port: Any, **fields: Any) -> Any:
    wanted = {"internal_port_id": port["id"], "internal_port": 22, "external_port": 2222, "protocol": "tcp", **fields}
    return {"port_forwarding": {name: value for name, value in wanted.items() if value is not None}}


def forward(neutron: Neutron, ip: Any, port: Any, **fields: Any) -> Any:
    return neutron.expect(201, "POST", path(ip), body(port, **fields))["port_forwarding"]


def test_one_is_made_changed_and_deleted(neutron: Neutron, ip: Any, port: Any, router: Any) -> None:
    made, address = forward(neutron, ip, port, description="ssh"), port["fixed_ips"][0]["ip_address"]
    assert made == {
        "id": made["id"], "protocol": "tcp", "internal_port_id": port["id"], "internal_ip_address": address,
        "internal_port": 22, "external_port": 2222, "internal_port_range": "22:22",
        "external_port_range": "2222:2222", "description": "ssh",
    }  # fmt: skip
    assert neutron.get(path(ip, made)) == {"port_forwarding": made}
    assert neutron.get(f"{path(ip)}?external_port=2222&protocol=tcp") == {"port_forwardings": [made]}
    neutron.settle()
    held = neutron.driver.routers.get(router["id"])
    floating = ip["floating_ip_address"]
    assert held.port_forwardings == (PortForwarding(made["id"], "tcp", floating, 2222, address, 22),)
    shown = neutron.get(f"/floatingips/{ip['id']}")["floatingip"]
    assert (shown["status"], shown["router_id"], shown["port_id"]) == ("ACTIVE", router["id"], None)
    assert shown["port_forwardings"] == [
        {
            "id": made["id"], "protocol": "tcp", "internal_port": made["internal_port"], "external_port": 2222,
            "internal_ip_address": made["internal_ip_address"], "internal_port_id": made["internal_port_id"],
        }
    ]  # fmt: skip
    changed = neutron.expect(200, "PUT", path(ip, made), {"port_forwarding": {"internal_port": 33, "protocol": "udp"}})
    assert (changed["port_forwarding"]["internal_port"], changed["port_forwarding"]["protocol"]) == (33, "udp")
    neutron.expect(204, "DELETE", path(ip, made))
    neutron.settle()
    assert neutron.driver.routers.get(router["id"]).port_forwardings == ()
    assert neutron.get(f"/floatingips/{ip['id']}")["floatingip"]["router_id"] is None
    neutron.refused(404, "PortForwardingNotFound", "GET", path(ip, made))
    neutron.expect(204, "DELETE", f"/floatingips/{ip['id']}")


def test_they_go_with_their_floating_ip(neutron: Neutron, ip: Any, port: Any, router: Any) -> None:
    made = forward(neutron, ip, port)
    neutron.settle()
    neutron.expect(204, "DELETE", f"/floatingips/{ip['id']}")
    neutron.settle()
    assert neutron.driver.routers.get(router["id"]).port_forwardings == ()
    neutron.refused(404, "FloatingIPNotFound", "GET", path(ip, made))
    neutron.expect(204, "DELETE", f"/ports/{port['id']}")


def test_the_only_one_may_move_behind_another_router(
    neutron: Neutron, external: Any, ip: Any, port: Any, router: Any
) -> None:
    made = forward(neutron, ip, port)
    elsewhere = neutron.network("10.1.0.0/24")
    other = neutron.router(elsewhere, external=external)
    moved = neutron.create("port", network_id=elsewhere["id"])
    neutron.settle()
    neutron.expect(200, "PUT", path(ip, made), {"port_forwarding": {"internal_port_id": moved["id"]}})
    neutron.settle()
    assert neutron.driver.routers.get(router["id"]).port_forwardings == ()
    (held,) = neutron.driver.routers.get(other["id"]).port_forwardings
    assert held.fixed_address == moved["fixed_ips"][0]["ip_address"]
    assert neutron.get(f"/floatingips/{ip['id']}")["floatingip"]["router_id"] == other["id"]


def test_ranges_are_of_one_length(neutron: Neutron, ip: Any, port: Any) -> None:
    ports = {"internal_port": None, "external_port": None}
    made = forward(neutron, ip, port, **ports, internal_port_range="100:109", external_port_range="2000:2009")
    assert (made["internal_port"], made["internal_port_range"]) == (None, "100:109")
    for fields in (
        {"internal_port_range": "1:2", "external_port_range": "5:9"}, {"internal_port_range": "x:y"},
        {"internal_port_range": "9:5", "external_port_range": "9:5"}, {"internal_port_range": "1:2"},
    ):  # fmt: skip
        neutron.refused(400, "BadRequest", "POST", path(ip), body(port, **ports, **fields))
    both = body(port, internal_port_range="22:22")
    neutron.refused(400, "BadRequest", "POST", path(ip), both)
    neutron.refused(400, "BadRequest", "POST", path(ip), body(port, external_port=2005, internal_port=5))


def test_they_stay_of_one_length_when_one_of_them_changes(neutron: Neutron, ip: Any, port: Any) -> None:
    single = forward(neutron, ip, port, internal_port=65535)
    ports = {"internal_port": None, "external_port": None}
    several = forward(neutron, ip, port, **ports, internal_port_range="100:109", external_port_range="2000:2009")
    for made, fields in (
        (single, {"external_port_range": "80:90"}), (several, {"external_port": 80}),
        (several, {"internal_port_range": "100:108"}),
    ):  # fmt: skip
        neutron.refused(400, "BadRequest", "PUT", path(ip, made), {"port_forwarding": fields})
        assert neutron.get(path(ip, made))["port_forwarding"] == made
    fields = {"external_port_range": "3000:3009", "description": "d"}
    changed = neutron.expect(200, "PUT", path(ip, several), {"port_forwarding": fields})["port_forwarding"]
    assert changed == {**several, **fields}
    fields = {"internal_port": 22, "external_port": 3000}
    changed = neutron.expect(200, "PUT", path(ip, several), {"port_forwarding": fields})["port_forwarding"]
    assert (changed["internal_port"], changed["external_port_range"]) == (22, "3000:3000")


def test_they_do_not_collide(neutron: Neutron, ip: Any, network: Any, port: Any) -> None:
    other = neutron.create("port", network_id=network["id"])
    forward(neutron, ip, port)
    neutron.refused(400, "BadRequest", "POST", path(ip), body(other, internal_port=33))
    neutron.refused(400, "BadRequest", "POST", path(ip), body(port, external_port=4444))
    forward(neutron, ip, other, protocol="udp")
    for fields in ({"external_port": 65536}, {"internal_port": 0}, {"protocol": "icmp"}):
        neutron.expect(400, "POST", path(ip), body(other, **fields))


def test_an_address_leads_as_a_whole_or_in_parts(neutron: Neutron, external: Any, ip: Any, port: Any) -> None:
    whole = neutron.create("floatingip", floating_network_id=external["id"], port_id=port["id"])
    neutron.refused(409, "FloatingIPPortAlreadyAssociated", "POST", path(whole), body(port))
    neutron.refused(409, "PortHasBindingFloatingIP", "POST", path(ip), body(port))
    neutron.expect(204, "DELETE", f"/floatingips/{whole['id']}")
    forward(neutron, ip, port)
    update = {"floatingip": {"port_id": port["id"]}}
    neutron.refused(409, "FipInUseByPortForwarding", "PUT", f"/floatingips/{ip['id']}", update)
    neutron.expect(200, "PUT", f"/floatingips/{ip['id']}", {"floatingip": {}})
    assert neutron.get(f"/floatingips/{ip['id']}")["floatingip"]["router_id"] is not None


def test_what_they_need_stays_and_what_goes_takes_them_along(
    neutron: Neutron, ip: Any, network: Any, router: Any, port: Any
) -> None:
    forward(neutron, ip, port)
    wanted = {"subnet_id": network["subnets"][0]}
    neutron.expect(409, "PUT", f"/routers/{router['id']}/remove_router_interface", wanted)
    neutron.expect(204, "DELETE", f"/ports/{port['id']}")
    assert neutron.get(path(ip)) == {"port_forwardings": []}
    neutron.part(router, **wanted)


def test_one_goes_with_the_address_that_it_leads_to(
    neutron: Neutron, ip: Any, network: Any, router: Any, port: Any
) -> None:
    first = {"subnet_id": network["subnets"][0], "ip_address": port["fixed_ips"][0]["ip_address"]}
    second = {"subnet_id": network["subnets"][0], "ip_address": "10.0.0.99"}

    def get(*addresses: Any) -> None:
        neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"fixed_ips": addresses}})

    get(first, second)
    forward(neutron, ip, port, internal_ip_address=first["ip_address"])
    kept = forward(neutron, ip, port, internal_ip_address=second["ip_address"], external_port=3333)
    get(second)
    assert [each["id"] for each in neutron.get(path(ip))["port_forwardings"]] == [kept["id"]]
    neutron.settle()
    (held,) = neutron.driver.routers.get(router["id"]).port_forwardings
    assert held.fixed_address == second["ip_address"]
    get(first)
    neutron.settle()
    assert neutron.driver.routers.get(router["id"]).port_forwardings == ()
    assert neutron.get(f"/floatingips/{ip['id']}")["floatingip"]["router_id"] is None


def test_other_projects(neutron: Neutron, ip: Any, port: Any) -> None:
    made = forward(neutron, ip, port)
    for method, where, sent in (
        ("GET", path(ip), None),
        ("DELETE", path(ip, made), None),
        ("POST", path(ip), body(port)),
    ):
        neutron.expect(404, method, where, sent, "other")
    neutron.expect(403, "POST", path(ip), body(port), "reader")
    theirs = neutron.create("port", "other", network_id=neutron.network(user="other")["id"])
    neutron.refused(404, "PortNotFound", "POST", path(ip), body(theirs))
