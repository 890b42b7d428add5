"""HTTP connections that take turns: requests that come at once are handled one per turn of the reactor."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel


class TurnChannel(HTTPChannel):
    """A connection whose next request waits for its turn, and until the client takes the answers to those before.

    Twisted handles all requests that came at once before it looks at any other client, and keeps their answers in
    memory.
    """

    # When what came after the last request is looked at; None: nothing did, or the client has answers to take first.
    turn: IDelayedCall | None = None

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.turn is not None:
            self.turn.cancel()
        super().connectionLost(reason)

    def requestDone(self, request: Any) -> None:
        self.paused = True
        super().requestDone(request)
        if self.persistent and self._buffer:
            self._networkProducer.pauseProducing()
            self._take_turn()
        else:
            self.paused = False

    def resumeProducing(self) -> None:
        super().resumeProducing()
        if self.paused:
            self._take_turn()

    def _take_turn(self) -> None:
        if self.turn is None and not self._waitingForTransport:
            self.turn = self.callLater(0, self._go_on)

    def _go_on(self) -> None:
        self.turn = None
        self.paused = False
        if not self._waitingForTransport:
            self._networkProducer.resumeProducing()
        self.dataReceived(b"")
