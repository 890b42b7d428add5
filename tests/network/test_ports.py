"""`/ports`. Reference: network.md, section 6; network-rules.md, sections 1, 3 and 4."""

from __future__ import annotations

import random
from typing import Any
from uuid import uuid4

import pytest

from cloudctl.network import macs
from tests.network.conftest import Neutron


def addresses(port: Any) -> list[str]:
    return [each["ip_address"] for each in port["fixed_ips"]]


def put(neutron: Neutron, port: Any, user: str = "demo", **fields: Any) -> Any:
    sent = {name.replace("__", ":"): value for name, value in fields.items()}
    return neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": sent}, user)["port"]


def test_a_new_port_looks_as_documented(neutron: Neutron) -> None:
    network = neutron.network()
    made = neutron.create("port", network_id=network["id"])
    group = neutron.get("/security-groups")["security_groups"][0]
    assert made["mac_address"].startswith("fa:16:3e:")
    assert made | {"id": 0, "mac_address": 0} == {
        "id": 0,
        "name": "",
        "pvlan_type": None,
        "pvlan_community": None,
        "network_id": network["id"],
        "mac_address": 0,
        "admin_state_up": True,
        "status": "DOWN",
        "device_id": "",
        "device_owner": "",
        "fixed_ips": [{"subnet_id": network["subnets"][0], "ip_address": "10.0.0.2"}],
        "security_groups": [group["id"]],
        "port_security_enabled": True,
        "allowed_address_pairs": [],
        "binding:vnic_type": "normal",
        "extra_dhcp_opts": [],
        "dns_name": "",
        "dns_domain": "",
        "dns_assignment": [
            {"hostname": "host-10-0-0-2", "ip_address": "10.0.0.2", "fqdn": "host-10-0-0-2.openstacklocal."}
        ],
        "ip_allocation": "immediate",
        "data_plane_status": None,
        "propagate_uplink_status": True,
        "numa_affinity_policy": None,
        "device_profile": None,
        "qos_policy_id": None,
        "qos_network_policy_id": None,
        "tenant_id": "demo",
        "project_id": "demo",
        "description": "",
        "tags": [],
        "created_at": "2027-01-15T08:00:00Z",
        "updated_at": "2027-01-15T08:00:00Z",
        "revision_number": 0,
    }


def test_administrators_see_the_binding(neutron: Neutron) -> None:
    made = neutron.create("port", network_id=neutron.network()["id"])
    for user in ("admin", "service"):
        seen = neutron.get(f"/ports/{made['id']}", user)["port"]
        assert {name: seen[name] for name in seen if name.startswith("binding:")} == {
            "binding:vnic_type": "normal",
            "binding:host_id": "",
            "binding:profile": {},
            "binding:vif_type": "unbound",
            "binding:vif_details": {},
        }
    for field, value in [("binding:host_id", "h"), ("binding:profile", {})]:
        neutron.expect(403, "PUT", f"/ports/{made['id']}", {"port": {field: value}})
    assert neutron.get("/ports?binding:host_id=")["ports"] == []
    assert neutron.get("/ports?binding:host_id=", "admin")["ports"] != []


