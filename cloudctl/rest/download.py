"""Chunks of bytes, such as those of a file, as a response body, at the pace of the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from zope.interface import implementer

from cloudctl.errors import CloudError

log = Logger()

CHUNK = 65536


@implementer(IPushProducer)
class Producer:
    """Writes the next chunk to a consumer whenever it has room for one.

    What a chunk raises comes too late for a status: the connection is aborted, so that a part of the body never looks
    like all of it.
    """

    def __init__(self, chunks: Iterator[bytes], consumer: Any) -> None:
        self._chunks = chunks
        self._consumer = consumer
        self._paused = True
        self._stopped = False
        self.done: Deferred[None] = Deferred(lambda _: self.stopProducing())

    def start(self) -> Deferred[None]:
        """Fires when all was written. Cancel it to stop early."""
        self._consumer.registerProducer(self, True)
        self.resumeProducing()
        return self.done

    def resumeProducing(self) -> None:
        self._paused = False
        while not self._paused and not self._stopped:
            try:
                data = next(self._chunks, None)
            except CloudError as error:
                log.warn("a download is broken off: {error}", error=error)
                self._break_off()
                return
            except OSError:
                log.failure("a download was interrupted")
                self._break_off()
                return
            if data is None:
                self._end()
            else:
                self._consumer.write(data)

    def pauseProducing(self) -> None:
        self._paused = True

    def stopProducing(self) -> None:
        """The client is gone; Klein cancels the handler."""
        self._stopped = True

    def _break_off(self) -> None:
        """What comes is not all: the client must not take it for the end."""
        self._stopped = True
        self._consumer.transport.abortConnection()

    def _end(self) -> None:
        self._stopped = True
        self._consumer.unregisterProducer()
        self.done.callback(None)
