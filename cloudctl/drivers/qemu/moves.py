"""Live migration: a guest moves from its process to another one, which has its other seat.

    its trip is noted → the other process starts and waits → memory and devices go there over a pair of sockets
    → the guest executes there → its old process ends → its arrival is noted

Once joined, the two processes need nobody else, and killing cloudctl does not harm the guest. The old process gives the
guest up only when the new one has reported that the guest executes there (QEMU's `return-path`); without that report it
goes on by itself. So one of them has the guest, whichever process is killed, and their statuses show which one.

A move is called off by ending the new process, once it is certain that the guest has not executed there.
Source: QEMU's documents «Migration framework», «QMP Reference Manual» (migrate, query-migrate, RunState).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.internet.task import deferLater
from twisted.logger import Logger

from cloudctl.drivers.errors import Aborted, Busy, DriverError, InvalidPower, Unfit
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.qemu import processes
from cloudctl.drivers.qemu.machines import FASTEST, SAVING, Machines
from cloudctl.drivers.qemu.qmp import Gone, Monitor, Silent
from cloudctl.drivers.qemu.records import SEATS, Files, Record, plugs
from cloudctl.drivers.specs import GuestSpec, MigrationProgress, Power

POLL_SECONDS = 0.05
ENDING_SECONDS = 2.0  # that a process may take to end after its connection closed
# A process that has all of the guest and does not report it for this long hangs; meanwhile the guest stands still.
SETTLING_SECONDS = 10.0
LONGEST_PAUSE = 600_000  # milliseconds that a guest may stand still if it is to arrive soon
UNDER_WAY = (*SAVING, "cancelling")
# A guest that writes to its memory faster than it can be sent is slowed down.
CAPABILITIES = [{"capability": name, "state": True} for name in ("return-path", "auto-converge")]
WAY = "way"  # QEMU's name of a socket
MIB = 1 << 20

_log = Logger()


class Whose(Enum):
    """Which of a guest's two processes has it."""

    HERE = "here"  # the old one
    THERE = "there"
    OPEN = "open"  # it stands still: one of them is about to have it


@frozen
class Seen:
    """What a process reports about itself. `status` None: there is no process."""

    status: str | None = None
    copying: str = ""  # the status of the latest copy of its memory
    why: str = ""  # the reason, if the copy has failed

    @property
    def is_under_way(self) -> bool:
        return self.copying in UNDER_WAY


def whose(here: Seen, there: Seen) -> Whose:
    """`here`: the old process; `there`: the new one, of which only the status counts."""
    if here.status is None:
        if there.status == "inmigrate":
            # It has all of the guest and is about to run it, or it has not and is about to end.
            return Whose.OPEN
        return Whose.HERE if there.status is None else Whose.THERE
    if here.status == "postmigrate" and not here.is_under_way:
        return Whose.THERE if here.copying == "completed" else Whose.HERE
    return Whose.OPEN if here.status in ("finish-migrate", "postmigrate") else Whose.HERE


def there_like_here(spec: GuestSpec, wished: GuestSpec) -> GuestSpec:
    """The machine exactly as the guest has it, with the connections and bindings of the requested host.

    Raises Unfit.
    """
    if plugs(spec) != plugs(wished):
        raise Unfit(f"guest {spec.id} has other volumes and ports than it is to have on {wished.host}")
    infos = {each.volume_id: each.info for each in wished.volumes}
    bindings = {each.id: each.binding for each in wished.ports}
    return evolve(
        spec,
        host=wished.host,
        volumes=tuple(evolve(each, info=infos[each.volume_id]) for each in spec.volumes),
        ports=tuple(evolve(each, binding=bindings[each.id]) for each in spec.ports),
    )


