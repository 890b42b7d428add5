"""Networks of several wires, and where the addresses of ports there come from."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from twisted.web.resource import Resource
from zope.interface import directlyProvides

from cloudctl.drivers.interfaces import INetworkBackend
from cloudctl.network import api
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.site import CloudSite
from tests.network.conftest import Neutron, make_http

VLANS = [
    {"provider:network_type": "vlan", "provider:physical_network": "public", "provider:segmentation_id": number}
    for number in (11, 12)
]
PROVIDER = ("provider:network_type", "provider:physical_network", "provider:segmentation_id")


@pytest.fixture
def options() -> NetworkOptions:
    return NetworkOptions(physical_networks=("public", "rack"))


def segments_of(neutron: Neutron, network: Any) -> list[Any]:
    found = neutron.get(f"/segments?network_id={network['id']}&sort_key=segmentation_id&sort_dir=asc", "admin")
    return list(found["segments"])


def routed(neutron: Neutron, *more: str) -> tuple[Any, list[Any], list[Any]]:
    """A network of two wires, its segments, and a subnet on each; of `more` CIDRs further ones on the second."""
    network = neutron.create("network", "admin", shared=True, segments=VLANS)
    wires = segments_of(neutron, network)
    places = [("10.1.0.0/30", wires[0]), ("10.2.0.0/24", wires[1]), *((cidr, wires[1]) for cidr in more)]
    subnets = []
    for cidr, wire in places:
        said = {"cidr": cidr, "ip_version": 6 if ":" in cidr else 4, "segment_id": wire["id"], "enable_dhcp": False}
        subnets.append(neutron.create("subnet", "admin", network_id=network["id"], **said))
        # The oldest comes first.
        neutron.clock.advance(1)
    return network, wires, subnets


def with_one_wire(neutron: Neutron) -> Neutron:
    """The API with a driver that puts no network on several wires."""

    class Plain:
        pass

    plain: Any = Plain()
    directlyProvides(plain, INetworkBackend)
    tree = Resource()
    app = api.build(make_http(neutron.clock), neutron.db, plain, "fake", neutron.options)
    tree.putChild(b"networking", app.resource())
    return evolve(neutron, site=CloudSite(tree, neutron.clock, None), api=app)


def test_a_list_of_one_wire_is_taken_with_any_driver(neutron: Neutron) -> None:
    """gophercloud has no other way to name a network's wire."""
    neutron = with_one_wire(neutron)
    network = neutron.create("network", "admin", segments=VLANS[:1])
    assert {name: network[name] for name in PROVIDER} == VLANS[0] and "segments" not in network
    assert neutron.expect(403, "POST", "/networks", {"network": {"segments": VLANS[1:]}})
    neutron.refused(400, "HTTPBadRequest", "POST", "/networks", {"network": {"segments": VLANS}}, "admin")
    path, changed = f"/networks/{network['id']}", {"network": {"segments": VLANS[1:]}}
    neutron.refused(400, "HTTPBadRequest", "PUT", path, changed, "admin")


def test_a_network_is_on_several_wires(neutron: Neutron) -> None:
    network = neutron.create("network", "admin", segments=[*VLANS, {"provider:network_type": "geneve"}])
    assert network["segments"][:2] == VLANS and network["segments"][2]["provider:network_type"] == "geneve"
    # What cannot be said of one wire is not said; who may not know of wires is told of none.
    assert not set(PROVIDER) & network.keys()
    shown = neutron.expect(201, "POST", "/networks", {"network": {}})["network"]
    assert not {*PROVIDER, "segments"} & shown.keys()
    # The least that fits through all of them.
    assert network["mtu"] == 1450
    neutron.settle()
    held = neutron.driver.networks.get(network["id"])
    assert [(each.network_type, each.segmentation_id) for each in held.segments[:2]] == [("vlan", 11), ("vlan", 12)]
    assert {each.id for each in held.segments} == {each["id"] for each in segments_of(neutron, network)}
    neutron.expect(204, "DELETE", f"/networks/{network['id']}", user="admin")
    # The wires are free again.
    neutron.create("network", "admin", segments=VLANS)


@pytest.mark.parametrize(
    "said, status, type",
    [
        ({"segments": VLANS, "provider:network_type": "vxlan"}, 400, "SegmentsSetInConjunctionWithProviders"),
        ({"segments": [VLANS[0], VLANS[0]]}, 400, "SegmentsContainDuplicateEntry"),
        ({"segments": [{"provider:network_type": "token-ring"}]}, 400, "InvalidInput"),
        ({"segments": [{"provider:network_type": "geneve", "provider:physical_network": "public"}]}, 400, None),
        ({"segments": VLANS, "mtu": 9000}, 400, None),
        ({"segments": []}, 400, None),
    ],
)
def test_what_is_no_list_of_wires(neutron: Neutron, said: Any, status: int, type: str | None) -> None:
    error = neutron.expect(status, "POST", "/networks", {"network": said}, "admin")["NeutronError"]
    assert type is None or error["type"] == type
    assert neutron.get("/segments", "admin")["segments"] == []
    path = f"/networks/{neutron.create('network', 'admin')['id']}"
    assert neutron.expect(status, "PUT", path, {"network": said}, "admin")["NeutronError"]["type"] == error["type"]


