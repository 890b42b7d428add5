"""Programs that keep running beside this process: each has a directory and is identified by its command line."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from cloudctl.drivers.errors import Busy
from cloudctl.drivers.netns.kernel import Kernel
from cloudctl.drivers.netns.names import pid_file, written

POLL_SECONDS = 0.005
END_SECONDS = 2.0  # in which one must end; it takes a few milliseconds

_log = Logger()


@frozen
class Daemons:
    """The daemons of one program, each for an object of the cloud. `root` has a directory for each.

    A process whose command line has `pid_file` is ours.
    """

    kernel: Kernel
    clock: IReactorTime
    root: Path
    program: str = "dnsmasq"

    @property
    def dry(self) -> bool:
        return self.kernel.programs.dry_run

    def directory(self, id: str) -> Path:
        return self.root / written(id)

    def running(self, id: str) -> list[str]:
        """The arguments of the daemon that runs for the object; empty if none does."""
        pid = self._pid(id)
        return [] if pid is None else self._arguments_of(pid, id)

    async def start(self, arguments: Sequence[str], namespace: str) -> None:
        """Does nothing without arguments. Raises ProgramFailed."""
        if arguments:
            await self.kernel.programs.change(self.program, *arguments, namespace=namespace)

    async def end(self, id: str) -> None:
        """No daemon runs for the object. Raises Busy if one does not end."""
        self.signal(id, signal.SIGTERM)
        limit = self.clock.seconds() + END_SECONDS
        while not self.dry and (strays := self._strays(id)):
            if self.clock.seconds() > limit:
                raise Busy(f"the {self.program} of {id} does not exit")
            for pid in strays:
                _kill(pid, signal.SIGTERM)
            await deferLater(self.clock, POLL_SECONDS)

    def forget(self, id: str) -> None:
        """Remove the directory of the object."""
        if not self.dry:
            shutil.rmtree(self.directory(id), ignore_errors=True)

    def signal(self, id: str, number: signal.Signals) -> None:
        pid = self._pid(id)
        if pid is None or not self.running(id):
            return
        if self.dry:
            _log.info("would send {signal} to {pid}", signal=number.name, pid=pid)
        else:
            _kill(pid, number)

    def _pid(self, id: str) -> int | None:
        try:
            return int((self.directory(id) / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return None  # never started, or not yet written

    def _arguments_of(self, pid: int, id: str) -> list[str]:
        """The arguments of this process, if it is one of the object's: the number may have been reused."""
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            return []
        return words[1:-1] if pid_file(self.directory(id)) in words else []

    def _strays(self, id: str) -> list[int]:
        """Process ids of those that run for the object, whether or not they still have a pid file."""
        pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
        return [pid for pid in pids if self._arguments_of(pid, id)]


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has just ended: neither signal has anything left to do
