"""One `qemu-storage-daemon`: started when first needed, found again after a restart, controlled by QMP.

It runs as a user that owns nothing: what it serves and where it listens is handed to it open. It outlives this process
and is recognized by the lock that it holds on its pid file. Its monitor serves one connection at a time, so none is
kept that another process of the cloud may be waiting for; its death is noticed at once all the same. Source: the manual
page qemu-storage-daemon(1).
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import define, frozen
from twisted.internet.task import deferLater
from twisted.logger import Logger

from cloudctl.drivers import access_lists
from cloudctl.drivers.accounts import Account, let_through
from cloudctl.drivers.errors import NoCapacity, Unreachable, Unusable
from cloudctl.drivers.handed import Argument, Lent, Node, Open
from cloudctl.drivers.nbd.life import Life, life
from cloudctl.drivers.nbd.options import Place, server
from cloudctl.drivers.programs import ProgramFailed, Programs
from cloudctl.drivers.qcow2.images import NO_ROOM
from cloudctl.drivers.qcow2.records import Records, Volume
from cloudctl.drivers.qemu.qmp import Gone, Monitor, Refused, Silent, connect

PROGRAM = "qemu-storage-daemon"
SOCKET_PATH_LIMIT = 107  # bytes, unix(7)
LOOK_SECONDS = 0.01

_log = Logger()


@frozen
class Sockets:
    """Where one daemon is found. `stem` is a path without its suffix."""

    stem: Path

    @property
    def pid(self) -> Path:
        return self.stem.with_suffix(".pid")

    @property
    def qmp(self) -> Path:
        return self.stem.with_suffix(".qmp")

    @property
    def nbd(self) -> Path:
        return self.stem.with_suffix(".nbd")

    def open(self) -> None:
        """Create the directory, which clients must be able to pass through. Raises Unusable."""
        longest = max(len(os.fsencode(path)) for path in (self.qmp, self.nbd))
        if longest > SOCKET_PATH_LIMIT:
            raise Unusable(f"a socket path would be {longest} bytes long; set runtime_dir to a shorter path")
        try:
            let_through(self.stem.parent)
        except OSError as error:
            raise Unusable(f"cannot make sockets in {self.stem.parent}: {error}") from error

    def remove(self) -> None:
        for path in (self.pid, self.qmp, self.nbd):
            path.unlink(missing_ok=True)


def sockets(runtime_dir: Path, volumes: Path, volume_id: str | None = None) -> Sockets:
    """The sockets of a volume's daemon, for this directory of volumes; without a volume: of the one for all volumes."""
    directory = os.fsencode(volumes)
    if volume_id is None:
        return Sockets(runtime_dir.absolute() / f"volumes-{sha256(directory).hexdigest()[:12]}")
    own = sha256(directory + b"\0" + volume_id.encode()).hexdigest()[:20]
    return Sockets(runtime_dir.absolute() / f"volume-{own}")


