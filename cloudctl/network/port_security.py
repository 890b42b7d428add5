"""What a port lets through: its groups, its address pairs, or everything. Reference: network-rules.md, section 3."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_interface

from cloudctl.errors import Conflict, Invalid
from cloudctl.network.addresses import parse_address, parse_cidr

PAIRS_MOST = 10
OWNED_BY_THE_NETWORK = ("network:", "neutron:")


def is_network_owned(device_owner: str) -> bool:
    """Ports of the network's own devices are not filtered."""
    return device_owner.startswith(OWNED_BY_THE_NETWORK)


def check(secure: bool, groups: Sequence[str], pairs: Sequence[object], asked_for_groups: bool) -> None:
    """Raises for groups or pairs on a port without port security: Invalid if the request itself names groups."""
    if secure:
        return
    if groups and asked_for_groups:
        message = "Port security must be enabled and port must have an IP address in order to use security groups."
        raise Invalid(message, type="PortSecurityAndIPRequiredForSecurityGroups")
    if groups:
        message = "Port has security group associated. Cannot disable port security until security group is removed."
        raise Conflict(message, type="PortSecurityPortHasSecurityGroup")
    if pairs:
        message = "Port Security must be enabled in order to have allowed address pairs on a port."
        raise Conflict(message, type="AddressPairAndPortSecurityRequired")


def address_pairs(wanted: Sequence[tuple[str, str | None]], mac: str) -> list[dict[str, str]]:
    """(address or CIDR, MAC) pairs as the record has them; the MAC is the port's unless given. Raises Invalid."""
    if len(wanted) > PAIRS_MOST:
        message = f"The number of allowed address pair exceeds the maximum {PAIRS_MOST}."
        raise Invalid(message, type="AllowedAddressPairExhausted")
    found = [{"ip_address": _address(address), "mac_address": each or mac} for address, each in wanted]
    if len({(pair["ip_address"], pair["mac_address"]) for pair in found}) < len(found):
        raise Invalid("Request contains duplicate address pair.", type="DuplicateAddressPairInRequest")
    return found


def _address(text: str) -> str:
    if "/" not in text:
        return str(parse_address(text, "allowed_address_pairs"))
    parse_cidr(text, "allowed_address_pairs")
    return str(ip_interface(text))
