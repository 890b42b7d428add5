"""The ports from which networks' addresses are given out. Reference: network-rules.md, section 3, «Implicit ports»."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest

from cloudctl.drivers.specs import HostInventory
from cloudctl.network import dhcp_ports
from cloudctl.placement import hosts
from cloudctl.placement.hosts import Promises
from tests.network.conftest import Neutron

OWNER = "network:dhcp"


def automatic(neutron: Neutron, network: Any, user: str = "demo") -> list[Any]:
    neutron.settle()
    return list(neutron.get(f"/ports?network_id={network['id']}&device_owner={OWNER}", user)["ports"])


def addresses(port: Any) -> Sequence[str]:
    return [each["ip_address"] for each in port["fixed_ips"]]


def wish(neutron: Neutron, network: Any) -> Any:
    return neutron.driver.networks.get(network["id"])


def put(neutron: Neutron, port: Any, **changes: Any) -> Any:
    return neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": changes})["port"]


def test_a_network_has_one_while_a_subnet_has_dhcp(neutron: Neutron) -> None:
    neutron.transact(hosts.sync, [HostInventory("h1", "fake", 4, 4096, 10)], datetime(2027, 1, 15, 8), Promises())
    network = neutron.network(None)
    assert automatic(neutron, network) == []
    subnet = neutron.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
    (port,) = automatic(neutron, network)
    assert port["device_id"] == f"dhcp{uuid5(NAMESPACE_DNS, 'h1')}-{network['id']}"
    assert (port["project_id"], port["status"], port["security_groups"]) == ("demo", "ACTIVE", [])
    assert port["port_security_enabled"] is False
    # Those of guests begin with the lowest.
    assert addresses(port) == ["10.0.0.254"]
    assert addresses(neutron.create("port", network_id=network["id"])) == ["10.0.0.2"]
    assert wish(neutron, network).dhcp_port.addresses == ("10.0.0.254/24",)
    assert wish(neutron, network).dhcp_port.mac == port["mac_address"]
    neutron.expect(200, "PUT", f"/subnets/{subnet['id']}", {"subnet": {"enable_dhcp": False}})
    assert automatic(neutron, network) == [] and wish(neutron, network).dhcp_port is None
    neutron.expect(200, "PUT", f"/subnets/{subnet['id']}", {"subnet": {"enable_dhcp": True}})
    assert addresses(automatic(neutron, network)[0]) == ["10.0.0.254"]


def test_it_has_an_address_of_each_such_subnet(neutron: Neutron) -> None:
    network = neutron.network()
    (before,) = automatic(neutron, network)
    more: list[dict[str, Any]] = [
        {"ip_version": 4, "cidr": "10.0.1.0/24"},
        {"ip_version": 4, "cidr": "10.0.2.0/24", "enable_dhcp": False},
        {"ip_version": 6, "cidr": "2001:db8::/64", "ipv6_address_mode": "dhcpv6-stateful"},
        {"ip_version": 6, "cidr": "2001:db8:0:1::/64", "ipv6_address_mode": "slaac"},
    ]
    made = [neutron.create("subnet", network_id=network["id"], **each) for each in more]
    (port,) = automatic(neutron, network)
    assert port["id"] == before["id"] and port["revision_number"] > before["revision_number"]
    assert sorted(addresses(port)) == ["10.0.0.254", "10.0.1.254", "2001:db8::ffff:ffff:ffff:ffff"]
    neutron.expect(204, "DELETE", f"/subnets/{made[0]['id']}")
    assert addresses(automatic(neutron, network)[0]) == ["10.0.0.254", "2001:db8::ffff:ffff:ffff:ffff"]
    assert not neutron.transact(dhcp_ports.is_due, network["id"])


def test_it_goes_with_the_last_subnet(neutron: Neutron) -> None:
    network = neutron.network()
    second = neutron.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.1.0/24", enable_dhcp=False)
    (port,) = automatic(neutron, network)
    first = next(id for id in neutron.get(f"/networks/{network['id']}")["network"]["subnets"] if id != second["id"])
    # The port stays while another subnet might want it again: that is for the network's task to say.
    neutron.expect(204, "DELETE", f"/subnets/{first}")
    assert addresses(neutron.get(f"/ports/{port['id']}")["port"]) == []
    neutron.expect(204, "DELETE", f"/subnets/{second['id']}")
    neutron.expect(404, "GET", f"/ports/{port['id']}")
    assert automatic(neutron, network) == [] and wish(neutron, network).dhcp_port is None


def test_guests_come_first_where_addresses_are_few(neutron: Neutron) -> None:
    network = neutron.network("10.0.0.0/30")
    (port,) = automatic(neutron, network)
    assert addresses(port) == []
    assert addresses(neutron.create("port", network_id=network["id"])) == ["10.0.0.2"]


def test_it_keeps_nothing_from_being_deleted(neutron: Neutron) -> None:
    network = neutron.network()
    (port,) = automatic(neutron, network)
    neutron.expect(204, "DELETE", f"/networks/{network['id']}")
    neutron.settle()
    neutron.refused(404, "PortNotFound", "GET", f"/ports/{port['id']}")
    assert neutron.held[0] == []


def test_it_stays_as_long_as_something_goes_by_it(neutron: Neutron) -> None:
    network = neutron.network()
    (port,) = automatic(neutron, network)
    trunk = neutron.create("trunk", port_id=port["id"])
    message = neutron.refused(409, "NetworkInUse", "DELETE", f"/networks/{network['id']}")
    assert port["id"] in message
    neutron.refused(409, "SubnetInUse", "DELETE", f"/subnets/{network['subnets'][0]}")
    neutron.expect(204, "DELETE", f"/trunks/{trunk['id']}")
    neutron.expect(204, "DELETE", f"/networks/{network['id']}")


def test_one_that_is_deleted_comes_back(neutron: Neutron) -> None:
    network = neutron.network()
    (port,) = automatic(neutron, network)
    neutron.expect(204, "DELETE", f"/ports/{port['id']}")
    (other,) = automatic(neutron, network)
    assert other["id"] != port["id"] and addresses(other) == addresses(port)
    assert wish(neutron, network).dhcp_port.port_id == other["id"]


def test_while_it_is_down_nobody_gives_out_addresses(neutron: Neutron) -> None:
    network = neutron.network()
    (port,) = automatic(neutron, network)
    assert put(neutron, port, admin_state_up=False)["status"] == "DOWN"
    (down,) = automatic(neutron, network)
    assert down["status"] == "DOWN"
    assert wish(neutron, network).dhcp_port is None
    assert [each.enable_dhcp for each in wish(neutron, network).subnets] == [False]
    put(neutron, port, admin_state_up=True)
    assert automatic(neutron, network)[0]["status"] == "ACTIVE"
    assert [each.enable_dhcp for each in wish(neutron, network).subnets] == [True]


def test_it_is_changed_but_not_given_away(neutron: Neutron) -> None:
    network = neutron.network()
    (port,) = automatic(neutron, network)
    put(neutron, port, name="ours", fixed_ips=[{"ip_address": "10.0.0.3"}])
    assert addresses(automatic(neutron, network)[0]) == ["10.0.0.3"]
    assert wish(neutron, network).dhcp_port.addresses == ("10.0.0.3/24",)
    for changes in ({"device_id": "another"}, {"device_owner": "baremetal:none"}):
        neutron.refused(409, "PortInUse", "PUT", f"/ports/{port['id']}", {"port": changes})


def test_one_that_only_calls_itself_so_is_a_port_like_others(neutron: Neutron) -> None:
    network = neutron.network()
    forged = neutron.create("port", network_id=network["id"], device_owner=OWNER)
    neutron.refused(409, "NetworkInUse", "DELETE", f"/networks/{network['id']}")
    put(neutron, forged, device_owner="", device_id="mine")


def test_nobody_is_refused_a_network_for_it(neutron: Neutron) -> None:
    neutron.expect(200, "PUT", "/quotas/demo", {"quota": {"port": 0}}, "admin")
    network = neutron.network()
    assert len(automatic(neutron, network)) == 1
    assert neutron.get(f"/networks/{network['id']}")["network"]["status"] == "ACTIVE"


@pytest.mark.parametrize("everywhere", [False, True])
def test_it_goes_when_no_host_serves_the_network(neutron: Neutron, everywhere: bool) -> None:
    found = [HostInventory(name, "fake", 4, 4096, 10) for name in ("h1", "h2")]
    neutron.transact(hosts.sync, found, datetime(2027, 1, 15, 8), Promises())
    network = neutron.network()
    assert len(automatic(neutron, network)) == 1
    agents = neutron.get("/agents?agent_type=DHCP%20agent", "admin")["agents"]
    for each in agents if everywhere else agents[:1]:
        neutron.expect(204, "DELETE", f"/agents/{each['id']}/dhcp-networks/{network['id']}", user="admin")
    assert len(automatic(neutron, network)) == (0 if everywhere else 1)
