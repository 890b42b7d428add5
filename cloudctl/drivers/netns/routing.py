"""A router's namespace: lines of `ip -batch -` for its interfaces, addresses and routes, and its nftables rules.

All functions are pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_interface
from typing import Any

from attrs import frozen

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns import bandwidth
from cloudctl.drivers.netns.checked import address, interface, mac, mtu, network, plain
from cloudctl.drivers.netns.links import Found, in_bridge
from cloudctl.drivers.netns.names import METADATA_ADDRESS, Names
from cloudctl.drivers.netns.rules import chain, replaced
from cloudctl.drivers.specs import (
    ConntrackHelper,
    FloatingIp,
    NetworkSpec,
    PortForwarding,
    RouterInterface,
    RouterSpec,
)

FORWARDED = ("tcp", "udp")
HELPER = re.compile(r"[A-Za-z0-9.-]{1,15}")  # NF_CT_HELPER_NAME_LEN
SYSCTLS = (
    "net.ipv4.ip_forward=1",
    "net.ipv6.conf.all.forwarding=1",
    "net.ipv6.conf.all.proxy_ndp=1",
    "net.ipv4.fib_multipath_hash_policy=1",  # of several ways out, each connection takes one
    "net.ipv4.conf.all.rp_filter=2",  # and answers may come in by any
)
METADATA_TABLE = 1000  # plus a network's index: the routing table for metadata requests from it
# For a router with several ways out: the routing tables of the ways, in order, and the ranks of the rules that lead
# there. First the inside, by the routes of the main table; then answers; then senders with an address outside.
WAY_TABLE = 900
INSIDE, ANSWERS, SENDERS = 1000, 1001, 1002
RANKS = (INSIDE, ANSWERS, SENDERS)

Rows = Iterable[Mapping[str, Any]]


@frozen
class Leg:
    """A router's interface, with what is needed of its network."""

    spec: RouterInterface
    network: NetworkSpec
    bridge: str
    index: int  # of the network
    gateway: bool = False


def inner_links(names: Names, legs: Iterable[Leg]) -> dict[str, Leg]:
    return {names.router_inner(leg.spec.port_id): leg for leg in legs}


def outer_lines(names: Names, found: Found, namespace: str, legs: Iterable[Leg]) -> list[str]:
    """On the host: a veth pair for each interface, one end in the network's bridge, one in the router's namespace."""
    lines = []
    for leg in legs:
        port_id = leg.spec.port_id
        outer, inner = names.router_outer(port_id), names.router_inner(port_id)
        if outer not in found:
            peer = f"name {inner} address {mac(leg.spec.mac)} netns {namespace}"
            lines.append(f"link add name {outer} type veth peer {peer}")
        lines += in_bridge(found, outer, leg.bridge, mtu(leg.network.mtu), port_id)
    return lines


def inner_lines(names: Names, router: RouterSpec, legs: Iterable[Leg], found: Rows) -> list[str]:
    """In the namespace: interfaces with their addresses, floating ones too. `found` is from `ip -j address show`.

    Interfaces that are no longer wanted are removed.
    """
    legs = list(legs)
    wanted = inner_links(names, legs)
    present = _addresses(found)
    lines = ["link set dev lo up"]
    lines += [f"link del dev {name}" for name in sorted(present) if names.is_inner(name) and name not in wanted]
    state = "up" if router.admin_state_up else "down"
    for name, leg in wanted.items():
        lines.append(f"link set dev {name} address {mac(leg.spec.mac)} mtu {mtu(leg.network.mtu)} {state}")
        own, there = _of_leg(router, legs, leg), present.get(name, set())
        lines += [f"address del {each} dev {name}" for each in sorted(there - set(own))]
        lines += [f"address add {each} dev {name}{_no_waiting(each)}" for each in own if each not in there]
    return lines


def route_lines(names: Names, router: RouterSpec, legs: Iterable[Leg], routes: Rows, rules: Rows) -> list[str]:
    """The default routes through the gateway, the router's own routes, and metadata for guests that request it here.

    `routes` is from `ip -j route show table all proto static`, `rules` from `ip -j rule show`. What is ours and no
    longer wanted is removed. Nothing for a router that is down.
    """
    if not router.admin_state_up:
        return []
    wanted_routes, wanted_rules = _wanted_routes(names, router, list(legs))
    present = {_route(row) for row in routes}
    lines = [f"route del {_static(each)}" for each in sorted(present - wanted_routes)]
    lines += [f"route replace {_static(each)}" for each in sorted(wanted_routes)]
    ours = {_rule(row) for row in rules if ("iif" in row and "dst" in row) or row.get("priority") in RANKS}
    lines += [f"rule del {each}" for each in sorted(ours - wanted_rules)]
    return lines + [f"rule add {each}" for each in sorted(wanted_rules - ours)]