class TestAddresses:
    def test_the_lowest_free_one_is_taken_and_comes_back_at_once(self, neutron: Neutron) -> None:
        network = neutron.network()
        made = [neutron.create("port", network_id=network["id"]) for _ in range(3)]
        assert [addresses(port) for port in made] == [["10.0.0.2"], ["10.0.0.3"], ["10.0.0.4"]]
        neutron.expect(204, "DELETE", f"/ports/{made[1]['id']}")
        assert addresses(neutron.create("port", network_id=network["id"])) == ["10.0.0.3"]

    def test_a_given_one_may_lie_outside_the_pools_and_be_the_gateways(self, neutron: Neutron) -> None:
        network = neutron.network(None)
        pools = [{"start": "10.0.0.10", "end": "10.0.0.20"}]
        neutron.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24", allocation_pools=pools)
        for address in ("10.0.0.5", "10.0.0.1", "10.0.0.10"):
            made = neutron.create("port", network_id=network["id"], fixed_ips=[{"ip_address": address}])
            assert addresses(made) == [address]
        assert addresses(neutron.create("port", network_id=network["id"])) == ["10.0.0.11"]

    def test_two_of_one_subnet_are_fine(self, neutron: Neutron) -> None:
        network = neutron.network()
        subnet = network["subnets"][0]
        made = neutron.create("port", network_id=network["id"], fixed_ips=[{"subnet_id": subnet}] * 2)
        assert addresses(made) == ["10.0.0.2", "10.0.0.3"]

    def test_none_can_be_asked_for(self, neutron: Neutron) -> None:
        network = neutron.network()
        assert addresses(neutron.create("port", network_id=network["id"], fixed_ips=[])) == []
        assert addresses(neutron.create("port", network_id=neutron.network(None)["id"])) == []

    def test_the_first_subnet_with_room_gives_it(self, neutron: Neutron) -> None:
        network = neutron.network("10.0.0.0/30")
        neutron.clock.advance(1)
        neutron.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.1.0/30")
        got = [addresses(neutron.create("port", network_id=network["id"]))[0] for _ in range(2)]
        assert got == ["10.0.0.2", "10.0.1.2"]
        message = neutron.refused(
            409, "IpAddressGenerationFailure", "POST", "/ports", {"port": {"network_id": network["id"]}}
        )
        assert message == f"No more IP addresses available on network {network['id']}."

    @pytest.mark.parametrize(
        ("fixed_ips", "status", "type"),
        [
            ([{"ip_address": "10.0.0.2"}], 409, "IpAddressAlreadyAllocated"),
            ([{"ip_address": "192.0.2.1"}], 400, "InvalidIpForNetwork"),
            ([{"subnet_id": "SUBNET", "ip_address": "192.0.2.1"}], 400, "InvalidIpForSubnet"),
            ([{"subnet_id": "SUBNET", "ip_address": "10.0.0.255"}], 400, "InvalidIpForSubnet"),
            ([{"subnet_id": "SUBNET", "ip_address": "10.0.0.0"}], 400, "InvalidIpForSubnet"),
            ([{"subnet_id": "OTHER"}], 400, "InvalidInput"),
            ([{"subnet_id": str(uuid4())}], 404, "SubnetNotFound"),
            ([{"ip_address": "10.0.0.9"}] * 2, 400, "InvalidInput"),
            ([{"ip_address": "banana"}], 400, "InvalidInput"),
            ([{}], 400, "InvalidInput"),
            ([{"subnet": "x"}], 400, "HTTPBadRequest"),
            ("10.0.0.9", 400, "HTTPBadRequest"),
        ],
    )
    def test_what_cannot_be_is_refused(self, neutron: Neutron, fixed_ips: Any, status: int, type: str) -> None:
        network, other = neutron.network(), neutron.network()
        neutron.create("port", network_id=network["id"])
        if isinstance(fixed_ips, list):
            names = {"SUBNET": network["subnets"][0], "OTHER": other["subnets"][0]}
            fixed_ips = [{key: names.get(value, value) for key, value in each.items()} for each in fixed_ips]
        body = {"port": {"network_id": network["id"], "fixed_ips": fixed_ips}}
        neutron.refused(status, type, "POST", "/ports", body)
        assert len(neutron.ports()) == 1

    def test_an_address_on_a_network_without_subnets_is_refused(self, neutron: Neutron) -> None:
        body = {"port": {"network_id": neutron.network(None)["id"], "fixed_ips": [{"ip_address": "10.0.0.9"}]}}
        neutron.refused(400, "InvalidInput", "POST", "/ports", body)

    def test_an_update_replaces_them_and_keeps_what_stays(self, neutron: Neutron) -> None:
        network = neutron.network()
        subnet = network["subnets"][0]
        port = neutron.create("port", network_id=network["id"])
        more = put(neutron, port, fixed_ips=[{"ip_address": "10.0.0.9"}, {"subnet_id": subnet}])
        assert addresses(more) == ["10.0.0.9", "10.0.0.2"]
        less = put(neutron, port, fixed_ips=[{"ip_address": "10.0.0.9", "subnet_id": subnet}])
        assert addresses(less) == ["10.0.0.9"]
        assert addresses(neutron.create("port", network_id=network["id"])) == ["10.0.0.2"]
        neutron.refused(
            409, "IpAddressAlreadyAllocated", "PUT", f"/ports/{port['id']}",
            {"port": {"fixed_ips": [{"ip_address": "10.0.0.2"}]}},
        )  # fmt: skip
        assert addresses(neutron.get(f"/ports/{port['id']}")["port"]) == ["10.0.0.9"]


