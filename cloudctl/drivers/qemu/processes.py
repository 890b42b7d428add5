"""Is there a process, and which one: from its pid file, checked against what the kernel says it runs.

A pid file may be older than its process's death, and the number may be somebody else's by now. So a process counts
only if the path of that very pid file is among its arguments.
"""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

PROC = Path("/proc")
LOOK_SECONDS = 0.01


def find(pid_file: Path, proc: Path = PROC) -> int | None:
    """The process id of the guest that was started with this pid file; None: it has no process."""
    try:
        pid = int(pid_file.read_text())
        # A process that has ended and that nobody has waited for has no arguments any more.
        arguments = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if os.fsencode(pid_file) in arguments else None


def owner(pid_file: Path, proc: Path = PROC) -> int | None:
    """The user that the guest's process is of; None: it has no process."""
    pid = find(pid_file, proc)
    try:
        lines = [] if pid is None else (proc / str(pid) / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[2]) for line in lines if line.startswith("Uid:")), None)


def kill(pid_file: Path) -> None:
    """Cut the power now. Nothing happens if there is no process."""
    pid = find(pid_file)
    if pid is not None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended by itself just now


def is_held(pid_file: Path) -> bool:
    """Whether a process has it locked still: one that ends loses its arguments before it lets go of its files."""
    try:
        with pid_file.open("rb+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


async def ended(clock: IReactorTime, pid_file: Path, seconds: float) -> bool:
    """Wait for the end of the process, so long at most; whether it has ended."""
    limit = clock.seconds() + seconds
    while find(pid_file) is not None or is_held(pid_file):
        if clock.seconds() >= limit:
            return False
        await deferLater(clock, LOOK_SECONDS)
    return True
