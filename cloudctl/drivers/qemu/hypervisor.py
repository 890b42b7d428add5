"""The hypervisor driver `qemu`: one QEMU process per guest, which outlives this process and is found again."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from attrs import define, evolve, field
from twisted.internet.defer import ensureDeferred
from twisted.internet.interfaces import IProtocol
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import alsoProvides, implementer

from cloudctl.drivers.accounts import let_through
from cloudctl.drivers.errors import InvalidPower, Unfit, UnknownGuest, UnknownHost, Unreachable, Unusable
from cloudctl.drivers.interfaces import (
    ICaptureAttached,
    ICrashDump,
    IDiagnostics,
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
    IVncConsole,
)
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.programs import Programs, require
from cloudctl.drivers.qemu import command, console, diagnostics, host, plugging, processes, slots, switches
from cloudctl.drivers.qemu.cgroups import ControlGroups
from cloudctl.drivers.qemu.disks import GIB, Disks
from cloudctl.drivers.qemu.emulator import Emulator
from cloudctl.drivers.qemu.leading import Leading
from cloudctl.drivers.qemu.machines import OFF, Machines
from cloudctl.drivers.qemu.monitors import Monitors
from cloudctl.drivers.qemu.moves import Moves, Whose
from cloudctl.drivers.qemu.options import Config
from cloudctl.drivers.qemu.parts import Parts
from cloudctl.drivers.qemu.records import SEATS, Files, Record, Records, plugs, shape, wiring
from cloudctl.drivers.rbd.roots import root_disks
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
    Power,
    VolumeConnection,
)
from cloudctl.drivers.together import all_of

ALWAYS = (
    IHypervisor, IPause, ISuspend, ISnapshot, IRescue, IResizeAttached, IGuestEvents, IDiagnostics, ICrashDump,
    ISerialConsole, ILiveMigrate, ICaptureAttached, ISwapVolume,
)  # fmt: skip
INTERFACES = (*ALWAYS, IVncConsole)
SOCKET_PATH_LIMIT = 107  # bytes, unix(7)
TIDY_SECONDS = 10.0  # between two checks of how long the consoles have become

_log = Logger()

__all__ = ["INTERFACES", "Config", "Qemu", "create"]


def create(config: Config, resources: DriverResources) -> Qemu:
    state = (resources.state_dir or Path()).absolute()
    programs = Programs(resources.reactor, resources.clock, config.dry_run)
    records = Records(state, config.runtime_dir.absolute(), {} if config.dry_run else None)
    roots = root_disks(config.rbd, resources) if config.root_disks == "rbd" else None
    disks = Disks(programs, resources.reactor, state / "images", config.image_cache_seconds, config.copy_timeout, roots)
    monitors = Monitors(resources.reactor, resources.clock, config.answer_timeout, config.dry_run)
    groups = ControlGroups(Path(config.cgroup) if config.cgroup else None)
    plugged = switches.Switches(programs, config)
    machines = Machines(
        config, resources.clock, programs, records, monitors, disks, Emulator(programs), groups, plugged
    )
    made = Qemu(config, resources, machines, Parts(machines), Moves(machines), Leading(machines))
    if config.vnc:
        alsoProvides(made, IVncConsole)
    return made


@implementer(*ALWAYS)
@define(eq=False, slots=False)  # one of its capabilities depends on the configuration: see `create`
class Qemu:
    config: Config
    resources: DriverResources
    machines: Machines
    parts: Parts
    moves: Moves
    leading: Leading
    _locks: Locks = field(factory=Locks)  # one call per guest at a time
    _tidying: LoopingCall | None = None

    @property
    def records(self) -> Records:
        return self.machines.records

    @property
    def monitors(self) -> Monitors:
        return self.machines.monitors

    @property
    def disks(self) -> Disks:
        return self.machines.disks

    async def check(self) -> None:
        ip = ["ip"] if any(self.config.namespaces.values()) else []
        ovs = [switches.PROGRAM] if self.config.ovs_db else []
        require(command.PROGRAM, "qemu-img", "prlimit", "setpriv", "setsid", "genisoimage", *ip, *ovs)
        if strangers := sorted(self.config.ovs_db.keys() - self.config.namespaces.keys()):
            raise Unusable(f"ovs_db names {', '.join(strangers)}, and hosts does not")
        if self.resources.state_dir is None or self.resources.reactor is None:
            raise Unusable("it needs a state directory and a reactor, so it cannot be used in an in-memory cloud")
        if os.geteuid() != 0:
            raise Unusable("it must run as root to plug guests into network interfaces")
        if self.config.accelerator == "kvm" and not os.access("/dev/kvm", os.R_OK | os.W_OK):
            raise Unusable('cannot open /dev/kvm; set accelerator = "tcg" to run without it')
        if self.disks.roots is not None:
            if self.config.dry_run:
                raise Unusable('a dry run has no root disks in Ceph; set root_disks = "files"')
            self.disks.roots.check()
        longest = max(len(os.fsencode(self.records.files("", seat).serial)) for seat in SEATS)
        if longest > SOCKET_PATH_LIMIT:
            raise Unusable(f"a socket path would be {longest} bytes long; set runtime_dir to a shorter path")
        try:
            self.records.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            let_through(self.records.runtime_dir)
        except OSError as error:
            raise Unusable(f"cannot create {error.filename}: {error.strerror}") from error

    async def close(self) -> None:
        if self._tidying is not None and self._tidying.running:
            self._tidying.stop()
        self.monitors.close()

    # -- state

    async def hosts(self) -> tuple[HostInventory, ...]:
        config, version = self.config, await self.machines.emulator.version()
        disk_gib = config.disk_gib or await self.disks.size_gib(self.records.directory)
        return tuple(
            HostInventory(
                name,
                "QEMU",
                config.vcpus or os.cpu_count() or 1,
                config.memory_mib or host.memory_mib(),
                disk_gib,
                version,
                "127.0.0.1",
                host.cpu_info(),
                up_since=host.up_since(),
            )
            for name in sorted(config.namespaces)
        )

    async def inventory(self) -> tuple[GuestState, ...]:
        found = self.records.readable()
        asked = [ensureDeferred(self._state(record)) for record in found if self._has(record.spec.host)]
        states = await all_of(asked)
        return tuple(state for state in states if state is not None)

    async def observe(self, id: str) -> GuestState:
        state = await self._state(self._guest(id)[0])
        if state is None:
            raise UnknownGuest(id)
        return state

    async def _state(self, record: Record) -> GuestState | None:
        """None: the guest has been deleted meanwhile."""
        whose = Whose.OPEN
        try:
            record, whose = await self.moves.now(record)
        except Unreachable:
            pass  # its process hangs, so the guest has not gone on elsewhere
        spec, files = record.spec, self.records.files_of(record)
        volume_ids = [each.volume_id for each in spec.volumes]
        port_ids = [each.id for each in spec.ports]
        try:
            if record.trip is not None and whose is Whose.OPEN:
                power = record.trip.power
            else:
                power = await self.machines.power(record, files)
            if processes.find(files.pid) is not None:
                has = await plugging.plugged(await self.monitors.get(spec.id, files))
                volume_ids = [id for id in volume_ids if slots.volume(id) in has]
                port_ids = [id for id in port_ids if slots.port(id) in has]
        except Unreachable:
            if processes.find(files.pid) is None:
                # It has just ended.
                now = self.records.get(spec.id)
                return None if now is None else await self._state(now)
            # It hangs. All that is known is that there is a process.
            power = Power.RUNNING
        return GuestState(
            id=spec.id,
            host=spec.host,
            power=power,
            vcpus=spec.vcpus,
            memory_mib=spec.memory_mib,
            volume_ids=tuple(sorted(volume_ids)),
            port_ids=tuple(sorted(port_ids)),
            rescued=record.rescued,
        )

    async def console_output(self, id: str, lines: int | None = None) -> str:
        _, files = self._guest(id)
        return console.tail(files.console, lines, self.config.console_kib << 10)

    async def watch_guests(self, changed: Callable[[str], None]) -> None:
        self.monitors.changed = changed
        self._keep_consoles_short()
        await self.moves.tidied()
        await self.inventory()  # which connects to every guest that runs

    # -- defined and gone

    async def ensure_defined(self, spec: GuestSpec) -> None:
        if not self._has(spec.host):
            raise UnknownHost(spec.host)
        async with self._locks.hold(spec.id):
            record, files = self.records.get(spec.id), self.records.files(spec.id)
            if record is None:
                await self._define(Record(spec), files)
                return
            record, files = await self._settled(spec.id)
            power = await self.machines.power(record, files)
            if power in OFF:
                record = await self.machines.reaped(record, files, power)
                self.machines.keep_out(record, spec)
                self.disks.demand_root(record, files)
                if record.spec.host != spec.host:
                    await self.machines.leave(record.spec)
                elif wiring(record.spec) != wiring(spec):
                    await self.machines.unplug(record.spec)
                await self._define(record.wishing(spec), files)
            elif shape(record.spec) != shape(spec):
                raise InvalidPower(
                    f"guest {spec.id} is {power.value}; its size and host can only change while it is off"
                )
            elif power is Power.SUSPENDED and plugs(record.spec) != plugs(spec):
                raise InvalidPower(
                    f"guest {spec.id} is suspended; its devices can only change while it is running or off"
                )
            else:
                await self.parts.replug(record, spec, files)

    async def _define(self, record: Record, files: Files) -> None:
        """For a guest that is off. The record comes last: a guest that exists has its disks."""
        spec, record = record.spec, self.parts.outfitted(record, record.spec)
        # This refuses, now, what cannot be plugged.
        for _ in (*command.disks(record, files), *command.nics(record)):
            pass
        record = evolve(record, base=record.root_over)
        with self.disks.pinned(spec.image):
            self.records.put(evolve(record, root=await self.disks.ensure(record, files)))

    async def ensure_absent(self, id: str) -> None:
        async with self._locks.hold(id):
            seats = [self.records.files(id, seat) for seat in SEATS]
            for files in seats:
                await self.machines.end_process(id, files)
            if record := self.records.get(id):
                self.disks.let_go(record)  # raises if the root disk would be left in Ceph
                for each in (record, record.led):
                    self.machines.keep_out(each, evolve(record.spec, volumes=()))
                for spec in {each.host: each for each in (record.spec, record.arrived.spec)}.values():
                    await self.machines.unplug(spec)
            # The record goes first: what a crash leaves behind is no longer a guest.
            self.records.remove(id)
            await self.disks.remove(id, *seats)
        self.machines.sweep_images()

    # -- power

    async def ensure_running(self, id: str) -> None:
        async with self._held(id) as (record, files):
            await self._start(record, files)

    async def ensure_stopped(self, id: str, timeout: float = 60.0) -> None:
        async with self._held(id) as (record, files):
            await self.machines.stop(record, files, timeout)

    async def ensure_rebooted(self, id: str, token: str, hard: bool = False) -> None:
        async with self._held(id) as (record, files):
            if record.reboot_token != token:
                record = evolve(record, reboot_token=token, reboot_done=False)
                self.records.put(record)
            if not record.reboot_done:
                record = await self.machines.stop(record, files, 0 if hard else self.config.soft_reboot_timeout)
                record = evolve(record, reboot_done=True)
                self.records.put(record)
            await self._start(record, files)

    async def _start(self, record: Record, files: Files) -> Record:
        record = await self.machines.start(record, files)
        self._keep_consoles_short()
        return record

    def _keep_consoles_short(self) -> None:
        if self._tidying is None:
            self._tidying = LoopingCall(self._shorten_consoles)
            self._tidying.clock = self.resources.clock
            self._tidying.start(TIDY_SECONDS)

    def _shorten_consoles(self) -> None:
        try:
            ids = self.records.ids()
        except OSError as error:
            _log.warn("console logs were not shortened: {error}", error=error)
            return
        for id in ids:
            try:
                console.shorten(self.records.files(id).console, self.config.console_kib << 10)
            except OSError as error:
                _log.warn("the console log of guest {id} was not shortened: {error}", id=id, error=error)

    async def ensure_paused(self, id: str) -> None:
        async with self._held(id) as (record, files):
            await self.machines.pause(record, files)

    async def ensure_suspended(self, id: str) -> None:
        async with self._held(id) as (record, files):
            await self.machines.suspend(record, files)

    async def ensure_rescued(self, id: str, image: ImageSource | None, password: str) -> None:
        async with self._held(id) as (record, files):
            if not record.rescued:
                source = image or record.spec.image
                if source is None:
                    raise Unfit(f"guest {id} boots from a volume; a rescue image must be given")
                record = await self.machines.end(record, files)
                files.rescue.unlink(missing_ok=True)
                with self.disks.pinned(source):
                    await self.disks.ensure_overlay(source, files.rescue, 0)
                    await self.disks.ensure_kernel(source, files, image or record.base or source)
                    spec = evolve(record.spec, admin_password=password)
                    record = evolve(record, spec=spec, rescued=True, rescue_image=image)
                    self.records.put(record)
            await self._start(record, files)

    async def ensure_unrescued(self, id: str) -> None:
        async with self._held(id) as (record, files):
            # The disk goes last: while it exists, the guest may not have been started again yet.
            is_due = record.rescued or files.rescue.exists()
            if record.rescued:
                record = await self.machines.end(record, files)
                record = evolve(record, rescued=False, rescue_image=None)
                self.records.put(record)
            if is_due:
                await self._start(record, files)
                files.rescue.unlink(missing_ok=True)

    # -- live migration

    async def ensure_migrated(self, spec: GuestSpec, disks: bool | None = None) -> None:
        if not self._has(spec.host):
            raise UnknownHost(spec.host)
        async with self._locks.hold(spec.id):
            record, _ = self._guest(spec.id)
            own = record.spec.image is not None or record.spec.ephemeral_gib or record.spec.swap_mib
            if disks and own and record.spec.host != spec.host:
                raise Unfit(f"guest {spec.id} cannot be moved so: both hosts see its disks")
            await self.moves.made(record, spec)

    async def migration_progress(self, id: str) -> MigrationProgress | None:
        return await self.moves.progress(id)

    async def ensure_migration_aborted(self, id: str) -> None:
        await self.moves.called_off(id)
        async with self._locks.hold(id):
            if (record := self.records.get(id)) is not None:
                await self.moves.settled(record)

    async def ensure_migration_forced(self, id: str) -> None:
        await self.moves.hurried(id)

    # -- consoles, diagnostics, interrupts

    async def open_serial(self, id: str, client: IProtocol) -> None:
        await self._open(id, client, lambda files: files.serial)

    async def open_vnc(self, id: str, client: IProtocol) -> None:
        await self._open(id, client, lambda files: files.vnc)

    async def _open(self, id: str, client: IProtocol, socket: Callable[[Files], Path]) -> None:
        record, _ = await self.moves.now(self._guest(id)[0])
        files = self.records.files_of(record)
        if processes.find(files.pid) is None:
            raise InvalidPower(f"guest {id} is off")
        await console.connect(self.resources.reactor, socket(files), client)

    async def diagnostics(self, id: str) -> GuestDiagnostics:
        record, _ = await self.moves.now(self._guest(id)[0])
        files = self.records.files_of(record)
        power, pid = await self.machines.power(record, files), processes.find(files.pid)
        if pid is None:
            return diagnostics.off(record, files, power)
        return await diagnostics.on(record, files, power, await self.monitors.get(id, files), pid)

    async def ensure_interrupted(self, id: str, token: str) -> None:
        async with self._held(id) as (record, files):
            if record.interrupt_token != token:
                await self.machines.interrupt(record, files)
                self.records.put(evolve(record, interrupt_token=token))

    # -- disks

    async def ensure_captured(self, id: str, path: str) -> str:
        async with self._held(id) as (record, files):
            if record.spec.image is None:
                raise Unfit(f"guest {id} has no local root disk; it boots from a volume")
            with self.disks.whole(Path(path)) as beside:
                await self.machines.capture(record, files, beside)
            return "qcow2"

    async def ensure_volume_captured(self, id: str, volume_id: str, path: str) -> str:
        async with self._held(id) as (record, files):
            with self.disks.whole(Path(path)) as beside:
                await self.machines.capture_volume(record, files, volume_id, beside)
            return "raw"

    async def ensure_volume_attached(self, id: str, connection: VolumeConnection) -> None:
        async with self._held(id) as guest:
            await self.parts.plug_volume(*await self._changeable(*guest), connection)

    async def ensure_volume_detached(self, id: str, volume_id: str) -> None:
        async with self._locks.hold(id):
            if self.records.get(id) is not None:
                await self.parts.unplug_volume(*await self._changeable(*await self._settled(id)), volume_id)

    async def ensure_volume_size(self, id: str, volume_id: str, size_gib: int) -> None:
        async with self._held(id) as guest:
            await self.parts.grow_volume(*guest, volume_id, size_gib * GIB)

    async def ensure_volume_swapped(self, id: str, volume_id: str, info: ConnectionInfo, exact: bool = False) -> None:
        async with self._held(id) as guest:
            await self.leading.lead(*guest, volume_id, info, exact)

    # -- ports

    async def ensure_port_attached(self, id: str, port: PortSpec) -> None:
        async with self._held(id) as guest:
            await self.parts.plug_port(*await self._changeable(*guest), port)

    async def ensure_port_detached(self, id: str, port_id: str) -> None:
        async with self._locks.hold(id):
            if self.records.get(id) is not None:
                await self.parts.unplug_port(*await self._changeable(*await self._settled(id)), port_id)

    # -- inside

    def _has(self, name: str) -> bool:
        return name in self.config.namespaces

    def _guest(self, id: str) -> tuple[Record, Files]:
        record = self.records.get(id)
        if record is None:
            raise UnknownGuest(id)
        if not self._has(record.spec.host):
            raise UnknownHost(record.spec.host)
        return record, self.records.files_of(record)

    @asynccontextmanager
    async def _held(self, id: str) -> AsyncIterator[tuple[Record, Files]]:
        """The guest, not migrating, locked for this call. Raises UnknownGuest, UnknownHost."""
        async with self._locks.hold(id):
            yield await self._settled(id)

    async def _settled(self, id: str) -> tuple[Record, Files]:
        record = await self.moves.settled(self._guest(id)[0])
        files = self.records.files_of(record)
        return self.leading.settled(record, files), files

    async def _changeable(self, record: Record, files: Files) -> tuple[Record, Files]:
        """The guest, whose devices can change now. Raises InvalidPower."""
        power = await self.machines.power(record, files)
        if power is Power.SUSPENDED:
            raise InvalidPower(
                f"guest {record.spec.id} is suspended; its devices can only change while it is running or off"
            )
        return await self.machines.reaped(record, files, power), files
