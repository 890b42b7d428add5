"""Rules of security groups: which are valid, and when two mean the same. Reference: network-rules.md, section 8."""

from __future__ import annotations

from ipaddress import ip_interface
from typing import Any

from attrs import frozen

from cloudctl.drivers.protocols import ICMP, ICMPV6, PROTOCOLS, WITH_PORTS
from cloudctl.errors import Invalid

BOTH_ICMP = {ICMP, ICMPV6}
ONLY_IPV6 = {number for name, number in PROTOCOLS.items() if name.startswith("ipv6-")}
ETHERTYPES = {"ipv4": "IPv4", "ipv6": "IPv6"}
EVERY_PORT = (1, 65535)
ANYWHERE = ("0.0.0.0/0", "::/0")


@frozen
class NewRule:
    """What a client requests; `protocol` is a name or a number, and ICMP's type and code come as ports."""

    direction: str
    ethertype: str = "IPv4"
    protocol: str | int | None = None
    port_range_min: int | None = None
    port_range_max: int | None = None
    remote_ip_prefix: str | None = None
    remote_group_id: str | None = None
    remote_address_group_id: str | None = None
    description: str = ""


def columns(rule: NewRule) -> dict[str, Any]:
    """The rule as `security_group_rules` holds it. Raises Invalid with a type that tells what is wrong."""
    ethertype = ETHERTYPES.get(rule.ethertype.lower())
    if ethertype is None:
        raise Invalid(
            f"Security group rule for ethertype '{rule.ethertype[:64]}' not supported. Allowed values are IPv4, IPv6.",
            type="SecurityGroupRuleInvalidEtherType",
        )
    protocol = _protocol(rule.protocol, ethertype)
    _check_ports(protocol, rule.port_range_min, rule.port_range_max)
    remotes = (rule.remote_ip_prefix, rule.remote_group_id, rule.remote_address_group_id)
    if len([each for each in remotes if each is not None]) > 1:
        message = "Only one of remote_ip_prefix, remote_group_id and remote_address_group_id may be provided."
        raise Invalid(message, type="SecurityGroupMultipleRemoteEntites")
    found = {
        "direction": rule.direction,
        "ethertype": ethertype,
        "protocol": protocol,
        "port_range_min": rule.port_range_min,
        "port_range_max": rule.port_range_max,
        "remote_ip_prefix": _prefix(rule.remote_ip_prefix, ethertype),
        "remote_group_id": rule.remote_group_id,
        "remote_address_group_id": rule.remote_address_group_id,
        "description": rule.description,
    }
    return {**found, "meaning": meaning(found)}


def meaning(rule: dict[str, Any]) -> str:
    """A text that is equal for rules that let the same traffic through."""
    number = protocol_number(rule["protocol"])
    span = (rule["port_range_min"], rule["port_range_max"])
    if span == EVERY_PORT and number in WITH_PORTS:
        span = (None, None)
    remote = rule["remote_group_id"] or rule["remote_address_group_id"] or normalized(rule["remote_ip_prefix"])
    parts = (rule["direction"], rule["ethertype"], number, *span, None if remote in ANYWHERE else remote)
    return " ".join("*" if part is None else str(part) for part in parts)


def normalized(prefix: str | None) -> str | None:
    """The prefix with its host bits cleared."""
    return None if prefix is None else str(ip_interface(prefix).network)


def protocol_number(protocol: str | None) -> int | None:
    """None: any."""
    if protocol is None:
        return None
    return PROTOCOLS[protocol] if protocol in PROTOCOLS else int(protocol)


def _protocol(wanted: str | int | None, ethertype: str) -> str | None:
    if wanted is None:
        return None
    text = str(wanted).strip().lower()
    if text == "any":
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 255
    if not is_number and text not in PROTOCOLS:
        raise Invalid(
            f"Security group rule protocol {text[:64]} not supported. Only protocol values [None, "
            f"{', '.join(sorted(PROTOCOLS))}] and integer representations [0 to 255] are supported.",
            type="SecurityGroupRuleInvalidProtocol",
        )
    if is_number:
        text = str(int(text))
    if ethertype == "IPv6" and text in ("icmp", "icmpv6", "1"):
        return "58" if text == "1" else "ipv6-icmp"
    if ethertype == "IPv4" and protocol_number(text) in ONLY_IPV6:
        raise Invalid(
            f"Invalid ethertype {ethertype} for protocol {text}.", type="SecurityGroupEthertypeConflictWithProtocol"
        )
    return text


def _check_ports(protocol: str | None, least: int | None, most: int | None) -> None:
    if least is None and most is None:
        return
    if protocol is None:
        message = "Must also specify protocol if port range is given."
        raise Invalid(message, type="SecurityGroupProtocolRequiredWithPorts")
    number = protocol_number(protocol)
    if number in WITH_PORTS:
        _check_port_range(least, most)
    elif number in BOTH_ICMP:
        _check_icmp(least, most)
    else:
        raise Invalid(
            f"Invalid protocol {protocol} for port range, only supported for TCP, UDP, UDPLITE, SCTP and DCCP.",
            type="SecurityGroupInvalidProtocolForPort",
        )


def _check_port_range(least: int | None, most: int | None) -> None:
    for port in (least, most):
        if port is not None and not EVERY_PORT[0] <= port <= EVERY_PORT[1]:
            raise Invalid(f"Invalid value for port {port}", type="SecurityGroupInvalidPortValue")
    if least is None or most is None or least > most:
        message = "For TCP/UDP protocols, port_range_min must be <= port_range_max"
        raise Invalid(message, type="SecurityGroupInvalidPortRange")


def _check_icmp(type_: int | None, code: int | None) -> None:
    if type_ is None:
        message = f"ICMP code (port-range-max) {code} is provided but ICMP type (port-range-min) is missing."
        raise Invalid(message, type="SecurityGroupMissingIcmpType")
    for field, name, value in (("type", "port_range_min", type_), ("code", "port_range_max", code)):
        if value is not None and not 0 <= value <= 255:
            message = f"Invalid value for ICMP {field} ({name}) {value}. It must be 0 to 255."
            raise Invalid(message, type="SecurityGroupInvalidIcmpValue")


def _prefix(text: str | None, ethertype: str) -> str | None:
    """With a prefix length; its host bits stay."""
    if text is None:
        return None
    try:
        if "%" in text or len(text) > 64:
            raise ValueError
        found = ip_interface(text)
    except ValueError:
        raise Invalid(f"Invalid CIDR {text[:64]} given as IP prefix.", type="InvalidCIDR") from None
    if f"IPv{found.version}" != ethertype:
        message = f"Conflicting value ethertype {ethertype} for CIDR {text}"
        raise Invalid(message, type="SecurityGroupRuleParameterConflict")
    return f"{found.ip}/{found.network.prefixlen}"
