"""The body of an HTTP answer, whose connection ends with the wait for it: a server may never come to an end."""

from __future__ import annotations

from math import inf

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.iweb import IResponse


def body(answer: IResponse, most: float = inf) -> Deferred[bytes]:
    """Of an unbuffered answer. What comes after `most` bytes is dropped."""
    collector = _Body(most)
    answer.deliverBody(collector)
    return collector.done


class _Body(Protocol):
    def __init__(self, most: float) -> None:
        self.left = most
        self.parts: list[bytes] = []
        self.done: Deferred[bytes] = Deferred(lambda _: self._leave())

    def dataReceived(self, data: bytes) -> None:
        if self.left > 0:
            self.parts.append(data)
            self.left -= len(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.done.called:
            return
        # A server that tells no length ends with the connection.
        if reason.check(ResponseDone, PotentialDataLoss):
            self.done.callback(b"".join(self.parts))
        else:
            self.done.errback(reason)

    def _leave(self) -> None:
        # `loseConnection` would wait until the server has ended TLS, too.
        if self.transport is not None:
            self.transport.stopProducing()  # type: ignore[attr-defined]  # an answer's transport is its producer
