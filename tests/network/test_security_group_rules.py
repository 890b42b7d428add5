"""What rules of security groups may say. Reference: network-rules.md, section 8."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudctl.drivers.protocols import PROTOCOLS
from cloudctl.errors import Invalid
from cloudctl.network.rules import NewRule, columns, meaning


@pytest.mark.parametrize(
    ("rule", "type"),
    [
        ({"ethertype": "IPX"}, "SecurityGroupRuleInvalidEtherType"),
        ({"protocol": "smtp"}, "SecurityGroupRuleInvalidProtocol"),
        ({"protocol": 256}, "SecurityGroupRuleInvalidProtocol"),
        ({"protocol": "-1"}, "SecurityGroupRuleInvalidProtocol"),
        ({"protocol": "²"}, "SecurityGroupRuleInvalidProtocol"),
        ({"protocol": "ipv6-icmp"}, "SecurityGroupEthertypeConflictWithProtocol"),
        ({"protocol": 58}, "SecurityGroupEthertypeConflictWithProtocol"),
        ({"protocol": "41"}, "SecurityGroupEthertypeConflictWithProtocol"),
        ({"port_range_min": 1, "port_range_max": 2}, "SecurityGroupProtocolRequiredWithPorts"),
        ({"protocol": "tcp", "port_range_min": 5}, "SecurityGroupInvalidPortRange"),
        ({"protocol": "tcp", "port_range_min": 9, "port_range_max": 5}, "SecurityGroupInvalidPortRange"),
        ({"protocol": "tcp", "port_range_min": 0, "port_range_max": 5}, "SecurityGroupInvalidPortValue"),
        ({"protocol": "udp", "port_range_min": 1, "port_range_max": 65536}, "SecurityGroupInvalidPortValue"),
        ({"protocol": "icmp", "port_range_min": 256}, "SecurityGroupInvalidIcmpValue"),
        ({"protocol": "icmp", "port_range_min": -1}, "SecurityGroupInvalidIcmpValue"),
        ({"protocol": "icmp", "port_range_max": 0}, "SecurityGroupMissingIcmpType"),
        ({"protocol": "gre", "port_range_min": 1, "port_range_max": 2}, "SecurityGroupInvalidProtocolForPort"),
        ({"remote_ip_prefix": "10.0.0.0/24", "remote_group_id": "g"}, "SecurityGroupMultipleRemoteEntites"),
        ({"remote_ip_prefix": "10.0.0.0/33"}, "InvalidCIDR"),
        ({"remote_ip_prefix": "fe80::1%1/64", "ethertype": "IPv6"}, "InvalidCIDR"),
        ({"remote_ip_prefix": "2001:db8::/64"}, "SecurityGroupRuleParameterConflict"),
    ],
)
def test_a_rule_that_says_nonsense_is_refused(rule: dict[str, Any], type: str) -> None:
    with pytest.raises(Invalid) as caught:
        columns(NewRule("ingress", **rule))
    assert caught.value.type == type


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"protocol": "TCP"}, {"protocol": "tcp"}),
        ({"protocol": 6}, {"protocol": "6"}),
        ({"protocol": "006"}, {"protocol": "6"}),
        ({"protocol": "any"}, {"protocol": None}),
        ({"protocol": "icmp", "ethertype": "ipv6"}, {"protocol": "ipv6-icmp", "ethertype": "IPv6"}),
        ({"protocol": "1", "ethertype": "IPv6"}, {"protocol": "58"}),
        ({"protocol": "icmp", "port_range_min": 0, "port_range_max": 0}, {"port_range_min": 0, "port_range_max": 0}),
        (
            {"protocol": "tcp", "port_range_min": 1, "port_range_max": 65535},
            {"port_range_min": 1, "port_range_max": 65535},
        ),
        ({"remote_ip_prefix": "10.0.0.5"}, {"remote_ip_prefix": "10.0.0.5/32"}),
        ({"remote_ip_prefix": "10.0.0.5/24"}, {"remote_ip_prefix": "10.0.0.5/24"}),
        ({"remote_ip_prefix": "2001:DB8::1", "ethertype": "IPv6"}, {"remote_ip_prefix": "2001:db8::1/128"}),
    ],
)
def test_values_come_back_in_one_form(rule: dict[str, Any], expected: dict[str, Any]) -> None:
    found = columns(NewRule("ingress", **rule))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"protocol": "tcp"}, {"protocol": 6}),
        ({"protocol": "tcp"}, {"protocol": "tcp", "port_range_min": 1, "port_range_max": 65535}),
        ({}, {"remote_ip_prefix": "0.0.0.0/0"}),
        ({"remote_ip_prefix": "10.0.0.5/24"}, {"remote_ip_prefix": "10.0.0.0/24"}),
        ({"ethertype": "IPv6"}, {"ethertype": "IPv6", "remote_ip_prefix": "::/0"}),
    ],
)
def test_rules_that_mean_the_same_are_found(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert meaning(columns(NewRule("ingress", **one))) == meaning(columns(NewRule("ingress", **two)))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"protocol": "tcp"}, {"protocol": "udp"}),
        ({"protocol": "hopopt"}, {}),
        ({"protocol": "icmp"}, {"protocol": "icmp", "port_range_min": 0}),
        ({}, {"remote_ip_prefix": "0.0.0.0/1"}),
        ({}, {"remote_group_id": "g"}),
    ],
)
def test_rules_that_differ_are_told_apart(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert meaning(columns(NewRule("ingress", **one))) != meaning(columns(NewRule("ingress", **two)))


@given(
    st.sampled_from(["IPv4", "IPv6", "ipv4", "x"]),
    st.one_of(st.none(), st.integers(-300, 300), st.sampled_from(sorted(PROTOCOLS)), st.text(max_size=5)),
    st.one_of(st.none(), st.integers(-5, 70_000)),
    st.one_of(st.none(), st.integers(-5, 70_000)),
    st.one_of(st.none(), st.text(max_size=20), st.ip_addresses().map(str)),
)
def test_a_rule_is_either_taken_or_refused(
    ethertype: str, protocol: str | int | None, least: int | None, most: int | None, prefix: str | None
) -> None:
    try:
        found = columns(NewRule("egress", ethertype, protocol, least, most, prefix))
    except Invalid:
        return
    assert found["meaning"] and found["ethertype"] in ("IPv4", "IPv6")
