"""Which addresses are one client."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address

# What one customer of an IPv6 network is given.
NETWORK = 64


@lru_cache(maxsize=1024)
def network_of(client: str) -> str:
    """A client with IPv6 has more addresses than one: its network. Another address is itself."""
    if ":" not in client:
        return client
    try:
        packed = ip_address(client.partition("%")[0]).packed
    except ValueError:
        return client
    return packed[: NETWORK // 8].hex()