def proxy_lines(names: Names, router: RouterSpec, found: Rows) -> list[str]:
    """Inside addresses that the router answers for at its gateway. `found` is from `ip -j neigh show proxy`."""
    wanted = set()
    if router.gateway is not None:
        outside = names.router_inner(router.gateway.port_id)
        wanted = {f"{address(each)} dev {outside}" for each in router.ndp_proxies}
    present = {f"{row['dst']} dev {row['dev']}" for row in found if "dst" in row and "dev" in row}
    lines = [f"neigh del proxy {each}" for each in sorted(present - wanted)]
    return lines + [f"neigh add proxy {each}" for each in sorted(wanted - present)]


def ruleset(name: str, names: Names, router: RouterSpec, legs: Iterable[Leg]) -> str:
    """The router's NAT and limits, replacing the previous ones. Floating addresses win over the gateway's own."""
    legs = list(legs)
    ways = {names.router_inner(leg.spec.port_id): leg for leg in legs if leg.gateway}
    arriving: list[str] = []
    leaving: list[str] = []
    if ways:
        arriving += _forwardings(router.port_forwardings)
        pairs = _pairs(router.floating_ips)
        if pairs:
            arriving.append(
                f"dnat to ip daddr map {{ {', '.join(f'{public} : {private}' for public, private in pairs)} }}"
            )
        for outside, leg in ways.items():
            leaving += _translated(outside, [each for each in router.floating_ips if _way(legs, each) is leg])
        own = {outside: found for outside, leg in ways.items() if (found := _first_ipv4(leg.spec)) is not None}
        if router.enable_snat:
            leaving += [f'oifname "{outside}" snat to {found}' for outside, found in own.items()]
        if own:
            beside = f"iifname != {one_of(ways)} oifname != {one_of(ways)}"
            leaving.append(f"{beside} ct status dnat snat to {next(iter(own.values()))}")
    objects, followed = _followed(router.conntrack_helpers)
    lines = objects + chain("followed", [*_marked(ways), *followed], "type filter hook prerouting priority -150")
    lines += chain("arriving", arriving, "type nat hook prerouting priority -100")
    lines += chain("leaving", leaving, "type nat hook postrouting priority 100")
    held = [line for outside, leg in ways.items() for line in _held(router, legs, leg, outside)]
    if ways:
        lines += chain("held", held, "type filter hook forward priority 0")
    return "\n".join(replaced("ip", name, lines)) + "\n"


def one_of(interfaces: Iterable[str]) -> str:
    """In nftables' notation."""
    found = [f'"{each}"' for each in interfaces]
    return found[0] if len(found) == 1 else f"{{ {', '.join(found)} }}"


def _pairs(floating: Iterable[FloatingIp]) -> list[tuple[str, str]]:
    return sorted((address(each.floating_address), address(each.fixed_address)) for each in floating)


def _translated(outside: str, floating: Iterable[FloatingIp]) -> list[str]:
    """Traffic that guests with floating addresses send out through the interface that has these."""
    pairs = _pairs(floating)
    if not pairs:
        return []
    back = f"snat to ip saddr map {{ {', '.join(f'{private} : {public}' for public, private in pairs)} }}"
    # The second rule: to a floating address whose server is inside, too. Its answer must also come through here.
    return [f'oifname "{outside}" {back}', f"ct status dnat {back}"]


def _marked(ways: Iterable[str]) -> list[str]:
    """With several ways out: mark connections with the way by which they came in, and their answers with the same."""
    names = list(ways)
    if len(names) < 2:
        return []
    lines = [f'iifname "{name}" ct state new ct mark set {number}' for number, name in enumerate(names, 1)]
    return [*lines, f"iifname != {one_of(names)} ct mark != 0 meta mark set ct mark"]


def _followed(wanted: Iterable[ConntrackHelper]) -> tuple[list[str], list[str]]:
    """Helpers, and rules that assign connections to them. Raises Unfit."""
    objects, rules = [], []
    for number, each in enumerate(sorted(wanted, key=lambda one: (one.protocol, one.port, one.helper))):
        if each.protocol not in FORWARDED or not HELPER.fullmatch(each.helper):
            raise Unfit(f"{each.helper!r} does not follow {each.protocol!r}")
        objects.append(f'ct helper helper{number} {{ type "{each.helper}" protocol {each.protocol}; l3proto ip; }}')
        rules.append(f'{each.protocol} dport {int(each.port)} ct helper set "helper{number}"')
    return objects, rules


