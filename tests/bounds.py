"""Bounds of tests that start daemons: these end with the process that started them, however that ends, and a story that
waits for what never comes fails, saying which daemons of others are there.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Before a command: the kernel kills it when the thread that started it ends, as when a test run is killed.
WITH_ME = ("setpriv", "--pdeathsig", "KILL", "--")
# What a cluster consists of.
DAEMONS = ("libvirtd", "ovsdb-server", "ovs-vswitchd", "ovn-controller", "ovn-northd", "qemu-system-x86")


@contextmanager
def ending_within(seconds: float) -> Iterator[None]:
    """Raises AssertionError, wherever the main thread is, once this has taken longer."""

    def late(_number: int, _frame: Any) -> None:
        others = "\n".join(foreign()) or "none"
        raise AssertionError(f"no end after {seconds:.0f} s. Daemons that this test run has not started:\n{others}")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def foreign() -> list[str]:
    """The pid and the command of each daemon that does not descend from this process."""
    parents, commands = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (entry / "stat").read_text().partition(" (")[2].rsplit(") ", 1)
            parents[int(entry.name)] = int(rest.split()[1])
            if name in DAEMONS:
                commands[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")[:150]
        except OSError:
            continue  # it has ended
    return [f"{pid}: {commands[pid]}" for pid in sorted(commands) if os.getpid() not in _above(pid, parents)]


def _above(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid in parents:
        yield (pid := parents[pid])
