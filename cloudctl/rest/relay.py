"""Files behind a network as a response body: they are opened and read in threads, at the pace of the client."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from cloudctl.errors import Unavailable
from cloudctl.rest.call import Parts, Run
from cloudctl.rest.stream import Stream

PIECE = 2**18  # bytes that are read at once


class Relay:
    """Call `begin` before anything is promised to the client, and `close` whatever becomes of it."""

    def __init__(self, parts: Parts, run: Run) -> None:
        self._chunks = parts.chunks(PIECE)
        self._run = run
        self._first: bytes | None = None
        self._reading: Deferred[None] = succeed(None)

    async def begin(self) -> None:
        """Read the first piece. Raises Unavailable."""
        try:
            self._first = await self._next()
        except OSError as error:
            raise Unavailable("The data cannot be read now.") from error

    def stream(self) -> Stream:
        """The data as a Stream; its type is in the reply's headers."""
        return Stream("", self._pieces)

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        data, self._first = self._first, None
        while data is not None:
            yield data
            data = await self._next()

    def _next(self) -> Deferred[bytes | None]:
        """The waiter may give up; the thread goes on to the end of the piece."""
        waiting: Deferred[bytes | None] = Deferred()

        def read(outcome: bytes | Failure | None) -> None:
            if not waiting.called:  # else the client is gone, and what came is dropped
                waiting.callback(outcome)

        self._reading = self._run(next, self._chunks, None).addBoth(read)
        return waiting

    def close(self) -> Deferred[None]:
        """Close the files after what is being read: a thread does that, too."""
        return self._reading.addCallback(lambda _: self._run(self._chunks.close))
