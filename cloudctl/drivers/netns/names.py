"""Names of what belongs to an object. They follow from its id alone, so it is found again without any record.

A link's name has at most 15 characters: the prefix, one letter for the kind, and 11 characters of the id. The whole id
is the link's alias. Namespaces have the whole id in their names.
"""

from __future__ import annotations

import re
from hashlib import blake2s
from pathlib import Path
from urllib.parse import quote, unquote

from attrs import frozen

LINK_NAME_LIMIT = 15
SHORT = 11
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

SERVICE_LINK = "net0"  # in a network's namespace, towards its bridge
METADATA_ADDRESS = "169.254.169.254"  # of that link
# Of that link, too. DHCPv6 is served from the first. dnsmasq requires a second one that is not link-local and whose
# prefix is not longer than any subnet's.
SERVICE_ADDRESSES6 = ("fe80::a9fe:a9fe/64", "fda9:fea9:fea9::547/8 noprefixroute")


@frozen
class Names:
    """The names of one cloud on this machine: all of them begin with its prefix."""

    prefix: str

    def bridge(self, network_id: str) -> str:
        return self._link("b", network_id)

    def tunnel(self, network_id: str) -> str:
        """The VXLAN device that joins a network's bridges."""
        return self._link("x", network_id)

    def service(self, network_id: str) -> str:
        """The bridge's end of the pair to the network's namespace."""
        return self._link("d", network_id)

    def tap(self, port_id: str) -> str:
        return self._link("t", port_id)

    def carried(self, port_id: str) -> str:
        """The end of a subport's pair that is not in a bridge: see `tagging`."""
        return self._link("v", port_id)

    def router_outer(self, port_id: str) -> str:
        """The bridge's end of a router's interface."""
        return self._link("r", port_id)

    def router_inner(self, port_id: str) -> str:
        return self._link("i", port_id)

    @property
    def underlay_link(self) -> str:
        """The link in a host's namespace towards the other hosts."""
        return f"{self.prefix}underlay"

    @property
    def underlay_namespace(self) -> str:
        return f"{self.prefix}-underlay"

    def network_namespace(self, id: str) -> str:
        return f"{self.prefix}n-{written(id)}"

    def router_namespace(self, id: str) -> str:
        return f"{self.prefix}r-{written(id)}"

    def networks_among(self, namespaces: set[str]) -> list[str]:
        """The ids of the networks that have these namespaces, sorted."""
        return _ids(f"{self.prefix}n-", namespaces)

    def routers_among(self, namespaces: set[str]) -> list[str]:
        return _ids(f"{self.prefix}r-", namespaces)

    def is_tap(self, link: str) -> bool:
        return self._is("t", link)

    def is_inner(self, link: str) -> bool:
        """Whether it is a name from `router_inner`."""
        return self._is("i", link)

    def _is(self, kind: str, link: str) -> bool:
        return len(link) == len(self.prefix) + 1 + SHORT and link.startswith(f"{self.prefix}{kind}")

    def _link(self, kind: str, id: str) -> str:
        return f"{self.prefix}{kind}{short(id)}"


def short(id: str) -> str:
    """11 characters that stand for the id: its own if it is a UUID, else of a hash of it."""
    return id[:SHORT] if UUID.fullmatch(id) else blake2s(id.encode()).hexdigest()[:SHORT]


def written(id: str) -> str:
    """The id, escaped for use as a file name or in a line for `ip`."""
    return quote(id, safe="")


def pid_file(directory: Path) -> str:
    """The argument that every long-running program of ours has."""
    return f"--pid-file={directory / 'pid'}"


def read(text: str) -> str:
    """The id that `written` escaped."""
    return unquote(text)


def _ids(start: str, namespaces: set[str]) -> list[str]:
    return sorted(read(name.removeprefix(start)) for name in namespaces if name.startswith(start))
