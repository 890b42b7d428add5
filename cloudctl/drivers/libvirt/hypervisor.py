"""The hypervisor driver `libvirt`: guests on hosts that their own libvirtd looks after.

All that is known of a guest is its domain on its host, so nothing is kept here: any process may ask for anything.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import libvirt
from attrs import define, field
from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import implementer

from cloudctl.drivers.errors import DriverError, HostDown, UnknownGuest, UnknownHost, Unreachable, Unusable
from cloudctl.drivers.interfaces import (
    IDiagnostics,
    IGuestEvents,
    IHypervisor,
    IPause,
    IResizeAttached,
    ISuspend,
)
from cloudctl.drivers.libvirt import domain, guests
from cloudctl.drivers.libvirt.connections import HostConnection
from cloudctl.drivers.libvirt.domain import Paths
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.libvirt.storage import Storage
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.programs import Programs, require
from cloudctl.drivers.qemu.console import last_lines
from cloudctl.drivers.qemu.disks import Disks
from cloudctl.drivers.qemu.records import Files
from cloudctl.drivers.specs import (
    DriverResources,
    GuestDiagnostics,
    GuestSpec,
    GuestState,
    HostInventory,
    PortSpec,
    VolumeConnection,
)

INTERFACES = (IHypervisor, IPause, ISuspend, IDiagnostics, IResizeAttached, IGuestEvents)

P = ParamSpec("P")
T = TypeVar("T")

log = Logger()

__all__ = ["INTERFACES", "Config", "Libvirt", "create"]


def create(config: Config, resources: DriverResources) -> Libvirt:
    hosts = {
        name: Host(HostConnection(name, uri, config, resources.reactor, resources.clock), config)
        for name, uri in sorted(config.hosts.items())
    }
    disks = Disks(Programs(resources.reactor, resources.clock), resources.reactor, Path(), 0.0)
    return Libvirt(config, resources, hosts, disks)


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

    async def states(self) -> list[GuestState]:
        """None of a host that is down."""
        try:
            found = await self.connection.run(guests.states, self.name)
        except (HostDown, Unreachable):
            return []
        self.guests = frozenset(each.id for each in found)
        return found


@implementer(*INTERFACES)
@define(eq=False)
class Libvirt:
    config: Config
    resources: DriverResources
    hosts_by_name: Mapping[str, Host]
    disks: Disks  # for config drives, which are made here
    _locks: Locks = field(factory=Locks)  # one call for a guest, or for an image on a host, at a time
    _watching: LoopingCall | None = None

    async def check(self) -> None:
        require("genisoimage")
        if not self.config.hosts:
            raise Unusable('hosts must name at least one: { east = "qemu+tls://east.example.com/system" }')
        if self.resources.reactor is None:
            raise Unusable("it needs a reactor, so it cannot be used in an in-memory cloud")

    async def close(self) -> None:
        if self._watching is not None and self._watching.running:
            self._watching.stop()
        for host in self.hosts_by_name.values():
            await host.connection.close()

    # -- what is

    async def hosts(self) -> tuple[HostInventory, ...]:
        asked = [ensureDeferred(host.inventory()) for host in self.hosts_by_name.values()]
        return tuple(await gatherResults(asked, consumeErrors=True))

    async def inventory(self) -> tuple[GuestState, ...]:
        asked = [ensureDeferred(host.states()) for host in self.hosts_by_name.values()]
        found = await gatherResults(asked, consumeErrors=True)
        return tuple(sorted((state for states in found for state in states), key=lambda state: state.id))

    async def observe(self, id: str) -> GuestState:
        host = await self._where(id)
        return await self._run(host, guests.state, id, host.name)

    async def console_output(self, id: str, lines: int | None = None) -> str:
        host = await self._where(id)
        return last_lines(await self._run(host, self._console, id), lines)

    def _console(self, connection: Any, id: str) -> bytes:
        guests.get(connection, id)
        name = Paths(self.config.directory, id).volume("console")
        return Storage(self.config, connection).tail(name, self.config.console_kib << 10)

    async def diagnostics(self, id: str) -> GuestDiagnostics:
        return await self._run(await self._where(id), guests.diagnostics, id)

    async def watch_guests(self, changed: Callable[[str], None]) -> None:
        for host in self.hosts_by_name.values():
            host.connection.changed = changed
        # Whoever comes back is listened to again.
        self._watching = LoopingCall(self.inventory)
        self._watching.clock = self.resources.clock
        self._watching.start(max(self.config.retry_seconds, 10.0))

    # -- defined and gone

    async def ensure_defined(self, spec: GuestSpec) -> None:
        host = self._host(spec.host)
        async with self._locks.hold(spec.id):
            # From a host that is down it cannot move: a guest that was there is made anew.
            there = await self._find(spec.id, of_those_up=True)
            if there is not None and there is not host:
                raise DriverError(
                    f"guest {spec.id} is on {there.name}; this driver does not move disks between libvirt hosts yet"
                )
            with tempfile.TemporaryDirectory(prefix="cloudctl-") as directory:
                drive = None
                if spec.config_drive:
                    files = Files(Path(directory), Path(directory))
                    await self.disks.make_config_drive(spec, files)
                    drive = files.config_drive
                # Two guests of one image do not copy it at the same time.
                async with self._locks.hold(host.name, spec.image.id if spec.image is not None else spec.id):
                    await self._copy(host, guests.define, self.config, spec, drive)
            host.guests = (host.guests or frozenset()) | {spec.id}

    async def ensure_absent(self, id: str) -> None:
        async with self._locks.hold(id):
            down, was_there = [], False
            for host in self.hosts_by_name.values():
                try:
                    was_there |= await self._run(host, guests.remove, self.config, id)
                    host.guests = (host.guests or frozenset()) - {id}
                except HostDown as error:
                    down.append((host, error))
            for host, refused in down:
                # It was there, or may be: whoever never answered may have what was found nowhere.
                if id in host.guests if host.guests is not None else not was_there:
                    raise refused

    # -- power

    async def ensure_running(self, id: str) -> None:
        async with self._at(id) as host:
            await self._run(host, guests.start, id)

    async def ensure_stopped(self, id: str, timeout: float = 60.0) -> None:
        async with self._at(id) as host:
            await self._within(timeout, host, guests.stop, id, timeout)

    async def ensure_rebooted(self, id: str, token: str, hard: bool = False) -> None:
        timeout = 0.0 if hard else self.config.soft_reboot_timeout
        async with self._at(id) as host:
            await self._within(timeout, host, guests.reboot, id, token, timeout)

    async def ensure_paused(self, id: str) -> None:
        async with self._at(id) as host:
            await self._run(host, guests.pause, id)

    async def ensure_suspended(self, id: str) -> None:
        async with self._at(id) as host:
            await self._copy(host, guests.suspend, id)

    # -- devices

    async def ensure_volume_attached(self, id: str, connection: VolumeConnection) -> None:
        async with self._at(id) as host:
            await self._run(host, guests.attach_volume, id, connection)

    async def ensure_volume_detached(self, id: str, volume_id: str) -> None:
        await self._detach(id, domain.volume_alias(volume_id))

    async def ensure_volume_size(self, id: str, volume_id: str, size_gib: int) -> None:
        async with self._at(id) as host:
            await self._run(host, guests.grow, id, volume_id, size_gib)

    async def ensure_port_attached(self, id: str, port: PortSpec) -> None:
        async with self._at(id) as host:
            await self._run(host, guests.attach_port, id, port)

    async def ensure_port_detached(self, id: str, port_id: str) -> None:
        await self._detach(id, domain.port_alias(port_id))

    async def _detach(self, id: str, alias: str) -> None:
        async with self._locks.hold(id):
            host = await self._find(id)
            if host is not None:
                timeout = self.config.unplug_timeout
                await self._within(timeout, host, guests.detach, id, alias, timeout)

    # -- where

    def _host(self, name: str) -> Host:
        """Raises UnknownHost."""
        if name not in self.hosts_by_name:
            raise UnknownHost(name)
        return self.hosts_by_name[name]

    @asynccontextmanager
    async def _at(self, id: str) -> AsyncIterator[Host]:
        """The host of a guest, for which nobody else works meanwhile. Raises UnknownGuest, HostDown."""
        async with self._locks.hold(id):
            yield await self._where(id)

    async def _where(self, id: str) -> Host:
        """Raises UnknownGuest, HostDown."""
        found = await self._find(id)
        if found is None:
            raise UnknownGuest(id)
        return found

    async def _find(self, id: str, *, of_those_up: bool = False) -> Host | None:
        """Where it is, first asked where it was. Raises HostDown if it was, or may be, on one that is down.

        `of_those_up`: what is down is left out.
        """
        down: list[HostDown] = []
        known = sorted(self.hosts_by_name.values(), key=lambda host: id not in (host.guests or ()))
        for host in known:
            try:
                if await self._run(host, guests.find, id) is not None:
                    return host
            except HostDown as error:
                if not of_those_up and (host.guests is None or id in host.guests):
                    down.append(error)
        if down:
            raise down[0]
        return None

    # -- calls

    async def _run(self, host: Host, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._within(0.0, host, fn, *args, **kwargs)

    async def _copy(self, host: Host, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._within(self.config.copy_timeout, host, fn, *args, **kwargs)

    async def _within(
        self, seconds: float, host: Host, fn: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`seconds`: that the call waits by itself. What libvirt refuses is told in its words."""
        limit = seconds + self.config.answer_timeout
        try:
            return await host.connection.run_within(limit, fn, *args, **kwargs)
        except libvirt.libvirtError as error:
            raise DriverError(f"host {host.name}: {error}") from error
