"""Who is at the other end of a connection, which addresses are one client, and what clients call this cloud."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any

from cloudctl.errors import Invalid

# RFC 3986, section 3.2.2, with spaces, as in a list that proxies have made.
HOST = re.compile(r"(?:[\w.~!$&'()*+,;=% -]+|\[([0-9A-Fa-f:.]+)\])(?::\d{0,5})?", re.ASCII)
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


def named(host: str) -> str:
    """The host that a request names, if a URL can be made from it. Raises Invalid."""
    found = HOST.fullmatch(host)
    try:
        if found is not None and found[1] is not None:
            ip_address(found[1])
    except ValueError:
        found = None
    if found is None:
        raise Invalid("The host that the request names is not one.")
    return host
