"""Whether a guest has a process, and which one: from its pid file, checked against the process's arguments.

A pid file may outlive its process, and its number may belong to another process by now. So a process counts only if
the path of that very pid file is among its arguments.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from cloudctl.drivers.errors import Busy

PROC = Path("/proc")
LOOK_SECONDS = 0.01


def find(pid_file: Path, proc: Path = PROC) -> int | None:
    """The process id of the guest that was started with this pid file; None: it has no process."""
    try:
        pid = int(pid_file.read_text())
        # A zombie has no arguments any more.
        arguments = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if os.fsencode(pid_file) in arguments else None


def owner(pid_file: Path, proc: Path = PROC) -> int | None:
    """The user that the guest's process runs as; None: it has no process."""
    pid = find(pid_file, proc)
    try:
        lines = [] if pid is None else (proc / str(pid) / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[2]) for line in lines if line.startswith("Uid:")), None)


def kill(pid_file: Path) -> None:
    """Cut the power at once. Nothing happens if there is no process."""
    pid = find(pid_file)
    if pid is not None:
        _signal(pid, signal.SIGKILL)


async def frozen(clock: IReactorTime, pid_file: Path, seconds: float) -> bool:
    """The process executes nothing until it is thawed; False: there is none. Raises Busy if it does not stop."""
    limit = clock.seconds() + seconds
    while (pid := find(pid_file)) is not None:
        _signal(pid, signal.SIGSTOP)
        if is_stopped(pid_file):
            return True
        if clock.seconds() >= limit:
            thaw(pid_file)
            raise Busy(f"process {pid} does not stop")
        await deferLater(clock, LOOK_SECONDS)
    return False


def is_stopped(pid_file: Path) -> bool:
    """Whether the process has been stopped by a signal."""
    pid = find(pid_file)
    return pid is not None and all(state == "T" for state in _states(pid))


def thaw(pid_file: Path) -> None:
    if (pid := find(pid_file)) is not None:
        _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it ended by itself just now


def _states(pid: int) -> Iterator[str]:
    """The states of its threads, as in proc(5)."""
    for task in (PROC / str(pid) / "task").glob("*"):
        try:
            yield (task / "stat").read_text().rpartition(") ")[2][:1]
        except OSError:
            continue  # it ended by itself just now


def is_held(pid_file: Path) -> bool:
    """Whether a process still has it locked: a process that exits loses its arguments before it closes its files."""
    try:
        with pid_file.open("rb+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


async def ended(clock: IReactorTime, pid_file: Path, seconds: float) -> bool:
    """Wait at most this long for the end of the process; whether it has ended."""
    limit = clock.seconds() + seconds
    while find(pid_file) is not None or is_held(pid_file):
        if clock.seconds() >= limit:
            return False
        await deferLater(clock, LOOK_SECONDS)
    return True
