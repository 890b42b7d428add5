"""Machines that start for seconds, or for many minutes, or never, once they have their power again."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import Clock

# Seconds, the shortest and the longest; as often as they are named.
STARTS = ((0.0, 15.0), (30.0, 120.0), (120.0, 600.0), (600.0, 1800.0), (inf, inf))
LATER = 45.0  # seconds at most from when the hypervisor answers to when the network hears of the host


@define(eq=False)
class Machines:
    """`up`, `heard`: called with the host when its hypervisor answers, and when the network hears of it."""

    chance: Random
    clock: Clock
    up: Callable[[str], None]
    heard: Callable[[str], None]
    starting: dict[str, IDelayedCall | None] = field(factory=dict)  # None: it hangs
    hurried: bool = False  # none is slow any more

    def start(self, host: str) -> None:
        """One that starts goes on."""
        if host in self.starting:
            return
        least, most = self.chance.choice(STARTS[:1] if self.hurried else STARTS)
        took = least if least == most else self.chance.uniform(least, most)
        self.starting[host] = None if took == inf else self.clock.callLater(took, self._up, host)

    def lose_power(self, host: str) -> None:
        call = self.starting.pop(host, None)
        if call is not None:
            call.cancel()

    @property
    def hanging(self) -> set[str]:
        return {host for host, call in self.starting.items() if call is None}

    def _up(self, host: str) -> None:
        self.up(host)
        self.starting[host] = self.clock.callLater(self.chance.uniform(0.0, LATER), self._heard, host)

    def _heard(self, host: str) -> None:
        del self.starting[host]
        self.heard(host)
