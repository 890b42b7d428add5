"""A guest that counts while it moves, as seen from outside: over a connection to it, and by its echo replies."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread

from attrs import define, field

from cloudctl.drivers.netns import inside
from tests.drivers.netns.probes import Echo, pinging
from tests.live.host import until
from tests.live.load import PATIENCE

# A number every twentieth of a second, for as long as somebody listens.
COUNT = "i=0; while echo $i; do i=$((i+1)); usleep 50000; done"
EVERY = 0.05  # seconds between two packets
QUIET = 20.0  # seconds after which nobody will greet
ATTEMPTS = 3


class GuestDied(Exception):
    """Its kernel did. A QEMU that emulates the processor (TCG) sometimes misses that the guest wrote to a page that was
    just being sent, especially on a busy machine, and the kernel trips over the page's old content.
    """


class GuestHangs(GuestDied):
    """Its kernel still answers, but runs nothing: for the same reason. It does not start again by itself."""


def emulated(piece: Callable[[], None]) -> None:
    """Run `piece`, which moves a running guest, again if the emulator has let the guest die: see `GuestDied`."""
    for _ in range(ATTEMPTS - 1):
        try:
            return piece()
        except GuestDied as error:
            print(f"once more: {error}")
    piece()


@define(eq=False)
class Watch:
    """`counting`: a connection in which the guest counts; `deaths`: how many of its kernels have died so far; `hangs`:
    whether its kernel answers while nothing else does.
    """

    counting: subprocess.Popen[str]
    deaths: Callable[[], int]
    hangs: Callable[[], bool]
    lines: list[str] = field(factory=list)
    echoes: list[tuple[float, bool]] = field(factory=list)
    _before: int = field(init=False)  # deaths at the start

    def __attrs_post_init__(self) -> None:
        self._before = self.deaths()

    def read(self) -> None:
        assert self.counting.stdout is not None
        for line in self.counting.stdout:
            self.lines.append(line.strip())

    def ping(self, echo: Echo, end: Event) -> None:
        began = time.monotonic()
        while not end.wait(EVERY):
            self.echoes.append((time.monotonic() - began, echo(patience=EVERY)))

    def goes_on(self) -> None:
        """More numbers arrive on the same connection, and none is missing. Raises GuestDied."""
        so_far = len(self.lines)
        with self.unless_it_hangs():
            until("something happened", lambda: self.counts_on(so_far) or self.has_ended() or self.has_died(), PATIENCE)
        if not self.counts_on(so_far):
            if self.has_died():
                raise GuestDied("its kernel died on its way")
            raise AssertionError(f"the connection ended: {self.facts()}")
        found = list(self.lines)
        assert found == [str(number) for number in range(len(found))], found[-20:]

    @contextmanager
    def unless_it_hangs(self) -> Iterator[None]:
        """Raises GuestHangs if that is why something was waited for in vain."""
        try:
            yield
        except AssertionError:
            if self.hangs():
                raise GuestHangs("nothing runs in it since it was on its way") from None
            raise

    def counts_on(self, since: int) -> bool:
        """Whether it counts on after `since` lines."""
        return len(self.lines) > since + 5

    def has_ended(self) -> bool:
        return self.counting.poll() is not None

    def has_died(self) -> bool:
        return self.deaths() > self._before

    def facts(self) -> str:
        lost = sum(not came for _, came in self.echoes)
        gap, last = 0.0, self.echoes[0][0]
        for at, came in self.echoes:
            if came:
                gap, last = max(gap, at - last), at
        return f"{lost} of {len(self.echoes)} echoes lost, longest silence {gap:.2f} s, {len(self.lines)} counted"


def says_nothing(outside: str, address: str) -> bool:
    """Whether the guest's kernel accepts a connection for ssh, and nobody greets on it."""
    with inside.within(outside, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as made:
        made.settimeout(QUIET)
        try:
            made.connect((address, 22))
        except OSError:
            return False
        try:
            return not made.recv(1)
        except OSError:
            return True


@contextmanager
def watched(counting: subprocess.Popen[str], deaths: Callable[[], int], outside: str, address: str) -> Iterator[Watch]:
    """`outside`: the network namespace from which the guest at `address` is pinged."""
    watch, end = Watch(counting, deaths, partial(says_nothing, outside, address)), Event()
    with pinging(outside, address) as echo:
        threads = [Thread(target=watch.read), Thread(target=watch.ping, args=(echo, end))]
        for each in threads:
            each.start()
        try:
            until("the guest counts", lambda: watch.lines, PATIENCE)
            yield watch
        finally:
            end.set()
            counting.kill()
            for each in threads:
                each.join(PATIENCE)
            counting.wait()
