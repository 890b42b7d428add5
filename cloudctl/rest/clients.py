"""Who is at the other end of a connection, and which addresses are one client."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any

# The prefix length of what one IPv6 customer is given.
NETWORK = 64


@lru_cache(maxsize=1024)
def plain(text: str) -> str:
    """An address as it is written everywhere else: a dual-stack socket reports 192.0.2.1 as ::ffff:192.0.2.1."""
    if ":" not in text:
        return text
    try:
        found = ip_address(text)
    except ValueError:
        return text
    return str(found.ipv4_mapped or found) if isinstance(found, IPv6Address) else text


def host_of(address: Any) -> str:
    """The host in an address of Twisted's. Empty for a client without one, as on a UNIX socket."""
    return plain(str(getattr(address, "host", None) or ""))


@lru_cache(maxsize=1024)
def network_of(client: str) -> str:
    """The network of an IPv6 client, which has more than one address; any other address itself."""
    client = plain(client)
    if ":" not in client:
        return client
    try:
        packed = ip_address(client.partition("%")[0]).packed
    except ValueError:
        return client
    return packed[: NETWORK // 8].hex()
