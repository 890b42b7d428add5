"""A host of the hypervisor driver `libvirt`, and what is known about it while it does not answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import libvirt
from attrs import define, evolve, field
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger, LogLevel

from cloudctl.drivers.errors import DriverError, HostDown, Unreachable
from cloudctl.drivers.libvirt import guests
from cloudctl.drivers.libvirt.connections import HostConnection
from cloudctl.drivers.libvirt.guests import Made
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.libvirt.storage import Storage
from cloudctl.drivers.qcow2.records import room_for
from cloudctl.drivers.specs import GuestState, HostInventory
from cloudctl.drivers.together import all_of
from cloudctl.trouble import Trouble

T = TypeVar("T")

log = Logger()


@define(eq=False)
class Host:
    """A host and the guests that were last seen on it."""

    connection: HostConnection
    config: Config
    guests: frozenset[str] | None = None  # None: it never answered
    last: HostInventory | None = None
    # What is wrong with this host alone: the others are not told.
    _unknown: Trouble = field(init=False)
    _unlisted: Trouble = field(init=False)

    def __attrs_post_init__(self) -> None:
        counts, guests_of = f"host {self.name} counts as", f"the guests of host {self.name} are"
        self._unknown = Trouble(log, f"{counts} down", f"{counts} up again", LogLevel.error)
        self._unlisted = Trouble(log, f"{guests_of} unknown", f"{guests_of} known again", LogLevel.error)
        self.connection.prepare = self._prepare

    @property
    def name(self) -> str:
        return self.connection.name

    def _prepare(self, connection: Any) -> None:
        """In a thread, for each new connection."""
        Storage(self.config, connection).prepare()
        self.guests = guests.names(connection)
        # Of those that went off while there was no connection no event is received.
        self.connection.tell_of(guests.names_off(connection))

    async def inventory(self, disk_gib: int | None = None) -> HostInventory:
        """What the host has; what it had, if it is down or cannot say. `disk_gib`: room for disks kept elsewhere."""
        try:
            with told(self.name):
                found = await self.connection.run(guests.inventory, self.name, self.config)
            self.last = found if disk_gib is None else evolve(found, disk_gib=disk_gib)
            self._unknown.is_over()
        except DriverError as error:
            _complain(self._unknown, error)
            known = self.last or HostInventory(self.name, "QEMU", 0, 0, 0)
            return HostInventory(
                self.name, "QEMU", known.vcpus, known.memory_mib, known.disk_gib, known.hypervisor_version, up=False
            )
        return self.last

    async def states(self) -> list[tuple[GuestState, Made]]:
        """An empty list if the host is down, or cannot say."""
        try:
            with told(self.name):
                found = await self.connection.run(guests.states, self.name)
        except DriverError as error:
            _complain(self._unlisted, error)
            return []
        self._unlisted.is_over()
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
        # Other hosts do not have our certificates.
        kept = [(name, value) for name, value in parse_qsl(parts.query) if name != "pkipath"]
        return urlunsplit(parts._replace(query=urlencode(kept)))


def _complain(trouble: Trouble, error: DriverError) -> None:
    """A host that does not answer is told of by its connection."""
    if not isinstance(error, HostDown | Unreachable):
        trouble.is_met(error)


@contextmanager
def told(host: str) -> Iterator[None]:
    """libvirt's errors in its words, and those of files on this machine, as DriverErrors."""
    with room_for(f"copy a file from or to host {host}"):
        try:
            yield
        except libvirt.libvirtError as error:
            raise DriverError(f"host {host}: {error}") from error


async def of_all(hosts: Iterable[Host], ask: Callable[[Host], Coroutine[Any, Any, T]], clock: IReactorTime) -> list[T]:
    """The answer of each host, queried at the same time. The reactor runs between two of them: starting a thread waits
    for those that were started before, and with hundreds of hosts that adds up to seconds.
    """
    asked: list[Deferred[T]] = []
    for host in hosts:
        asked.append(ensureDeferred(ask(host)))
        await deferLater(clock, 0)
    return await all_of(asked)