class TestMacs:
    def test_a_given_one_is_unique_within_its_network(self, neutron: Neutron) -> None:
        network, other = neutron.network(), neutron.network()
        made = neutron.create("port", network_id=network["id"], mac_address="FA-16-3E-00-00-01")
        assert made["mac_address"] == "fa:16:3e:00:00:01"
        body = {"port": {"network_id": network["id"], "mac_address": made["mac_address"]}}
        neutron.refused(409, "MacAddressInUse", "POST", "/ports", body)
        neutron.create("port", network_id=other["id"], mac_address=made["mac_address"])
        second = neutron.create("port", network_id=network["id"])
        neutron.refused(
            409, "MacAddressInUse", "PUT", f"/ports/{second['id']}", {"port": {"mac_address": made["mac_address"]}}
        )

    def test_one_that_is_drawn_and_taken_is_drawn_anew(self, neutron: Neutron, monkeypatch: pytest.MonkeyPatch) -> None:
        network = neutron.network()
        first = neutron.create("port", network_id=network["id"], mac_address="fa:16:3e:00:00:01")
        draws = iter([0, 0, 1, 0, 0, 1, 0, 0, 2])
        monkeypatch.setattr(random, "randrange", lambda _most: next(draws, 1))
        pair = {"ip_address": "10.9.9.9"}
        second = neutron.create("port", network_id=network["id"], allowed_address_pairs=[pair])
        assert (first["mac_address"], second["mac_address"]) == ("fa:16:3e:00:00:01", "fa:16:3e:00:00:02")
        assert second["allowed_address_pairs"] == [{**pair, "mac_address": second["mac_address"]}]
        draws = iter([0, 0, 1] * macs.TRIES)
        body = {"port": {"network_id": network["id"]}}
        neutron.refused(503, "NetworkMacAddressGenerationFailure", "POST", "/ports", body)

    @pytest.mark.parametrize(
        "mac", ["x", "00:00:00:00:00:00", "ff-ff-ff-ff-ff-ff", "fa:16:3e:00:00", "fa:16:3e:00:00:0g"]
    )
    def test_what_is_none_is_refused(self, neutron: Neutron, mac: str) -> None:
        body = {"port": {"network_id": neutron.network()["id"], "mac_address": mac}}
        neutron.refused(400, "InvalidInput", "POST", "/ports", body)

    def test_one_of_a_group_is_taken_too(self, neutron: Neutron) -> None:
        """Neutron does, and a stock client's tests set it."""
        port = neutron.create("port", network_id=neutron.network()["id"])
        assert put(neutron, port, mac_address="11-22-33-44-55-66")["mac_address"] == "11:22:33:44:55:66"

    def test_null_makes_a_new_one(self, neutron: Neutron) -> None:
        port = neutron.create("port", network_id=neutron.network()["id"])
        assert put(neutron, port, mac_address=None)["mac_address"] != port["mac_address"]

    def test_a_bound_port_keeps_its_own(self, neutron: Neutron) -> None:
        port = neutron.create("port", "admin", network_id=neutron.network(user="admin")["id"], binding__host_id="h1")
        body = {"port": {"mac_address": "fa:16:3e:00:00:01"}}
        neutron.refused(409, "PortBound", "PUT", f"/ports/{port['id']}", body, "admin")
        other = {"port": {"numa_affinity_policy": "required"}}
        neutron.refused(409, "PortBoundNUMAAffinityPolicy", "PUT", f"/ports/{port['id']}", other, "admin")
        assert put(neutron, port, "admin", numa_affinity_policy=None)["numa_affinity_policy"] is None

    def test_one_of_the_network_itself_keeps_its_own(self, neutron: Neutron) -> None:
        network = neutron.network()
        neutron.router(network)
        (port,) = neutron.ports("?device_owner=network:router_interface")
        said = neutron.create("port", network_id=network["id"], device_owner="network:somebody")
        for each in (port, said):
            for mac in ("fa:16:3e:00:00:01", None):
                body = {"port": {"mac_address": mac}}
                neutron.refused(409, "UnsupportedPortDeviceOwner", "PUT", f"/ports/{each['id']}", body)
            assert put(neutron, each, mac_address=each["mac_address"])["mac_address"] == each["mac_address"]


