"""The hypervisor driver `libvirt`: guests on hosts that are managed by their own libvirtd.

All that is known about a guest is its domain on its host. Nothing is stored here, so any process may request anything.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from attrs import define, evolve, field
from twisted.internet.interfaces import IProtocol
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import implementer

from cloudctl.drivers.errors import (
    DriverError,
    HostDown,
    Unreachable,
    Unusable,
)
from cloudctl.drivers.interfaces import (
    ICaptureAttached,
    ICrashDump,
    IDiagnostics,
    IElsewhere,
    IGuestEvents,
    IHypervisor,
    ILiveMigrate,
    IPause,
    IRescue,
    IResizeAttached,
    ISerialConsole,
    ISnapshot,
    ISuspend,
    ISwapVolume,
)
from cloudctl.drivers.libvirt import capture, console, domain, guests, leading
from cloudctl.drivers.libvirt.connections import HostConnection, is_tls, tls_context
from cloudctl.drivers.libvirt.domain import Paths
from cloudctl.drivers.libvirt.fleet import Fleet
from cloudctl.drivers.libvirt.guests import Made, is_superseded
from cloudctl.drivers.libvirt.host import Host, of_all
from cloudctl.drivers.libvirt.moves import Moves
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.libvirt.rescues import Rescues
from cloudctl.drivers.libvirt.storage import GIB, Storage
from cloudctl.drivers.programs import Programs, require
from cloudctl.drivers.qcow2.images import Images
from cloudctl.drivers.qemu.console import last_lines
from cloudctl.drivers.qemu.disks import Disks, is_plain
from cloudctl.drivers.qemu.records import Files
from cloudctl.drivers.rbd.disk import RbdDisk
from cloudctl.drivers.rbd.roots import RootDisks, root_disks
from cloudctl.drivers.specs import (
    ConnectionInfo,
    DriverResources,
    GuestDiagnostics,
    GuestSpec,
    GuestState,
    HostInventory,
    ImageSource,
    MigrationProgress,
    PortSpec,
    VolumeConnection,
)
from cloudctl.trouble import Trouble

INTERFACES = (
    IHypervisor, IPause, ISuspend, ISnapshot, IRescue, IResizeAttached, IGuestEvents, IDiagnostics, ICrashDump,
    ISerialConsole, ILiveMigrate, ICaptureAttached, ISwapVolume,
)  # fmt: skip

UNSEEN = "the guests of the hosts could not be looked at"
KEEP_SECONDS = 86400.0  # for which an image converted here is kept after it was last copied to a host

log = Logger()

__all__ = ["INTERFACES", "Config", "Libvirt", "create"]


def create(config: Config, resources: DriverResources) -> Libvirt:
    hosts = {
        name: Host(HostConnection(name, uri, config, resources.reactor, resources.clock), config)
        for name, uri in sorted(config.hosts.items())
    }
    cache = (resources.state_dir or Path()).absolute() / "images"
    programs = Programs(resources.reactor, resources.clock)
    disks = Disks(programs, resources.reactor, cache, KEEP_SECONDS, config.copy_timeout)
    roots = root_disks(config.rbd, resources) if config.root_disks == "rbd" else None
    return Libvirt(config, resources, Fleet(config, hosts), disks, roots)


@implementer(*INTERFACES, IElsewhere)
@define(eq=False)
class Libvirt:
    config: Config
    resources: DriverResources
    fleet: Fleet
    disks: Disks  # for what is made here: config drives, and images in other formats
    roots: RootDisks | None = None  # None: root disks are files on the hosts
    _watching: LoopingCall | None = None
    _unseen: Trouble = field(
        factory=lambda: Trouble(log, UNSEEN, "the guests of the hosts can be looked at again"), init=False
    )

    elsewhere = True

    @property
    def moves(self) -> Moves:
        return Moves(self.config, self.resources, self.fleet, self.roots)

    @property
    def rescues(self) -> Rescues:
        return Rescues(self.config, self.fleet, self.disks, self.roots)

    async def check(self) -> None:
        require("genisoimage")
        if not self.config.hosts:
            raise Unusable('hosts must name at least one: { east = "qemu+tls://east.example.com/system" }')
        for name, uri in self.config.hosts.items():
            try:
                if is_tls(uri):
                    tls_context(uri)
            except OSError as error:
                raise Unusable(f"host {name} is reached by TLS: {error}") from error
        if self.resources.reactor is None:
            raise Unusable("it needs a reactor, so it cannot be used in an in-memory cloud")
        if self.roots is not None:
            self.roots.check(namespaces=False)

    async def close(self) -> None:
        if self._watching is not None and self._watching.running:
            self._watching.stop()
        for host in self.fleet.hosts.values():
            await host.connection.close()

    # -- state

    async def hosts(self) -> tuple[HostInventory, ...]:
        size = None if self.roots is None else await self.roots.size_gib()
        asked = partial(Host.inventory, disk_gib=size)
        return tuple(await of_all(self.fleet.hosts.values(), asked, self.resources.clock))

    async def inventory(self) -> tuple[GuestState, ...]:
        """Of two guests with one id the later one is valid: the other was on a host that was down when it was made."""
        found = await of_all(self.fleet.hosts.values(), Host.states, self.resources.clock)
        made = sorted((each for states in found for each in states), key=lambda each: (each[0].id, each[1]))
        return tuple(state for state, _made in made)

    async def drop_superseded(self) -> None:
        """Hosts that return drop their copies of guests that were recreated, or went on, elsewhere meanwhile."""
        twice = Counter(id for host in self.fleet.hosts.values() for id in host.guests or ())
        for id in (id for id, times in twice.items() if times > 1):
            async with self.fleet.locks.hold(id):
                found = {host: made for host in self.fleet.hosts.values() if (made := await self._made(host, id))}
                last = max(found, key=lambda host: found[host], default=None)
                for host, made in found.items():
                    if last is not None and is_superseded(made, found[last]):
                        log.warn(
                            "guest {id} is on {new} now; dropped it from {old}", id=id, new=last.name, old=host.name
                        )
                        await self.moves.clear(host, id, last)

    async def _made(self, host: Host, id: str) -> Made | None:
        """Also None if the host is down."""
        try:
            return await self.fleet.run(host, guests.made, id)
        except (HostDown, Unreachable):
            return None

    async def observe(self, id: str) -> GuestState:
        host = await self.fleet.where(id)
        return await self.fleet.run(host, guests.state, id, host.name)

    async def console_output(self, id: str, lines: int | None = None) -> str:
        host = await self.fleet.where(id)
        return last_lines(await self.fleet.run(host, self._console, id), lines)

    def _console(self, connection: Any, id: str) -> bytes:
        guests.get(connection, id)
        name = Paths(self.config.directory, id).volume("console")
        return Storage(self.config, connection).tail(name, self.config.console_kib << 10)

    async def diagnostics(self, id: str) -> GuestDiagnostics:
        return await self.fleet.run(await self.fleet.where(id), guests.diagnostics, id)

    async def open_serial(self, id: str, client: IProtocol) -> None:
        await console.open_serial(self.resources.reactor, self.fleet, await self.fleet.where(id), id, client)

    async def ensure_interrupted(self, id: str, token: str) -> None:
        async with self.fleet.at(id) as host:
            await self.fleet.run(host, guests.interrupt, id, token)

    async def watch_guests(self, changed: Callable[[str], None]) -> None:
        for host in self.fleet.hosts.values():
            host.connection.changed = changed
        if self._watching is not None:
            return
        # Polling reconnects to hosts that return, whose events are then received again.
        self._watching = LoopingCall(self._look)
        self._watching.clock = self.resources.clock
        self._watching.start(max(self.config.retry_seconds, 10.0))

    async def _look(self) -> None:
        try:
            await self.inventory()
            await self.drop_superseded()
            self._unseen.is_over()
        except DriverError as error:
            self._unseen.is_met(error)
        except Exception:
            # Whatever it is, it must not end the looks: hosts that return would not be heard any more.
            log.failure(UNSEEN)

    # -- defined and gone

    async def ensure_defined(self, spec: GuestSpec) -> None:
        host = self.fleet.named(spec.host)
        async with self.fleet.locks.hold(spec.id):
            # A guest cannot move off a host that is down: it is recreated.
            there = await self.fleet.find(spec.id, of_those_up=True)
            moves = there is not None and there is not host
            if there is not None and moves:
                await self.moves.carried(there, host, spec.id)
            with tempfile.TemporaryDirectory(prefix="cloudctl-") as directory:
                drive = None
                if spec.config_drive:
                    files = Files(Path(directory), Path(directory))
                    await self.disks.make_config_drive(spec, files)
                    drive = files.config_drive
                root = await self._root(host, spec)
                # Two guests of one image must not copy it at the same time.
                async with self.fleet.locks.hold(host.name, spec.image.id if spec.image is not None else spec.id):
                    now = self.resources.clock.seconds()
                    if root is None:
                        spec = await self._plain(host, spec)
                    await self.fleet.copy(host, guests.define, self.config, spec, drive, now, root)
            host.gained(spec.id)
            if there is not None and moves:
                await self.moves.clear(there, spec.id, host)

    async def _root(self, host: Host, spec: GuestSpec) -> RbdDisk | None:
        """The guest's root disk, if it is not a file."""
        if self.roots is None or spec.image is None:
            return None
        may_grow, is_file = await self.fleet.run(host, guests.root, self.config, spec.id)
        return None if is_file else await self.roots.ensure(spec.id, spec.image, spec.disk_gib, may_grow=may_grow)

    async def _plain(self, host: Host, spec: GuestSpec) -> GuestSpec:
        """The spec, its image converted if the root disk is still to be made and cannot be made from it as it is."""
        if spec.image is None or is_plain(spec.image):
            return spec
        _off, is_file = await self.fleet.run(host, guests.root, self.config, spec.id)
        if is_file:
            return spec
        return evolve(spec, image=await self.disks.plain(spec.image, spec.disk_gib * GIB))

    async def ensure_absent(self, id: str) -> None:
        async with self.fleet.locks.hold(id):
            down: list[tuple[Host, DriverError]] = []
            was_there, rescuing = False, False
            for host in self.fleet.hosts.values():
                try:
                    notes = await self.fleet.run(host, guests.remove, self.config, id)
                    if notes is not None:
                        was_there, rescuing = True, rescuing or notes.rescuing
                    host.lost(id)
                except DriverError as error:
                    down.append((host, error))
            # A host that is down may be passed over, which must not hide another trouble.
            for host, refused in sorted(down, key=lambda each: isinstance(each[1], HostDown)):
                # The guest was there, or may be: a host that never answered may have a guest that no other host has.
                if id in host.guests if host.guests is not None else not was_there:
                    raise refused
            if self.roots is not None:
                # For a guest found nowhere this is unknown: it may have been half removed.
                await self.roots.remove(id, rescued=rescuing or not was_there)
        self.disks.sweep(())

    # -- power

    async def ensure_running(self, id: str) -> None:
        async with self.fleet.at(id) as host:
            await self.fleet.run(host, guests.start, id)

    async def ensure_stopped(self, id: str, timeout: float = 60.0) -> None:
        async with self.fleet.at(id) as host:
            await self.fleet.within(timeout, host, guests.stop, id, timeout)

    async def ensure_rebooted(self, id: str, token: str, hard: bool = False) -> None:
        timeout = 0.0 if hard else self.config.soft_reboot_timeout
        async with self.fleet.at(id) as host:
            await self.fleet.within(timeout, host, guests.reboot, id, token, timeout)

    async def ensure_paused(self, id: str) -> None:
        async with self.fleet.at(id) as host:
            await self.fleet.run(host, guests.pause, id)

    async def ensure_suspended(self, id: str) -> None:
        async with self.fleet.at(id) as host:
            await self.fleet.copy(host, guests.suspend, id)

    async def ensure_rescued(self, id: str, image: ImageSource | None, password: str) -> None:
        await self.rescues.begun(id, image, password)

    async def ensure_unrescued(self, id: str) -> None:
        await self.rescues.ended(id)

    # -- devices

    async def ensure_volume_attached(self, id: str, connection: VolumeConnection) -> None:
        async with self.fleet.at(id) as host:
            await self.fleet.run(host, guests.attach_volume, id, connection)

    async def ensure_volume_detached(self, id: str, volume_id: str) -> None:
        await self._detach(id, domain.volume_alias(volume_id))

    async def ensure_volume_size(self, id: str, volume_id: str, size_gib: int) -> None:
        async with self.fleet.at(id) as host:
            await self.fleet.run(host, guests.grow, id, volume_id, size_gib)

    async def ensure_volume_swapped(self, id: str, volume_id: str, info: ConnectionInfo, exact: bool = False) -> None:
        async with self.fleet.at(id) as host:
            volume, timeout = VolumeConnection(volume_id, info), self.config.copy_timeout
            await self.fleet.copy(host, leading.lead, id, volume, exact, timeout)

    async def ensure_port_attached(self, id: str, port: PortSpec) -> None:
        async with self.fleet.at(id) as host:
            await self.fleet.run(host, guests.attach_port, id, port)

    async def ensure_port_detached(self, id: str, port_id: str) -> None:
        await self._detach(id, domain.port_alias(port_id))

    async def _detach(self, id: str, alias: str) -> None:
        async with self.fleet.locks.hold(id):
            host = await self.fleet.find(id)
            if host is not None:
                timeout = self.config.unplug_timeout
                await self.fleet.within(timeout, host, guests.detach, id, alias, timeout)

    # -- content of disks

    async def ensure_captured(self, id: str, path: str) -> str:
        async with self.fleet.at(id) as host:
            _off, is_file = await self.fleet.run(host, guests.root, self.config, id)
            if self.roots is not None and not is_file:
                return await self.roots.copy(id, Path(path))
            with self.disks.whole(Path(path)) as beside:
                await self.fleet.copy(host, capture.capture, self.config, id, beside)
            return "qcow2"

    async def ensure_volume_captured(self, id: str, volume_id: str, path: str) -> str:
        async with self.fleet.at(id) as host:
            with tempfile.TemporaryDirectory(prefix=".", dir=Path(path).parent) as directory:
                copied, images = Path(directory, "copy"), Images(self.disks.programs, self.config.copy_timeout)
                await self.fleet.copy(host, capture.capture_volume, self.config, id, volume_id, copied)
                with self.disks.whole(Path(path)) as beside:
                    await images.write_raw(copied, "qcow2", beside)
            return "raw"

    # -- live migration

    async def ensure_migrated(self, spec: GuestSpec, disks: bool | None = None) -> None:
        await self.moves.made(spec, disks)

    async def migration_progress(self, id: str) -> MigrationProgress | None:
        return await self.moves.progress(id)

    async def ensure_migration_aborted(self, id: str) -> None:
        await self.moves.called_off(id)

    async def ensure_migration_forced(self, id: str) -> None:
        await self.moves.hurried(id)
