"""What the rows of networks, ports, routers and security groups say. No database is needed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from twisted.internet.task import Clock

from cloudctl.config import Config as CloudConfig
from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.ovn import groups, networks, ports, routers
from cloudctl.drivers.ovn.backend import create
from cloudctl.drivers.ovn.options import Config
from cloudctl.drivers.ovn.ports import Carrier, Port
from cloudctl.drivers.ovn.rows import Place, Ref, Row
from cloudctl.drivers.specs import (
    BandwidthLimit,
    DhcpOption,
    DriverResources,
    FixedIp,
    FloatingIp,
    NetworkSpec,
    PortForwarding,
    PortSpec,
    Route,
    RouterInterface,
    RouterSpec,
    SecurityGroupRule,
    SecurityGroupSpec,
    SubnetSpec,
)
from cloudctl.network.options import chosen
from cloudctl.network.segments import TUNNELS, TYPES, Segment

CONFIG = Config(gateway_chassis=["east", "west"])
V4 = SubnetSpec("v4", "10.7.0.0/24", "10.7.0.1", dns_nameservers=("10.7.0.53", "10.7.0.54"))
V6 = SubnetSpec(
    "v6", "2001:db8::/64", "2001:db8::1", ipv6_address_mode="dhcpv6-stateful", ipv6_ra_mode="dhcpv6-stateful"
)
NETWORK = NetworkSpec("net", mtu=1450, subnets=(V4, V6))
PORT = PortSpec("port", "net", "fa:16:3e:00:00:02", (FixedIp("v4", "10.7.0.9"), FixedIp("v6", "2001:db8::9")))
GATEWAY = RouterInterface("gateway", "public", "fa:16:3e:00:00:fe", ("203.0.113.10/24",))
INSIDE = RouterInterface("inside", "net", "fa:16:3e:00:00:01", ("10.7.0.1/24", "2001:db8::1/64"))
PUBLIC = NetworkSpec(
    "public",
    network_type="flat",
    physical_network="wire",
    external=True,
    subnets=(SubnetSpec("public", "203.0.113.0/24", "203.0.113.1", enable_dhcp=False),),
)
ROUTER = RouterSpec("router", gateway=GATEWAY, interfaces=(INSIDE,))


def of(table: str, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.ref.table == table]


def the(table: str, rows: Iterable[Row]) -> dict[str, Any]:
    (found,) = of(table, rows)
    return dict(found.columns)


def port(**changes: Any) -> dict[str, Any]:
    return the("Logical_Switch_Port", port_rows(**changes))


def port_rows(hosts: tuple[str, ...] = ("east",), carrier: Carrier | None = None, **changes: Any) -> tuple[Row, ...]:
    return ports.rows(Port(evolve(PORT, **changes), hosts), NETWORK, carrier, CONFIG)


def router_rows(**changes: Any) -> tuple[Row, ...]:
    return routers.rows(evolve(ROUTER, **changes), {"net": NETWORK, "public": PUBLIC}, (), CONFIG)


def matches(*rules: SecurityGroupRule) -> list[tuple[Any, ...]]:
    found = of("ACL", groups.rows(SecurityGroupSpec("a-b", rules), ()))
    return [tuple(row.columns[name] for name in ("direction", "match", "action")) for row in found]


# -- networks


def test_a_row_is_the_same_wherever_it_is_made() -> None:
    assert Ref("NAT", "a").uuid == Ref("NAT", "a").uuid
    assert len({Ref("NAT", "a").uuid, Ref("NAT", "b").uuid, Ref("ACL", "a").uuid}) == 3


def test_guests_are_told_their_subnet() -> None:
    subnet = evolve(V4, host_routes=(Route("10.9.0.0/16", "10.7.0.7"),))
    told = networks.told(NETWORK, subnet, CONFIG)
    assert told == {
        "server_id": "10.7.0.1",
        "server_mac": networks.derived_mac("v4"),
        "lease_time": "43200",
        "mtu": "1442",
        "router": "10.7.0.1",
        "dns_server": "{10.7.0.53, 10.7.0.54}",
        "classless_static_route": "{10.9.0.0/16,10.7.0.7, 0.0.0.0/0,10.7.0.1}",
    }


def test_a_default_route_of_the_subnets_own_takes_the_place_of_the_gateway() -> None:
    subnet = evolve(V4, host_routes=(Route("0.0.0.0/0", "10.7.0.7"),))
    told = networks.told(NETWORK, subnet, CONFIG)
    assert told is not None and told["classless_static_route"] == "{0.0.0.0/0,10.7.0.7}"


def test_guests_find_their_metadata_on_their_own_host() -> None:
    config = evolve(CONFIG, metadata=True)
    rows = networks.rows(NETWORK, config)
    mac = networks.derived_mac("metadata-net")
    local = the("Logical_Switch_Port", rows)
    assert (local["name"], local["type"], local["addresses"]) == (
        "metadata-net",
        "localport",
        (f"{mac} 169.254.169.254",),
    )
    assert of("Logical_Switch_Port", rows)[0].within == Place(networks.switch("net"), "ports")
    told = networks.told(NETWORK, V4, config)
    assert told is not None and told["classless_static_route"] == "{169.254.169.254/32,0.0.0.0, 0.0.0.0/0,10.7.0.1}"
    assert of("Logical_Switch_Port", networks.rows(NETWORK, CONFIG)) == []


def test_a_subnet_without_a_gateway_tells_of_no_router() -> None:
    told = networks.told(NETWORK, evolve(V4, gateway_ip=None), CONFIG)
    assert told is not None
    assert (told["server_id"], "router" in told) == (networks.NOBODY, False)


@pytest.mark.parametrize(
    ("mode", "told"),
    [("slaac", None), (None, None), ("dhcpv6-stateful", {}), ("dhcpv6-stateless", {"dhcpv6_stateless": "true"})],
)
def test_ipv6_is_told_by_dhcp_only_if_that_is_its_mode(mode: str | None, told: dict[str, str] | None) -> None:
    found = networks.told(NETWORK, evolve(V6, ipv6_address_mode=mode), CONFIG)
    assert found == (None if told is None else {"server_id": networks.derived_mac("v6"), **told})


def test_a_network_on_a_wire_has_the_wires_mtu_and_a_way_there() -> None:
    vlan = evolve(PUBLIC, network_type="vlan", segmentation_id=7, mtu=1500)
    wire = the("Logical_Switch_Port", networks.rows(vlan, CONFIG))
    assert (wire["type"], wire["options"], wire["tag"]) == ("localnet", {"network_name": "wire"}, (7,))
    assert the("Logical_Switch_Port", networks.rows(PUBLIC, CONFIG))["tag"] == ()
    assert networks.guest_mtu(vlan, CONFIG) == 1500
    assert networks.guest_mtu(NETWORK, CONFIG) == 1442


@pytest.mark.parametrize("tunnel_mtu", [1442, 1300])
@pytest.mark.parametrize("network_type", TYPES)
def test_the_api_shows_the_mtu_that_guests_are_told(network_type: str, tunnel_mtu: int, tmp_path: Path) -> None:
    config = evolve(CONFIG, tunnel_mtu=tunnel_mtu)
    driver = create(config, DriverResources(Clock(), "ovn", None, None))
    physical = None if network_type in TUNNELS else "public"
    shown = Segment(network_type, physical).mtu(chosen(CloudConfig(tmp_path), driver))
    assert shown == networks.guest_mtu(NetworkSpec("net", mtu=shown, physical_network=physical), config)
    assert networks.guest_mtu(NetworkSpec("net", mtu=9000, physical_network=physical), config) in (shown, 9000)


def test_a_lease_fits_into_its_option() -> None:
    assert Config(lease_seconds=2**32 - 1)
    with pytest.raises(ValueError, match="lease_seconds"):
        Config(lease_seconds=2**32)  # OVN sends its low 32 bits: none


def test_a_network_on_no_wire_cannot_be_a_vlan() -> None:
    with pytest.raises(Unfit):
        networks.rows(NetworkSpec("net", network_type="vlan", segmentation_id=7), CONFIG)


# -- ports


def test_a_port_may_send_as_itself_and_as_its_pairs() -> None:
    found = port(address_pairs=(("10.7.0.100", PORT.mac), ("10.8.0.0/16", "FA:16:3E:00:00:AA")))
    assert found["port_security"] == (
        "fa:16:3e:00:00:02 10.7.0.9 2001:db8::9 10.7.0.100",
        "fa:16:3e:00:00:aa 10.8.0.0/16",
    )
    assert found["addresses"] == ("fa:16:3e:00:00:02 10.7.0.9 2001:db8::9", "unknown")
    assert port()["addresses"] == ("fa:16:3e:00:00:02 10.7.0.9 2001:db8::9",)


def test_a_port_without_addresses_sends_none() -> None:
    assert port(fixed_ips=())["port_security"] == ("fa:16:3e:00:00:02 fe80::f816:3eff:fe00:2",)


def test_without_port_security_a_port_is_in_no_group() -> None:
    (row,) = of("Logical_Switch_Port", port_rows(port_security=False, security_groups=("group",)))
    assert (row.columns["port_security"], row.members_of) == ((), ())
    assert ports.members(Port(evolve(PORT, port_security=False, security_groups=("group",)), ())) == {}


def test_a_secured_port_is_in_its_groups_and_in_that_of_all() -> None:
    (row,) = of("Logical_Switch_Port", port_rows(security_groups=("group",)))
    assert row.members_of == (Place(groups.SECURED, "ports"), Place(groups.port_group("group"), "ports"))


def test_a_port_that_moves_passes_nothing_there_before_it_has_come() -> None:
    assert port()["options"] == {"requested-chassis": "east"}
    assert port(hosts=("west", "east"))["options"] == {
        "requested-chassis": "west,east",
        "activation-strategy": "rarp",
    }


@pytest.mark.parametrize(("own", "whole"), [(False, True), (True, False)])
def test_what_is_down_passes_nothing(own: bool, whole: bool) -> None:
    shut = evolve(NETWORK, admin_state_up=whole)
    rows = ports.rows(Port(evolve(PORT, admin_state_up=own), ()), shut, None, CONFIG)
    assert the("Logical_Switch_Port", rows)["enabled"] is False


def test_a_carried_port_has_its_parents_tag() -> None:
    found = port(carrier=Carrier("parent", 12))
    assert (found["parent_name"], found["tag"]) == (("parent",), (12,))
    assert (port()["parent_name"], port()["tag"]) == ((), ())


def test_guests_with_options_of_their_own_are_told_those() -> None:
    options = (
        DhcpOption("bootfile-name", "pxelinux.0"),
        DhcpOption("option:ntp-server", "10.7.0.2"),
        DhcpOption("log-server", "{10.7.0.2, 10.7.0.3}"),
        DhcpOption("3", ""),
        DhcpOption("bootfile-url", "http://[2001:db8::2]/", 6),
    )
    rows = port_rows(dhcp_options=options)
    four, six = of("DHCP_Options", rows)
    told = four.columns["options"]
    assert isinstance(told, dict)
    assert told["log_server"] == "{10.7.0.2, 10.7.0.3}"
    assert (told["bootfile_name"], told["ntp_server"], "router" in told) == ('"pxelinux.0"', "10.7.0.2", False)
    assert the("Logical_Switch_Port", rows)["dhcpv4_options"] == (four.ref,)
    assert the("Logical_Switch_Port", rows)["dhcpv6_options"] == (six.ref,)
    assert port()["dhcpv4_options"] == (networks.dhcp_options("v4"),)


@pytest.mark.parametrize(
    "option",
    [
        DhcpOption("no-such", "1"),
        DhcpOption("domain-name", 'a"b'),
        DhcpOption("domain-name", "a\\"),
        DhcpOption("domain-name", "a\nb"),
        # What follows would be actions of OVN's, on packets that the port may not send.
        DhcpOption("router", "10.7.0.1); ip4.src = 10.7.0.99; next; reg0[4] = put_dhcp_opts(offerip = 10.7.0.9"),
        DhcpOption("dns-server", "{10.7.0.1}, lease_time = {1}"),
        DhcpOption("dns-server", "::1, server_id = 02:00:00:00:00:01", 6),
    ],
)
def test_an_option_that_ovn_cannot_tell_is_refused(option: DhcpOption) -> None:
    with pytest.raises(Unfit):
        port_rows(dhcp_options=(option,))


def test_traffic_is_held_back_in_its_direction_and_marked() -> None:
    limits = (BandwidthLimit("egress", 1000, 800), BandwidthLimit("ingress", 2000))
    found = of("QoS", port_rows(limits=limits, dscp_mark=26))
    told = [tuple(row.columns.get(name) for name in ("direction", "match", "bandwidth", "action")) for row in found]
    assert told == [
        ("from-lport", 'inport == "port"', {"rate": 1000, "burst": 800}, None),
        ("to-lport", 'outport == "port"', {"rate": 2000}, None),
        ("from-lport", 'inport == "port"', None, {"dscp": 26}),
    ]


@pytest.mark.parametrize("changes", [{"dscp_mark": 64}, {"limits": (BandwidthLimit("egress", 0),)}, {"mac": "x"}])
def test_a_port_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Unfit):
        port_rows(**changes)


# -- security groups


@pytest.mark.parametrize(
    ("rule", "match"),
    [
        (SecurityGroupRule("ingress", "IPv4"), "outport == @group_a_b && ip4"),
        (
            SecurityGroupRule("ingress", "IPv4", "tcp", 22, 22, remote_prefix="203.0.113.0/24"),
            "outport == @group_a_b && ip4 && ip4.src == 203.0.113.0/24 && tcp && tcp.dst == 22",
        ),
        (
            SecurityGroupRule("egress", "IPv6", "17", 1000, 2000, remote_group_id="c-d"),
            "inport == @group_a_b && ip6 && ip6.dst == $members_c_d_v6 && udp && udp.dst >= 1000 && udp.dst <= 2000",
        ),
        (
            SecurityGroupRule("ingress", "IPv6", "icmp", 128, 0),
            "outport == @group_a_b && ip6 && icmp6 && icmp6.type == 128 && icmp6.code == 0",
        ),
        (SecurityGroupRule("ingress", "IPv4", "icmp"), "outport == @group_a_b && ip4 && icmp4"),
        (SecurityGroupRule("egress", "IPv4", "gre"), "inport == @group_a_b && ip4 && ip.proto == 47"),
        (SecurityGroupRule("egress", "IPv4", remote_prefix="0.0.0.0/0"), "inport == @group_a_b && ip4"),
    ],
)
def test_a_rule_is_a_match(rule: SecurityGroupRule, match: str) -> None:
    direction = "to-lport" if rule.direction == "ingress" else "from-lport"
    assert matches(rule) == [(direction, match, "allow-related")]


def test_no_guest_answers_dhcp_from_whatever_port() -> None:
    sent = f"inport == @{groups.SECURED_NAME}"
    never = [row.columns["match"] for row in of("ACL", groups.secured_rows()) if row.columns["action"] == "drop"]
    assert {f"{sent} && ip4 && udp.dst == 68", f"{sent} && ip6 && udp.dst == 546"} < set(never)


def test_rules_without_state_are_for_each_packet() -> None:
    spec = SecurityGroupSpec("a", (SecurityGroupRule("ingress", "IPv4"),), stateful=False)
    assert the("ACL", groups.rows(spec, ()))["action"] == "allow-stateless"


@pytest.mark.parametrize(
    "rule",
    [
        SecurityGroupRule("ingress", "IPv4", remote_prefix="2001:db8::/32"),
        SecurityGroupRule("ingress", "IPv4", "no-such"),
        SecurityGroupRule("ingress", "IPv4", "dccp", 1, 2),
    ],
)
def test_a_rule_that_cannot_be_is_refused(rule: SecurityGroupRule) -> None:
    with pytest.raises(Unfit):
        matches(rule)


def test_members_are_sorted_by_their_version() -> None:
    found = of("Address_Set", groups.rows(SecurityGroupSpec("a-b"), ["10.7.0.9", "10.8.0.0/16", "2001:db8::9"]))
    assert [(row.columns["name"], row.columns["addresses"]) for row in found] == [
        ("members_a_b_v4", ("10.7.0.9", "10.8.0.0/16")),
        ("members_a_b_v6", ("2001:db8::9",)),
    ]


# -- routers


def test_a_leg_is_a_port_on_both_sides() -> None:
    rows = router_rows(gateway=None)
    leg, joined = the("Logical_Router_Port", rows), the("Logical_Switch_Port", rows)
    assert (leg["mac"], leg["networks"]) == ("fa:16:3e:00:00:01", ("10.7.0.1/24", "2001:db8::1/64"))
    assert leg["ipv6_ra_configs"] == {"address_mode": "dhcpv6_stateful", "send_periodic": "true", "mtu": "1442"}
    assert joined["options"] == {"router-port": leg["name"]}
    assert of("NAT", rows) == of("Gateway_Chassis", rows) == []


@pytest.mark.parametrize("told", [None, "slaac"])
def test_a_router_advertises_what_the_subnet_has_it_advertise(told: str | None) -> None:
    """Whatever guests do with it: their addresses may be managed elsewhere."""
    subnet = evolve(V6, ipv6_ra_mode=told, ipv6_address_mode=None if told else "slaac")
    rows = routers.rows(evolve(ROUTER, gateway=None), {"net": evolve(NETWORK, subnets=(subnet,))}, (), CONFIG)
    advertised = the("Logical_Router_Port", rows)["ipv6_ra_configs"]
    assert isinstance(advertised, dict)
    assert advertised.get("address_mode") == told


def test_a_gateway_is_on_the_chassis_in_their_order() -> None:
    rows = router_rows()
    chassis = [(row.columns["chassis_name"], row.columns["priority"]) for row in of("Gateway_Chassis", rows)]
    assert chassis == [("east", 2), ("west", 1)]
    default = the("Logical_Router_Static_Route", rows)
    assert (default["ip_prefix"], default["nexthop"]) == ("0.0.0.0/0", "203.0.113.1")


def test_addresses_are_translated_for_floating_ones_and_for_all() -> None:
    rows = router_rows(floating_ips=(FloatingIp("f", "203.0.113.5", "10.7.0.9"),))
    found = [tuple(row.columns[name] for name in ("type", "external_ip", "logical_ip")) for row in of("NAT", rows)]
    assert found == [("snat", "203.0.113.10", "10.7.0.0/24"), ("dnat_and_snat", "203.0.113.5", "10.7.0.9")]
    assert of("NAT", router_rows(enable_snat=False)) == []


def test_a_floating_address_is_served_where_its_port_is_if_that_is_wanted_and_it_is_somewhere() -> None:
    spec = evolve(ROUTER, floating_ips=(FloatingIp("f", "203.0.113.5", "10.7.0.9", port_id="port"),))
    networks_of = {"net": NETWORK, "public": PUBLIC}
    everywhere = evolve(CONFIG, distributed_floating_ips=True)

    def served(bound: tuple[str, ...], config: Config) -> tuple[Any, ...]:
        [row] = [row for row in of("NAT", routers.rows(spec, networks_of, bound, config)) if "floating" in row.ref.key]
        return row.columns["logical_port"], row.columns["external_mac"]

    assert served(("port",), everywhere) == (("port",), (networks.derived_mac("f"),))
    assert served((), everywhere) == ((), ())
    assert served(("port",), CONFIG) == ((), ())
    # Behind another router.
    spec = evolve(spec, floating_ips=(evolve(spec.floating_ips[0], fixed_address="10.8.0.9"),))
    assert served(("port",), everywhere) == ((), ())


def test_ports_of_floating_addresses_lead_to_those_inside() -> None:
    forwarded = (
        PortForwarding("1", "tcp", "203.0.113.6", 8080, "10.7.0.9", 80, count=2),
        PortForwarding("2", "udp", "203.0.113.6", 53, "10.7.0.9", 53),
    )
    tcp, udp = of("Load_Balancer", router_rows(port_forwardings=forwarded))
    assert tcp.columns["vips"] == {"203.0.113.6:8080": "10.7.0.9:80", "203.0.113.6:8081": "10.7.0.9:81"}
    assert (udp.columns["protocol"], udp.columns["vips"]) == (("udp",), {"203.0.113.6:53": "10.7.0.9:53"})
    assert udp.members_of == (Place(routers.router("router"), "load_balancer"),)


def test_a_route_waits_for_an_interface_that_leads_to_its_hop() -> None:
    routes = (Route("10.9.0.0/16", "10.7.0.7"), Route("10.10.0.0/16", "10.11.0.1"))
    found = of("Logical_Router_Static_Route", router_rows(gateway=None, routes=routes))
    assert [row.columns["ip_prefix"] for row in found] == ["10.9.0.0/16"]
