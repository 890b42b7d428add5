"""`twist cloudctl`, again and again: its modules are imported once, and each process is a fork of that.

Importing them takes a second of processor time, most of what a start would cost. A fork runs the installed script, in a
process of its own, with its own environment and folder. `test_process_start_and_stop.py` covers a start with nothing
imported yet.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
# Everything that a start and the first requests import, except the reactor, which the command's arguments choose.
MODULES = (
    "twisted.application.twist._twist",
    "cloudctl.tap",
    "alembic.command",
    "alembic.context",
    "cloudctl.drivers.fake.store",
    "cloudctl.drivers.fake.console",
    "cloudctl.identity.api",
    "cloudctl.compute.api",
    "cloudctl.image.api",
    "cloudctl.network.api",
    "cloudctl.volume.api",
)


class Forked:
    """Looks like a `subprocess.Popen` of the process."""

    def __init__(self, origin: Origin, pid: int) -> None:
        self._origin, self.pid = origin, pid
        self.returncode: int | None = None
        # It ends with the process, whose number is not reused before its exit status is read.
        self._end = os.pidfd_open(pid)

    def __del__(self) -> None:
        os.close(self._end)

    def poll(self) -> int | None:
        return self.returncode if self._ended(0.0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        if not self._ended(timeout):
            raise subprocess.TimeoutExpired("twist", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if not self._ended(0.0):
            signal.pidfd_send_signal(self._end, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> bool:
        watch = select.poll()
        watch.register(self._end, select.POLLIN)
        if not watch.poll(None if timeout is None else timeout * 1000.0):
            return False
        with self._origin.lock:
            if self.returncode is None:
                self.returncode = self._origin.ask("ended", self.pid)
        return True


class Origin:
    """The process that has imported everything."""

    def __init__(self) -> None:
        self.lock = Lock()
        # -P: those modules must not import what lies beside this file.
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(self._process.communicate)

    def start(self, command: Sequence[str], log: Path, environment: Mapping[str, str], directory: Path) -> Forked:
        """Its output is appended to `log`."""
        with self.lock:
            pid = self.ask("start", list(command), str(log), dict(environment), str(directory))
        return Forked(self, pid)

    def ask(self, *question: Any) -> int:
        """Call with the lock held."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@cache
def _origin(_python: tuple[tuple[str, str], ...]) -> Origin:
    return Origin()


def origin() -> Origin:
    """The origin of this process, for the environment's present import settings."""
    return _origin(tuple(sorted(item for item in os.environ.items() if item[0].startswith("PYTHON"))))


def run(command: Sequence[str], log: str, environment: Mapping[str, str], directory: str) -> None:
    for number, file in enumerate((os.devnull, log, log)):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666), number)
    os.closerange(3, 64)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    # In place: modules already imported have it as a default argument.
    sys.argv[:] = command
    runpy.run_path(sys.argv[0], run_name="__main__")


def child(origin: int, *wanted: Any) -> None:
    """Never returns: the stack above it belongs to the parent."""
    # It ends with the origin, as that does with the test run, even if that is killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != origin:
        os._exit(1)
    status = 1
    try:
        run(*wanted)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def serve() -> None:
    for name in MODULES:
        import_module(name)
    assert "twisted.internet.reactor" not in sys.modules
    gc.collect()
    gc.freeze()
    mine = os.getpid()
    for line in sys.stdin:
        kind, *words = json.loads(line)
        if kind == "ended":
            print(os.waitstatus_to_exitcode(os.waitpid(words[0], 0)[1]), flush=True)
        elif (pid := os.fork()) == 0:
            child(mine, *words)
        else:
            print(pid, flush=True)


if __name__ == "__main__":
    serve()