@define(eq=False)
class Moves:
    """For one call per guest at a time, except `called_off`, `hurried`, `progress` and `now`."""

    machines: Machines
    _waited_for: set[str] = field(factory=set)
    _called_off: set[str] = field(factory=set)
    _ending: Locks = field(factory=Locks)

    async def made(self, record: Record, wished: GuestSpec) -> Record:
        """The guest has moved to `wished.host`, whether the move began now or in an earlier process.

        Raises InvalidPower, Unfit, NoCapacity, Aborted.
        """
        id = record.spec.id
        with self._waiting_for(id):
            if record.trip is not None:
                if record.trip.spec.host != wished.host:
                    await self._call_off(record)
                record, _ = await self._ended(record)
            power = await self._demand_on(record)
            if record.spec.host == wished.host:
                return record
            self._demand_wanted(id)
            record = await self._ready(record, wished, power)
            try:
                await self._join(record)
                record, why = await self._ended(record)
            except DriverError as error:
                record, why = await self.settled(record), str(error)
                if record.spec.host != wished.host and id not in self._called_off:
                    raise
            if record.spec.host == wished.host:
                return record
            self._demand_wanted(id)
            raise DriverError(f"guest {id} has not arrived on {wished.host}: {why}")

    @contextmanager
    def _waiting_for(self, id: str) -> Iterator[None]:
        self._waited_for.add(id)
        try:
            yield
        finally:
            self._waited_for.discard(id)
            self._called_off.discard(id)

    async def _demand_on(self, record: Record) -> Power:
        power = await self.machines.power(record, self.machines.records.files_of(record))
        if power not in (Power.RUNNING, Power.PAUSED):
            raise InvalidPower(f"guest {record.spec.id} is {power.value}; only one that is on can be moved so")
        return power

    async def _ready(self, record: Record, wished: GuestSpec, power: Power) -> Record:
        """The trip is noted."""
        spec, files = record.spec, self.machines.records.files_of(record)
        going = there_like_here(spec, wished)
        spaces = self.machines.config.namespaces
        if spec.ports and spaces[spec.host] == spaces[going.host]:
            raise Unfit(f"{spec.host} and {going.host} are one network namespace, which has an interface only once")
        source = await self.machines.monitors.get(spec.id, files)
        if (await source.execute("query-status"))["status"] == "postmigrate":
            # A paused guest that did not arrive, though QEMU believes that it has left. It must run for a moment.
            await source.execute("cont")
            await source.execute("stop")
        record = self.machines.with_user(record).leaving(going, power)
        self.machines.records.put(record)
        return record

    async def _join(self, record: Record) -> None:
        """The new process exists, and the old one has begun to send."""
        id, (here, there) = record.spec.id, self._seats(record)
        await self._clear(id, there)  # what a process left that was called off when we were killed
        await self.machines.spawn(record.arrived, there, incoming=True)
        source, target = [await self.machines.monitors.get(id, files) for files in (here, there)]
        for each in (source, target):
            await each.execute("migrate-set-capabilities", {"capabilities": CAPABILITIES})
        await source.execute("migrate-set-parameters", self._limits())
        await _lend_ends(source, target)
        await target.execute("migrate-incoming", {"uri": f"fd:{WAY}"})
        self._demand_wanted(id)
        await source.execute("migrate", {"uri": f"fd:{WAY}"})

    def _demand_wanted(self, id: str) -> None:
        if id in self._called_off:
            raise Aborted(f"the migration of guest {id} was aborted")

    def _limits(self) -> dict[str, int]:
        config = self.machines.config
        most = config.migration_mib_per_second * MIB or FASTEST
        return {"downtime-limit": max(1, int(config.migration_pause * 1000)), "max-bandwidth": most}

    # -- during a move

    async def settled(self, record: Record) -> Record:
        """The guest is not moving any more, and nothing is left of a move."""
        if record.trip is None:
            return record
        await self._call_off(record)
        return (await self._ended(record))[0]

    async def _ended(self, record: Record) -> tuple[Record, str]:
        """The record once the guest has arrived or stays, as is noted then; and why it stays."""
        clock, config = self.machines.clock, self.machines.config
        begun, open_since = clock.seconds(), None
        late = ""
        while True:
            found, here = await self._look(record)
            now = clock.seconds()
            if found is Whose.THERE:
                return await self._arrive(record), ""
            if found is Whose.OPEN:
                open_since = now if open_since is None else open_since
                if now - open_since >= SETTLING_SECONDS:
                    if here.status is None:
                        # The new process is waiting, and nobody sends.
                        processes.kill(self._seats(record)[1].pid)
                    else:
                        await self._call_off(record)
                    open_since = None
            elif not here.is_under_way:
                why = late or here.why or ("its process has ended" if here.status is None else "nothing was sent")
                return await self._stay(record), why
            elif now - begun >= config.migration_timeout and not late:
                late = f"it took longer than {config.migration_timeout:g} s"
                await self._call_off(record)
            await deferLater(clock, POLL_SECONDS)

    async def _call_off(self, record: Record) -> None:
        """The new process is gone, unless the guest is there. It is frozen first so that it cannot begin meanwhile."""
        async with self._ending.hold(record.spec.id):
            await self._end(record)

    async def _end(self, record: Record) -> None:
        here, there = self._seats(record)
        clock = self.machines.clock
        limit = clock.seconds() + SETTLING_SECONDS
        if not await processes.frozen(clock, there.pid, SETTLING_SECONDS):
            return  # it has ended
        is_there = True
        try:
            while True:
                try:
                    found = whose(await self._seen(record.spec.id, here), Seen("frozen"))
                except Silent:
                    if processes.is_stopped(here.pid):
                        raise
                    # It is blocked until the frozen one takes what it sends, and answers nobody meanwhile.
                    break
                if found is Whose.THERE:
                    return
                # If the new process had reported that the guest is there, the report would have arrived by now.
                if found is Whose.HERE or clock.seconds() >= limit:
                    break
                await deferLater(clock, POLL_SECONDS)
            processes.kill(there.pid)
            is_there = False
        finally:
            if is_there:
                processes.thaw(there.pid)
        if not await processes.ended(clock, there.pid, SETTLING_SECONDS):
            raise Busy(f"the process that guest {record.spec.id} was to have does not exit")

    async def _arrive(self, record: Record) -> Record:
        here, there = self._seats(record)
        await self._clear(record.spec.id, here)
        await self.machines.leave(record.spec)
        record = record.arrived
        self.machines.records.put(record)
        beside = there.serial_link.with_suffix(".new")
        beside.unlink(missing_ok=True)
        beside.symlink_to(there.serial)
        beside.replace(there.serial_link)
        if processes.find(there.pid) is not None:
            # From now on its death is noticed.
            await self.machines.monitors.get(record.spec.id, there)
        return record

    async def _stay(self, record: Record) -> Record:
        await self._clear(record.spec.id, self._seats(record)[1])
        await self.machines.leave(record.arrived.spec)
        record = evolve(record, trip=None)
        self.machines.records.put(record)
        return record

    async def _clear(self, id: str, files: Files) -> None:
        """End a process that has no guest, and remove its files."""
        await self.machines.end_process(id, files)
        for path in files.of_process:
            path.unlink(missing_ok=True)

    async def tidied(self) -> None:
        """No process runs in a seat that its guest does not have: it was started just before we were killed."""
        records = self.machines.records
        for record in records.readable():
            for seat in {*SEATS} - {record.seat, record.arrived.seat}:
                files = records.files(record.spec.id, seat)
                if processes.find(files.pid) is not None:
                    try:
                        await self._clear(record.spec.id, files)
                    except DriverError as error:
                        # The next move of the guest ends it first.
                        _log.error("a process without a guest is left: {error}", error=error)

    # -- observed

    async def now(self, record: Record) -> tuple[Record, Whose]:
        """The guest as it is now, and which process has it. Raises Silent, Gone."""
        if record.trip is None:
            return record, Whose.HERE
        found, _ = await self._look(record)
        return (record.arrived if found is Whose.THERE else record), found

    async def _look(self, record: Record) -> tuple[Whose, Seen]:
        id, (here, there) = record.spec.id, self._seats(record)
        seen = await self._seen(id, here)
        return whose(seen, await self._seen(id, there) if seen.status is None else Seen()), seen

    async def _seen(self, id: str, files: Files) -> Seen:
        if processes.find(files.pid) is None:
            return Seen()
        try:
            monitor = await self.machines.monitors.get(id, files)
            # In this order: the status changes only after the copy is complete.
            copying = await monitor.execute("query-migrate")
            status = (await monitor.execute("query-status"))["status"]
        except Gone:
            if await processes.ended(self.machines.clock, files.pid, ENDING_SECONDS):
                return Seen()
            raise
        return Seen(status, copying.get("status", ""), copying.get("error-desc", ""))

    def _seats(self, record: Record) -> tuple[Files, Files]:
        """The files of the old process, and of the new one."""
        files = self.machines.records.files_of
        return files(record), files(record.arrived)

    # -- interventions

    async def called_off(self, id: str) -> None:
        """A call that waits for the move raises Aborted; if its process was killed, `settled` clears what is left."""
        if id in self._waited_for:
            self._called_off.add(id)
        record = self.machines.records.get(id)
        if record is not None and record.trip is not None:
            await self._call_off(record)

    async def hurried(self, id: str) -> None:
        if (found := await self._sending(id)) is not None:
            await found[0].execute("migrate-set-parameters", {"downtime-limit": LONGEST_PAUSE})

    async def progress(self, id: str) -> MigrationProgress | None:
        found = await self._sending(id)
        if found is None:
            return None
        _, size, told = found
        memory = told.get("ram", {"total": size, "remaining": size})
        return MigrationProgress(memory["total"], memory["remaining"], 0, 0)

    async def _sending(self, id: str) -> tuple[Monitor, int, Any] | None:
        """For a guest that is moving: the sender's monitor, the size at first, and QEMU's progress."""
        record = self.machines.records.get(id)
        if record is None or record.trip is None:
            return None
        files = self.machines.records.files_of(record)
        if processes.find(files.pid) is None:
            return None
        monitor = await self.machines.monitors.get(id, files)
        told = await monitor.execute("query-migrate")
        return (monitor, record.spec.memory_mib * MIB, told) if told.get("status") in UNDER_WAY else None


async def _lend_ends(*monitors: Monitor) -> None:
    """Give each its end of a socket pair that nobody else has."""
    ends = socket.socketpair()
    try:
        for monitor, end in zip(monitors, ends, strict=True):
            await monitor.execute("getfd", {"fdname": WAY}, descriptor=end.fileno())
    finally:
        for end in ends:
            end.close()
