"""The fencer `nbd`: the storage daemons of this machine no longer offer anything to a host, whatever becomes of it.

A daemon's monitor belongs to the process that looks after the daemon, which may be another one, or to none. So a daemon
that offers something to the host is killed, and its pending requests end with it. The process that looks after it
restarts it at once, without the fenced exports; the guests of other hosts wait meanwhile. Each daemon is examined as a
client sees it. Source: the manual page qemu-nbd(8).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen
from twisted.internet.defer import DeferredList, DeferredSemaphore, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from zope.interface import implementer

from cloudctl.drivers.errors import UnknownHost, Unreachable, Unusable
from cloudctl.drivers.interfaces import IFencer
from cloudctl.drivers.nbd import options
from cloudctl.drivers.nbd.daemon import LOOK_SECONDS, PROGRAM, Daemon, daemons
from cloudctl.drivers.nbd.disks import ServedDisks
from cloudctl.drivers.nbd.fenced import Fenced, turn, turn_file
from cloudctl.drivers.nbd.served import export_name
from cloudctl.drivers.programs import ProgramFailed, Programs, ProgramTimedOut, require
from cloudctl.drivers.qcow2.driver import directory
from cloudctl.drivers.qcow2.records import Records, Volume
from cloudctl.drivers.qcow2.volumes import FileVolumes
from cloudctl.drivers.specs import DriverResources

AT_ONCE = 4  # daemons that are examined
GRACE = 2.0  # seconds that a daemon has to end by itself
EXPORT = " export: '"


@frozen
class Config(options.Place):
    """`[driver.fencer.nbd]`. Unless it names a place, all volume drivers `nbd` of the cloud are meant."""

    # The hosts that reach volumes by NBD, as the hypervisor names them.
    hosts: list[str] = field(factory=list)
    # Where volumes are kept and served, as in `[driver.volume.nbd]`, under arbitrary names; for a single place the same
    # options in this table suffice.
    backends: dict[str, options.Place] = field(factory=dict)

    @property
    def places(self) -> Sequence[options.Place]:
        """The configured places."""
        if self.backends:
            return tuple(self.backends.values())
        return (self,) if self.directory or self.listen else ()


@frozen
class Backend:
    """Volumes in one directory, and the daemons that serve them."""

    records: Records
    fenced: Fenced
    daemon: Callable[[Volume | None], Daemon]
    by_ports: bool

    @classmethod
    def of(cls, driver: object) -> Backend | None:
        """None: it is not a volume driver `nbd`."""
        if isinstance(driver, FileVolumes) and isinstance(driver.disks, ServedDisks):
            disks = driver.disks
            return cls(disks.records, disks.fenced, disks.daemon, disks.by_ports)
        return None

    @classmethod
    def at(cls, place: options.Place, resources: DriverResources, programs: Programs) -> Backend:
        if resources.state_dir is not None:
            # The state directory of the volume driver, beside ours.
            resources = evolve(resources, state_dir=resources.state_dir.parents[1] / "volume" / "nbd")
        records = Records(directory(place.directory, resources), resources.reactor)
        fenced = Fenced(records.root, resources.reactor)
        return cls(records, fenced, daemons(place, records, programs, None), bool(place.listen))

    @property
    def is_there(self) -> bool:
        return (self.records.root / "volumes").is_dir()


def create(config: Config, resources: DriverResources) -> NbdFencer:
    programs = Programs(resources.reactor, resources.clock)
    own = tuple(each for each in map(Backend.of, resources.volumes) if each is not None)
    places = config.places or (() if own else (config,))
    told = tuple(Backend.at(place, resources, programs) for place in places)
    return NbdFencer(config, told or own, own, programs, resources.clock)


@implementer(IFencer)
@frozen(eq=False)
class NbdFencer:
    config: Config
    backends: Sequence[Backend]  # where hosts are fenced
    own: Sequence[Backend]  # the cloud's own
    programs: Programs
    clock: IReactorTime

    async def check(self) -> None:
        require("prlimit", "setpriv", "qemu-nbd")
        self._demand_volumes(Unusable)

    async def close(self) -> None:
        """Nothing is open between two calls."""

    async def ensure_fenced(self, host: str) -> str:
        self._demand(host)
        self._demand_volumes(Unreachable)
        for backend in self.backends:
            await backend.fenced.mark(host)
        # If one backend cannot be seen to withdraw its volumes, those of the others stay withdrawn, without proof.
        cut_off = [await self._withdraw(backend, host) for backend in self.backends]
        return f"{host} is offered {' and '.join(cut_off)}"

    async def ensure_unfenced(self, host: str) -> None:
        """The host is offered its volumes when they are connected to it again, or their daemons restart."""
        self._demand(host)
        for backend in self.backends:
            await backend.fenced.unmark(host)

    def _demand(self, host: str) -> None:
        if host not in self.config.hosts:
            raise UnknownHost(host)

    def _demand_volumes(self, error: type[Unusable] | type[Unreachable]) -> None:
        """Being offered nothing from a directory without volumes, or from only some of several, would prove nothing."""
        for each in self.backends:
            if not each.is_there:
                raise error(f"{each.records.root} is no directory of volumes that the driver nbd serves")
        named = {each.records.root.resolve() for each in self.backends}
        for each in self.own:
            if each.records.root.resolve() not in named:
                raise error(f"the cloud has volumes in {each.records.root}, too, which is not among the backends")

    async def _withdraw(self, backend: Backend, host: str) -> str:
        # Read after marking: a process that connects another volume later has seen the mark.
        volumes = backend.records.volumes()
        places = [each for each in volumes if each.place is not None]
        some = DeferredSemaphore(AT_ONCE)

        def cut_off(volume: Volume | None) -> Any:
            return some.run(lambda: ensureDeferred(self._cut_off(backend, volume, host)))

        for done, failure in await DeferredList([cut_off(each) for each in (None, *places)], consumeErrors=True):
            if not done:
                failure.raiseException()
        return f"none of the {len(volumes)} volumes in {backend.records.root}"

    # -- one daemon

    async def _cut_off(self, backend: Backend, volume: Volume | None, host: str) -> None:
        """Raises Unreachable, Busy if this cannot be determined."""
        daemon = backend.daemon(volume)
        # Longer than the process that looks after the daemon waits for one answer.
        async with turn(turn_file(backend.records, volume), self.clock, 3 * daemon.answer_timeout) as ours:
            alive = daemon.is_alive()
            if alive and ((ours is not None and ours.is_withdrawing) or await self._may_use(daemon, host)):
                await self._end(daemon)
                alive = False
            if not alive:
                if ours is not None:
                    ours.note(False)
                if volume is not None and backend.by_ports and await self._is_offered(daemon, volume, host):
                    raise Unreachable(f"volume {volume.id} is offered to {host} by a process that is not found here")

    async def _may_use(self, daemon: Daemon, host: str) -> bool:
        """Whether the daemon offers the host something, or does not answer."""
        try:
            found = await self._exports(daemon)
        except (ProgramFailed, ProgramTimedOut):
            return True
        return any(each.rpartition("/")[2] == host for each in found)

    async def _is_offered(self, daemon: Daemon, volume: Volume, host: str) -> bool:
        """Whether any process at the volume's last port offers it to the host."""
        try:
            return export_name(volume.id, host) in await self._exports(daemon)
        except ProgramFailed:
            return False

    async def _exports(self, daemon: Daemon) -> list[str]:
        """The names that the daemon offers to any client. Raises ProgramFailed, ProgramTimedOut."""
        where = daemon.server
        words = (
            [f"--socket={where['path']}"]
            if where["type"] == "unix"
            else [f"--bind={where['host']}", f"--port={where['port']}"]
        )
        told = await self.programs.read("qemu-nbd", "--list", *words, timeout=daemon.answer_timeout)
        lines = told.decode("utf-8", "replace").splitlines()
        return [each.removeprefix(EXPORT).removesuffix("'") for each in lines if each.startswith(EXPORT)]

    async def _end(self, daemon: Daemon) -> None:
        """End the daemon. It releases its pid file last, when no request is carried out any more."""
        now = self.clock.seconds()
        kill_at, give_up_at = now + GRACE, now + GRACE + daemon.answer_timeout
        sent = None
        while daemon.is_alive():
            now = self.clock.seconds()
            if now >= give_up_at:
                raise Unreachable(f"the storage daemon of {daemon.sockets.pid} does not end")
            due = signal.SIGKILL if now >= kill_at else signal.SIGTERM
            if due is not sent and told_to_end(daemon.sockets.pid, due):
                sent = due
            await deferLater(self.clock, LOOK_SECONDS)


def told_to_end(pid_file: Path, how: signal.Signals) -> bool:
    """Signal the storage daemon that has the file open; whether there is one. The file's content may be out of date."""
    found = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and _holds(each, pid_file)]
    for pid in found:
        with suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                # The number may have been reused in between.
                if _holds(Path(f"/proc/{pid}"), pid_file):
                    signal.pidfd_send_signal(process, how)
            finally:
                os.close(process)
    return bool(found)


def _holds(process: Path, pid_file: Path) -> bool:
    """Whether it is a storage daemon, and has this file open."""
    try:
        # If its program has been replaced since, the link says "… (deleted)".
        if Path(os.readlink(process / "exe")).name.split()[0] != PROGRAM:
            return False
        wanted = pid_file.stat()
        return any(_is(each, wanted) for each in (process / "fd").iterdir())
    except OSError:
        return False  # it has ended, or belongs to somebody else


def _is(descriptor: Path, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(descriptor.stat(), wanted)
    except FileNotFoundError:
        return False
