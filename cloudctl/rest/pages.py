"""A list as a response body that is made page by page, at the pace of the client: the memory of one page is enough."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from zope.interface import implementer

log = Logger()


@frozen
class Pages:
    """The object `{key: [item, …]}`.

    `first`: the items of its first page. `following()` gives those of the next page; none at the end. What it raises
    comes too late for a status: the connection is aborted.
    """

    key: str
    first: Sequence[Any]
    following: Callable[[], Awaitable[Sequence[Any]]]


@implementer(IPushProducer)
class Room:
    """Whether a consumer takes more now."""

    def __init__(self) -> None:
        self._paused = False
        self._waiting: Deferred[None] | None = None

    def made(self) -> Deferred[None]:
        """Fires once there is room. For one waiter at a time."""
        if not self._paused:
            return succeed(None)
        self._waiting = Deferred()
        return self._waiting

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.called:
            waiting.callback(None)

    def stopProducing(self) -> None:
        """The client is gone; what is waited for is cancelled."""


async def send(pages: Pages, request: Any) -> None:
    """Write all pages. If it is cancelled, it asks for no other one."""
    room = Room()
    request.registerProducer(room, True)
    request.write(b"{%s:[" % orjson.dumps(pages.key))
    items, before = pages.first, b""
    try:
        while items:
            request.write(before + orjson.dumps(items)[1:-1])
            before = b","
            await room.made()
            items = await pages.following()
    except CancelledError:
        # The client is gone.
        raise
    except Exception:  # whatever it is, half a list must not look like a whole one
        log.failure("a list was interrupted")
        request.transport.abortConnection()
        return
    request.write(b"]}")
    request.unregisterProducer()
