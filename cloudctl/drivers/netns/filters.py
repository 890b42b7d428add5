"""Security groups as rules of `table inet`: a chain for each group and direction, and one for each port that uses them.

A chain decides on its own: `accept` ends its direction, and what no group accepts is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns.checked import network
from cloudctl.drivers.netns.names import METADATA_ADDRESS, written
from cloudctl.drivers.protocols import ICMP, ICMPV6, PROTOCOLS, WITH_PORTS
from cloudctl.drivers.specs import PortSpec, SecurityGroupRule, SecurityGroupSpec

ANY = (None, "", "any", "ip", "hopopt", "0")

# What every port may do whatever its groups say: request its address, and find its neighbours.
ALWAYS = {
    "egress": [
        "udp sport 68 udp dport 67 accept",
        "udp sport 546 udp dport 547 accept",
        "icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert, 143 } accept",
    ],
    "ingress": [
        f"ip saddr {METADATA_ADDRESS} udp sport 67 udp dport 68 accept",
        "udp sport 547 udp dport 546 accept",
        "icmpv6 type { mld-listener-query, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } accept",
    ],
}
PREFIX = 100  # characters of an id that fit into the kernel's log prefix
# Answers to accepted traffic. Packets that conntrack calls invalid belong to no connection.
STATEFUL = ["ct state established,related accept", "ct state invalid drop"]


def port_rules(direction: str, jumps: Iterable[str], stateful: bool, dropped: Iterable[str] = ()) -> list[str]:
    """The rules of one port; `jumps` lead to the chains of its groups, or are their rules. `dropped`: see `logged`."""
    return [*ALWAYS[direction], *(STATEFUL if stateful else ()), *jumps, *dropped, "drop"]


def group_rules(
    group: SecurityGroupSpec, direction: str, members: Callable[[str], str], verdict: str = "accept"
) -> list[str]:
    """The rules of one group; `members` names a remote group's set, without «_v4» or «_v6». Raises Unfit."""
    return [f"{_matches(rule, members)} {verdict}" for rule in group.rules if rule.direction == direction]


def logged(event: str, port: PortSpec, group: int) -> list[str]:
    """Log the first bytes of packets to an nflog group, for whoever listens there; a hundred packets a second.

    Answers to accepted traffic are not logged.
    """
    if event not in port.logged:
        return []
    prefix = f"{event} {written(port.id)[:PREFIX]} "
    return [f'limit rate 100/second burst 25 packets log prefix "{prefix}" group {group} snaplen 128']


def _matches(rule: SecurityGroupRule, members: Callable[[str], str]) -> str:
    version = 6 if rule.ethertype.lower() == "ipv6" else 4
    words = [f"meta nfproto ipv{version}"]
    family, side = ("ip6" if version == 6 else "ip"), ("saddr" if rule.direction == "ingress" else "daddr")
    if rule.remote_group_id is not None:
        words.append(f"{family} {side} @{members(rule.remote_group_id)}_v{version}")
    elif rule.remote_prefix is not None:
        prefix = network(rule.remote_prefix)
        if prefix.version != version:
            raise Unfit(f"{rule.remote_prefix} is not of {rule.ethertype}")
        if prefix.prefixlen:
            words.append(f"{family} {side} {prefix}")
    number = protocol(rule.protocol, version)
    if number is not None:
        words += [f"meta l4proto {number}", *_within(rule, number)]
    return " ".join(words)


def protocol(name: str | None, version: int) -> int | None:
    """The protocol's number; None for any. `icmp` is the one of the IP version. Raises Unfit."""
    if name in ANY:
        return None
    assert name is not None, "None is any"
    number = int(name) if name.isdecimal() else PROTOCOLS.get(name.lower())
    if number is None or number > 255:
        raise Unfit(f"{name!r} is not a known protocol")
    return ICMPV6 if number == ICMP and version == 6 else number


def _within(rule: SecurityGroupRule, number: int) -> list[str]:
    """Matches ports, or, for ICMP, the type and code that take their places."""
    low, high = rule.port_range_min, rule.port_range_max
    if number in (ICMP, ICMPV6):
        name = "icmp" if number == ICMP else "icmpv6"
        words = [] if low is None else [f"{name} type {low}"]
        return words if high is None or low is None else [*words, f"{name} code {high}"]
    if number not in WITH_PORTS or (low is None and high is None):
        return []
    low = 0 if low is None else low
    high = low if high is None else high
    return [f"th dport {low}" if low == high else f"th dport {low}-{high}"]