def _forwardings(wanted: Iterable[PortForwarding]) -> list[str]:
    """Rules for traffic to a forwarded port. Raises Unfit."""
    lines = []
    for each in sorted(wanted, key=lambda one: (one.floating_address, one.protocol, one.external)):
        if each.protocol not in FORWARDED:
            raise Unfit(f"ports of {each.protocol!r} are not forwarded")
        inside, last = address(each.fixed_address), each.external + each.count - 1
        ports = f"{each.external}-{last}" if each.count > 1 else f"{each.external}"
        what = f"ip daddr {address(each.floating_address)} {each.protocol} dport {ports}"
        if each.external == each.internal:
            lines.append(f"{what} dnat to {inside}")
        else:
            # Port by port: the kernel spreads connections over a range and does not keep the order.
            pairs = (f"{each.external + n} : {inside} . {each.internal + n}" for n in range(each.count))
            lines.append(f"{what} dnat ip to {each.protocol} dport map {{ {', '.join(pairs)} }}")
    return lines


def _held(router: RouterSpec, legs: Sequence[Leg], gateway: Leg, outside: str) -> list[str]:
    """Traffic of a floating address, or of the gateway's own, that exceeds its limit is dropped.

    Packets have inside addresses here: they are not translated yet, or already translated back.
    """
    lines = []
    for each in router.floating_ips:
        if _way(legs, each) is not gateway:
            continue
        private, limits = address(each.fixed_address), bandwidth.rules(each.limits)
        lines += [f'oifname "{outside}" ip saddr {private} {limit}' for limit in limits["egress"]]
        lines += [f'iifname "{outside}" ip daddr {private} {limit}' for limit in limits["ingress"]]
    limits = bandwidth.rules(gateway.spec.limits)
    of_others = sorted({address(each.fixed_address) for each in router.floating_ips})
    but = f"!= {{ {', '.join(of_others)} }} " if of_others else ""
    lines += [f'oifname "{outside}" {f"ip saddr {but}" if but else ""}{limit}' for limit in limits["egress"]]
    lines += [f'iifname "{outside}" {f"ip daddr {but}" if but else ""}{limit}' for limit in limits["ingress"]]
    return lines


def announced(router: RouterSpec, legs: Iterable[Leg], names: Names) -> list[tuple[str, str, str]]:
    """Interface, MAC and IPv4 address of everything that the router answers for."""
    legs = list(legs)
    return [
        (name, mac(leg.spec.mac), str(ip_interface(each).ip))
        for name, leg in inner_links(names, legs).items()
        for each in _of_leg(router, legs, leg)
        if ip_interface(each).version == 4
    ]


def _of_leg(router: RouterSpec, legs: Sequence[Leg], leg: Leg) -> list[str]:
    own = [interface(each) for each in leg.spec.addresses]
    if leg.gateway:
        public: list[FloatingIp | PortForwarding] = [*router.floating_ips, *router.port_forwardings]
        floating = [each.floating_address for each in public if _way(legs, each) is leg]
        own += [f"{address(each)}/32" for each in dict.fromkeys(floating)]
    return own


def _way(legs: Iterable[Leg], public: FloatingIp | PortForwarding) -> Leg | None:
    """The way out that has a floating address: the first one whose network contains it."""
    ways = [leg for leg in legs if leg.gateway]
    if len(ways) < 2:
        return ways[0] if ways else None
    wanted = ip_address(address(public.floating_address))
    there = (leg for leg in ways if any(wanted in network(each.cidr) for each in leg.network.subnets))
    return next(there, ways[0])


def _addresses(rows: Rows) -> dict[str, set[str]]:
    """Addresses by interface, without link-local ones, which are the kernel's."""
    return {
        row["ifname"]: {
            f"{each['local']}/{each['prefixlen']}" for each in row.get("addr_info", ()) if each.get("scope") != "link"
        }
        for row in rows
        if "ifname" in row
    }


def _first_ipv4(leg: RouterInterface) -> str | None:
    return next((str(own.ip) for own in map(ip_interface, leg.addresses) if own.version == 4), None)


def _no_waiting(own: str) -> str:
    """IPv6 addresses are used at once: the cloud makes sure that nobody else has them."""
    return " nodad" if ip_interface(own).version == 6 else ""


def _wanted_routes(names: Names, router: RouterSpec, legs: Sequence[Leg]) -> tuple[set[str], set[str]]:
    wanted = inner_links(names, legs)
    routes, rules = _ways_out(names, router, legs)
    seen = set()
    for name, leg in wanted.items():
        if leg.gateway:
            continue
        table = METADATA_TABLE + leg.index
        rules.add(f"iif {name} to {METADATA_ADDRESS} lookup {table}")
        if leg.index not in seen:
            # With two interfaces in one network either will do, but the table has one route.
            routes.add(f"{METADATA_ADDRESS} dev {name} table {table}")
        seen.add(leg.index)
    for each in router.routes:
        link = _towards(wanted, each.nexthop)
        # A next hop may be out of reach until an interface is added.
        if link is not None:
            routes.add(f"{_written(each.destination)} via {address(each.nexthop)} dev {link}")
    return routes, rules


