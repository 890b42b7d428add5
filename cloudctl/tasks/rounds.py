"""A service that looks at something again and again: one round after the other, none under way once it has stopped."""

from __future__ import annotations

from abc import abstractmethod

from twisted.application.service import Service
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cloudctl.db.absence import Absence

log = Logger()


class Rounds(Service):
    """Calls `look` every `period` seconds; `at_once`: at the start, too. `trouble`: logged if a round fails."""

    def __init__(self, clock: IReactorTime, period: float, trouble: str, *, at_once: bool = True) -> None:
        self.clock = clock
        self.period = period
        self.trouble = trouble
        self.at_once = at_once
        self._absence = Absence(trouble)
        self._calls: LoopingCall | None = None
        self._under_way: Deferred[None] | None = None
        self._looking = self._again = False

    @abstractmethod
    async def look(self) -> None:
        """One round. What it raises is logged, and the next round comes all the same."""

    def startService(self) -> None:
        super().startService()
        self._calls = LoopingCall(self._look)
        self._calls.clock = self.clock
        self._calls.start(self.period, now=self.at_once)

    def stopService(self) -> Deferred[None] | None:
        """Fires when the round under way has ended."""
        super().stopService()
        if self._calls is not None and self._calls.running:
            self._calls.stop()
        return self._under_way

    def look_now(self) -> None:
        """Begin a round at once. If one is under way, another one follows it: it may have looked too early."""
        if self._looking:
            self._again = True
        elif self._calls is not None and self._calls.running:
            self._calls.reset()
            self._look()

    def _look(self) -> Deferred[None] | None:
        # Where `look_now` has begun a round, the timer waits for its end.
        if not self._looking:
            self._under_way = ensureDeferred(self._rounds())
        return self._under_way

    async def _rounds(self) -> None:
        self._looking = self._again = True
        while self._again and self.running:
            self._again = False
            try:
                await self.look()
            except Exception as error:
                if not self._absence.explains(error):
                    log.failure(self.trouble)
            else:
                self._absence.is_over()
        self._looking = False
