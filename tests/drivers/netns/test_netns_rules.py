"""What the rules of a host say."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns import bandwidth, filters, flows, rules, spoofing
from cloudctl.drivers.netns.records import Network, Port, records
from cloudctl.drivers.netns.rules import FilteredPort, HostRules
from cloudctl.drivers.specs import (
    BandwidthLimit,
    FixedIp,
    NetworkSpec,
    PacketLimit,
    PortSpec,
    SecurityGroupRule,
    SecurityGroupSpec,
)

MAC = "fa:16:3e:00:00:01"
PORT = PortSpec("p1", "n1", MAC, (FixedIp("s1", "10.0.0.5"),), security_groups=("g1",))


def matches(*rule: Any, **changes: Any) -> str:
    group = SecurityGroupSpec("g", (SecurityGroupRule(*rule, **changes),))
    (line,) = filters.group_rules(group, rule[0], lambda remote: f"of_{remote}")
    return line


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (("ingress", "IPv4"), "meta nfproto ipv4 accept"),
        (("egress", "IPv6", "any"), "meta nfproto ipv6 accept"),
        (("ingress", "IPv4", "tcp", 22, 22), "meta nfproto ipv4 meta l4proto 6 th dport 22 accept"),
        (("ingress", "IPv4", "17", 1000, 2000), "meta nfproto ipv4 meta l4proto 17 th dport 1000-2000 accept"),
        (("ingress", "IPv4", "icmp", 8, 0), "meta nfproto ipv4 meta l4proto 1 icmp type 8 icmp code 0 accept"),
        (("ingress", "IPv4", "icmp", 8), "meta nfproto ipv4 meta l4proto 1 icmp type 8 accept"),
        (("ingress", "IPv6", "icmp"), "meta nfproto ipv6 meta l4proto 58 accept"),
        (("ingress", "IPv4", "vrrp"), "meta nfproto ipv4 meta l4proto 112 accept"),
        (("ingress", "IPv4", "esp", 1, 2), "meta nfproto ipv4 meta l4proto 50 accept"),
        (("ingress", "IPv4", None, None, None, "10.1.2.3/8"), "meta nfproto ipv4 ip saddr 10.0.0.0/8 accept"),
        (("egress", "IPv6", None, None, None, "fd00::/8"), "meta nfproto ipv6 ip6 daddr fd00::/8 accept"),
        (("ingress", "IPv4", None, None, None, "0.0.0.0/0"), "meta nfproto ipv4 accept"),
        (("ingress", "IPv4", None, None, None, None, "g2"), "meta nfproto ipv4 ip saddr @of_g2_v4 accept"),
        (("egress", "IPv6", None, None, None, None, "g2"), "meta nfproto ipv6 ip6 daddr @of_g2_v6 accept"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_rule_of_a_group_is_one_rule(rule: Any, line: str) -> None:
    assert matches(*rule) == line


@pytest.mark.parametrize("protocol", ["nonsense", "256", "tcp accept; drop"])
def test_no_protocol_is_no_rule(protocol: str) -> None:
    with pytest.raises(Unfit):
        matches("ingress", "IPv4", protocol)


@pytest.mark.parametrize("prefix", ["fd00::/8", "10.0.0.0/8 accept", "x"])
def test_a_prefix_that_is_none_of_its_kind_is_refused(prefix: Any) -> None:
    with pytest.raises(Unfit):
        matches("ingress", "IPv4", remote_prefix=prefix)


def test_rules_of_the_other_direction_are_left_out() -> None:
    group = SecurityGroupSpec("g", (SecurityGroupRule("egress", "IPv4"),))
    assert filters.group_rules(group, "ingress", str) == []


@pytest.mark.parametrize("direction", ["egress", "ingress"])
def test_what_no_group_lets_through_is_dropped_and_without_state_answers_are_too(direction: str) -> None:
    with_state = filters.port_rules(direction, ["jump x"], stateful=True)
    without = filters.port_rules(direction, ["jump x"], stateful=False)
    assert with_state[-2:] == without[-2:] == ["jump x", "drop"]
    assert any("ct state" in line for line in with_state)
    assert not any("ct state" in line for line in without)


def test_a_port_may_send_as_itself_and_its_pairs_only() -> None:
    pairs = (("10.0.0.0/29", MAC), ("10.0.0.77", "FA:16:3E:00:00:99"))
    lines = spoofing.rules(evolve(PORT, address_pairs=pairs), 3)
    assert lines[:2] == ["ether type { 0x8100, 0x88a8 } drop", "meta mark set 0x3"]
    assert lines[-1] == "drop"
    # 10.0.0.5 lies within 10.0.0.0/29: nftables wants it once.
    assert f"ether saddr {MAC} ip saddr {{ 10.0.0.0/29 }} accept" in lines
    assert "ether saddr fa:16:3e:00:00:99 ip saddr { 10.0.0.77 } accept" in lines
    assert not any("10.0.0.77" in line and MAC in line for line in lines)


def test_a_port_without_addresses_may_only_ask_for_one() -> None:
    lines = spoofing.rules(evolve(PORT, fixed_ips=()), 3)
    assert [line for line in lines if " ip saddr " in line] == [
        f"ether saddr {MAC} ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept"
    ]
    assert not any("arp" in line for line in lines)


def test_a_port_without_port_security_is_neither_checked_nor_marked() -> None:
    assert spoofing.rules(evolve(PORT, port_security=False), 3) == ["accept"]
    text = ruleset(FilteredPort("tap1", 3, evolve(PORT, port_security=False)))
    assert "mark set" not in text
    assert "egress3" not in text


@pytest.mark.parametrize(
    "changes", [{"mac": "x"}, {"fixed_ips": (FixedIp("s", "x; drop"),)}, {"address_pairs": (("x", MAC),)}]
)
def test_what_is_no_address_never_reaches_the_rules(changes: Any) -> None:
    with pytest.raises(Unfit):
        rules.check_port(evolve(PORT, **changes))


def ruleset(*ports: FilteredPort, groups: tuple[SecurityGroupSpec, ...] = (), members: Any = None) -> str:
    return rules.ruleset("cc", HostRules({"ccb1": 7}, ports, {group.id: group for group in groups}, members or {}))


def test_the_tables_are_replaced_as_a_whole() -> None:
    lines = ruleset().splitlines()
    for family in ("bridge", "inet", "arp"):
        at = lines.index(f"table {family} cc {{}}")
        assert lines[at + 1 : at + 3] == [f"delete table {family} cc", f"table {family} cc {{"]


def test_connections_are_tracked_by_network() -> None:
    assert 'iifname "ccb1" ct zone set 7' in ruleset()


def test_both_ends_of_a_packet_are_marked_and_judged() -> None:
    text = ruleset(FilteredPort("tap1", 3, PORT))
    assert 'iifname vmap { "tap1" : jump from3 }' in text
    assert "meta mark set meta mark & 0xffff | 0x30000" in text
    assert "meta mark & 0xffff vmap { 0x3 : jump egress3 }" in text
    assert "meta mark & 0xffff0000 vmap { 0x30000 : jump ingress3 }" in text


def test_members_of_a_remote_group_are_a_set_even_if_there_are_none() -> None:
    group = SecurityGroupSpec("g1", (SecurityGroupRule("ingress", "IPv4", remote_group_id="g2"),))
    text = ruleset(FilteredPort("tap1", 3, PORT), groups=(group,), members={"g2": ["10.0.0.9", "fd00::9"]})
    assert "elements = { 10.0.0.9 }" in text
    assert "elements = { fd00::9 }" in text
    assert "elements" not in ruleset(FilteredPort("tap1", 3, PORT), groups=(group,))


def test_a_group_that_nobody_described_yet_lets_nothing_through() -> None:
    assert "jump ingress_group" not in ruleset(FilteredPort("tap1", 3, PORT))


def test_one_stateless_group_makes_its_ports_stateless() -> None:
    text = ruleset(FilteredPort("tap1", 3, PORT), groups=(SecurityGroupSpec("g1", stateful=False),))
    assert "ct state" not in text


def test_limits_are_in_bytes_and_a_burst_is_what_exceeds_a_second() -> None:
    found = bandwidth.rules((BandwidthLimit("egress", 8000), BandwidthLimit("ingress", 8, 160)))
    assert found == {
        "egress": ["limit rate over 1000000 bytes/second drop"],
        "ingress": ["limit rate over 1000 bytes/second burst 19000 bytes drop"],
    }


def test_limits_stay_within_what_nftables_counts() -> None:
    assert bandwidth.rules((BandwidthLimit("egress", 2**31 - 1),))["egress"] == []
    (slow,) = bandwidth.rules((BandwidthLimit("egress", 1, 2**31 - 1),))["egress"]
    assert slow == f"limit rate over 125 bytes/second burst {2**32 - 1} bytes drop"
    (fast,) = bandwidth.rules((BandwidthLimit("egress", 147_000_000, 2**31 - 1),))["egress"]
    assert fast == f"limit rate over 18375000000 bytes/second burst {2**64 // 10**9 - 18_375_000_000} bytes drop"


def test_packets_are_limited_and_a_burst_is_a_second_of_them() -> None:
    limits = (PacketLimit("egress", 2), PacketLimit("ingress", 1, 5))
    assert bandwidth.packet_rules(limits) == {
        "egress": ["limit rate over 2000/second burst 2000 packets drop"],
        "ingress": ["limit rate over 1000/second burst 5000 packets drop"],
    }
    with pytest.raises(Unfit):
        bandwidth.packet_rules((PacketLimit("any", 1),))


def test_a_mark_replaces_the_guests_own() -> None:
    spec = PortSpec("p", "n", "fa:16:3e:00:00:01", dscp_mark=26)
    assert rules.marking(spec) == ["ip dscp set 26", "ip6 dscp set 26"]
    with pytest.raises(Unfit):
        rules.check_port(evolve(spec, dscp_mark=64))


@pytest.mark.parametrize("limit", [BandwidthLimit("sideways", 1), BandwidthLimit("egress", 0)])
def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(Unfit):
        bandwidth.rules((limit,))


# -- connections that must end


def test_a_port_is_narrowed_by_what_it_loses_and_not_by_what_it_gains() -> None:
    more = evolve(PORT, fixed_ips=(*PORT.fixed_ips, FixedIp("s1", "10.0.0.6")), security_groups=("g1", "g2"))
    assert not flows.port_narrowed(PORT, more)
    assert flows.port_narrowed(more, PORT)
    assert flows.port_narrowed(evolve(PORT, port_security=False), PORT)
    assert flows.port_narrowed(PORT, evolve(PORT, security_groups=()))
    assert flows.port_narrowed(PORT, None)


def test_a_group_is_narrowed_by_a_rule_less() -> None:
    rule = SecurityGroupRule("ingress", "IPv4")
    assert flows.group_narrowed(SecurityGroupSpec("g", (rule,)), SecurityGroupSpec("g"))
    assert not flows.group_narrowed(SecurityGroupSpec("g"), SecurityGroupSpec("g", (rule,)))


def test_connections_end_in_the_networks_where_the_port_counts_as_a_member() -> None:
    held = records(None)
    for index, name in enumerate(("n1", "n2", "n3"), 1):
        held.networks.put(name, Network(NetworkSpec(name), index))
    held.groups.put("g2", SecurityGroupSpec("g2", (SecurityGroupRule("ingress", "IPv4", remote_group_id="g1"),)))
    held.ports.put("p2", Port(PortSpec("p2", "n2", MAC, security_groups=("g2",)), ("h",), 2))
    held.ports.put("p3", Port(PortSpec("p3", "n3", MAC, security_groups=("g1",)), ("h",), 3))
    assert flows.zones(held, PORT) == {1, 2}


def test_connections_on_an_operators_bridge_are_among_the_machines_own() -> None:
    held = records(None)
    held.networks.put("n1", Network(NetworkSpec("n1", network_type="flat"), 5))
    assert flows.zones(held, PORT) == {0}


def test_only_packets_in_our_bridges_are_judged_by_their_marks() -> None:
    group = SecurityGroupSpec("g1")
    host = HostRules({"ccb1": 3, "br-ex": 0}, [FilteredPort("cct1", 1, PORT)], {"g1": group}, {})
    text = rules.ruleset("cc", host)
    judging = [line.strip() for line in text.splitlines() if "vmap" in line and "mark" in line]
    assert judging == [
        'iifname { "br-ex", "ccb1" } meta mark & 0xffff vmap { 0x1 : jump egress1 }',
        'iifname . oifname { "br-ex" . "br-ex", "ccb1" . "ccb1" } '
        "meta mark & 0xffff0000 vmap { 0x10000 : jump ingress1 }",
    ]
    assert "meta mark set meta mark & 0xffff | 0x10000" in text, "whatever mark it came with"
    assert '"ccb1" ct zone set 3' in text and '"br-ex" ct zone' not in text


def test_connections_are_forgotten_in_both_directions() -> None:
    assert flows.forget_lines({4}, ["10.0.0.5", "fd00::5"]) == [
        "-D -f ipv4 -w 4 -s 10.0.0.5",
        "-D -f ipv4 -w 4 -d 10.0.0.5",
        "-D -f ipv6 -w 4 -s fd00::5",
        "-D -f ipv6 -w 4 -d fd00::5",
    ]


def test_only_our_bridges_are_closed_to_the_hosts_stack() -> None:
    text = rules.ruleset("cc", HostRules({"ccb1": 3, "br-ex": 0}, [FilteredPort("cct1", 1, PORT)], {}, {}))
    assert text.count('iifname { "ccb1", "cct1" } drop') == 3  # IP for the host, IP to be routed by it, ARP
    assert not any("br-ex" in line for line in text.splitlines() if line.endswith(" drop"))