@define(eq=False)
class Daemon:
    """For one call of `running` or `stop` at a time."""

    programs: Programs
    sockets: Sockets
    server: Mapping[str, Any]  # where it serves, a SocketAddress
    user: Account | None  # whose group may connect to its socket, besides the users that are admitted one by one
    answer_timeout: float
    disks: Callable[[], Mapping[str, Path]] = dict  # node → the qcow2 that it opens when it starts
    on_death: Callable[[], None] = lambda: None  # called when it ends unasked
    _monitor: Monitor | None = None
    _life: Life | None = None
    _commands: int = 0  # under way
    _released: bool = False  # by us: another process may want to speak to it
    _expected: bool = False  # its end is expected

    def is_alive(self) -> bool:
        """Whether the process exists, even if it does not answer."""
        try:
            with self.sockets.pid.open("rb+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The lock of a daemon that an earlier release has started.
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @property
    def is_watched(self) -> bool:
        return self._life is not None or (self._monitor is not None and not self._monitor.is_lost)

    async def running(self) -> None:
        """It runs and answers, to nobody else until it is released. Raises Unreachable."""
        self._released = False
        if self._monitor is None or self._monitor.is_lost:
            self._expected = False
            if self.is_alive():
                self._watch(await self._connect())
            else:
                self._forget()
                await self._start()
        if self._life is None:
            self._life = life(self.sockets.pid, self.programs.reactor, self._ended)

    def release(self) -> None:
        """Others may speak to it, once it has answered. If its death would not be noticed, the monitor is kept."""
        self._released = self._life is not None
        if self._released and not self._commands and self._monitor is not None:
            monitor, self._monitor = self._monitor, None
            monitor.close()

    async def _connect(self) -> Monitor:
        reactor, clock = self.programs.reactor, self.programs.clock
        return await connect(reactor, clock, str(self.sockets.qmp), self.answer_timeout)

    def _watch(self, monitor: Monitor) -> None:
        self._monitor = monitor
        monitor.lost.addCallback(lambda _: self._lost(monitor))

    async def stop(self) -> None:
        """The daemon has ended. It must not be serving anybody. Raises Unreachable."""
        if not self.is_alive():
            return
        await self.running()
        self._expected = True
        _log.info("stopping the storage daemon: no volume is connected")
        try:
            await self.ask("quit")
        except Gone:
            pass  # it ended before it answered
        clock = self.programs.clock
        limit = clock.seconds() + self.answer_timeout
        while self.is_alive():
            if clock.seconds() >= limit:
                raise Unreachable("the storage daemon does not exit")
            await deferLater(clock, LOOK_SECONDS)
        self._forget()
        self.sockets.remove()

    def close(self) -> None:
        """Disconnect the monitor; the daemon stays."""
        self._expected = True
        self._forget()
        if self._monitor is not None:
            self._monitor.close()

    def _forget(self) -> None:
        """It has ended, or nobody is told when it does."""
        if self._life is not None:
            self._life.close()
            self._life = None

    async def ask(self, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """What the daemon returns. Raises Unreachable, Refused."""
        return await self._execute(command, arguments or {}, self.answer_timeout)

    async def tell(self, command: str, arguments: Mapping[str, Any], timeout: float | None = None) -> Any:
        """As `ask`, for a command that changes something. Also raises NoCapacity."""
        _log.debug("would send the storage daemon {command} {arguments}", command=command, arguments=arguments)
        return await self._execute(command, arguments, timeout or self.answer_timeout)

    async def _execute(self, command: str, arguments: Mapping[str, Any], timeout: float) -> Any:
        if self._monitor is None:
            raise Unreachable("the storage daemon has just exited")
        self._commands += 1
        try:
            return await self._monitor.execute(command, arguments, timeout=timeout)
        except Refused as error:
            if NO_ROOM in error.description:
                raise NoCapacity("the file system of the volumes is full") from error
            raise
        finally:
            self._commands -= 1
            if self._released:
                self.release()

    async def _start(self) -> None:
        try:
            await self._start_new()
        except OSError as error:
            # Its directory is gone, or there are no descriptors or no room there.
            raise Unreachable(f"the storage daemon of {self.sockets.pid} cannot be started: {error}") from error

    async def _start_new(self) -> None:
        _log.info("starting a storage daemon")

        async def answers(pid: int) -> bool:
            try:
                self._watch(await self._connect())
            except (Gone, Silent):
                return False
            self.sockets.pid.write_text(str(pid))
            return True

        with ExitStack() as stack:
            lock = stack.enter_context(_locked(self.sockets.pid))
            # Whose number it has is dead.
            os.ftruncate(lock, 0)
            monitor = stack.enter_context(_listening(self.sockets.qmp, None))
            words: list[Argument] = ["--chardev", ("socket,id=monitor,server=on,wait=off,fd=", Open(monitor))]
            words += ["--monitor", "chardev=monitor", "--nbd-server"]
            if self.server["type"] == "unix":
                served = stack.enter_context(_listening(self.sockets.nbd, self.user))
                words += [("max-connections=0,addr.type=fd,addr.str=", Open(served))]
            else:
                words += [_nbd_server(self.server)]
            for node, path in self.disks().items():
                words += ["--blockdev", Node(disk(node, Lent(path, writable=True)), prefix="")]
            try:
                await self.programs.start(PROGRAM, *words, ready=answers, held=[lock])
            except ProgramFailed as error:
                raise Unreachable(f"the storage daemon failed to start: {error.complaint}") from error

    def _lost(self, monitor: Monitor) -> None:
        if monitor is self._monitor:
            self._monitor = None
            if self._life is None:
                self._ended()

    def _ended(self) -> None:
        self._life = None
        if not self._expected:
            self.on_death()


def daemons(
    place: Place, records: Records, programs: Programs, user: Account | None
) -> Callable[[Volume | None], Daemon]:
    """The daemon of a volume that has a place; for None: of all volumes without a place."""

    def of(volume: Volume | None) -> Daemon:
        found = sockets(place.runtime_dir, records.root, None if volume is None else volume.id)
        where = server(place.listen, found.nbd, 0 if volume is None else volume.place or 0)
        return Daemon(programs, found, where, user, place.answer_timeout)

    return of


def disk(node: str, file: str | Lent) -> Mapping[str, Any]:
    """A block node of the daemon: a qcow2 of ours, which needs no other file."""
    reached = {"driver": "file", "filename": file}
    return {"driver": "qcow2", "node-name": node, "discard": "unmap", "backing": None, "file": reached}


@contextmanager
def _locked(file: Path) -> Iterator[int]:
    """A descriptor that locks the file as long as any process has it open. Raises Unreachable if it is locked."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    except BlockingIOError as error:
        raise Unreachable("the storage daemon is being started by another process") from error
    finally:
        os.close(descriptor)


@contextmanager
def _listening(path: Path, user: Account | None) -> Iterator[int]:
    """A descriptor of a socket that replaces the previous one and admits everybody who could connect to that.

    `user`: whose group may connect if there was no previous one.
    """
    beside = path.with_suffix(".new")
    beside.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.fsencode(beside))
        beside.chmod(0o600)
        if user is not None and os.geteuid() == 0:
            os.chown(beside, -1, user.gid)
            beside.chmod(0o660)
        if path.exists():
            access_lists.copy(path, beside)
        made.listen()
        beside.replace(path)
        yield made.fileno()


def _nbd_server(server: Mapping[str, Any]) -> str:
    address = ",".join(f"addr.{key}={str(value).replace(',', ',,')}" for key, value in server.items())
    return f"{address},max-connections=0"
