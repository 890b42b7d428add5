"""Security groups as rows: a port group with an ACL for each of our rules, and sets of its members' addresses."""

from __future__ import annotations

from collections.abc import Iterable

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns.checked import network, plain
from cloudctl.drivers.netns.filters import protocol
from cloudctl.drivers.ovn.rows import Place, Ref, Row, Value
from cloudctl.drivers.protocols import ICMP, ICMPV6, WITH_PORTS
from cloudctl.drivers.specs import SecurityGroupRule, SecurityGroupSpec

PORT_GROUP = "Port_Group"
ADDRESS_SET = "Address_Set"
VERSIONS = (4, 6)

# The port group of all ports with port security: what no rule allows is dropped.
SECURED = Ref(PORT_GROUP, "secured")
SECURED_NAME = "cloudctl_secured"
DROPPED, LET_THROUGH, NEVER = 1001, 1002, 1003  # priorities
FROM, TO = "from-lport", "to-lport"
PORTS = {6: "tcp", 17: "udp", 132: "sctp"}


def port_group(group_id: str) -> Ref:
    return Ref(PORT_GROUP, group_id)


def address_set(group_id: str, version: int) -> Ref:
    return Ref(ADDRESS_SET, f"{group_id} {version}")


def rows(spec: SecurityGroupSpec, members: Iterable[str]) -> tuple[Row, ...]:
    """`members`: addresses and CIDRs of the group's ports. Raises Unfit."""
    group, name = port_group(spec.id), _name(spec.id)
    found = [network(each) for each in members]
    made = [Row(group, {"name": name})]
    for version in VERSIONS:
        addresses = tuple(sorted({plain(each) for each in found if each.version == version}))
        made.append(Row(address_set(spec.id, version), {"name": _set_name(spec.id, version), "addresses": addresses}))
    action = "allow-related" if spec.stateful else "allow-stateless"
    for rule in dict.fromkeys(spec.rules):
        match = f"{_end(rule, name)} && {_matches(rule)}"
        direction = TO if rule.direction == "ingress" else FROM
        made.append(access(group, direction, LET_THROUGH, match, action))
    return tuple(made)


def secured_rows() -> tuple[Row, ...]:
    """The rules for every port with port security, whatever its groups say."""
    sent, come = f"inport == @{SECURED_NAME}", f"outport == @{SECURED_NAME}"
    return (
        Row(SECURED, {"name": SECURED_NAME}),
        access(SECURED, FROM, DROPPED, f"{sent} && ip", "drop"),
        access(SECURED, TO, DROPPED, f"{come} && ip", "drop"),
        # Guests may request their addresses, but must not serve DHCP to others. Many clients look at the port that an
        # answer goes to, and not at the one that it comes from.
        access(SECURED, FROM, LET_THROUGH, f"{sent} && ip4 && udp.src == 68 && udp.dst == 67", "allow"),
        access(SECURED, FROM, LET_THROUGH, f"{sent} && ip6 && udp.src == 546 && udp.dst == 547", "allow"),
        access(SECURED, FROM, NEVER, f"{sent} && ip4 && udp.dst == 68", "drop"),
        access(SECURED, FROM, NEVER, f"{sent} && ip6 && udp.dst == 546", "drop"),
    )


def access(group: Ref, direction: str, priority: int, match: str, action: str) -> Row:
    columns: dict[str, Value] = {"direction": direction, "priority": priority, "match": match, "action": action}
    return Row(Ref("ACL", f"{group.key} {direction} {match}"), columns, Place(group, "acls"))


def _name(group_id: str) -> str:
    """Expressions take letters, digits and underscores."""
    return f"group_{group_id.replace('-', '_')}"


def _set_name(group_id: str, version: int) -> str:
    # OVN itself makes sets NAME_ip4 and NAME_ip6 of every port group, but these lack what address pairs allow.
    return f"members_{group_id.replace('-', '_')}_v{version}"


def _end(rule: SecurityGroupRule, name: str) -> str:
    return f"{'outport' if rule.direction == 'ingress' else 'inport'} == @{name}"


def _matches(rule: SecurityGroupRule) -> str:
    version = 6 if rule.ethertype.lower() == "ipv6" else 4
    words, side = [f"ip{version}"], ("src" if rule.direction == "ingress" else "dst")
    if rule.remote_group_id is not None:
        words.append(f"ip{version}.{side} == ${_set_name(rule.remote_group_id, version)}")
    elif rule.remote_prefix is not None:
        prefix = network(rule.remote_prefix)
        if prefix.version != version:
            raise Unfit(f"{rule.remote_prefix} is not of {rule.ethertype}")
        if prefix.prefixlen:
            words.append(f"ip{version}.{side} == {prefix}")
    number = protocol(rule.protocol, version)
    if number is not None:
        words += _within(rule, number)
    return " && ".join(words)


def _within(rule: SecurityGroupRule, number: int) -> list[str]:
    """Matches ports, or, for ICMP, the type and code that take their places."""
    low, high = rule.port_range_min, rule.port_range_max
    if number in (ICMP, ICMPV6):
        name = "icmp4" if number == ICMP else "icmp6"
        words = [name] if low is None else [name, f"{name}.type == {low}"]
        return words if high is None or low is None else [*words, f"{name}.code == {high}"]
    if number not in PORTS:
        if number in WITH_PORTS and (low is not None or high is not None):
            raise Unfit(f"ports of protocol {number} cannot be told apart")
        return [f"ip.proto == {number}"]
    name = PORTS[number]
    if low is None and high is None:
        return [name]
    low = 0 if low is None else low
    high = low if high is None else high
    if low == high:
        return [name, f"{name}.dst == {low}"]
    return [name, f"{name}.dst >= {low}", f"{name}.dst <= {high}"]


def of_version(prefixes: Iterable[str], version: int) -> frozenset[str]:
    return frozenset(each for each in prefixes if network(each).version == version)
