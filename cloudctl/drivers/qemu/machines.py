"""Guests as processes: their power, started, stopped, frozen, thawed. For one call per guest at a time.

Each change is ordered so that the same call can finish it if this process is killed halfway: a guest is noted as
stopped before its process ends, and as running after its process has started.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from attrs import evolve, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from cloudctl.drivers.accounts import Account, let_through, own_number
from cloudctl.drivers.errors import Busy, DriverError, InvalidPower, NoCapacity, Unreachable
from cloudctl.drivers.programs import ProgramFailed, Programs
from cloudctl.drivers.qemu import capture, command, doors, keys, plugging, processes, slots
from cloudctl.drivers.qemu.cgroups import ControlGroups, limits
from cloudctl.drivers.qemu.command import Kernel
from cloudctl.drivers.qemu.disks import MIB, Disks, ensure_swap, kernel_file
from cloudctl.drivers.qemu.emulator import Emulator
from cloudctl.drivers.qemu.monitors import Monitors
from cloudctl.drivers.qemu.options import Config
from cloudctl.drivers.qemu.plugging import AWAY
from cloudctl.drivers.qemu.qmp import Gone, Monitor, Silent, drop
from cloudctl.drivers.qemu.records import SEATS, Files, Record, Records
from cloudctl.drivers.qemu.switches import Switches
from cloudctl.drivers.specs import GuestSpec, Power, VolumeConnection

QUIT_SECONDS = 10.0  # for QEMU to write out its caches and exit
PRESS_SECONDS = 2.0  # after which the power button is pressed again: a guest that is still booting ignores it
POLL_SECONDS = 0.02
FASTEST = 1 << 40  # bytes a second: a copy to a file need not spare a network

# QEMU's statuses of a guest that has a process; with any other status it executes.
STATUS = {
    "paused": Power.PAUSED,
    "suspended": Power.PAUSED,
    "io-error": Power.PAUSED,
    "postmigrate": Power.PAUSED,
    "finish-migrate": Power.PAUSED,
    "save-vm": Power.PAUSED,
    "prelaunch": Power.PAUSED,
    "inmigrate": Power.SUSPENDED,
    "shutdown": Power.STOPPED,
    "guest-panicked": Power.CRASHED,
    "internal-error": Power.CRASHED,
}
SAVING = ("setup", "active", "device", "pre-switchover")  # a copy of the memory that is under way
OFF = (Power.STOPPED, Power.CRASHED)

_log = Logger()


@frozen
class Machines:
    config: Config
    clock: IReactorTime
    programs: Programs
    records: Records
    monitors: Monitors
    disks: Disks
    emulator: Emulator
    groups: ControlGroups
    switches: Switches

    # -- state

    async def power(self, record: Record, files: Files) -> Power:
        """The power of a guest, from its process and QEMU's status. Raises Silent, Gone if QEMU hangs."""
        if self.config.dry_run:
            return record.power
        if processes.find(files.pid) is None:
            return Power.CRASHED if record.power is Power.RUNNING else record.power
        try:
            monitor = await self.monitors.get(record.spec.id, files)
            status = (await monitor.execute("query-status"))["status"]
        except Gone:
            if processes.find(files.pid) is not None:
                raise
            # It has just ended, either by itself or because another call stopped it.
            return await self.power(self.records.get(record.spec.id) or record, files)
        found = STATUS.get(status, Power.RUNNING)
        # Its memory is on disk: the process that it was saved from, or is being loaded into, executes nothing.
        return record.power if found is Power.PAUSED and record.power is Power.SUSPENDED else found

    # -- on

    async def start(self, record: Record, files: Files) -> Record:
        """The guest executes, whatever its state was. Raises NoCapacity, Unfit, Busy."""
        power = await self.power(record, files)
        if power is Power.PAUSED:
            await (await self.monitors.get(record.spec.id, files)).execute("cont")
        elif power is Power.SUSPENDED:
            return await self._thaw(record, files)
        elif power in OFF:
            return await self._boot(await self.end(record, files), files)
        return self._noted(record, Power.RUNNING)

    async def _boot(self, record: Record, files: Files) -> Record:
        spec = record.spec
        record = evolve(record, slots=slots.assigned(spec, record.slots, self.config.slots))
        record = self.with_user(record)
        self.records.put(record)
        files.memory.unlink(missing_ok=True)
        await self.disks.in_thread(ensure_swap, files.swap, spec.swap_mib * MIB)
        if spec.config_drive:
            await self.disks.make_config_drive(spec, files)
        await self.spawn(record, files)
        if not self.config.dry_run:
            # From now on its death is noticed.
            await self.monitors.get(record.spec.id, files)
        return self._noted(record, Power.RUNNING)

    async def _thaw(self, record: Record, files: Files) -> Record:
        if processes.find(files.pid) is not None:
            await self.end_process(record.spec.id, files)
        if not files.memory.exists():
            raise DriverError(f"the memory of guest {record.spec.id} is lost; it can be stopped and started")
        record = self.with_user(record)
        self.records.put(record)
        await self.spawn(record, files, "-S", incoming=True)
        monitor = await self.monitors.get(record.spec.id, files)
        descriptor = os.open(files.memory, os.O_RDONLY)
        try:
            await monitor.execute("getfd", {"fdname": "memory"}, descriptor=descriptor)
            await monitor.execute("migrate-incoming", {"uri": "fd:memory"})
            await self._until(monitor, "query-status", lambda told: told["status"] != "inmigrate")
        except Gone as error:
            raise DriverError(f"QEMU cannot read the memory of guest {record.spec.id}") from error
        finally:
            os.close(descriptor)
        # From here on the memory on disk is older than the root disk: it must never be used again.
        record = self._noted(record, Power.RUNNING)
        files.memory.unlink(missing_ok=True)
        await monitor.execute("cont")
        return record

    async def spawn(self, record: Record, files: Files, *more: str, incoming: bool = False) -> None:
        """The guest has a process. `incoming`: it waits for the memory of a guest. Raises as `start`."""
        image = command.boot_image(record)
        kernel = None
        if image is not None and image.kernel_path is not None:
            base = record.rescue_image or record.base or image
            ramdisk = str(kernel_file(files, base, "ramdisk")) if image.ramdisk_path is not None else None
            kernel = Kernel(
                str(kernel_file(files, base, "kernel")), ramdisk, command.kernel_arguments(self.config, image)
            )
        user = self.user(record)
        version = await self.emulator.version()
        words = command.arguments(self.config, record, files, kernel, version, user, incoming)
        if not self.config.dry_run:
            let_through(self.records.runtime_dir)
            await self.disks.in_thread(self.disks.demand_own, record, files)
            doors.let_in(record.spec.volumes, user.uid)
        await self.switches.ensure(record.spec, *record.spec.ports)
        namespace = self.config.namespaces[record.spec.host] or None

        bounds = limits(record.spec, self.config.translation_cache_mib if self.config.accelerator == "tcg" else 0)
        bounded = False

        async def answers(pid: int) -> bool:
            nonlocal bounded
            if not bounded:
                # Before it has allocated much, and before its guest executes.
                self.groups.put(files.runtime.name, pid, bounds)
                bounded = True
            # Another process with the same files has another process id.
            if processes.find(files.pid) != pid:
                return False
            try:
                await self.monitors.get(record.spec.id, files)
            except (Gone, Silent):
                return False
            return True

        try:
            with nullcontext() if self.config.dry_run else keys.lent(record, files):
                await self.programs.start(
                    command.PROGRAM, *words, *more, ready=answers, namespace=namespace, becomes_another=not user.is_root
                )
        except ProgramFailed as error:
            raise _start_error(record.spec.id, error) from error
        if not self.config.dry_run and not files.serial_link.is_symlink():
            files.serial_link.symlink_to(files.serial)

    # -- off

    async def stop(self, record: Record, files: Files, timeout: float) -> Record:
        """The guest is off. It has `timeout` seconds to shut itself down on request, then its power is cut."""
        if timeout > 0 and processes.find(files.pid) is not None:
            try:
                if await self.power(record, files) is Power.RUNNING:
                    await self._ask(await self.monitors.get(record.spec.id, files), timeout)
            except Unreachable:
                pass  # a QEMU that hangs cannot ask its guest
        record = await self.end(record, files)
        await self.unplug(record.spec)
        return record

    async def _ask(self, monitor: Monitor, seconds: float) -> None:
        limit = self.clock.seconds() + seconds
        while (left := limit - self.clock.seconds()) > 0:
            off = monitor.expect("SHUTDOWN", timeout=min(left, PRESS_SECONDS))
            try:
                await monitor.execute("system_powerdown")
            except Unreachable:
                drop(off)
                return
            try:
                await off
                return
            except Silent:
                continue
            except Gone:
                return

    async def end(self, record: Record, files: Files) -> Record:
        """The guest has no process and no saved memory."""
        record = self._noted(record, Power.STOPPED)
        await self.end_process(record.spec.id, files)
        files.memory.unlink(missing_ok=True)
        return record

    async def end_process(self, id: str, files: Files) -> None:
        """The guest, which may have no record, has no process. Raises Busy if it does not exit even when killed."""
        pid = processes.find(files.pid)
        if pid is None:
            if not self.config.dry_run:
                await processes.ended(self.clock, files.pid, QUIT_SECONDS)
                self.groups.remove(files.runtime.name)
            return
        if self.config.dry_run:
            _log.info("would end process {pid} of guest {id}", pid=pid, id=id)
            return
        monitor = self.monitors.take(files)
        try:
            if monitor is None:
                monitor = await self.monitors.get(id, files)
                self.monitors.take(files)
            await monitor.execute("quit", timeout=QUIT_SECONDS)
        except Unreachable:
            pass  # whether it has ended is checked below
        finally:
            if monitor is not None:
                monitor.close()
        if not await processes.ended(self.clock, files.pid, QUIT_SECONDS):
            processes.kill(files.pid)
            if not await processes.ended(self.clock, files.pid, QUIT_SECONDS):
                raise Busy(f"the process of guest {id} does not exit")
        self.groups.remove(files.runtime.name)

    async def reaped(self, record: Record, files: Files, power: Power) -> Record:
        """A guest that is off has no process any more: QEMU stays when its guest has shut itself down."""
        if power not in OFF or processes.find(files.pid) is None:
            return record
        if power is Power.STOPPED:
            record = self._noted(record, Power.STOPPED)
        await self.end_process(record.spec.id, files)
        await self.unplug(record.spec)
        return record

    async def unplug(self, spec: GuestSpec) -> None:
        """What was made on the host only for the ports of this guest, which has no process there, is gone."""
        await self.switches.ensure_absent(spec, *spec.ports)

    async def leave(self, spec: GuestSpec) -> None:
        """As `unplug`, for a guest that is elsewhere now and does not wait for its old host."""
        try:
            await self.unplug(spec)
        except DriverError as error:
            _log.warn(
                "ports of guest {id} may still be named on {host}: {error}", id=spec.id, host=spec.host, error=error
            )

    # -- frozen

    async def pause(self, record: Record, files: Files) -> None:
        """Raises InvalidPower unless it executes."""
        power = await self.power(record, files)
        if power is Power.PAUSED:
            return
        _demand(record, power, Power.RUNNING)
        await (await self.monitors.get(record.spec.id, files)).execute("stop")

    async def interrupt(self, record: Record, files: Files) -> None:
        """Raises InvalidPower unless it runs or is paused."""
        _demand(record, await self.power(record, files), Power.RUNNING, Power.PAUSED)
        await (await self.monitors.get(record.spec.id, files)).execute("inject-nmi")

    async def suspend(self, record: Record, files: Files) -> Record:
        """Raises InvalidPower if it is off, NoCapacity if there is no room for its memory on disk."""
        power = await self.power(record, files)
        if power is not Power.SUSPENDED:
            _demand(record, power, Power.RUNNING, Power.PAUSED)
            await self._save(record, files, await self.monitors.get(record.spec.id, files))
        record = self._noted(record, Power.SUSPENDED)
        await self.end_process(record.spec.id, files)
        await self.unplug(record.spec)
        return record

    async def _save(self, record: Record, files: Files, monitor: Monitor) -> None:
        status = (await monitor.execute("query-status"))["status"]
        if status == "postmigrate":
            # Saved before, but the note of it was lost: QEMU saves again only a guest that has run since.
            await monitor.execute("cont")
        beside = files.memory.with_suffix(".new")
        if (await monitor.execute("query-migrate")).get("status") not in SAVING:
            await monitor.execute("stop")
            await monitor.execute("migrate-set-parameters", {"max-bandwidth": FASTEST})
            # A file sends no answers. A guest that was migrated here still has this capability set.
            alone = {"capability": "return-path", "state": False}
            await monitor.execute("migrate-set-capabilities", {"capabilities": [alone]})
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                await monitor.execute("getfd", {"fdname": "memory"}, descriptor=descriptor)
            finally:
                os.close(descriptor)
            await monitor.execute("migrate", {"uri": "fd:memory"})
        told = await self._until(monitor, "query-migrate", lambda told: told.get("status") in ("completed", "failed"))
        if told["status"] == "failed":
            beside.unlink(missing_ok=True)
            if status == "running":
                await monitor.execute("cont")
            raise NoCapacity(f"the memory of guest {record.spec.id} was not saved: {told.get('error-desc', '')}")
        beside.replace(files.memory)

    # -- copied

    async def capture(self, record: Record, files: Files, target: Path) -> None:
        """`target`, a new file, is a qcow2 of the root disk as it is now. Raises NoCapacity, Unfit, Silent."""
        if record.root is not None:
            await self.disks.copy_root(record, target)
        elif processes.find(files.pid) is None:
            await self.disks.copy(files.root, record.root_over, target)
        else:
            monitor = await self.monitors.get(record.spec.id, files)
            await self.disks.create(target, self.disks.size(files.root))
            await capture.backup(monitor, slots.node("root"), target, self.config.copy_timeout)

    async def capture_volume(self, record: Record, files: Files, volume_id: str, target: Path) -> None:
        """`target`, a new file, is a raw copy of the volume as it is now.

        Raises UnknownVolume, InvalidPower, NoCapacity, Silent.
        """
        record.volume(volume_id)
        if processes.find(files.pid) is None:
            raise InvalidPower(f"guest {record.spec.id} is off, so it has volume {volume_id} not open")
        monitor = await self.monitors.get(record.spec.id, files)
        node = await plugging.opened(monitor, slots.volume(volume_id))
        with target.open("wb") as file:
            file.truncate(await capture.size(monitor, node))
        # It has no backing file, so "top" skips what was never written: a full copy would allocate zeros in a raw file.
        await capture.backup(monitor, node, target, self.config.copy_timeout, format="raw", whole=False)

    def sweep_images(self) -> None:
        """Drop cached images that no guest needs."""
        try:
            used = self.records.image_ids()
        except DriverError as error:
            # A guest whose record is damaged may need any of them.
            _log.error("no images are removed from the cache: {error}", error=error)
        else:
            self.disks.sweep(used)

    # -- parts

    def user(self, record: Record) -> Account:
        """The user that the guest's process runs as, if it is started now."""
        if (common := self.config.account) is not None:
            return common
        assert record.uid is not None, "it has had one since it was told to start"
        return Account(record.uid, record.uid)

    def with_user(self, record: Record) -> Record:
        """The record with a user of its own, if guests have their own. Raises NoCapacity."""
        numbers = self.config.numbers
        if self.config.account is not None:
            return record
        # Testing for None first: a range is searched from end to end for what is not a number.
        if record.uid is not None and record.uid in numbers:
            return record
        known = {each.spec.id: each.uid for each in self.records.readable()}
        taken = {uid for uid in known.values() if uid is not None}
        for damaged in set(self.records.ids()) - known.keys():
            taken |= self._likely_users(damaged)
        found = own_number(numbers, self.records.files(record.spec.id).runtime.name, taken)
        if found is None:
            raise NoCapacity(f"more guests than there are users in uids = {self.config.uids!r}")
        return evolve(record, uid=found)

    def _likely_users(self, id: str) -> set[int]:
        """Those that a guest whose record is damaged may have: that of its process, and the first choice for its id."""
        seats = [self.records.files(id, seat) for seat in SEATS]
        first = own_number(self.config.numbers, seats[0].runtime.name, ())
        return {uid for uid in (first, *(processes.owner(files.pid) for files in seats)) if uid is not None}

    def keep_out(self, record: Record, spec: GuestSpec) -> None:
        """The guest can no longer reach those of its volumes that `spec` does not have.

        A user that several guests share keeps its access as long as another of them has the volume. Raises DriverError.
        """
        kept = _volume_ids(spec)
        for each in record.spec.volumes:
            if each.volume_id not in kept:
                self.keep_out_of(record, each)

    def keep_out_of(self, record: Record, volume: VolumeConnection) -> None:
        """As `keep_out`, of one volume at one place."""
        for each in doors.guarded([volume]):
            others = (other for other in self.records.readable() if other.spec.id != record.spec.id)
            having = [other for other in others if each.volume_id in _volume_ids(other.spec)]
            doors.keep_out(each, self._users(record).difference(*map(self._users, having)))

    def _users(self, record: Record) -> set[int | None]:
        """The users that its process runs as, or may have run as."""
        common = self.config.account
        return {record.uid, processes.owner(self.records.files_of(record).pid), common.uid if common else None}

    def _noted(self, record: Record, power: Power) -> Record:
        if record.power is power:
            return record
        record = evolve(record, power=power)
        self.records.put(record)
        return record

    async def _until(self, monitor: Monitor, query: str, done: Any) -> Any:
        limit = self.clock.seconds() + self.config.copy_timeout
        while not done(told := await monitor.execute(query)):
            if self.clock.seconds() >= limit:
                raise Silent(f"{query}: not finished in time")
            await deferLater(self.clock, POLL_SECONDS)
        return told


def _volume_ids(spec: GuestSpec) -> set[str]:
    return {each.volume_id for each in spec.volumes}


def _demand(record: Record, power: Power, *allowed: Power) -> None:
    if power not in allowed:
        words = " or ".join(each.value for each in allowed)
        raise InvalidPower(f"guest {record.spec.id} is {power.value}, not {words}")


def _start_error(id: str, error: ProgramFailed) -> DriverError:
    """What QEMU's complaint means. Another QEMU that has just started, or not ended yet, holds locks."""
    complaint = error.complaint
    if "Cannot lock pid file" in complaint or ("Failed to get" in complaint and "lock" in complaint):
        return Busy(f"guest {id} cannot start yet: {complaint}")
    if "Cannot allocate memory" in complaint or "No space left on device" in complaint:
        return NoCapacity(f"guest {id} cannot start: {complaint}")
    if any(words in complaint for words in AWAY):
        return Unreachable(f"guest {id} cannot start yet: {complaint}")
    return DriverError(f"guest {id} cannot start: {complaint}")
