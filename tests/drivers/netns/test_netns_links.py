"""From the links that are there to the lines that make the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns import links, underlay
from cloudctl.drivers.netns.links import Link
from cloudctl.drivers.netns.names import Names
from cloudctl.drivers.network_specs import DhcpPort
from cloudctl.drivers.specs import NetworkSpec, PortSpec, SubnetSpec

NAMES = Names("cc")
NETWORK = NetworkSpec("n1", segmentation_id=7, mtu=1450, subnets=(SubnetSpec("s1", "10.0.0.0/24"),))
FLAT = evolve(NETWORK, network_type="flat", physical_network="public", segmentation_id=None)
PORT = PortSpec("p1", "n1", "fa:16:3e:00:00:01", mtu=1450)
TWO = {"one": "198.18.0.1", "two": "198.18.0.2"}
ALONE = {"one": None}
BRIDGE, TUNNEL, SERVICE, TAP = NAMES.bridge("n1"), NAMES.tunnel("n1"), NAMES.service("n1"), NAMES.tap("p1")


def segment(spec: Any = NETWORK, host: Any = "one", hosts: Any = TWO, physical: Any = None) -> Any:
    return links.segment(NAMES, spec, host, hosts, physical or {})


def plugged(name: Any, **changes: Any) -> Link:
    return evolve(Link(name, BRIDGE, up=True, mtu=1450, alias="n1", mac=""), **changes)


def complete() -> dict[str, Link]:
    made = (plugged(BRIDGE, master=None), plugged(TUNNEL), plugged(SERVICE), plugged(TAP, alias="p1"))
    return {link.name: link for link in made}


def test_a_new_network_gets_a_bridge_a_tunnel_and_the_way_to_its_namespace() -> None:
    assert links.segment_lines(NAMES, {}, segment()) == [
        f"link add name {BRIDGE} type bridge forward_delay 0 mcast_snooping 0",
        f"link set dev {BRIDGE} addrgenmode none mtu 1450 up alias n1",
        f"link add name {TUNNEL} type vxlan id 7 local 198.18.0.1 dstport 4789",
        f"link set dev {TUNNEL} addrgenmode none mtu 1450 master {BRIDGE} up alias n1",
        f"link add name {SERVICE} type veth peer name net0 netns ccn-n1",
        f"link set dev {SERVICE} addrgenmode none mtu 1450 master {BRIDGE} up alias n1",
    ]
    assert links.flood_lines(NAMES, segment()) == [f"fdb append 00:00:00:00:00:00 dev {TUNNEL} dst 198.18.0.2"]


def test_nothing_is_done_where_everything_is_there() -> None:
    assert links.segment_lines(NAMES, complete(), segment()) == []
    assert links.port_lines(NAMES, complete(), segment(), PORT) == []


@pytest.mark.parametrize("change", [{"up": False}, {"mtu": 1500}, {"master": None}, {"alias": ""}], ids=str)
def test_what_differs_is_put_right_and_nothing_else(change: Any) -> None:
    found = complete() | {TAP: plugged(TAP, alias="p1", **change)} if change != {"alias": ""} else complete()
    if change == {"alias": ""}:
        found[TAP] = plugged(TAP, alias="")
    assert links.port_lines(NAMES, found, segment(), PORT) == [
        f"link set dev {TAP} addrgenmode none mtu 1450 master {BRIDGE} up alias p1"
    ]


def test_a_port_or_a_network_that_is_down_is_set_so() -> None:
    down = evolve(PORT, admin_state_up=False)
    assert links.port_lines(NAMES, complete(), segment(), down)[0].endswith("down alias p1")
    off = segment(evolve(NETWORK, admin_state_up=False))
    assert links.segment_lines(NAMES, complete(), off) == [
        f"link set dev {BRIDGE} addrgenmode none mtu 1450 down alias n1"
    ]


def test_only_the_first_host_leads_to_the_namespace() -> None:
    assert not segment(host="two").served
    assert SERVICE not in " ".join(links.segment_lines(NAMES, {}, segment(host="two")))


def test_a_host_that_is_alone_has_no_tunnel_and_neither_has_a_local_network() -> None:
    assert segment(hosts=ALONE).tunnel_from is None
    assert segment(evolve(NETWORK, network_type="local")).tunnel_from is None


def test_a_flat_network_uses_the_operators_bridge_and_leaves_it_alone() -> None:
    wanted = segment(FLAT, hosts=ALONE, physical={"public": "br-ex"})
    found = {"br-ex": plugged("br-ex", master=None)}
    assert wanted.bridge == "br-ex"
    assert all(
        "dev br-ex" not in line and "name br-ex" not in line for line in links.segment_lines(NAMES, found, wanted)
    )
    assert links.segment_removal(NAMES, found, "n1") == []


def test_an_external_network_has_a_service_only_if_it_has_dhcp() -> None:
    public = evolve(FLAT, external=True, subnets=(SubnetSpec("s1", "203.0.113.0/24", enable_dhcp=False),))
    assert not segment(public, physical={"public": "br-ex"}).served
    assert segment(evolve(public, subnets=NETWORK.subnets), physical={"public": "br-ex"}).served


@pytest.mark.parametrize(
    ("spec", "physical"),
    [
        (evolve(NETWORK, network_type="vlan"), {}),
        (FLAT, {}),
        (evolve(NETWORK, segmentation_id=None), {}),
    ],
    ids=["vlan", "unknown physical network", "no segmentation id"],
)
def test_a_network_that_cannot_be_is_unfit(spec: Any, physical: Any) -> None:
    with pytest.raises(Unfit):
        segment(spec, physical=physical)


def test_a_bridge_of_the_operators_that_is_not_there_is_told() -> None:
    with pytest.raises(Unfit, match="br-ex"):
        links.segment_lines(NAMES, {}, segment(FLAT, physical={"public": "br-ex"}))


def test_a_network_leaves_with_all_its_links() -> None:
    assert links.segment_removal(NAMES, complete(), "n1") == [
        f"link del dev {SERVICE}",
        f"link del dev {TUNNEL}",
        f"link del dev {BRIDGE}",
    ]


def test_ports_are_up_if_they_and_their_bridge_are() -> None:
    assert links.plugged(NAMES, complete()) == {"p1": True}
    assert links.plugged(NAMES, complete() | {BRIDGE: plugged(BRIDGE, up=False)}) == {"p1": False}
    assert links.plugged(NAMES, complete() | {TAP: plugged(TAP, alias="p1", up=False)}) == {"p1": False}
    assert links.plugged(NAMES, complete() | {TAP: plugged(TAP, alias="p1", master=None)}) == {}


def test_links_are_read_as_ip_shows_them() -> None:
    row = {"ifname": "x", "flags": ["BROADCAST", "UP"], "mtu": 9, "master": "b", "ifalias": "id", "address": "m"}
    assert links.found_links(json.dumps([row, {}]).encode()) == {"x": Link("x", "b", True, 9, "id", "m")}
    assert links.found_links(b"") == {}


def test_guests_of_all_ipv4_subnets_are_reached_from_the_namespace() -> None:
    spec = evolve(
        NETWORK, subnets=(SubnetSpec("a", "10.0.0.0/24"), SubnetSpec("b", "fd00::/64"), SubnetSpec("c", "10.2.0.0/24"))
    )
    lines = links.service_lines(spec)
    assert [line.split()[2] for line in lines if line.startswith("route replace")] == ["10.0.0.0/24", "10.2.0.0/24"]
    assert "address replace 169.254.169.254/32 dev net0" in lines


def test_the_port_of_dhcp_is_there_with_its_addresses_and_no_others() -> None:
    subnets = (SubnetSpec("a", "10.0.0.0/24"), SubnetSpec("b", "fd00::/64"))
    port = DhcpPort("p", "fa:16:3e:00:00:01", ("10.0.0.254/24", "fd00::ff/64"))
    lines = links.service_lines(evolve(NETWORK, subnets=subnets, dhcp_port=port))
    assert "link set dev net0 address fa:16:3e:00:00:01" in lines
    wanted = ["address replace 10.0.0.254/32 dev lo", "address replace fd00::ff/128 dev net0 nodad"]
    emptied = ["address flush dev lo scope global to 10.0.0.0/24", "address flush dev net0 scope global to fd00::/64"]
    assert [line for line in lines if "10.0.0" in line or "fd00:" in line][:4] == emptied + wanted
    down = links.service_lines(evolve(NETWORK, subnets=subnets))
    assert set(emptied) <= set(down) and not set(wanted) & set(down)


def test_several_hosts_get_addresses_in_their_order_and_one_gets_none() -> None:
    assert underlay.addresses("198.18.0.0/24", {"one": "", "two": "ns"}) == TWO
    assert underlay.addresses("198.18.0.0/24", {"one": ""}) == ALONE


def test_more_hosts_than_addresses_are_refused() -> None:
    with pytest.raises(ValueError, match="underlay"):
        underlay.addresses("198.18.0.0/30", {"a": "a", "b": "b", "c": "c"})
