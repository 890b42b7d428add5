"""`/subnets`. Reference: network.md, section 3; network-rules.md, sections 1 and 2."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from sqlalchemy import select

from cloudctl.network.tables import IpAllocation
from tests.network.conftest import Neutron
from tests.statements import asked


def make(neutron: Neutron, network: Any, cidr: str = "10.0.0.0/24", **fields: Any) -> Any:
    return neutron.create(
        "subnet", network_id=network["id"], **{"ip_version": 6 if ":" in cidr else 4, "cidr": cidr, **fields}
    )


def put(neutron: Neutron, subnet: Any, user: str = "demo", **fields: Any) -> Any:
    return neutron.expect(200, "PUT", f"/subnets/{subnet['id']}", {"subnet": fields}, user)["subnet"]


def test_a_new_subnet_looks_as_documented(neutron: Neutron) -> None:
    network = neutron.network(None)
    made = make(neutron, network, "10.0.0.7/24", name="sub1", dns_nameservers=["9.9.9.9"])
    assert made | {"id": 0} == {
        "id": 0,
        "name": "sub1",
        "leak_routes": False,
        "network_id": network["id"],
        "ip_version": 4,
        "cidr": "10.0.0.0/24",
        "gateway_ip": "10.0.0.1",
        "allocation_pools": [{"start": "10.0.0.2", "end": "10.0.0.254"}],
        "enable_dhcp": True,
        "dns_nameservers": ["9.9.9.9"],
        "host_routes": [],
        "ipv6_ra_mode": None,
        "ipv6_address_mode": None,
        "subnetpool_id": None,
        "service_types": [],
        "segment_id": None,
        "dns_publish_fixed_ip": False,
        "router:external": False,
        "tenant_id": "demo",
        "project_id": "demo",
        "description": "",
        "tags": [],
        "created_at": "2027-01-15T08:00:00Z",
        "updated_at": "2027-01-15T08:00:00Z",
        "revision_number": 0,
    }
    seen = neutron.get(f"/networks/{network['id']}")["network"]
    assert seen["subnets"] == [made["id"]] and seen["revision_number"] > network["revision_number"]


def test_the_driver_holds_the_network_with_its_subnets(neutron: Neutron) -> None:
    network = neutron.network(None)
    routes = [{"destination": "192.0.2.0/24", "nexthop": "10.0.0.9"}]
    made = make(neutron, network, gateway_ip=None, dns_nameservers=["9.9.9.9", "1.1.1.1"], host_routes=routes)
    neutron.settle()
    (held,) = neutron.driver.networks.get(network["id"]).subnets
    assert (held.id, held.cidr, held.gateway_ip) == (made["id"], "10.0.0.0/24", None)
    assert held.dns_nameservers == ("9.9.9.9", "1.1.1.1") and held.host_routes[0].nexthop == "10.0.0.9"
    neutron.expect(204, "DELETE", f"/subnets/{made['id']}")
    neutron.settle()
    assert neutron.driver.networks.get(network["id"]).subnets == ()


def test_subnets_of_one_network_do_not_overlap(neutron: Neutron) -> None:
    network = neutron.network()
    for cidr in ("10.0.0.0/24", "10.0.0.128/25", "10.0.0.0/8"):
        body = {"subnet": {"network_id": network["id"], "ip_version": 4, "cidr": cidr}}
        message = neutron.refused(400, "InvalidInput", "POST", "/subnets", body)
        assert "overlaps with another subnet" in message
    make(neutron, network, "10.0.1.0/24")
    make(neutron, network, "2001:db8::/64")
    neutron.network("10.0.0.0/24")


@pytest.mark.parametrize(
    ("fields", "status", "type"),
    [
        ({"cidr": "10.0.0.0"}, 400, "InvalidInput"),
        ({"cidr": "banana"}, 400, "InvalidInput"),
        ({"cidr": "2001:db8::/64"}, 400, "InvalidInput"),
        ({"ip_version": 5}, 400, "InvalidInput"),
        ({"cidr": "10.0.0.0/31"}, 400, "InvalidInput"),
        ({"gateway_ip": "10.0.0.0"}, 400, "InvalidInput"),
        ({"gateway_ip": "x"}, 400, "InvalidInput"),
        ({"gateway_ip": "10.0.0.9", "allocation_pools": [{"start": "10.0.0.2", "end": "10.0.0.20"}]}, 409,
         "GatewayConflictWithAllocationPools"),
        ({"allocation_pools": [{"start": "10.0.0.2", "end": "10.0.1.20"}]}, 400, "OutOfBoundsAllocationPool"),
        ({"allocation_pools": [{"start": "10.0.0.2"}]}, 400, "HTTPBadRequest"),
        ({"dns_nameservers": ["1.1.1.1"] * 2}, 400, "InvalidInput"),
        ({"dns_nameservers": [f"1.1.1.{n}" for n in range(6)]}, 400, "DNSNameServersExhausted"),
        ({"dns_nameservers": ["2001:db8::1"]}, 400, "InvalidInput"),
        ({"host_routes": [{"destination": f"10.{n}.0.0/16", "nexthop": "10.0.0.9"} for n in range(1, 22)]}, 400,
         "HostRoutesExhausted"),
        ({"host_routes": [{"destination": "x", "nexthop": "10.0.0.9"}]}, 400, "InvalidInput"),
        ({"ipv6_ra_mode": "slaac"}, 400, "InvalidInput"),
        ({"ipv6_ra_mode": "magic"}, 400, "HTTPBadRequest"),
        ({"enable_dhcp": "perhaps"}, 400, "HTTPBadRequest"),
        ({"prefixlen": 24}, 400, "BadRequest"),
    ],
)  # fmt: skip
def test_a_subnet_that_cannot_be_is_refused(neutron: Neutron, fields: dict[str, Any], status: int, type: str) -> None:
    network = neutron.network(None)
    body = {"subnet": {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24", **fields}}
    neutron.refused(status, type, "POST", "/subnets", body)
    assert neutron.get(f"/networks/{network['id']}")["network"]["subnets"] == []


def test_a_subnet_needs_a_cidr(neutron: Neutron) -> None:
    network = neutron.network(None)
    message = neutron.refused(
        400, "BadRequest", "POST", "/subnets", {"subnet": {"network_id": network["id"], "ip_version": 4}}
    )
    assert "a subnetpool must be specified in the absence of a cidr" in message


def test_several_subnets_at_once_must_not_overlap_either(neutron: Neutron) -> None:
    network = neutron.network(None)
    one = {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24"}
    neutron.expect(400, "POST", "/subnets", {"subnets": [one, one]})
    made = neutron.expect(201, "POST", "/subnets", {"subnets": [one, one | {"cidr": "10.0.1.0/24"}]})["subnets"]
    assert [subnet["cidr"] for subnet in made] == ["10.0.0.0/24", "10.0.1.0/24"]


def test_changed_pools_are_used_from_now_on(neutron: Neutron) -> None:
    network = neutron.network(None)
    subnet = make(neutron, network)
    first = neutron.create("port", network_id=network["id"])
    put(neutron, subnet, allocation_pools=[{"start": "10.0.0.50", "end": "10.0.0.51"}])
    got = [neutron.create("port", network_id=network["id"])["fixed_ips"][0]["ip_address"] for _ in range(2)]
    assert got == ["10.0.0.50", "10.0.0.51"]
    neutron.refused(409, "IpAddressGenerationFailure", "POST", "/ports", {"port": {"network_id": network["id"]}})
    assert neutron.get(f"/ports/{first['id']}")["port"]["fixed_ips"][0]["ip_address"] == "10.0.0.2"
    # An address outside the pools is nobody's when it comes back.
    neutron.expect(204, "DELETE", f"/ports/{first['id']}")
    neutron.refused(409, "IpAddressGenerationFailure", "POST", "/ports", {"port": {"network_id": network["id"]}})


def test_the_gateway_can_change_but_not_into_a_pool(neutron: Neutron) -> None:
    subnet = make(neutron, neutron.network(None), allocation_pools=[{"start": "10.0.0.10", "end": "10.0.0.20"}])
    body = {"subnet": {"gateway_ip": "10.0.0.15"}}
    neutron.refused(409, "GatewayConflictWithAllocationPools", "PUT", f"/subnets/{subnet['id']}", body)
    changed = put(neutron, subnet, gateway_ip="10.0.0.9")
    assert (changed["gateway_ip"], changed["allocation_pools"]) == ("10.0.0.9", subnet["allocation_pools"])
    assert put(neutron, subnet, gateway_ip=None)["gateway_ip"] is None


@pytest.mark.parametrize("field", ["cidr", "network_id", "ip_version"])
def test_what_a_subnet_is_cannot_change(neutron: Neutron, field: str) -> None:
    subnet = make(neutron, neutron.network(None))
    neutron.expect(400, "PUT", f"/subnets/{subnet['id']}", {"subnet": {field: subnet[field]}})


def test_other_fields_can_change(neutron: Neutron) -> None:
    subnet = make(neutron, neutron.network(None))
    routes = [{"destination": "192.0.2.0/24", "nexthop": "10.0.0.9"}]
    wanted: dict[str, Any] = {"name": "x", "enable_dhcp": False, "dns_nameservers": ["1.1.1.1"], "host_routes": routes}
    changed = put(neutron, subnet, **wanted)
    assert {name: changed[name] for name in wanted} == wanted
    assert changed["revision_number"] > subnet["revision_number"]


def test_a_list_that_is_null_is_empty(neutron: Neutron) -> None:
    lists = ("dns_nameservers", "host_routes", "service_types")
    empty: dict[str, Any] = dict.fromkeys(lists)
    made = make(neutron, neutron.network(None), user="admin", allocation_pools=None, **empty)
    assert [made[name] for name in lists] == [[], [], []]
    assert made["allocation_pools"] == [{"start": "10.0.0.2", "end": "10.0.0.254"}]
    routes = [{"destination": "192.0.2.0/24", "nexthop": "10.0.0.9"}]
    put(neutron, made, "admin", dns_nameservers=["1.1.1.1"], host_routes=routes, service_types=["compute:nova"])
    cleared = put(neutron, made, "admin", **empty)
    assert [cleared[name] for name in lists] == [[], [], []]


def test_a_subnet_in_use_is_not_deleted(neutron: Neutron) -> None:
    network = neutron.network()
    port = neutron.create("port", network_id=network["id"])
    path = f"/subnets/{network['subnets'][0]}"
    neutron.refused(409, "SubnetInUse", "DELETE", path)
    neutron.expect(204, "DELETE", f"/ports/{port['id']}")
    neutron.expect(204, "DELETE", path)
    neutron.refused(404, "SubnetNotFound", "DELETE", path)


def test_a_subnet_on_anothers_shared_network_is_refused(neutron: Neutron) -> None:
    network = neutron.network(None, user="admin", shared=True)
    body = {"subnet": {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24"}}
    neutron.expect(403, "POST", "/subnets", body)
    hidden = neutron.network(None, user="other")
    body["subnet"]["network_id"] = hidden["id"]
    neutron.refused(404, "NetworkNotFound", "POST", "/subnets", body)


class TestAutomaticAddresses:
    """IPv6 subnets where guests make their addresses from their MAC."""

    SLAAC: ClassVar = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    MAC = "fa:16:3e:23:fd:d7"
    EUI = "2001:db8::f816:3eff:fe23:fdd7"

    def test_ports_get_them_beside_their_ipv4_address(self, neutron: Neutron) -> None:
        network = neutron.network()
        make(neutron, network, "2001:db8::/64", **self.SLAAC)
        port = neutron.create("port", network_id=network["id"], mac_address=self.MAC)
        assert [each["ip_address"] for each in port["fixed_ips"]] == ["10.0.0.2", self.EUI]

    def test_ports_that_are_there_get_them_when_the_subnet_comes_and_lose_them_when_it_goes(
        self, neutron: Neutron
    ) -> None:
        network = neutron.network()
        port = neutron.create("port", network_id=network["id"], mac_address=self.MAC)
        subnet = make(neutron, network, "2001:db8::/64", **self.SLAAC)
        seen = neutron.get(f"/ports/{port['id']}")["port"]
        assert seen["fixed_ips"][1] == {"subnet_id": subnet["id"], "ip_address": self.EUI}
        assert seen["revision_number"] > port["revision_number"]
        neutron.expect(204, "DELETE", f"/subnets/{subnet['id']}")
        assert neutron.get(f"/ports/{port['id']}")["port"]["fixed_ips"] == port["fixed_ips"]

    def test_those_of_one_port_cost_as_many_statements_as_those_of_thirty(self, neutron: Neutron) -> None:
        counts = []
        for count in (1, 30):
            network = neutron.network()
            neutron.expect(201, "POST", "/ports", {"ports": [{"network_id": network["id"]}] * count})
            with asked() as seen:
                subnet = make(neutron, network, "2001:db8::/64", **self.SLAAC)
                neutron.expect(204, "DELETE", f"/subnets/{subnet['id']}")
            counts.append(len(seen))
        assert counts[0] == counts[1]

    def test_no_two_of_a_port_have_one_place(self, neutron: Neutron) -> None:
        network = neutron.network()
        port = neutron.create("port", network_id=network["id"])["id"]
        first, *_ = (make(neutron, network, f"2001:db8:0:{each}::/64", **self.SLAAC)["id"] for each in (1, 2, 3))
        neutron.expect(204, "DELETE", f"/subnets/{first}")
        make(neutron, network, "2001:db8:0:4::/64", **self.SLAAC)
        query = select(IpAllocation.position).where(IpAllocation.port_id == port)
        places = neutron.transact(lambda conn: list(conn.scalars(query)))
        assert sorted(places) == [0, 2, 3, 4]

    def test_another_address_there_is_refused(self, neutron: Neutron) -> None:
        network = neutron.network(None)
        subnet = make(neutron, network, "2001:db8::/64", **self.SLAAC)
        body = {
            "port": {
                "network_id": network["id"],
                "fixed_ips": [{"subnet_id": subnet["id"], "ip_address": "2001:db8::9"}],
            }
        }
        neutron.refused(400, "AllocationOnAutoAddressSubnet", "POST", "/ports", body)

    def test_they_follow_the_mac(self, neutron: Neutron) -> None:
        network = neutron.network()
        make(neutron, network, "2001:db8::/64", **self.SLAAC)
        port = neutron.create("port", network_id=network["id"])
        changed = neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"mac_address": self.MAC}})["port"]
        assert [each["ip_address"] for each in changed["fixed_ips"]] == ["10.0.0.2", self.EUI]

    def test_managed_ipv6_subnets_give_their_lowest_address(self, neutron: Neutron) -> None:
        network = neutron.network("2001:db8::/64")
        port = neutron.create("port", network_id=network["id"])
        assert [each["ip_address"] for each in port["fixed_ips"]] == ["2001:db8::2"]

    def test_the_modes_need_dhcp_and_cannot_change(self, neutron: Neutron) -> None:
        subnet = make(neutron, neutron.network(None), "2001:db8::/64", **self.SLAAC)
        neutron.refused(400, "InvalidInput", "PUT", f"/subnets/{subnet['id']}", {"subnet": {"enable_dhcp": False}})
        neutron.expect(400, "PUT", f"/subnets/{subnet['id']}", {"subnet": {"ipv6_ra_mode": None}})


MEANT_FOR_SERVERS = {"subnet": {"service_types": ["compute:nova"]}}


class TestServiceTypes:
    def test_ports_have_addresses_of_what_is_meant_for_them(self, neutron: Neutron) -> None:
        network = neutron.network("10.0.0.0/24")
        fields = {"network_id": network["id"], "ip_version": 4, "service_types": ["compute:nova"]}
        made = neutron.create("subnet", "admin", **fields, cidr="10.0.1.0/24")
        assert made["service_types"] == ["compute:nova"]

        def subnet_of(owner: str) -> str:
            port = neutron.create("port", "admin", network_id=network["id"], device_owner=owner)
            (fixed,) = port["fixed_ips"]
            return str(fixed["subnet_id"])

        assert (subnet_of("compute:nova"), subnet_of("")) == (made["id"], network["subnets"][0])
        body: dict[str, Any] = {"subnet": {"service_types": []}}
        neutron.expect(200, "PUT", f"/subnets/{made['id']}", body, "admin")
        assert subnet_of("compute:nova") in (made["id"], network["subnets"][0])

    def test_floating_ips_have_addresses_of_what_is_meant_for_them(self, neutron: Neutron) -> None:
        network = neutron.external("203.0.113.0/24")
        neutron.expect(200, "PUT", f"/subnets/{network['subnets'][0]}", MEANT_FOR_SERVERS, "admin")
        floating = {"floatingip": {"floating_network_id": network["id"]}}
        neutron.refused(409, "IpAddressGenerationFailureNoMatchingSubnet", "POST", "/floatingips", floating)
        fields = {"network_id": network["id"], "ip_version": 4, "service_types": ["network:floatingip"]}
        neutron.create("subnet", "admin", **fields, cidr="198.51.100.0/24")
        made = neutron.expect(201, "POST", "/floatingips", floating)["floatingip"]
        assert made["floating_ip_address"].startswith("198.51.100.")

    def test_without_any_there_is_no_port(self, neutron: Neutron) -> None:
        network = neutron.network(None)
        fields = {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.1.0/24", "service_types": ["compute:"]}
        neutron.create("subnet", "admin", **fields)
        type = "IpAddressGenerationFailureNoMatchingSubnet"
        neutron.refused(409, type, "POST", "/ports", {"port": {"network_id": network["id"]}})

    def test_who_says_so_and_what(self, neutron: Neutron) -> None:
        network = neutron.network(None)
        fields = {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.1.0/24"}
        neutron.expect(403, "POST", "/subnets", {"subnet": {**fields, "service_types": ["compute:nova"]}})
        for bad in ("nobody", ":nobody"):
            body = {"subnet": {**fields, "service_types": [bad]}}
            neutron.refused(400, "InvalidSubnetServiceType", "POST", "/subnets", body, "admin")
        made = neutron.create("subnet", "admin", **fields, service_types=["test:type_1", "test:type_1"])
        assert made["service_types"] == ["test:type_1"]


def test_who_has_a_network_sees_what_others_have_on_it(neutron: Neutron) -> None:
    """In lists as by id: the administrator makes a subnet for another project on it."""
    network = neutron.network(None)
    made = {"network_id": network["id"], "ip_version": 4, "cidr": "10.7.0.0/24", "project_id": "other"}
    subnet = neutron.create("subnet", "admin", **made)["id"]
    for user in ("demo", "other", "admin"):
        assert [each["id"] for each in neutron.get("/subnets", user)["subnets"]] == [subnet]
    assert neutron.get("/subnets?project_id=demo")["subnets"] == []