def test_a_network_gets_other_wires(neutron: Neutron) -> None:
    network, (first, second), _ = routed(neutron)
    path, third = f"/networks/{network['id']}", {"provider:network_type": "vlan", "provider:physical_network": "rack"}
    for _ in range(2):
        body = {"network": {"segments": [third, *VLANS]}}
        shown = neutron.expect(200, "PUT", path, body, "admin")["network"]["segments"]
        assert shown[:2] == VLANS and [each["provider:physical_network"] for each in shown[2:]] == ["rack"]
    neutron.refused(409, "SegmentInUse", "PUT", path, {"network": {"segments": [*VLANS[:1], third]}}, "admin")
    assert len(segments_of(neutron, network)) == 3
    neutron.expect(200, "PUT", path, {"network": {"segments": VLANS}}, "admin")
    neutron.settle()
    assert [each.id for each in neutron.driver.networks.get(network["id"]).segments] == [first["id"], second["id"]]
    neutron.expect(403, "PUT", f"/networks/{neutron.network()['id']}", {"network": {"segments": VLANS}})


def test_a_network_gets_other_wires_together_with_an_mtu_that_they_carry(neutron: Neutron) -> None:
    network = neutron.create("network", "admin", segments=VLANS)
    path, more = f"/networks/{network['id']}", [*VLANS, {"provider:network_type": "geneve"}]
    for said in ({}, {"mtu": network["mtu"]}):
        neutron.expect(400, "PUT", path, {"network": {"segments": more, **said}}, "admin")
    shown = neutron.expect(200, "PUT", path, {"network": {"segments": more, "mtu": 1400}}, "admin")["network"]
    assert (shown["mtu"], len(shown["segments"])) == (1400, 3)
    back = {"segments": VLANS, "mtu": network["mtu"]}
    assert neutron.expect(200, "PUT", path, {"network": back}, "admin")["network"]["mtu"] == network["mtu"]


def test_wires_are_for_administrators(neutron: Neutron) -> None:
    neutron.expect(403, "POST", "/networks", {"network": {"segments": VLANS}})
    network = neutron.create("network")
    body = {"segment": {"network_id": network["id"], "network_type": "geneve"}}
    neutron.expect(403, "POST", "/segments", body)
    (wire,) = segments_of(neutron, network)
    neutron.expect(404, "DELETE", f"/segments/{wire['id']}")


def test_a_wire_comes_and_goes(neutron: Neutron) -> None:
    network = neutron.create("network", "admin", **{"provider:segmentation_id": 7, "provider:network_type": "vxlan"})
    said = {"network_id": network["id"], "network_type": "geneve", "segmentation_id": 2055, "name": "s"}
    made = neutron.expect(201, "POST", "/segments", {"segment": {**said, "description": "d"}}, "admin")["segment"]
    assert {**said, "physical_network": None, "description": "d", "revision_number": 0}.items() <= made.items()
    shown = neutron.get(f"/networks/{network['id']}", "admin")["network"]
    assert [each["provider:segmentation_id"] for each in shown["segments"]] == [7, 2055]
    neutron.refused(409, "TunnelIdInUse", "POST", "/segments", {"segment": said}, "admin")
    # A number is found for who names none; what is not on the wire that packets fit through is refused.
    any_number = {"network_id": network["id"], "network_type": "vlan", "physical_network": "rack"}
    third = neutron.expect(201, "POST", "/segments", {"segment": any_number}, "admin")["segment"]
    assert third["segmentation_id"] in range(1, 4095)
    neutron.settle()
    assert len(neutron.driver.networks.get(network["id"]).segments) == 3
    # By its kind: the number that was found for the third may be below 7.
    (first,) = (each for each in segments_of(neutron, network) if each["network_type"] == "vxlan")
    for each in (first, third):
        neutron.expect(204, "DELETE", f"/segments/{each['id']}", user="admin")
    left = neutron.get(f"/networks/{network['id']}", "admin")["network"]
    assert [left[name] for name in PROVIDER] == ["geneve", None, 2055] and "segments" not in left
    neutron.settle()
    assert neutron.driver.networks.get(network["id"]).network_type == "geneve"
    neutron.refused(409, "SegmentInUse", "DELETE", f"/segments/{made['id']}", user="admin")
    neutron.refused(404, "SegmentNotFound", "DELETE", f"/segments/{third['id']}", user="admin")


