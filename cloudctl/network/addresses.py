"""Addresses, ranges and what a subnet may be: pure rules. Reference: network-rules.md, sections 1 and 2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from attrs import frozen

from cloudctl.errors import Conflict, Invalid

Address = IPv4Address | IPv6Address
Cidr = IPv4Network | IPv6Network

AUTOMATIC_MODES = ("slaac", "dhcpv6-stateless")
DIGITS = 39


@frozen
class Range:
    """Addresses from `first` to `last`, both included, as numbers."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last


def key(number: int) -> str:
    """A number as the tables hold it: see `tables.ADDRESS`."""
    return f"{number:0{DIGITS}d}"


def number(address: str) -> int:
    """Raises ValueError."""
    return int(ip_address(address))


def written(number: int, version: int) -> str:
    """The canonical text of an address."""
    return str(IPv4Address(number) if version == 4 else IPv6Address(number))


def parse_address(text: Any, field: str = "ip_address") -> Address:
    """Raises Invalid."""
    try:
        if not isinstance(text, str) or "%" in text or len(text) > 64:
            raise ValueError
        return ip_address(text)
    except ValueError:
        raise Invalid(f"Invalid input for {field}. Reason: {str(text)[:64]!r} is not a valid IP address.") from None


def parse_cidr(text: str, field: str = "cidr") -> Cidr:
    """A network, its host bits cleared. Raises Invalid."""
    try:
        if "%" in text or len(text) > 64 or "/" not in text:
            raise ValueError
        return ip_network(text, strict=False)
    except ValueError:
        raise Invalid(f"Invalid input for {field}. Reason: {text[:64]!r} is not a valid IP subnet.") from None


# -- what a subnet may be


def hosts(cidr: Cidr) -> Range:
    """The addresses that a host can have: neither the network's nor the broadcast address, where those exist."""
    first, last = int(cidr.network_address), int(cidr.broadcast_address)
    if cidr.max_prefixlen - cidr.prefixlen <= 1:
        return Range(first, last)
    # IPv6 has no broadcast: its last address is an ordinary one, and the first is the routers' anycast address.
    return Range(first + 1, last - 1 if cidr.version == 4 else last)


def check_cidr(cidr: Cidr, enable_dhcp: bool) -> None:
    """Raises Invalid for networks that a subnet cannot have."""
    if cidr.prefixlen == 0:
        raise Invalid("Invalid input for operation: 0 is not allowed as CIDR prefix length.")
    if cidr.version == 6 and int(cidr.network_address) == 0:
        raise Invalid(f"Invalid input for operation: {cidr} cannot be the CIDR of a subnet.")
    if not enable_dhcp:
        return
    if cidr.max_prefixlen - cidr.prefixlen < 2:
        raise Invalid(f"Invalid input for operation: {cidr} is too small for a subnet with DHCP.")
    if cidr.is_multicast or cidr.is_loopback or int(cidr.network_address) == 0:
        raise Invalid(f"Invalid input for operation: {cidr} is invalid for a subnet with DHCP.")


def default_gateway(cidr: Cidr) -> Address:
    first = int(cidr.network_address)
    whole = cidr.max_prefixlen - cidr.prefixlen <= 1
    return ip_address(written(first if whole else first + 1, cidr.version))


def check_gateway(gateway: Address, cidr: Cidr) -> None:
    """Raises Invalid for another family and for the addresses of the network itself."""
    if gateway.version != cidr.version:
        raise Invalid(f"Invalid input for operation: gateway_ip '{gateway}' is not an IPv{cidr.version} address.")
    if gateway in cidr and int(gateway) not in hosts(cidr):
        raise Invalid("Invalid input for operation: Gateway is not valid on subnet.")


