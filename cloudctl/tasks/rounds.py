"""A service that looks at something again and again: one round after the other, none under way once it has stopped."""

from __future__ import annotations

from abc import abstractmethod

from twisted.application.service import Service
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

log = Logger()


class Rounds(Service):
    """Calls `look` every `period` seconds; `at_once`: at the start, too. `trouble`: logged if a round fails."""

    def __init__(self, clock: IReactorTime, period: float, trouble: str, *, at_once: bool = True) -> None:
        self.clock = clock
        self.period = period
        self.trouble = trouble
        self.at_once = at_once
        self._calls: LoopingCall | None = None
        self._round: Deferred[None] | None = None

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
        return self._round

    def look_now(self) -> None:
        """Begin the next round at once, unless one is under way: then the next comes in its time."""
        if self._calls is not None and self._calls.running and (self._round is None or self._round.called):
            self._calls.reset()
            self._look()

    def _look(self) -> Deferred[None]:
        self._round = ensureDeferred(self.look())
        self._round.addErrback(lambda failure: log.failure(self.trouble, failure))
        return self._round