def _ways_out(names: Names, router: RouterSpec, legs: Sequence[Leg]) -> tuple[set[str], set[str]]:
    """The default routes, by the first way out or spread over all; and rules for what must use one of them.

    IPv6 uses the first one.
    """
    ways = {name: leg for name, leg in inner_links(names, legs).items() if leg.gateway}
    if len(ways) < 2:
        return {f"default {_hop(via, name, leg)}" for name, leg in ways.items() for via in _gateways(leg)}, set()
    hops = [(via, name, leg) for name, leg in ways.items() for via in _gateways(leg)]
    old, new = ([hop for hop in hops if ip_address(hop[0]).version == version] for version in (4, 6))
    routes = {f"default {_hop(*hop)}" for hop in new[:1]}
    if router.default_route_ecmp and len(old) > 1:
        routes.add(" ".join(["default", *(f"nexthop {_hop(*hop)}" for hop in old)]))
    else:
        routes |= {f"default {_hop(*hop)}" for hop in old[:1]}
    rules = {f"pref {INSIDE} lookup main suppress_prefixlength 0"}
    for number, (name, leg) in enumerate(ways.items(), 1):
        table = WAY_TABLE + number
        routes |= {f"default {_hop(*hop)} table {table}" for hop in old if hop[1] == name}
        rules.add(f"pref {ANSWERS} fwmark {number} lookup {table}")
        inside = [address(each.fixed_address) for each in router.floating_ips if _way(legs, each) is leg]
        own = [str(ip_interface(each).ip) for each in leg.spec.addresses if ip_interface(each).version == 4]
        rules |= {f"pref {SENDERS} from {each} lookup {table}" for each in (*inside, *own)}
    return routes, rules


def _rule(row: Mapping[str, Any]) -> str:
    """A rule as this module writes it."""
    if "iif" in row:
        return f"iif {row['iif']} to {row['dst']} lookup {row['table']}"
    words = [f"pref {row['priority']}"]
    words += [f"from {row['src']}"] if row.get("src", "all") != "all" else []
    words += [f"fwmark {int(row['fwmark'], 16)}"] if "fwmark" in row else []
    words += [f"lookup {row['table']}"]
    words += [f"suppress_prefixlength {row['suppress_prefixlen']}"] if "suppress_prefixlen" in row else []
    return " ".join(words)


def _static(route: str) -> str:
    """The route with its `proto`, which `ip` wants before the next hops of a multipath route."""
    head, hop, ways = route.partition(" nexthop ")
    return f"{head} proto static{hop}{ways}"


def _gateways(leg: Leg) -> list[str]:
    """Gateways of the subnets in which the leg has an address."""
    own = [ip_interface(each).ip for each in leg.spec.addresses]
    subnets = [each for each in leg.network.subnets if any(ip in network(each.cidr) for ip in own)]
    return [address(each.gateway_ip) for each in subnets if each.gateway_ip is not None]


def _hop(via: str, name: str, leg: Leg) -> str:
    """A gateway may have an address of another prefix than the leg: then it is on the link all the same."""
    hop = ip_address(via)
    near = hop.is_link_local or any(hop in ip_interface(own).network for own in leg.spec.addresses)
    return f"via {via} dev {name}{'' if near else ' onlink'}"


def _towards(wanted: Mapping[str, Leg], nexthop: str) -> str | None:
    hop = ip_address(address(nexthop))
    return next(
        (name for name, leg in wanted.items() if any(hop in ip_interface(own).network for own in leg.spec.addresses)),
        None,
    )


def _route(row: Mapping[str, Any]) -> str:
    words = [row["dst"], *(f"nexthop {_shown_hop(hop)}" for hop in row.get("nexthops", ()))]
    words += [shown] if (shown := _shown_hop(row)) else []
    words += [f"table {row['table']}"] if "table" in row and row["table"] != "main" else []
    return " ".join(words)


def _shown_hop(row: Mapping[str, Any]) -> str:
    words = [f"via {row['gateway']}"] if "gateway" in row else []
    words += [f"dev {row['dev']}"] if "dev" in row else []
    words += ["onlink"] if "onlink" in row.get("flags", ()) else []
    return " ".join(words)


def _written(destination: str) -> str:
    """As `ip` shows it: the default route and single addresses have no prefix length."""
    found = network(destination)
    return plain(found) if found.prefixlen else "default"