def check_modes(ra: str | None, address: str | None, cidr: Cidr, enable_dhcp: bool) -> None:
    """Raises Invalid for IPv6 modes that contradict each other or the subnet."""
    if ra is None and address is None:
        return
    if cidr.version == 4:
        raise Invalid("Invalid input for operation: ipv6_ra_mode and ipv6_address_mode need ip_version 6.")
    if not enable_dhcp:
        raise Invalid("Invalid input for operation: IPv6 modes need enable_dhcp to be true.")
    if ra is not None and address is not None and ra != address:
        raise Invalid(
            f"Invalid input for operation: ipv6_ra_mode set to '{ra}' with ipv6_address_mode set to '{address}' "
            "is not valid. If both attributes are set, they must be the same value."
        )
    if (address or ra) in AUTOMATIC_MODES and cidr.prefixlen != 64:
        raise Invalid(
            f"Invalid input for operation: Invalid CIDR {cidr} for IPv6 address mode: the prefix must be /64."
        )


def is_automatic(address_mode: str | None) -> bool:
    """Whether every port has its EUI-64 address on such a subnet."""
    return address_mode in AUTOMATIC_MODES


def eui64(cidr: Cidr, mac: str) -> Address:
    """The address that a guest with this MAC gives itself on an IPv6 /64."""
    octets = bytearray.fromhex(mac.replace(":", ""))
    octets[0] ^= 0x02
    return IPv6Address(int(cidr.network_address) | int.from_bytes(octets[:3] + b"\xff\xfe" + octets[3:], "big"))


# -- allocation pools


def default_pools(cidr: Cidr, gateway: Address | None) -> list[Range]:
    """All host addresses but the gateway's."""
    return without([hosts(cidr)], [int(gateway)] if gateway is not None and gateway in cidr else [])


def check_pools(pools: Sequence[tuple[str, str]], cidr: Cidr) -> list[Range]:
    """(start, end) pairs as ranges, in their order. Raises Invalid, and Conflict if two overlap."""
    found = []
    room = hosts(cidr)
    for start_text, end_text in pools:
        start, end = parse_address(start_text, "allocation_pools"), parse_address(end_text, "allocation_pools")
        shown = f"{start}-{end}"
        if start.version != cidr.version or end.version != cidr.version or int(start) > int(end):
            raise Invalid(f"The allocation pool {shown} is not valid.", type="InvalidAllocationPool")
        if int(start) not in room or int(end) not in room:
            message = f"The allocation pool {shown} spans beyond the subnet cidr {cidr}."
            raise Invalid(message, type="OutOfBoundsAllocationPool")
        found.append(Range(int(start), int(end)))
    for before, after in zip(ordered := sorted(found, key=lambda pool: pool.first), ordered[1:], strict=False):
        if after.first <= before.last:
            pair = " and ".join(
                f"{written(p.first, cidr.version)}-{written(p.last, cidr.version)}" for p in (before, after)
            )
            raise Conflict(
                f"Found overlapping allocation pools: {pair} for subnet {cidr}.", type="OverlappingAllocationPools"
            )
    return found


def check_gateway_outside(pools: Iterable[Range], gateway: Address | None) -> None:
    """Raises Conflict if an allocation pool holds the gateway."""
    for pool in pools:
        if gateway is not None and int(gateway) in pool:
            ends = f"{written(pool.first, gateway.version)}-{written(pool.last, gateway.version)}"
            message = f"Gateway ip {gateway} conflicts with allocation pool {ends}."
            raise Conflict(message, type="GatewayConflictWithAllocationPools")


def without(pools: Iterable[Range], taken: Iterable[int]) -> list[Range]:
    """What is left of `pools` (disjoint) when the numbers in `taken` are cut out; each pool's rest in order."""
    numbers = sorted(set(taken))
    left = []
    for pool in pools:
        first = pool.first
        for each in numbers:
            if each in pool:
                if first < each:
                    left.append(Range(first, each - 1))
                first = each + 1
        if first <= pool.last:
            left.append(Range(first, pool.last))
    return left
