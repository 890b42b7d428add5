"""Values of specs, checked before they become part of a program's input. All raise Unfit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_interface, ip_network

from cloudctl.drivers.errors import Unfit

MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def mac(value: str) -> str:
    """In lower case, with colons."""
    lower = value.lower().replace("-", ":")
    if not MAC.fullmatch(lower):
        raise Unfit(f"{value!r} is not a MAC address")
    return lower


def mtu(value: int) -> int:
    if not 68 <= value <= 65535:
        raise Unfit(f"{value} is not a valid MTU")
    return int(value)


def address(value: str) -> str:
    """An IP address of either version."""
    try:
        return str(ip_address(value))
    except ValueError as error:
        raise Unfit(str(error)) from None


def interface(value: str) -> str:
    """«address/prefix length»."""
    try:
        return str(ip_interface(value))
    except ValueError as error:
        raise Unfit(str(error)) from None


def network(value: str) -> IPv4Network | IPv6Network:
    """A CIDR, or an address as a network of its own. Host bits are cleared."""
    try:
        return ip_network(value, strict=False)
    except ValueError as error:
        raise Unfit(str(error)) from None


def networks_of(values: Iterable[str], version: int) -> list[str]:
    """The networks of this IP version, sorted; one contained in another is left out, as nftables' sets require.

    A single address has no prefix length.
    """
    found = [network(value) for value in values]
    if version == 4:
        return [plain(each) for each in collapse_addresses(each for each in found if isinstance(each, IPv4Network))]
    return [plain(each) for each in collapse_addresses(each for each in found if isinstance(each, IPv6Network))]


def plain(value: IPv4Network | IPv6Network) -> str:
    """The CIDR, or just the address if the network is a single address."""
    return str(value.network_address) if value.prefixlen == value.max_prefixlen else str(value)
