"""One `qemu-storage-daemon`: started when it is first needed, found again, told what to do by QMP.

It outlives this process, and is known by the lock that it holds on its pid file. Its monitor is connected as long as
somebody watches it, so its death is seen at once. Source: the manual page qemu-storage-daemon(1).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import define, frozen
from twisted.internet.task import deferLater
from twisted.logger import Logger

from cloudctl.drivers.accounts import Account, let_connect, let_through
from cloudctl.drivers.errors import NoCapacity, Unreachable, Unusable
from cloudctl.drivers.programs import ProgramFailed, Programs
from cloudctl.drivers.qcow2.images import NO_ROOM
from cloudctl.drivers.qemu.qmp import Gone, Monitor, Refused, connect

SOCKET_PATH_LIMIT = 107  # bytes, unix(7)
LOOK_SECONDS = 0.01

_log = Logger()


@frozen
class Sockets:
    """Where one daemon is found. `stem` is a path without its ending."""

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

    def open(self, user: Account) -> None:
        """Make the directory, which the clients' user may go through. Raises Unusable."""
        longest = max(len(os.fsencode(path)) for path in (self.qmp, self.nbd))
        if longest > SOCKET_PATH_LIMIT:
            raise Unusable(f"a socket path would be {longest} bytes long; set runtime_dir to a shorter path")
        try:
            let_through(self.stem.parent, user)
        except OSError as error:
            raise Unusable(f"cannot make sockets in {self.stem.parent}: {error}") from error

    def remove(self) -> None:
        for path in (self.pid, self.qmp, self.nbd):
            path.unlink(missing_ok=True)


def sockets(runtime_dir: Path, volumes: Path) -> Sockets:
    """Those of the daemon that serves this directory."""
    return Sockets(runtime_dir.absolute() / f"volumes-{sha256(os.fsencode(volumes)).hexdigest()[:12]}")


@define(eq=False)
class Daemon:
    """Not for two calls of `running` or `stop` at a time."""

    programs: Programs
    sockets: Sockets
    server: Mapping[str, Any]  # where it serves, a SocketAddress
    user: Account  # that may connect to its socket
    answer_timeout: float
    on_death: Callable[[], None] = lambda: None  # called when it ends, or closes its monitor, though nobody asked
    _monitor: Monitor | None = None
    _expected: bool = False  # its end

    def is_alive(self) -> bool:
        """Whether there is such a process, even one that does not answer."""
        try:
            with self.sockets.pid.open("rb+") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @property
    def is_watched(self) -> bool:
        return self._monitor is not None and not self._monitor.is_lost

    async def running(self) -> None:
        """It runs and answers. Raises Unreachable."""
        if self.is_watched:
            return
        if not self.is_alive():
            await self._start()
        self._expected = False
        self._monitor = await connect(
            self.programs.reactor, self.programs.clock, str(self.sockets.qmp), self.answer_timeout
        )
        # Also of one that a release before this one has started.
        if self.server["type"] == "unix":
            let_connect(self.sockets.nbd, self.user)
        self._monitor.lost.addCallback(self._lost)

    async def stop(self) -> None:
        """It has ended. It must serve nobody. Raises Unreachable."""
        if not self.is_alive():
            return
        await self.running()
        self._expected = True
        _log.info("stops the storage daemon: no volume is connected")
        try:
            await self.ask("quit")
        except Gone:
            pass  # it ended before its answer was out
        clock = self.programs.clock
        limit = clock.seconds() + self.answer_timeout
        while self.is_alive():
            if clock.seconds() >= limit:
                raise Unreachable("the storage daemon does not exit")
            await deferLater(clock, LOOK_SECONDS)
        self.sockets.remove()

    def close(self) -> None:
        """Let go of the monitor; the daemon stays."""
        self._expected = True
        if self._monitor is not None:
            self._monitor.close()

    async def ask(self, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """What the daemon returns. Raises Unreachable, Refused."""
        return await self._execute(command, arguments or {}, self.answer_timeout)

    async def tell(self, command: str, arguments: Mapping[str, Any], timeout: float | None = None) -> Any:
        """As `ask`, for a command that changes something. Raises NoCapacity, too."""
        _log.debug("would send the storage daemon {command} {arguments}", command=command, arguments=arguments)
        return await self._execute(command, arguments, timeout or self.answer_timeout)

    async def _execute(self, command: str, arguments: Mapping[str, Any], timeout: float) -> Any:
        if self._monitor is None:
            raise Unreachable("the storage daemon has just exited")
        try:
            return await self._monitor.execute(command, arguments, timeout=timeout)
        except Refused as error:
            if NO_ROOM in error.description:
                raise NoCapacity("the file system of the volumes is full") from error
            raise

    async def _start(self) -> None:
        _log.info("starts the storage daemon")
        try:
            await self.programs.change(
                "qemu-storage-daemon",
                "--daemonize",
                "--pidfile",
                str(self.sockets.pid),
                "--chardev",
                f"socket,id=monitor,path={_escaped(self.sockets.qmp)},server=on,wait=off",
                "--monitor",
                "chardev=monitor",
                "--nbd-server",
                _nbd_server(self.server),
            )
        except ProgramFailed as error:
            raise Unreachable(f"the storage daemon failed to start: {error.complaint}") from error

    def _lost(self, _result: None) -> None:
        self._monitor = None
        if not self._expected:
            self.on_death()


def _nbd_server(server: Mapping[str, Any]) -> str:
    address = ",".join(f"addr.{key}={_escaped(value)}" for key, value in server.items())
    return f"{address},max-connections=0"


def _escaped(value: object) -> str:
    """In an option of QEMU a comma is written twice."""
    return str(value).replace(",", ",,")
