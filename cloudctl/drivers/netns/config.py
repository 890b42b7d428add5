"""What an operator can set: the table `[driver.network.netns]` of the configuration."""

from __future__ import annotations

import re
from collections import Counter
from ipaddress import AddressValueError, IPv4Network
from pathlib import Path
from socket import gethostname
from typing import Any

from attrs import field, frozen

from cloudctl.drivers.netns.names import LINK_NAME_LIMIT, SHORT

PREFIX_LIMIT = LINK_NAME_LIMIT - SHORT - 1
SHORTEST_LEASE = 120  # seconds
HOST = r"[^\s/]+"
NAMESPACE = r"([A-Za-z0-9_-][A-Za-z0-9._-]{0,63})?"
BRIDGE = rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LINK_NAME_LIMIT - 1}}}"


def _prefix(_instance: object, _attribute: object, value: str) -> None:
    if not re.fullmatch(rf"[a-z][a-z0-9]{{0,{PREFIX_LIMIT - 1}}}", value):
        raise ValueError(f"{value!r} is not 1 to {PREFIX_LIMIT} of a-z and 0-9, a letter first")


def _names(key: str, of: str, pattern: str, what: str) -> Any:
    def check(_instance: object, _attribute: object, value: dict[str, str]) -> None:
        if unnamed := [name for name in value if not re.fullmatch(key, name)]:
            raise ValueError(f"no {of}: {', '.join(map(repr, unnamed))}")
        if wrong := [name for name in value.values() if not re.fullmatch(pattern, name)]:
            raise ValueError(f"no {what}: {', '.join(map(repr, wrong))}")

    return check


def _apart(_instance: object, _attribute: object, value: dict[str, str]) -> None:
    if shared := [name for name, times in Counter(value.values()).items() if times > 1]:
        named = "this machine's own" if not shared[0] else repr(shared[0])
        hosts = " and ".join(host for host, name in value.items() if name == shared[0])
        raise ValueError(f"{hosts} have the same network namespace, {named}: each needs one of its own")


def _ipv4_network(_instance: object, _attribute: object, value: str) -> None:
    try:
        IPv4Network(value)
    except (AddressValueError, ValueError) as error:
        raise ValueError(f"{value!r} is not an IPv4 network: {error}") from None


def _lease(_instance: object, _attribute: object, value: int) -> None:
    # dnsmasq makes shorter ones as long as the shortest, and the protocol has 32 bits for them.
    if not SHORTEST_LEASE <= value < 2**32:
        raise ValueError(f"must be {SHORTEST_LEASE} to {2**32 - 1}")


def _group(_instance: object, _attribute: object, value: int) -> None:
    if not 1 <= value <= 65535:
        raise ValueError(f"{value} is not an nflog group number")


@frozen
class Config:
    """`[driver.network.netns]`"""

    # Host → its network namespace; "" is this machine's own. The same as for the hypervisor driver. A missing namespace
    # is created. The first host carries DHCP, metadata and routers. Empty: this machine under its own name.
    hosts: dict[str, str] = field(
        factory=dict, validator=[_names(HOST, "host", NAMESPACE, "network namespace"), _apart]
    )
    # Physical network → the bridge that leads there, on every host that has ports of it. Never created or removed.
    physical_networks: dict[str, str] = field(
        factory=dict, validator=_names(".+", "physical network", BRIDGE, "bridge")
    )
    # The network from which several hosts get their addresses for VXLAN, in the order of `hosts`.
    underlay: str = field(default="198.18.0.0/24", validator=_ipv4_network)
    lease_seconds: int = field(default=86400, validator=_lease)  # of addresses given by DHCP
    # What dnsmasq reads, for as long as the machine is up. Readable by all, since dnsmasq drops its privileges. Unlike
    # those of other drivers it must not be one that only root may enter.
    runtime_dir: Path = Path("/run/cloudctl-netns")
    # Prefix of the names of all links, namespaces and tables. Several clouds on one machine need different ones.
    prefix: str = field(default="cc", validator=_prefix)
    # The nflog group that receives the packets logged for security groups. Nobody has to listen.
    log_group: int = field(default=77, validator=_group)
    dry_run: bool = False  # log what would be changed, and change nothing

    @property
    def namespaces(self) -> dict[str, str]:
        """Host → network namespace."""
        return self.hosts or {gethostname(): ""}
