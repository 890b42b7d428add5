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
        self.done: Deferred[bytes] = Deferred(lambda _: hang_up(self))

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


def hang_up(reader: Protocol) -> None:
    """Close the connection of an answer that is delivered to `reader`, whatever its server does."""
    # `loseConnection` would wait until the server has ended TLS, too.
    if reader.transport is not None:
        reader.transport.stopProducing()  # type: ignore[attr-defined]  # an answer's transport is its producer