class TestSecurity:
    def test_without_port_security_there_are_no_groups(self, neutron: Neutron) -> None:
        network = neutron.network()
        made = neutron.create("port", network_id=network["id"], port_security_enabled=False)
        assert made["security_groups"] == []
        open_network = neutron.network(port_security_enabled=False)
        assert neutron.create("port", network_id=open_network["id"])["port_security_enabled"] is False

    def test_groups_and_pairs_need_port_security(self, neutron: Neutron) -> None:
        network = neutron.network()
        group = neutron.create("security_group", name="g")["id"]
        off = {"network_id": network["id"], "port_security_enabled": False}
        for fields, status, type in [
            ({"security_groups": [group]}, 400, "PortSecurityAndIPRequiredForSecurityGroups"),
            ({"allowed_address_pairs": [{"ip_address": "10.0.0.9"}]}, 409, "AddressPairAndPortSecurityRequired"),
        ]:
            neutron.refused(status, type, "POST", "/ports", {"port": {**off, **fields}})
        port = neutron.create("port", network_id=network["id"])
        change = {"port": {"port_security_enabled": False}}
        neutron.refused(409, "PortSecurityPortHasSecurityGroup", "PUT", f"/ports/{port['id']}", change)
        changed = put(neutron, port, port_security_enabled=False, security_groups=[])
        assert (changed["port_security_enabled"], changed["security_groups"]) == (False, [])

    def test_groups_are_replaced(self, neutron: Neutron) -> None:
        one, two = (neutron.create("security_group", name=name)["id"] for name in "ab")
        port = neutron.create("port", network_id=neutron.network()["id"], security_groups=[one])
        assert port["security_groups"] == [one]
        assert put(neutron, port, security_groups=[two])["security_groups"] == [two]
        assert put(neutron, port, security_groups=[])["security_groups"] == []

    def test_unknown_and_foreign_groups_are_not_found(self, neutron: Neutron) -> None:
        foreign = neutron.create("security_group", "other", name="g")["id"]
        network = neutron.network()
        for group in (foreign, str(uuid4())):
            body = {"port": {"network_id": network["id"], "security_groups": [group]}}
            neutron.refused(404, "SecurityGroupNotFound", "POST", "/ports", body)

    def test_stateful_and_stateless_groups_do_not_mix(self, neutron: Neutron) -> None:
        groups = [neutron.create("security_group", name="g", stateful=stateful)["id"] for stateful in (True, False)]
        body = {"port": {"network_id": neutron.network()["id"], "security_groups": groups}}
        neutron.refused(409, "SecurityGroupConflict", "POST", "/ports", body)

    def test_address_pairs_have_the_ports_mac_unless_another_is_given(self, neutron: Neutron) -> None:
        pairs = [{"ip_address": "10.0.0.9"}, {"ip_address": "10.1.0.0/16", "mac_address": "fa:16:3e:00:00:99"}]
        port = neutron.create("port", network_id=neutron.network()["id"], allowed_address_pairs=pairs)
        assert port["allowed_address_pairs"] == [
            {"ip_address": "10.0.0.9", "mac_address": port["mac_address"]},
            {"ip_address": "10.1.0.0/16", "mac_address": "fa:16:3e:00:00:99"},
        ]
        assert put(neutron, port, allowed_address_pairs=[])["allowed_address_pairs"] == []

    @pytest.mark.parametrize(
        ("pairs", "type"),
        [
            ([{"ip_address": f"10.0.1.{n}"} for n in range(11)], "AllowedAddressPairExhausted"),
            ([{"ip_address": "10.0.1.1"}] * 2, "DuplicateAddressPairInRequest"),
            ([{"mac_address": "fa:16:3e:00:00:99"}], "HTTPBadRequest"),
            ([{"ip_address": "banana"}], "InvalidInput"),
            ([{"ip_address": "10.0.0.0/40"}], "InvalidInput"),
            ([{"ip_address": "10.0.0.1", "mac_address": "x"}], "InvalidInput"),
        ],
    )
    def test_pairs_that_cannot_be_are_refused(self, neutron: Neutron, pairs: Any, type: str) -> None:
        body = {"port": {"network_id": neutron.network()["id"], "allowed_address_pairs": pairs}}
        neutron.refused(400, type, "POST", "/ports", body)


