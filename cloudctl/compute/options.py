"""What an operator may set for compute: the section `[compute]`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen
from attrs.validators import le, matches_re

from cloudctl.drivers.forwarded import is_secret
from cloudctl.options import ENDPOINT, named, not_negative, parts_of, positive

HIGHEST = 104
INTERNAL = "internal"  # the zone of the services that run no servers
PORT = re.compile(r"(tcp6?|ssl):(?:port=)?([0-9]+)(?::|$)", re.ASCII)


def microversion(_instance: object, _attribute: Any, value: str) -> None:
    match = re.fullmatch(r"2\.([1-9]\d{0,2})", value, re.ASCII)
    if match is None or int(match[1]) > HIGHEST:
        raise ValueError(f"must be 2.1 to 2.{HIGHEST}")


def is_zone(_instance: object, _attribute: Any, name: str) -> None:
    # A server may be created in zone:host.
    if not name or ":" in name or name == INTERNAL:
        raise ValueError(f"{name!r} cannot be the name of a zone")


def are_zones(_instance: object, _attribute: Any, zones: Mapping[str, Sequence[str]]) -> None:
    for name in zones:
        is_zone(_instance, _attribute, name)
    counted = Counter(host for hosts in zones.values() for host in set(hosts))
    if several := sorted(host for host, count in counted.items() if count > 1):
        raise ValueError(f"in several zones: {', '.join(several)}")


def never_or_later(_instance: object, _attribute: Any, value: float) -> None:
    if value < 0 and value != -1:
        raise ValueError("must be -1 (never), 0 (at once) or more")


def are_origins(_instance: object, _attribute: Any, value: Sequence[str]) -> None:
    for text in value:
        if re.fullmatch(r"https?://[^/?#\s]+", text) is None:
            raise ValueError(f"{text!r} is not the origin of a page: https://host:port, without a path")
        parts_of(text)


def is_address(_instance: object, _attribute: Any, value: str) -> None:
    if value:
        parts_of(value)


def as_browsers_name_them(origins: Sequence[str]) -> list[str]:
    """In small letters, and without the port that goes without saying."""
    split = (text.lower().partition("://") for text in origins)
    return [f"{scheme}://{host.removesuffix(':443' if scheme == 'https' else ':80')}" for scheme, _, host in split]


@frozen
class ComputeOptions:
    """[compute]"""

    # The name of this node, under which administrators see the services that schedule and conduct.
    host: str = field(default="cloudctl", validator=named)
    # Whether `networks` must be given when a server is created, at every microversion; false: only from 2.37 on.
    require_networks: bool = True
    # The highest microversion that is offered: «2.N», at most HIGHEST.
    max_microversion: str = field(default=f"2.{HIGHEST}", validator=microversion)
    # Maximum number of items on a page of a list.
    max_limit: int = field(default=1000, validator=[positive, le(1_000_000)])
    # Maximum number of hosts that a boot is tried on.
    max_attempts: int = field(default=3, validator=positive)
    # Seconds after which a boot that has not ended is given up.
    build_timeout: float = field(default=1800.0, validator=positive)
    # Seconds that a guest has to shut itself down before its power is cut.
    shutdown_timeout: float = field(default=60.0, validator=not_negative)
    # Whether a resize may stay on its host. A cloud of one host could not resize otherwise.
    allow_resize_to_same_host: bool = True
    # Seconds after which a resize is confirmed automatically; 0: never.
    resize_confirm_window: float = field(default=0.0, validator=not_negative)
    # Seconds after which a shelved server leaves its host; 0: at once, -1: never.
    shelved_offload_time: float = field(default=0.0, validator=never_or_later)
    # Seconds during which a deleted server can be restored; 0: it is gone at once.
    reclaim_instance_interval: float = field(default=0.0, validator=not_negative)
    # Whether a volume of another zone may be attached.
    cross_az_attach: bool = False
    # The zone of hosts that are in none of `zones`, and zone → names of its hosts.
    default_availability_zone: str = field(default="nova", validator=is_zone)
    zones: dict[str, list[str]] = field(factory=dict, validator=are_zones)
    # How many times over a host's resources may be promised.
    cpu_allocation_ratio: float = field(default=4.0, validator=positive)
    ram_allocation_ratio: float = field(default=1.0, validator=positive)
    disk_allocation_ratio: float = field(default=1.0, validator=positive)
    # What is held back on each host.
    reserved_host_cpus: int = field(default=0, validator=not_negative)
    reserved_host_memory_mib: int = field(default=512, validator=not_negative)
    reserved_host_disk_gib: int = field(default=0, validator=not_negative)
    # How much free memory, processors and disk, and groups, weigh when a host is chosen; a negative weight packs.
    ram_weight: float = 1.0
    cpu_weight: float = 1.0
    disk_weight: float = 1.0
    soft_affinity_weight: float = 1.0
    soft_anti_affinity_weight: float = 1.0
    build_failure_weight: float = 1_000_000.0
    # Maximum number of disks of a server that are neither image nor volume.
    max_local_block_devices: int = field(default=3, validator=not_negative)
    # Maximum number of volumes of a server.
    max_volumes: int = field(default=26, validator=positive)
    # The endpoint at which consoles of servers are opened by WebSockets; empty: there are no consoles.
    console_listen: str = field(default="", metadata=ENDPOINT)
    # Where clients find it, as «ws://host:port» or «wss://host:port»; empty: at the host of the API, on its own port.
    console_url: str = field(default="", validator=[matches_re(r"(wss?://[^/?#]+(/[^?#]*)?)?"), is_address])
    # noVNC's page, wherever it is served: a VNC console is a link to it; empty: the link is the WebSocket's own.
    console_vnc_page: str = field(default="", validator=[matches_re(r"(https?://[^/?#]+(/[^?#]*)?)?"), is_address])
    # Pages of other hosts that may open consoles, as browsers name them: «https://host:port».
    console_origins: list[str] = field(factory=list, validator=are_origins, converter=as_browsers_name_them)
    # Seconds within which a console must be opened after it was requested.
    console_token_lifetime: float = field(default=600.0, validator=positive)
    # Maximum number of consoles that are open at once.
    console_connections: int = field(default=100, validator=positive)
    # Maximum number of those that belong to servers of one project.
    console_share: int = field(default=50, validator=positive)

    # The endpoint at which `cloudctl metadata-proxy` of each host asks for guests' metadata; empty: there is none.
    metadata_listen: str = field(default="", metadata=ENDPOINT)
    # What the proxies prove themselves with: the same as `metadata_secret` of their network driver.
    metadata_secret: str = field(default="", validator=is_secret, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.metadata_listen and not self.metadata_secret:
            raise ValueError("metadata_listen needs metadata_secret, or anyone could read the metadata of all guests")
        if self.console_listen and not self.console_url and not PORT.match(self.console_listen):
            raise ValueError(f"console_url must say where clients find {self.console_listen}")

    def console_base(self, host: str) -> str:
        """Where consoles are opened, for a client that has reached the API at this host; without a slash at its end."""
        found = PORT.match(self.console_listen)
        if self.console_url or found is None:
            return self.console_url.rstrip("/")
        return f"{'wss' if found[1] == 'ssl' else 'ws'}://{host}:{found[2]}"

    @property
    def maximum(self) -> tuple[int, int]:
        """`max_microversion` as a pair."""
        major, _, minor = self.max_microversion.partition(".")
        return int(major), int(minor)