def test_subnets_are_all_on_one_wire_each_or_none_is(neutron: Neutron) -> None:
    network, wires, subnets = routed(neutron)
    assert neutron.get(f"/networks/{network['id']}")["network"]["l2_adjacency"] is False
    body = {"subnet": {"network_id": network["id"], "ip_version": 4, "cidr": "10.3.0.0/24"}}
    neutron.refused(400, "SubnetsNotAllAssociatedWithSegments", "POST", "/subnets", body, "admin")
    neutron.refused(409, "SegmentInUse", "DELETE", f"/segments/{wires[0]['id']}", user="admin")
    there = {"subnet": {"segment_id": wires[0]["id"]}}
    path = f"/subnets/{subnets[1]['id']}"
    neutron.refused(400, "SubnetSegmentAssociationChangeNotAllowed", "PUT", path, there, "admin")
    neutron.settle()
    held = neutron.driver.networks.get(network["id"])
    assert [each.segment_id for each in held.subnets] == [wire["id"] for wire in wires]
    for each in subnets:
        neutron.expect(204, "DELETE", f"/subnets/{each['id']}", user="admin")
    assert neutron.get(f"/networks/{network['id']}")["network"]["l2_adjacency"] is True
    neutron.expect(204, "DELETE", f"/segments/{wires[0]['id']}", user="admin")


def test_the_only_subnet_says_later_where_it_is(neutron: Neutron) -> None:
    network = neutron.network()
    (wire,) = segments_of(neutron, network)
    path, there = f"/subnets/{network['subnets'][0]}", {"subnet": {"segment_id": wire["id"]}}
    neutron.expect(403, "PUT", path, there)
    assert neutron.expect(200, "PUT", path, there, "admin")["subnet"]["segment_id"] == wire["id"]
    assert neutron.get(f"/networks/{network['id']}", "admin")["network"]["l2_adjacency"] is False
    other = neutron.network(user="admin")
    wires = [segments_of(neutron, other)[0]["id"]]
    said = {"network_id": other["id"], "network_type": "geneve"}
    wires.append(neutron.expect(201, "POST", "/segments", {"segment": said}, "admin")["segment"]["id"])
    path, type = f"/subnets/{other['subnets'][0]}", "NoUpdateSubnetWhenMultipleSegmentsOnNetwork"
    neutron.refused(400, type, "PUT", path, {"subnet": {"segment_id": wires[0]}}, "admin")


def test_a_port_has_its_addresses_when_it_has_a_host(neutron: Neutron) -> None:
    """From one wire: the first that has room, of both families."""
    network, wires, subnets = routed(neutron, "2001:db8::/64")
    port = neutron.create("port", network_id=network["id"])
    assert (port["ip_allocation"], port["fixed_ips"]) == ("deferred", [])
    bound = neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"binding:host_id": "h1"}}, "admin")["port"]
    assert bound["ip_allocation"] == "immediate"
    assert [each["subnet_id"] for each in bound["fixed_ips"]] == [subnets[0]["id"]]
    # A /30 has one address beside the gateway's: the next port is on the other wire.
    second = neutron.create("port", "admin", network_id=network["id"], binding__host_id="h1")
    assert second["ip_allocation"] == "immediate"
    assert {each["subnet_id"] for each in second["fixed_ips"]} == {subnets[1]["id"], subnets[2]["id"]}
    none = neutron.create("port", network_id=network["id"], fixed_ips=[])
    assert (none["ip_allocation"], none["fixed_ips"]) == ("none", [])
    named = neutron.create("port", "admin", network_id=network["id"], fixed_ips=[{"subnet_id": subnets[1]["id"]}])
    assert named["ip_allocation"] == "immediate" and len(named["fixed_ips"]) == 1
    both = {"network_id": network["id"], "fixed_ips": [{"subnet_id": each["id"]} for each in (subnets[2], subnets[0])]}
    type = "FixedIpsSubnetsNotOnSameSegment"
    neutron.refused(400, type, "POST", "/ports", {"port": both}, "admin")
    # An automatic subnet is of those on its wire alone.
    neutron.create(
        "subnet",
        "admin",
        network_id=network["id"],
        ip_version=6,
        cidr="2001:db8:1::/64",
        ipv6_address_mode="slaac",
        ipv6_ra_mode="slaac",
        segment_id=wires[0]["id"],
    )
    counts = [len(neutron.get(f"/ports/{each['id']}", "admin")["port"]["fixed_ips"]) for each in (port, second)]
    assert counts == [2, 2]
