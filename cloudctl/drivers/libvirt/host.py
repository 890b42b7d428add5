"""A host of the hypervisor driver `libvirt`, and what is known of it while it does not answer."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from attrs import define

from cloudctl.drivers.errors import HostDown, Unreachable
from cloudctl.drivers.libvirt import guests
from cloudctl.drivers.libvirt.connections import HostConnection
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.libvirt.storage import Storage
from cloudctl.drivers.specs import GuestState, HostInventory


@define(eq=False)
class Host:
    """A host and the guests that were last seen on it."""

    connection: HostConnection
    config: Config
    guests: frozenset[str] | None = None  # None: it never answered
    last: HostInventory | None = None

    def __attrs_post_init__(self) -> None:
        self.connection.prepare = self._prepare

    @property
    def name(self) -> str:
        return self.connection.name

    def _prepare(self, connection: Any) -> None:
        """In a thread, for each new connection."""
        Storage(self.config, connection).prepare()
        self.guests = guests.names(connection)

    async def inventory(self) -> HostInventory:
        """What it has; what it had, if it is down."""
        try:
            self.last = await self.connection.run(guests.inventory, self.name, self.config)
        except (HostDown, Unreachable):
            known = self.last or HostInventory(self.name, "QEMU", 0, 0, 0)
            return HostInventory(
                self.name, "QEMU", known.vcpus, known.memory_mib, known.disk_gib, known.hypervisor_version, up=False
            )
        return self.last

    async def states(self) -> list[tuple[GuestState, float]]:
        """With the times of their definitions; none of a host that is down."""
        try:
            found = await self.connection.run(guests.states, self.name)
        except (HostDown, Unreachable):
            return []
        self.guests = frozenset(each.id for each, _made in found)
        return found

    def gained(self, id: str) -> None:
        self.guests = (self.guests or frozenset()) | {id}

    def lost(self, id: str) -> None:
        self.guests = (self.guests or frozenset()) - {id}

    @property
    def peer_uri(self) -> str:
        """Where other hosts reach its libvirtd."""
        if self.name in self.config.peers:
            return self.config.peers[self.name]
        parts = urlsplit(self.connection.uri)
        # Our certificates are not theirs.
        kept = [(name, value) for name, value in parse_qsl(parts.query) if name != "pkipath"]
        return urlunsplit(parts._replace(query=urlencode(kept)))
