"""The hypervisor driver `libvirt`: guests on hosts that their own libvirtd looks after.

All that is known of a guest is its domain on its host, so nothing is kept here: any process may ask for anything.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import unquote

from attrs import define
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger
from zope.interface import implementer

from cloudctl.drivers.errors import (
    Aborted,
    Busy,
    DriverError,
    HostDown,
    InvalidPower,
    Unfit,
    Unreachable,
    Unusable,
)
from cloudctl.drivers.interfaces import (
    IDiagnostics,
    IElsewhere,
    IGuestEvents,
    IHypervisor,
    ILiveMigrate,
    IPause,
    IResizeAttached,
    ISnapshot,
    ISuspend,
)
from cloudctl.drivers.libvirt import capture, carrying, domain, guests, migration, secrets
from cloudctl.drivers.libvirt.carrying import Part
from cloudctl.drivers.libvirt.connections import HostConnection
from cloudctl.drivers.libvirt.domain import Paths
from cloudctl.drivers.libvirt.fleet import Fleet
from cloudctl.drivers.libvirt.guests import Made, is_superseded
from cloudctl.drivers.libvirt.host import Host, of_all
from cloudctl.drivers.libvirt.lateness import Seen, attended
from cloudctl.drivers.libvirt.migration import Outcome, Standing
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.libvirt.storage import IMAGE, Storage
from cloudctl.drivers.programs import Programs, require
from cloudctl.drivers.qemu.console import last_lines
from cloudctl.drivers.qemu.disks import Disks
from cloudctl.drivers.qemu.records import Files
from cloudctl.drivers.rbd.disk import RbdDisk, rbd_disks
from cloudctl.drivers.rbd.roots import RootDisks, root_disks
from cloudctl.drivers.specs import (
    DriverResources,
    GuestDiagnostics,
    GuestSpec,
    GuestState,
    HostInventory,
    MigrationProgress,
    PortSpec,
    Power,
    VolumeConnection,
)

INTERFACES = (IHypervisor, IPause, ISuspend, ISnapshot, ILiveMigrate, IDiagnostics, IResizeAttached, IGuestEvents)

# The end of a migration takes libvirtd moments; one that was killed then ends it when it returns.
SETTLING_SECONDS = 10.0

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
    roots = root_disks(config.rbd, resources) if config.root_disks == "rbd" else None
    return Libvirt(config, resources, Fleet(config, hosts), disks, roots)


@implementer(*INTERFACES, IElsewhere)
@define(eq=False)
class Libvirt:
    config: Config
    resources: DriverResources
    fleet: Fleet
    disks: Disks  # for config drives, which are made here
    roots: RootDisks | None = None  # None: they are files of the hosts
    _watching: LoopingCall | None = None

    elsewhere = True

    async def check(self) -> None:
        require("genisoimage")
        if not self.config.hosts:
            raise Unusable('hosts must name at least one: { east = "qemu+tls://east.example.com/system" }')
        if self.resources.reactor is None:
            raise Unusable("it needs a reactor, so it cannot be used in an in-memory cloud")
        if self.roots is not None:
            self.roots.check(namespaces=False)

    async def close(self) -> None:
        if self._watching is not None and self._watching.running:
            self._watching.stop()
        for host in self.fleet.hosts.values():
            await host.connection.close()

    # -- what is

    async def hosts(self) -> tuple[HostInventory, ...]:
        size = None if self.roots is None else await self.roots.size_gib()
        asked = partial(Host.inventory, disk_gib=size)
        return tuple(await of_all(self.fleet.hosts.values(), asked, self.resources.clock))

    async def inventory(self) -> tuple[GuestState, ...]:
        """Of two guests of one id the one that was made later is meant: the other was on a host that was down then."""
        found = await of_all(self.fleet.hosts.values(), Host.states, self.resources.clock)
        made = sorted((each for states in found for each in states), key=lambda each: (each[0].id, each[1]))
        return tuple(state for state, _made in made)

    async def drop_superseded(self) -> None:
        """Hosts that return drop their copies of guests that were made anew elsewhere meanwhile, or went on there."""
        twice = Counter(id for host in self.fleet.hosts.values() for id in host.guests or ())
        for id in (id for id, times in twice.items() if times > 1):
            async with self.fleet.locks.hold(id):
                found = {host: made for host in self.fleet.hosts.values() if (made := await self._made(host, id))}
                last = max(found, key=lambda host: found[host], default=None)
                for host, made in found.items():
                    if last is not None and is_superseded(made, found[last]):
                        log.warn("guest {id} is on {new} now: {old} drops it", id=id, new=last.name, old=host.name)
                        await self._clear(host, id, last)

    async def _made(self, host: Host, id: str) -> Made | None:
        """None, too, of a host that is down."""
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

    async def watch_guests(self, changed: Callable[[str], None]) -> None:
        for host in self.fleet.hosts.values():
            host.connection.changed = changed
        # Whoever comes back is listened to again.
        self._watching = LoopingCall(self._look)
        self._watching.clock = self.resources.clock
        self._watching.start(max(self.config.retry_seconds, 10.0))

    async def _look(self) -> None:
        try:
            await self.inventory()
            await self.drop_superseded()
        except DriverError as error:
            log.warn("the guests of the hosts could not be looked at: {error}", error=error)

    # -- defined and gone

    async def ensure_defined(self, spec: GuestSpec) -> None:
        host = self.fleet.named(spec.host)
        async with self.fleet.locks.hold(spec.id):
            # From a host that is down it cannot move: a guest that was there is made anew.
            there = await self.fleet.find(spec.id, of_those_up=True)
            moves = there is not None and there is not host
            if there is not None and moves:
                await self._carry(there, host, spec.id)
            with tempfile.TemporaryDirectory(prefix="cloudctl-") as directory:
                drive = None
                if spec.config_drive:
                    files = Files(Path(directory), Path(directory))
                    await self.disks.make_config_drive(spec, files)
                    drive = files.config_drive
                root = await self._root(host, spec)
                # Two guests of one image do not copy it at the same time.
                async with self.fleet.locks.hold(host.name, spec.image.id if spec.image is not None else spec.id):
                    now = self.resources.clock.seconds()
                    await self.fleet.copy(host, guests.define, self.config, spec, drive, now, root)
            host.gained(spec.id)
            if there is not None and moves:
                await self._clear(there, spec.id, host)

    async def _root(self, host: Host, spec: GuestSpec) -> RbdDisk | None:
        """Its root disk, if that is no file."""
        if self.roots is None or spec.image is None:
            return None
        may_grow, is_file = await self.fleet.run(host, guests.root, self.config, spec.id)
        return None if is_file else await self.roots.ensure(spec.id, spec.image, spec.disk_gib, may_grow=may_grow)

    async def _carry(self, there: Host, host: Host, id: str) -> None:
        """The disks of a guest that is off are on this host, too. Raises InvalidPower."""
        found = await self.fleet.run(there, guests.state, id, there.name)
        if found.power not in guests.OFF:
            raise InvalidPower(f"guest {id} is {found.power.value}; its size and host can only change while it is off")
        if not await self._share(there, host):
            having = await self._based(there, host, id)
            await self._between(there, host, carrying.carry, id, having)

    async def _based(self, there: Host, host: Host, id: str) -> list[Part]:
        """What a guest has; what its disks are based on is on the other host, too."""
        having = await self.fleet.run(there, lambda found: carrying.parts(Storage(self.config, found), id))
        for base in {part.base for part in having if part.base is not None}:
            # The same lock as of one that is made of the image.
            async with self.fleet.locks.hold(host.name, unquote(base.removeprefix(IMAGE))):
                await self._between(there, host, carrying.carry_base, base)
        return having

    async def _share(self, there: Host, host: Host) -> bool:
        return await self._between(there, host, carrying.shares)

    async def _between(
        self,
        there: Host,
        host: Host,
        fn: Callable[Concatenate[Storage, Storage, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """`fn(storage there, storage here, …)`."""
        await host.connection.opened()

        def call(found: Any) -> T:
            def both(other: Any) -> T:
                return fn(Storage(self.config, found), Storage(self.config, other), *args, **kwargs)

            return host.connection.alone(both)

        return await self.fleet.copy(there, call)

    async def _clear(self, host: Host, id: str, keeper: Host) -> None:
        """The host has nothing of a guest that `keeper` has. Disks that both of them see stay."""
        if await self._share(host, keeper):
            await self.fleet.run(host, migration.drop, id)
        else:
            await self.fleet.run(host, guests.remove, self.config, id)
        host.lost(id)

    async def ensure_absent(self, id: str) -> None:
        async with self.fleet.locks.hold(id):
            down, was_there = [], False
            for host in self.fleet.hosts.values():
                try:
                    was_there |= await self.fleet.run(host, guests.remove, self.config, id)
                    host.lost(id)
                except HostDown as error:
                    down.append((host, error))
            for host, refused in down:
                # It was there, or may be: whoever never answered may have what was found nowhere.
                if id in host.guests if host.guests is not None else not was_there:
                    raise refused
            if self.roots is not None:
                await self.roots.remove(id)

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

    # -- devices

    async def ensure_volume_attached(self, id: str, connection: VolumeConnection) -> None:
        async with self.fleet.at(id) as host:
            await self.fleet.run(host, guests.attach_volume, id, connection)

    async def ensure_volume_detached(self, id: str, volume_id: str) -> None:
        await self._detach(id, domain.volume_alias(volume_id))

    async def ensure_volume_size(self, id: str, volume_id: str, size_gib: int) -> None:
        async with self.fleet.at(id) as host:
            await self.fleet.run(host, guests.grow, id, volume_id, size_gib)

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

    # -- its root disk

    async def ensure_captured(self, id: str, path: str) -> str:
        async with self.fleet.at(id) as host:
            _off, is_file = await self.fleet.run(host, guests.root, self.config, id)
            if self.roots is not None and not is_file:
                return await self.roots.copy(id, Path(path))
            beside = Path(f"{path}.new")
            try:
                await self.fleet.copy(host, capture.capture, self.config, id, beside)
                beside.replace(path)
            finally:
                beside.unlink(missing_ok=True)
            return "qcow2"

    # -- on its way

    async def ensure_migrated(self, spec: GuestSpec, disks: bool | None = None) -> None:
        to = self.fleet.named(spec.host)
        async with self.fleet.locks.hold(spec.id):
            # Look at both first: a process before this one may have begun it, or ended it.
            source = await self._settled(spec.id, to)
            state = await self.fleet.run(source, guests.state, spec.id, source.name)
            if state.power not in (Power.RUNNING, Power.PAUSED):
                raise InvalidPower(f"guest {spec.id} is {state.power.value}; only one that is on can be moved so")
            if source is not to:
                await self._move(source, to, spec, disks)

    async def _settled(self, id: str, to: Host) -> Host:
        """Where a guest is that nobody moves: if it was moved away, the end of that is awaited, and nothing is left of
        it elsewhere. Raises UnknownGuest, HostDown, InvalidPower.
        """
        await self.fleet.run(to, migration.standing, id)
        source = await self.fleet.where(id)
        if source is not to and await self.fleet.run(source, migration.standing, id) is Standing.LEAVING:
            await self._attended(source, id, self.fleet.copy(source, migration.wait, id))
            source = await self.fleet.where(id)
        if source is to:
            # It may have arrived while the other one was told nothing of it, or could not be told.
            for host in await self._left_by(id, to):
                await self._clear(host, id, to)
            return to
        return await self._one_of(source, to, id)

    async def _one_of(self, source: Host, to: Host, id: str) -> Host:
        """The host of these on which a guest goes on that nobody moves any more. Of the other one, which has to answer,
        nothing is left. Raises HostDown, Busy.
        """
        give_up = self.resources.clock.seconds() + SETTLING_SECONDS
        while True:
            there, here = [await self.fleet.run(host, migration.standing, id) for host in (source, to)]
            found = migration.outcome(there, here)
            if found is not Outcome.OPEN or self.resources.clock.seconds() >= give_up:
                break
            await deferLater(self.resources.clock, guests.POLL_SECONDS)
        if there is Standing.LEAVING:
            raise Busy(f"guest {id} is moved by somebody else")
        if found is Outcome.ARRIVED:
            if there is Standing.LEFT:
                await self._clear(source, id, to)
            to.gained(id)
            return to
        if here is Standing.ARRIVING:
            # Nobody sends it.
            await self.fleet.run(to, migration.drop, id)
        elif here is not Standing.ABSENT and there is not Standing.ABSENT:
            await self._clear(to, id, source)
        if there is Standing.LEFT:
            await self.fleet.run(source, migration.stay, id)
        return source

    async def _left_by(self, id: str, to: Host) -> list[Host]:
        """The hosts on which a guest stands still, or may have its disks, that is on this one."""
        may_have = [each for each in self.fleet.hosts.values() if each is not to and id in (each.guests or ())]
        left = Standing.LEFT, Standing.ABSENT
        return [each for each in may_have if await self.fleet.run(each, migration.standing, id) in left]

    async def _move(self, source: Host, to: Host, spec: GuestSpec, disks: bool | None) -> None:
        shared = await self._share(source, to)
        having = await self.fleet.run(source, lambda found: carrying.parts(Storage(self.config, found), spec.id))
        if disks is not None and disks == shared and any(part.name in carrying.MIRRORED for part in having):
            how = "both hosts see its disks" if shared else f"its disks cannot be seen from {to.name}"
            raise Unfit(f"guest {spec.id} cannot be moved so: {how}")
        roots = [self.roots.disk(spec.id)] if self.roots is not None else []
        await self.fleet.run(to, secrets.ensure, [*rbd_disks(spec.volumes), *roots])
        if not shared:
            await self._based(source, to, spec.id)
            await self._between(source, to, carrying.prepare, spec.id, having)
        try:
            # A late one is ended before this is.
            limit, uri = 2 * self.config.migration_timeout, to.peer_uri
            sent = Event()

            def send(found: Any) -> None:
                sent.set()
                migration.migrate(found, self.config, spec, uri, not shared)

            await self._attended(source, spec.id, self.fleet.within(limit, source, send), sent.is_set)
        except (DriverError, Aborted):
            if await self._has_arrived(spec.id, to):
                # All that was lost is the answer.
                return
            if not shared:
                await self._take_back(to, spec.id)
            raise
        to.gained(spec.id)
        try:
            await self._clear(source, spec.id, to)
        except DriverError as error:
            raise Unreachable(f"guest {spec.id} has arrived, but {source.name} may have its disks: {error}") from error

    async def _has_arrived(self, id: str, to: Host) -> bool:
        """Of a guest whose way ended somehow: if it has not, it goes on where it was. While one of them does not answer
        nobody knows, and whoever asks that the guest be not on its way asks again.
        """
        try:
            return await self._settled(id, to) is to
        except DriverError as error:
            log.warn("it is not known yet on which side guest {id} is: {why}", id=id, why=error)
            return False

    async def _take_back(self, to: Host, id: str) -> None:
        """The disks that were prepared for a guest that has not come; the next one that comes clears them, too."""
        try:
            if await self.fleet.run(to, migration.standing, id) is Standing.ABSENT:
                await self.fleet.run(to, lambda found: Storage(self.config, found).remove_all(id))
        except DriverError as error:
            log.warn("host {host} keeps disks that were prepared for guest {id}: {why}", host=to.name, id=id, why=error)

    async def _attended(
        self, source: Host, id: str, going: Coroutine[Any, Any, T], sent: Callable[[], bool] = lambda: True
    ) -> T:
        """What is late is given up, or hurried if allowed; what is over without a word is waited for no longer."""
        ending = partial(migration.hurry, config=self.config) if self.config.post_copy else migration.abort

        async def end() -> None:
            await self.fleet.copy(source, lambda found: ending(found, id=id))

        seen = Seen(sent)

        async def is_over() -> bool:
            return seen.is_over(await self.fleet.run(source, migration.is_leaving, id))

        return await attended(going, self.resources.clock, self.config, end, is_over)

    async def migration_progress(self, id: str) -> MigrationProgress | None:
        host = await self.fleet.find(id)
        return None if host is None else await self.fleet.run(host, migration.progress, id)

    async def ensure_migration_aborted(self, id: str) -> None:
        host = await self.fleet.find(id)
        if host is not None:
            await self.fleet.copy(host, migration.abort, id)
            if await self.fleet.run(host, migration.standing, id) is Standing.LEFT:
                await self._goes_on(host, id)

    async def _goes_on(self, host: Host, id: str) -> None:
        """It stands still on this host, and nowhere runs that we know of. Raises HostDown."""
        async with self.fleet.locks.hold(id):
            towards = await self.fleet.run(host, migration.towards, id)
            # One that was moved by a release that noted nothing may be on any of them.
            for other in [self.fleet.hosts[towards]] if towards in self.fleet.hosts else self.fleet.hosts.values():
                if other is not host and await self._one_of(host, other, id) is other:
                    break

    async def ensure_migration_forced(self, id: str) -> None:
        host = await self.fleet.find(id)
        if host is not None:
            await self.fleet.run(host, migration.hurry, self.config, id)