class TestOnSharedNetworks:
    def test_a_member_may_name_a_subnet_only(self, neutron: Neutron) -> None:
        network = neutron.network(user="admin", shared=True)
        subnet = network["subnets"][0]
        port = neutron.create("port", network_id=network["id"], fixed_ips=[{"subnet_id": subnet}])
        assert addresses(port) == ["10.0.0.2"]
        fields: Any
        for fields in (
            {"fixed_ips": [{"ip_address": "10.0.0.9"}]},
            {"mac_address": "fa:16:3e:00:00:01"},
            {"port_security_enabled": False},
            {"allowed_address_pairs": []},
            {"device_owner": "network:dhcp"},
        ):
            neutron.refused(
                403, "PolicyNotAuthorized", "POST", "/ports", {"port": {"network_id": network["id"], **fields}}
            )

    def test_the_owner_of_the_network_sees_and_deletes_ports_on_it(self, neutron: Neutron) -> None:
        network = neutron.network(user="other")
        neutron.expect(200, "PUT", f"/networks/{network['id']}", {"network": {"shared": True}}, "admin")
        port = neutron.create("port", "demo", network_id=network["id"])
        assert [each["id"] for each in neutron.ports(user="other")] == [port["id"]]
        neutron.expect(403, "PUT", f"/ports/{port['id']}", {"port": {"name": "x"}}, "other")
        neutron.expect(204, "DELETE", f"/ports/{port['id']}", user="other")

    def test_external_networks_are_seen_but_take_no_ports(self, neutron: Neutron) -> None:
        network = neutron.network(user="admin", router__external=True)
        assert neutron.get(f"/networks/{network['id']}")["network"]["router:external"] is True
        neutron.expect(403, "POST", "/ports", {"port": {"network_id": network["id"]}})


def test_a_port_that_only_says_that_it_is_a_routers_can_be_deleted(neutron: Neutron) -> None:
    network = neutron.network(user="admin")
    port = neutron.create("port", "admin", network_id=network["id"], device_owner="network:router_interface")
    neutron.expect(204, "DELETE", f"/ports/{port['id']}", user="admin")


def test_the_quota_is_kept(neutron: Neutron) -> None:
    network = neutron.network()
    neutron.expect(200, "PUT", "/quotas/demo", {"quota": {"port": 3}}, "admin")
    one = {"network_id": network["id"]}
    neutron.refused(409, "OverQuota", "POST", "/ports", {"ports": [one] * 3})
    assert neutron.ports() == []
    neutron.expect(201, "POST", "/ports", {"ports": [one] * 2})


def test_only_the_platform_says_that_a_port_is_a_servers(neutron: Neutron) -> None:
    network = neutron.network()["id"]
    said = {"device_owner": "compute:nova"}
    neutron.expect(403, "POST", "/ports", {"port": {"network_id": network, **said}})
    path = f"/ports/{neutron.create('port', network_id=network)['id']}"
    neutron.expect(403, "PUT", path, {"port": said})
    neutron.expect(200, "PUT", path, {"port": said}, "admin")
    # What clients repeat of it is no change.
    assert neutron.expect(200, "PUT", path, {"port": {**said, "name": "n"}})["port"]["name"] == "n"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("fixed_ips=ip_address=10.0.0.2", "a"),
        ("fixed_ips=ip_address=10.0.0.2&fixed_ips=ip_address=10.0.0.3", "ab"),
        ("fixed_ips=ip_address%3D10.0.0.2&fixed_ips=subnet_id=SUBNET", "a"),
        ("fixed_ips=ip_address_substr=.0.0.", "ab"),
        ("fixed_ips=ip_address=banana", ""),
        ("mac_address=FA163E0000AA", "a"),
        ("name=a&name=b", "ab"),
        ("name=a&device_id=x", ""),
        ("device_id=server-1", "b"),
        ("device_owner=baremetal:none", "b"),
        ("admin_state_up=0", "b"),
        ("admin_state_up=true&admin_state_up=False", "ab"),
        ("status=DOWN", "ab"),
        ("security_groups=GROUP", "b"),
        ("device_owner=", "a"),
        ("network_id=NETWORK", "ab"),
    ],
)
def test_ports_are_found_by(neutron: Neutron, query: str, found: str) -> None:
    network = neutron.network()
    group = neutron.create("security_group", name="g")["id"]
    neutron.create("port", name="a", network_id=network["id"], mac_address="fa:16:3e:00:00:aa")
    neutron.create(
        "port", name="b", network_id=network["id"], device_id="server-1", device_owner="baremetal:none",
        admin_state_up=False, security_groups=[group],
    )  # fmt: skip
    for name, value in [("SUBNET", network["subnets"][0]), ("GROUP", group), ("NETWORK", network["id"])]:
        query = query.replace(name, value)
    assert sorted(port["name"] for port in neutron.ports(f"?{query}")) == list(found)
