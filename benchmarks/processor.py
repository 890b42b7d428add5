"""Processor time of a server in multiples of what one bare Klein request takes at the same moment: K.

Other work on the machine then hardly counts: only the one process's time is measured, all of its threads included, and
what slows it down slows down the bare one beside it, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from load import Serial, encode, until

from tests.live.process import free_port

# Requests to the bare route before and after each piece of work.
SAMPLE = 100
RESTED = 25  # the same, with a rest before each
PAUSE = 0.02
# Seconds: a process that uses less than this in two pauses has nothing to do.
IDLE = 0.0003
SETTLED = 30.0


def spent(pid: int) -> float:
    """Seconds of processor time of a process so far, including threads that have ended."""
    # The clock of another process as Linux numbers it: clock_getcpuclockid(3).
    return time.clock_gettime((~pid << 3) | 2)


def spent_by_children(pid: int) -> float:
    """Seconds of processor time of those of its child processes that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def is_idle(pid: int) -> bool:
    began = spent(pid)
    time.sleep(PAUSE)
    return spent(pid) - began < IDLE


def wait_for_idle(pid: int) -> None:
    """Wait until it has nothing left to do. Raises TimeoutError."""
    until(lambda: is_idle(pid) and is_idle(pid), SETTLED, "the server does not come to rest", 0)


class BareKlein:
    """The routes of `bare_klein` in a process of its own."""

    def __init__(self) -> None:
        self.port = free_port()
        script = Path(__file__).with_name("bare_klein.py")
        self.directory = tempfile.TemporaryDirectory(prefix="bench-")
        path = Path(self.directory.name) / "bare.sqlite"
        self.process = subprocess.Popen([sys.executable, str(script), str(self.port), str(path)])
        self.pid = self.process.pid
        try:
            until(self._answers, 10, "bare Klein does not answer")
        except TimeoutError:
            self.close()
            raise

    def __enter__(self) -> BareKlein:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.directory.cleanup()

    def _answers(self) -> bool:
        try:
            return Serial(self.port).ask(self.request(0))[0] == 200
        except OSError:
            return False

    @staticmethod
    def request(_number: int) -> bytes:
        return encode("GET", "/thing/one", {})

    def cost(self, rest: float = 0.0, path: str = "/thing/one") -> float:
        """Seconds of processor time for one answer, now; with `rest` seconds of rest before each.

        After a rest the processor is cold: that alone makes an answer several times as expensive on some machines.
        """
        # A new connection each time: one that is unused for long is closed.
        serial, request = Serial(self.port), encode("GET", path, {})
        serial.ask(request)
        began, times = spent(self.pid), RESTED if rest else SAMPLE
        for _ in range(times):
            if rest:
                time.sleep(rest)
            serial.ask(request)
        return (spent(self.pid) - began) / times


class Meter:
    """What pieces of work cost one process, by name, in K."""

    def __init__(self, bare: BareKlein, pid: int) -> None:
        self.bare = bare
        self.pid = pid
        self._taken: dict[str, list[float]] = {}

    @contextmanager
    def counts(self, name: str, times: int, rest: float = 0.0, writes: bool = False) -> Iterator[None]:
        """The work is what happens in this context, `times` times. The context ends when the process is idle.

        With `rest`, the seconds between looks at the work, a second figure is in answers of a bare route that rests as
        long before each; with `writes`, in those of the route that commits a row before each.
        """
        before = self.bare.cost()
        wait_for_idle(self.pid)
        began = spent(self.pid)
        yield
        wait_for_idle(self.pid)
        took = spent(self.pid) - began
        unit = (before + self.bare.cost()) / 2
        self._taken.setdefault(name, []).append(took / times / unit)
        if rest:
            self._taken.setdefault(f"  {name}, in K after a rest", []).append(took / times / self.bare.cost(rest))
        if writes:
            unit = self.bare.cost(path="/committed/one")
            self._taken.setdefault(f"  {name}, in commits", []).append(took / times / unit)

    def rounds(self, work: Callable[[Meter], None], seconds: float, least: int = 3) -> None:
        """`work(self)` once without counting, then again and again for `seconds`, at least `least` times."""
        work(Meter(self.bare, self.pid))
        end, done = time.monotonic() + seconds, 0
        while done < least or time.monotonic() < end:
            work(self)
            done += 1

    def figures(self) -> dict[str, float]:
        """The medians of the rounds."""
        return {name: median(taken) for name, taken in self._taken.items()}
