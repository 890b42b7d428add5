"""A response body that comes as things happen, at the pace of the client, until its source ends or the client hangs up.

It also ends when the client would no longer be let in, unless its source says otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

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
    # Whether it ends when its caller would no longer be let in. Not one that only tells how one call ended.
    watched: bool = True


async def beating(
    work: Callable[[], Coroutine[Any, Any, bytes]], first: bytes, clock: IReactorTime, seconds: float
) -> AsyncGenerator[bytes, None]:
    """`first` at once and spaces while `work` goes on, then what it returns: nobody on the way takes the answer for
    lost. Whoever hangs up cancels what `work` waits for, as with any answer.
    """
    doing = Deferred.fromCoroutine(work())
    bell: Deferred[None] = succeed(None)

    def ended(outcome: bytes | Failure) -> bytes | Failure:
        if not bell.called:
            bell.callback(None)
        return outcome

    doing.addBoth(ended)
    try:
        yield first
        while not doing.called:
            bell = Deferred()
            alarm = clock.callLater(seconds, bell.callback, None)
            try:
                await bell
            finally:
                if alarm.active():
                    alarm.cancel()
            if not doing.called:
                yield b" "
        yield await doing
    finally:
        if not doing.called:
            doing.addErrback(lambda why: why.trap(CancelledError)).cancel()


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
