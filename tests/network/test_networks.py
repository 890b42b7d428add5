"""`/networks`. Reference: network.md, section 2."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from cloudctl.network.options import NetworkOptions
from cloudctl.network.tables import Segment
from tests.network.conftest import Neutron


def test_a_new_network_looks_as_documented(neutron: Neutron) -> None:
    made = neutron.create("network", name="net1")
    assert made | {"id": 0} == {
        "id": 0,
        "name": "net1",
        "pvlan": False,
        "status": "ACTIVE",
        "admin_state_up": True,
        "subnets": [],
        "shared": False,
        "tenant_id": "demo",
        "project_id": "demo",
        "router:external": False,
        "mtu": 1450,
        "port_security_enabled": True,
        "availability_zone_hints": [],
        "availability_zones": [],
        "l2_adjacency": True,
        "ipv4_address_scope": None,
        "ipv6_address_scope": None,
        "dns_domain": "",
        "qos_policy_id": None,
        "description": "",
        "tags": [],
        "created_at": "2027-01-15T08:00:00Z",
        "updated_at": "2027-01-15T08:00:00Z",
        "revision_number": 0,
    }
    assert neutron.get(f"/networks/{made['id']}") == {"network": made}


def test_only_administrators_see_the_wire(neutron: Neutron) -> None:
    made = neutron.network()
    seen = neutron.get(f"/networks/{made['id']}", "admin")["network"]
    assert seen["provider:network_type"] == "vxlan" and seen["provider:segmentation_id"] > 0
    assert not any(name.startswith("provider:") for name in made)


def test_several_are_made_at_once_or_none(neutron: Neutron) -> None:
    made = neutron.expect(201, "POST", "/networks", {"networks": [{"name": "a"}, {"name": "b"}]})["networks"]
    assert [network["name"] for network in made] == ["a", "b"]
    neutron.expect(403, "POST", "/networks", {"networks": [{"name": "c"}, {"shared": True}]})
    assert len(neutron.get("/networks")["networks"]) == 2


def test_an_update_changes_what_it_names(neutron: Neutron) -> None:
    made = neutron.network()
    neutron.clock.advance(60)
    changed = neutron.expect(200, "PUT", f"/networks/{made['id']}", {"network": {"name": "n", "mtu": 1400}})["network"]
    assert (changed["name"], changed["mtu"], changed["subnets"]) == ("n", 1400, made["subnets"])
    assert changed["revision_number"] > made["revision_number"]
    assert changed["updated_at"] == "2027-01-15T08:01:00Z" != changed["created_at"]


def test_a_deleted_network_is_gone_with_its_subnets(neutron: Neutron) -> None:
    made = neutron.network()
    assert neutron.ask("DELETE", f"/networks/{made['id']}").status == 204
    neutron.refused(404, "NetworkNotFound", "GET", f"/networks/{made['id']}")
    neutron.refused(404, "NetworkNotFound", "DELETE", f"/networks/{made['id']}")
    assert neutron.get("/subnets") == {"subnets": []}
    neutron.settle()
    assert neutron.held[0] == []


def test_a_network_with_ports_is_not_deleted(neutron: Neutron) -> None:
    made = neutron.network()
    port = neutron.create("port", network_id=made["id"])
    message = neutron.refused(409, "NetworkInUse", "DELETE", f"/networks/{made['id']}")
    assert port["id"] in message


@pytest.mark.parametrize("name", ["shared", "router:external", "provider:network_type"])
def test_what_is_for_administrators_is_refused_to_others(neutron: Neutron, name: str) -> None:
    value = "vxlan" if name.startswith("provider") else True
    neutron.refused(403, "PolicyNotAuthorized", "POST", "/networks", {"network": {name: value}})
    made = neutron.network(None)
    neutron.refused(403, "PolicyNotAuthorized", "PUT", f"/networks/{made['id']}", {"network": {name: value}})


def test_a_member_may_say_that_it_is_not_shared(neutron: Neutron) -> None:
    assert neutron.create("network", shared=False)["shared"] is False


def test_readers_may_not_write(neutron: Neutron) -> None:
    made = neutron.network()
    for method, path, body in [
        ("POST", "/networks", {"network": {}}),
        ("PUT", f"/networks/{made['id']}", {"network": {"name": "x"}}),
        ("DELETE", f"/networks/{made['id']}", None),
    ]:
        neutron.refused(403, "PolicyNotAuthorized", method, path, body, "reader")
    assert neutron.get("/networks", "reader") == neutron.get("/networks")


def test_sharing_ends_only_when_nobody_else_is_on_it(neutron: Neutron) -> None:
    made = neutron.network(user="admin", shared=True)
    port = neutron.create("port", "demo", network_id=made["id"])
    change = {"network": {"shared": False}}
    neutron.refused(409, "InvalidSharedSetting", "PUT", f"/networks/{made['id']}", change, "admin")
    neutron.expect(204, "DELETE", f"/ports/{port['id']}")
    neutron.expect(200, "PUT", f"/networks/{made['id']}", change, "admin")
    neutron.expect(404, "GET", f"/networks/{made['id']}")


@pytest.mark.parametrize(
    ("fields", "status", "type"),
    [
        ({"provider:network_type": "gre"}, 400, "InvalidInput"),
        ({"provider:network_type": "flat"}, 400, "InvalidInput"),
        ({"provider:network_type": "flat", "provider:physical_network": "nowhere"}, 400, "InvalidInput"),
        ({"provider:network_type": "vlan", "provider:segmentation_id": 4095}, 400, "InvalidInput"),
        ({"provider:network_type": "vxlan", "provider:physical_network": "public"}, 400, "InvalidInput"),
        ({"provider:network_type": "vxlan", "provider:segmentation_id": 0}, 400, "InvalidInput"),
        ({"mtu": 1501, "provider:network_type": "vlan"}, 400, "InvalidInput"),
        ({"availability_zone_hints": ["moon"]}, 404, "AvailabilityZoneNotFound"),
        ({"availability_zone_hints": ["nova", "nova"]}, 400, "HTTPBadRequest"),
    ],
)
def test_a_wire_that_cannot_be_is_refused(neutron: Neutron, fields: dict[str, Any], status: int, type: str) -> None:
    neutron.refused(status, type, "POST", "/networks", {"network": fields}, "admin")


@pytest.mark.parametrize(
    ("fields", "type"),
    [
        ({"provider:network_type": "flat", "provider:physical_network": "public"}, "FlatNetworkInUse"),
        ({"provider:network_type": "vlan", "provider:segmentation_id": 7}, "VlanIdInUse"),
        ({"provider:network_type": "vxlan", "provider:segmentation_id": 7}, "TunnelIdInUse"),
    ],
)
def test_a_wire_is_one_networks_only_until_it_goes(neutron: Neutron, fields: dict[str, Any], type: str) -> None:
    made = neutron.expect(201, "POST", "/networks", {"network": fields}, "admin")["network"]
    neutron.refused(409, type, "POST", "/networks", {"network": fields}, "admin")
    neutron.expect(204, "DELETE", f"/networks/{made['id']}", user="admin")
    neutron.expect(201, "POST", "/networks", {"network": fields}, "admin")


def test_a_vlan_gets_another_number_while_it_has_no_ports(neutron: Neutron) -> None:
    made, other = (
        neutron.create("network", "admin", provider__network_type="vlan", provider__segmentation_id=number)
        for number in (7, 8)
    )
    path, number = f"/networks/{made['id']}", "provider:segmentation_id"
    changed = neutron.expect(200, "PUT", path, {"network": {number: 9}}, "admin")["network"]
    assert changed == {**made, number: 9, **{name: changed[name] for name in ("updated_at", "revision_number")}}
    neutron.settle()
    assert neutron.driver.networks.get(made["id"]).segmentation_id == 9
    (segment,) = neutron.get(f"/segments?network_id={made['id']}", "admin")["segments"]
    assert segment["segmentation_id"] == 9
    neutron.expect(200, "PUT", f"/networks/{other['id']}", {"network": {number: 7}}, "admin")
    neutron.refused(409, "VlanIdInUse", "PUT", path, {"network": {number: 7}}, "admin")
    same = {"provider:network_type": "vlan", "provider:physical_network": "public", number: 9}
    for wrong in ({number: 4095}, {"provider:network_type": "vxlan"}, {"provider:physical_network": "elsewhere"}):
        neutron.refused(400, "InvalidInput", "PUT", path, {"network": {**same, **wrong}}, "admin")
    tunnel = neutron.network(None)
    neutron.refused(400, "InvalidInput", "PUT", f"/networks/{tunnel['id']}", {"network": {number: 9}}, "admin")
    neutron.create("port", "admin", network_id=made["id"])
    neutron.refused(400, "InvalidInput", "PUT", path, {"network": {number: 10}}, "admin")
    neutron.expect(200, "PUT", path, {"network": {**same, "name": "n", "provider:physical_network": None}}, "admin")


class TestFewTunnels:
    @pytest.fixture
    def options(self) -> NetworkOptions:
        return NetworkOptions(vni_minimum=10, vni_maximum=12)

    def test_when_no_tunnel_is_left_it_says_so(self, neutron: Neutron) -> None:
        for _ in range(3):
            last = neutron.create("network")
        neutron.refused(503, "NoNetworkAvailable", "POST", "/networks", {"network": {}})
        neutron.expect(204, "DELETE", f"/networks/{last['id']}")
        neutron.create("network")
        taken = {row.segmentation_id for row in neutron.transact(lambda conn: conn.execute(select(Segment)).all())}
        assert taken == {10, 11, 12}


def test_an_mtu_that_a_subnet_cannot_work_with_is_refused(neutron: Neutron) -> None:
    four, six = neutron.network(), neutron.network("2001:db8::/64")
    neutron.refused(409, "NetworkMTUSubnetConflict", "PUT", f"/networks/{four['id']}", {"network": {"mtu": 67}})
    neutron.refused(409, "NetworkMTUSubnetConflict", "PUT", f"/networks/{six['id']}", {"network": {"mtu": 1279}})
    small = neutron.create("network", mtu=1000)
    subnet = {"network_id": small["id"], "ip_version": 6, "cidr": "2001:db8::/64"}
    neutron.refused(409, "NetworkMTUSubnetConflict", "POST", "/subnets", {"subnet": subnet})


def test_administrators_make_networks_for_others(neutron: Neutron) -> None:
    made = neutron.create("network", "admin", project_id="demo", tenant_id="demo")
    assert neutron.get(f"/networks/{made['id']}")["network"]["project_id"] == "demo"
    neutron.refused(400, "HTTPBadRequest", "POST", "/networks", {"network": {"tenant_id": "other"}})
    both = {"network": {"tenant_id": "demo", "project_id": "other"}}
    neutron.refused(400, "HTTPBadRequest", "POST", "/networks", both, "admin")


def test_a_change_of_another_revision_is_refused(neutron: Neutron) -> None:
    made = neutron.network()
    path, change = f"/networks/{made['id']}", {"network": {"name": "x"}}
    now = {"If_Match": f"revision_number={made['revision_number']}"}
    old = {"If_Match": f"revision_number={made['revision_number'] - 1}"}
    stale = neutron.expect(412, "PUT", path, change, **old)
    assert stale["NeutronError"]["type"] == "RevisionNumberConstraintFailed"
    neutron.expect(412, "DELETE", path, **old)
    neutron.expect(400, "PUT", path, change, If_Match="yes")
    neutron.expect(412, "PUT", path, change, If_Match="revision_number=-1")
    neutron.expect(200, "PUT", path, change, **now)
    neutron.expect(412, "DELETE", path, **now)


def test_the_quota_is_kept(neutron: Neutron) -> None:
    neutron.expect(200, "PUT", "/quotas/demo", {"quota": {"network": 1}}, "admin")
    neutron.create("network")
    message = neutron.refused(409, "OverQuota", "POST", "/networks", {"network": {}})
    assert message == "Quota exceeded for resources: ['network']."
    neutron.create("network", "other")


def test_an_unknown_network_is_not_found(neutron: Neutron) -> None:
    for id in (str(uuid4()), "x", "x" * 5000, "%F0%9F%A6%84"):
        neutron.refused(404, "NetworkNotFound", "GET", f"/networks/{id}")


def test_a_server_is_put_on_its_projects_and_on_shared_networks(neutron: Neutron) -> None:
    from cloudctl.network import networks

    own, down = neutron.network(name="own"), neutron.network(admin_state_up=False)
    neutron.clock.advance(1)
    shared = neutron.network(user="admin", shared=True)
    hidden, external = neutron.network(user="other"), neutron.network(user="admin", router__external=True)

    class Caller:
        project_id = "demo"

    found = [row.id for row in neutron.transact(networks.usable, Caller())]
    assert found == [own["id"], shared["id"]]
    assert {down["id"], hidden["id"], external["id"]}.isdisjoint(found)


def test_many_may_each_come_in_an_envelope(neutron: Neutron) -> None:
    body = {"networks": [{"network": {"name": "a"}}, {"name": "b"}]}
    assert [each["name"] for each in neutron.expect(201, "POST", "/networks", body)["networks"]] == ["a", "b"]
    neutron.expect(400, "POST", "/networks", {"networks": [{"network": {"name": "a"}, "x": 1}]})
