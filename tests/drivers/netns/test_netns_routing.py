"""From what a router's namespace has to the lines that bring it to its specification."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns import routing
from cloudctl.drivers.netns.names import Names
from cloudctl.drivers.netns.routing import Leg
from cloudctl.drivers.specs import (
    BandwidthLimit,
    FloatingIp,
    NetworkSpec,
    PortForwarding,
    Route,
    RouterInterface,
    RouterSpec,
    SubnetSpec,
)

NAMES = Names("cc")
PUBLIC = NetworkSpec("pub", subnets=(SubnetSpec("s0", "203.0.113.0/24", "203.0.113.1"),))
INSIDE = NetworkSpec("n1", mtu=1450, subnets=(SubnetSpec("s1", "10.0.0.0/24", "10.0.0.1"),))
GATEWAY = RouterInterface("gw", "pub", "fa:16:3e:00:00:01", ("203.0.113.10/24",))
INNER = RouterInterface("in", "n1", "fa:16:3e:00:00:02", ("10.0.0.1/24",))
ROUTER = RouterSpec(
    "r1", gateway=GATEWAY, interfaces=(INNER,), floating_ips=(FloatingIp("f1", "203.0.113.50", "10.0.0.9"),)
)
GW, IN = NAMES.router_inner("gw"), NAMES.router_inner("in")
LEGS = [Leg(INNER, INSIDE, "ccb1", 5), Leg(GATEWAY, PUBLIC, "br-ex", 6, gateway=True)]


def has(name: str, *addresses: str) -> dict[str, Any]:
    info = [
        {"local": each.split("/")[0], "prefixlen": int(each.split("/")[1]), "scope": "global"} for each in addresses
    ]
    return {"ifname": name, "addr_info": [*info, {"local": "fe80::1", "prefixlen": 64, "scope": "link"}]}


def test_each_interface_is_a_pair_between_bridge_and_namespace() -> None:
    outer = NAMES.router_outer("in")
    assert routing.outer_lines(NAMES, {}, "ccr-r1", LEGS[:1]) == [
        f"link add name {outer} type veth peer name {IN} address fa:16:3e:00:00:02 netns ccr-r1",
        f"link set dev {outer} addrgenmode none mtu 1450 master ccb1 up alias in",
    ]


def test_a_new_router_gets_all_its_addresses_floating_ones_too() -> None:
    lines = routing.inner_lines(NAMES, ROUTER, LEGS, [])
    assert f"address add 10.0.0.1/24 dev {IN}" in lines
    assert f"address add 203.0.113.10/24 dev {GW}" in lines
    assert f"address add 203.0.113.50/32 dev {GW}" in lines


def test_only_what_has_changed_is_touched() -> None:
    found = [has("lo"), has(IN, "10.0.0.1/24"), has(GW, "203.0.113.10/24", "203.0.113.49/32"), has("cciold12345678")]
    lines = routing.inner_lines(NAMES, ROUTER, LEGS, found)
    assert [line for line in lines if "link set" not in line] == [
        "link del dev cciold12345678",
        f"address del 203.0.113.49/32 dev {GW}",
        f"address add 203.0.113.50/32 dev {GW}",
    ]


def test_a_router_that_is_down_has_its_interfaces_down_and_no_routes() -> None:
    down = evolve(ROUTER, admin_state_up=False)
    assert all(
        line.endswith("down") for line in routing.inner_lines(NAMES, down, LEGS, []) if "cci" in line and "link" in line
    )
    assert routing.route_lines(NAMES, down, LEGS, [], []) == []


def test_the_way_out_is_the_gateway_of_the_subnet_that_the_router_is_in() -> None:
    lines = routing.route_lines(NAMES, ROUTER, LEGS, [], [])
    assert lines == [
        f"route replace 169.254.169.254 dev {IN} table 1005 proto static",
        f"route replace default via 203.0.113.1 dev {GW} proto static",
        f"rule add iif {IN} to 169.254.169.254 lookup 1005",
    ]


def test_routes_that_are_not_wanted_any_more_go_and_rules_too() -> None:
    routes = [
        {"dst": "default", "gateway": "203.0.113.1", "dev": GW},
        {"dst": "10.5.0.0/16", "gateway": "10.0.0.5", "dev": IN},
    ]
    rules = [
        {"iif": IN, "dst": "169.254.169.254", "table": "1005"},
        {"iif": "x", "dst": "169.254.169.254", "table": "1"},
    ]
    lines = routing.route_lines(NAMES, ROUTER, LEGS, routes, rules)
    assert [line for line in lines if " del " in line] == [
        f"route del 10.5.0.0/16 via 10.0.0.5 dev {IN} proto static",
        "rule del iif x to 169.254.169.254 lookup 1",
    ]
    assert not any("rule add" in line for line in lines)


def test_a_route_whose_next_hop_is_out_of_reach_waits() -> None:
    router = evolve(ROUTER, routes=(Route("10.5.0.9/32", "10.0.0.5"), Route("10.6.0.0/16", "10.99.0.5")))
    lines = " ".join(routing.route_lines(NAMES, router, LEGS, [], []))
    assert f"10.5.0.9 via 10.0.0.5 dev {IN}" in lines
    assert "10.6.0.0" not in lines


def test_of_two_interfaces_in_one_network_one_leads_to_metadata() -> None:
    second = Leg(evolve(INNER, port_id="in2", addresses=("10.0.1.1/24",)), INSIDE, "ccb1", 5)
    lines = routing.route_lines(NAMES, ROUTER, [*LEGS, second], [], [])
    assert len([line for line in lines if "169.254.169.254 dev" in line]) == 1
    assert len([line for line in lines if line.startswith("rule add")]) == 2


def nat(router: RouterSpec = ROUTER, legs: Any = None) -> str:
    return routing.ruleset("cc", NAMES, router, LEGS if legs is None else legs)


def test_floating_addresses_are_translated_both_ways() -> None:
    assert "dnat to ip daddr map { 203.0.113.50 : 10.0.0.9 }" in nat()
    assert f'oifname "{GW}" snat to ip saddr map {{ 10.0.0.9 : 203.0.113.50 }}' in nat()


def test_all_others_leave_with_the_routers_address_if_they_may() -> None:
    line = f'    oifname "{GW}" snat to 203.0.113.10\n'
    assert line in nat()
    assert line not in nat(evolve(ROUTER, enable_snat=False))


def test_a_router_without_gateway_translates_nothing() -> None:
    assert " to " not in nat(evolve(ROUTER, gateway=None), LEGS[:1])


@pytest.mark.parametrize(
    "router",
    [
        evolve(ROUTER, floating_ips=(FloatingIp("f", "x", "10.0.0.9"),)),
        evolve(ROUTER, routes=(Route("x", "10.0.0.5"),)),
    ],
    ids=["floating address", "route"],
)
def test_what_is_no_address_is_refused(router: Any) -> None:
    with pytest.raises(Unfit):
        nat(router)
        routing.route_lines(NAMES, router, LEGS, [], [])


def test_ports_of_a_floating_address_lead_on() -> None:
    one = PortForwarding("a", "tcp", "203.0.113.60", 2222, "10.0.0.9", 22)
    several = PortForwarding("b", "udp", "203.0.113.60", 80, "10.0.0.8", 80, 3)
    shifted = PortForwarding("c", "tcp", "203.0.113.60", 90, "10.0.0.8", 80, 2)
    router = evolve(ROUTER, floating_ips=(), port_forwardings=(one, several, shifted))
    lines = nat(router).splitlines()
    assert [line.strip() for line in lines if "dport" in line] == [
        "ip daddr 203.0.113.60 tcp dport 90-91 dnat ip to tcp dport map { 90 : 10.0.0.8 . 80, 91 : 10.0.0.8 . 81 }",
        "ip daddr 203.0.113.60 tcp dport 2222 dnat ip to tcp dport map { 2222 : 10.0.0.9 . 22 }",
        "ip daddr 203.0.113.60 udp dport 80-82 dnat to 10.0.0.8",
    ]
    assert routing.inner_lines(NAMES, router, LEGS, []).count(f"address add 203.0.113.60/32 dev {GW}") == 1
    with pytest.raises(Unfit):
        nat(evolve(router, port_forwardings=(evolve(one, protocol="sctp"),)))


def test_floating_addresses_and_the_gateway_are_held_to_their_limits() -> None:
    floating = FloatingIp("f1", "203.0.113.50", "10.0.0.9", (BandwidthLimit("ingress", 80),))
    gateway = evolve(GATEWAY, limits=(BandwidthLimit("egress", 8),))
    router = evolve(ROUTER, gateway=gateway, floating_ips=(floating,))
    legs = [LEGS[0], evolve(LEGS[1], spec=gateway)]
    assert [line.strip() for line in nat(router, legs).splitlines() if "limit" in line] == [
        f'iifname "{GW}" ip daddr 10.0.0.9 limit rate over 10000 bytes/second drop',
        f'oifname "{GW}" ip saddr != {{ 10.0.0.9 }} limit rate over 1000 bytes/second drop',
    ]


SECOND = NetworkSpec("pub2", subnets=(SubnetSpec("s2", "198.51.100.0/24", "198.51.100.1"),))
WAY = RouterInterface("gw2", "pub2", "fa:16:3e:00:00:03", ("198.51.100.10/24",))
BY_SECOND = FloatingIp("f2", "198.51.100.50", "10.0.0.10")
SEVERAL = evolve(ROUTER, more_gateways=(WAY,), floating_ips=(*ROUTER.floating_ips, BY_SECOND))
GW2 = NAMES.router_inner("gw2")
WAYS = [*LEGS, Leg(WAY, SECOND, "br2", 7, gateway=True)]


def added(router: RouterSpec, routes: Any = (), rules: Any = ()) -> list[str]:
    lines = routing.route_lines(NAMES, router, WAYS, routes, rules)
    return [line for line in lines if "169.254" not in line]


def test_of_several_ways_out_the_first_is_taken_but_for_answers_and_who_has_an_address_on_another() -> None:
    assert added(SEVERAL) == [
        f"route replace default via 198.51.100.1 dev {GW2} table 902 proto static",
        f"route replace default via 203.0.113.1 dev {GW} proto static",
        f"route replace default via 203.0.113.1 dev {GW} table 901 proto static",
        "rule add pref 1000 lookup main suppress_prefixlength 0",
        "rule add pref 1001 fwmark 1 lookup 901",
        "rule add pref 1001 fwmark 2 lookup 902",
        "rule add pref 1002 from 10.0.0.10 lookup 902",
        "rule add pref 1002 from 10.0.0.9 lookup 901",
        "rule add pref 1002 from 198.51.100.10 lookup 902",
        "rule add pref 1002 from 203.0.113.10 lookup 901",
    ]


def test_in_turns_all_ways_out_are_one_route() -> None:
    """As `ip` takes it, and as it shows it: then nothing is changed."""
    hops = f"nexthop via 203.0.113.1 dev {GW} nexthop via 198.51.100.1 dev {GW2}"
    turns = evolve(SEVERAL, default_route_ecmp=True)
    assert f"route replace default proto static {hops}" in added(turns)
    shown = {
        "dst": "default",
        "nexthops": [{"gateway": "203.0.113.1", "dev": GW}, {"gateway": "198.51.100.1", "dev": GW2}],
    }
    rules = [
        {"priority": 1000, "src": "all", "table": "main", "suppress_prefixlen": 0},
        {"priority": 1001, "src": "all", "fwmark": "0x2", "table": "902"},
        {"priority": 1002, "src": "10.0.0.10", "table": "902"},
        {"priority": 1002, "src": "10.0.0.77", "table": "902"},
    ]
    lines = added(turns, [shown], rules)
    assert [line for line in lines if " del " in line] == ["rule del pref 1002 from 10.0.0.77 lookup 902"]
    assert not {"rule add pref 1001 fwmark 2 lookup 902", "rule add pref 1002 from 10.0.0.10 lookup 902"} & set(lines)
    # Back to the first: what was in turns is taken away.
    assert f"route del default proto static {hops}" in added(SEVERAL, [shown])


def test_a_gateway_of_another_prefix_is_on_the_link_all_the_same() -> None:
    """As `ip` takes it, and as it shows it: then nothing is changed."""
    away = evolve(SECOND, subnets=(evolve(SECOND.subnets[0], gateway_ip="192.0.2.1"),))
    router = evolve(ROUTER, gateway=WAY)
    legs = [Leg(WAY, away, "br2", 7, gateway=True)]
    shown = {"dst": "default", "gateway": "192.0.2.1", "dev": GW2, "flags": ["onlink"]}
    assert routing.route_lines(NAMES, router, legs, [shown], []) == [
        f"route replace default via 192.0.2.1 dev {GW2} onlink proto static"
    ]


def test_with_several_ways_out_each_has_its_addresses_and_its_translations() -> None:
    lines = routing.inner_lines(NAMES, SEVERAL, WAYS, [])
    assert f"address add 203.0.113.50/32 dev {GW}" in lines and f"address add 198.51.100.50/32 dev {GW2}" in lines
    text = nat(SEVERAL, WAYS)
    assert f'oifname "{GW2}" snat to ip saddr map {{ 10.0.0.10 : 198.51.100.50 }}' in text
    assert f'oifname "{GW2}" snat to 198.51.100.10' in text and f'oifname "{GW}" snat to 203.0.113.10' in text
    assert f'iifname "{GW2}" ct state new ct mark set 2' in text
    assert f'iifname != {{ "{GW}", "{GW2}" }} ct mark != 0 meta mark set ct mark' in text
    # One way out needs no marks.
    assert "mark" not in nat()
