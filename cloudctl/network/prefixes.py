"""Prefixes of subnet pools, and which parts of them are free: pure rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import collapse_addresses, ip_network
from typing import Any

from cloudctl.errors import Invalid
from cloudctl.network.addresses import Cidr, Range, parse_cidr, written

LEAST = {4: 8, 6: 64}  # prefix length of what a pool gives by default
BITS = {4: 32, 6: 128}
# Prefixes of one pool. They are compared with each other while nobody else may write.
MOST = 200
QUOTA_LENGTH = {4: 32, 6: 64}  # prefix length of the unit that a pool's quota counts in


def joined(cidrs: Iterable[Cidr]) -> list[Cidr]:
    """Sorted, none within another, adjacent halves merged. All are of one family."""
    found: Any = list(cidrs)
    return [*collapse_addresses(found)]


def parsed(texts: Sequence[str]) -> list[Cidr]:
    """The prefixes that a request gives a pool. Raises Invalid: too many, none, not a CIDR, or of both families."""
    _check_number(texts)
    if not texts:
        raise Invalid("Empty subnet pool prefix list.", type="EmptySubnetPoolPrefixList")
    cidrs = [parse_cidr(text, "prefixes") for text in texts]
    if len({cidr.version for cidr in cidrs}) > 1:
        message = "Cannot mix IPv4 and IPv6 prefixes in a subnet pool."
        raise Invalid(message, type="PrefixVersionMismatch")
    return joined(cidrs)


def _check_number(some: Sequence[object]) -> None:
    if len(some) > MOST:
        raise Invalid(f"Invalid input for operation: a subnet pool has at most {MOST} prefixes.", type="InvalidInput")


def of(texts: Iterable[str]) -> list[Cidr]:
    """The prefixes that a pool has."""
    return [ip_network(text) for text in texts]


def span(cidr: Cidr) -> Range:
    return Range(int(cidr.network_address), int(cidr.broadcast_address))


def within(cidr: Cidr, prefixes: Iterable[Cidr]) -> bool:
    """Whether one of the prefixes holds all of it."""
    inner = span(cidr)
    return any(
        cidr.version == each.version and inner.first in span(each) and inner.last in span(each) for each in prefixes
    )


def overlap(some: Iterable[Cidr], others: Sequence[Cidr]) -> Cidr | None:
    """One of `some` that shares addresses with one of `others`."""
    return next((each for each in some if any(each.overlaps(other) for other in others)), None)


def without(prefixes: Iterable[Cidr], fewer: Sequence[Cidr]) -> list[Cidr]:
    """What is left of `prefixes` without `fewer`. Raises Invalid for too many pieces."""
    left = list(prefixes)
    for unwanted in fewer:
        rest: list[Any] = []
        for each in left:
            inner: Any = each
            if within(each, [unwanted]):
                continue
            rest += inner.address_exclude(unwanted) if within(unwanted, [each]) else [each]
        left = rest
        _check_number(left)
    return joined(left)


def first_free(prefixes: Iterable[Cidr], taken: Iterable[Cidr], length: int) -> Cidr | None:
    """The lowest network of this prefix length that is in the prefixes and overlaps nothing that is taken."""
    used = sorted((span(each) for each in taken), key=lambda each: each.first)
    for prefix in prefixes:
        size = 1 << (prefix.max_prefixlen - length)
        room = span(prefix)
        at = room.first
        for each in used:
            if each.first > at + size - 1:
                break
            if each.last >= at:
                at = (each.last // size + 1) * size
        if prefix.prefixlen <= length and at + size - 1 <= room.last:
            return ip_network(f"{written(at, prefix.version)}/{length}")
    return None


def units(cidr: Cidr) -> int:
    """How much of a pool's quota a network takes."""
    return max(1, 1 << max(0, QUOTA_LENGTH[cidr.version] - cidr.prefixlen))
