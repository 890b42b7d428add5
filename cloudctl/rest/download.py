"""Part of a file as a response body, at the pace of the client."""

from __future__ import annotations

from typing import IO, Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

CHUNK = 65536


@implementer(IPushProducer)
class FileProducer:
    """Writes the next `length` bytes of `file` to a consumer whenever it has room for them."""

    def __init__(self, file: IO[bytes], length: int, consumer: Any) -> None:
        self._file = file
        self._left = length
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
            data = self._file.read(min(CHUNK, self._left))
            self._left -= len(data)
            if data:
                self._consumer.write(data)
            if self._left == 0 or not data:
                self._end()

    def pauseProducing(self) -> None:
        self._paused = True

    def stopProducing(self) -> None:
        """The client is gone; Klein cancels the handler."""
        self._stopped = True

    def _end(self) -> None:
        self._stopped = True
        self._consumer.unregisterProducer()
        self.done.callback(None)
