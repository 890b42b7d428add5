"""A response body that comes as things happen, at the pace of the client, until its source ends or the client hangs up.

It also ends when the client would no longer be let in.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from attrs import frozen
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from cloudctl.rest.pages import Room

log = Logger()


async def forever() -> bool:
    return True


@frozen
class Stream:
    """`chunks` is called once. What it raises comes too late for a status: the connection is aborted."""

    content_type: str
    chunks: Callable[[], AsyncGenerator[bytes, None]]
    # Whether a chunk may be sent; asked before each.
    may_go_on: Callable[[], Awaitable[bool]] = forever


async def send(stream: Stream, request: Any) -> None:
    """Write all of it. If it is cancelled, as when the client is gone, it asks for no more."""
    room = Room()
    request.registerProducer(room, True)
    try:
        async with aclosing(stream.chunks()) as chunks:
            async for chunk in chunks:
                if not await stream.may_go_on():
                    break
                request.write(chunk)
                await room.made()
    except CancelledError:
        raise
    except Exception:  # whatever it is, the client must not believe that this was the end
        log.failure("a stream was interrupted")
        request.transport.abortConnection()
        return
    request.unregisterProducer()
