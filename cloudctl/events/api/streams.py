"""Events as they happen, for administrators: server-sent events, as browsers and many libraries read them.

    id: 4711
    event: instance.create.end
    data: {"message_id": …, "event_type": …, "payload": …}

A client that was cut off sends `Last-Event-ID` and continues from there. If the next events are no longer kept, an
event `lost` comes first and says how many were lost: also to one that reads too slowly.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import orjson
from attrs import frozen
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime

from cloudctl.db import Connection, Database
from cloudctl.db.wishes import matches
from cloudctl.errors import Conflict, Invalid, Unavailable
from cloudctl.events import outbox
from cloudctl.events.envelope import envelope
from cloudctl.events.options import EventOptions
from cloudctl.events.tables import Event
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.stream import Stream

HEARTBEAT = 10.0  # seconds: to notice that the client is gone, and events that another process has announced
AT_ONCE = 100
AGAIN = 3000  # milliseconds until a client that was cut off reconnects


class News:
    """The streams that wait for events, and how many streams are open."""

    def __init__(self, db: Database, clock: IReactorTime) -> None:
        self.clock = clock
        self.followers = 0
        self._waiting: set[Deferred[None]] = set()
        db.on_commit(outbox.ORDERED, self._told, elsewhere=self._told)

    def expect(self) -> Deferred[None]:
        """Fires when more events are in order. Called before looking, so that none goes unseen."""
        news: Deferred[None] = Deferred()
        self._waiting.add(news)
        return news

    def forget(self, news: Deferred[None]) -> None:
        self._waiting.discard(news)

    async def came(self, news: Deferred[None], end: float) -> bool:
        """Whether any came within a while, before `end`."""
        news.addTimeout(max(0.0, min(HEARTBEAT, end - self.clock.seconds())), self.clock)
        try:
            await news
        except TimeoutError:
            return False
        return True

    def _told(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for each in waiting:
            if not each.called:
                each.callback(None)


@frozen
class Streams:
    routes = Routes("Events")

    db: Database
    clock: IReactorTime
    options: EventOptions
    news: News

    @routes.get("/stream", policy="events:stream", query=("type",))
    async def follow(self, call: Call) -> Reply:
        """Follow events: those behind Last-Event-ID, or else those from now on. `type` is a pattern, and may repeat."""
        if not self.options.stream:
            raise Conflict("This cloud keeps no events to be followed: its configuration says so ([events] stream).")
        asked = call.header("Last-Event-ID")
        if asked is not None and not (asked.isascii() and asked.isdigit() and len(asked) < 19):
            raise Invalid("Last-Event-ID is not the id of an event.")
        position, lost = await self.db.read(_begin, None if asked is None else int(asked))
        # Nothing awaits between here and the first chunk, which counts the stream: no two take the last place.
        if self.news.followers >= self.options.streams:
            raise Unavailable(f"{self.news.followers} streams are open, which is as many as are allowed.")
        patterns = tuple(call.query.all("type")) or ("*",)
        headers = (("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))
        return Reply(Stream("text/event-stream", lambda: self._chunks(position, lost, patterns)), headers=headers)

    async def _chunks(self, position: int, lost: int, patterns: tuple[str, ...]) -> AsyncGenerator[bytes, None]:
        end = self.clock.seconds() + self.options.stream_limit
        self.news.followers += 1
        try:
            yield b"retry: %d\n\n" % AGAIN
            if lost:
                yield _lost(position, lost)
            while self.clock.seconds() < end:
                news = self.news.expect()
                try:
                    found = await self.db.read(outbox.after, position, AT_ONCE)
                    if found:
                        # A client may read so slowly that the next ones are not kept any more. None is left out.
                        first = found[0].position or position
                        if first > position + 1:
                            yield _lost(first - 1, first - 1 - position)
                        position = found[-1].position or position
                        yield _lines(found, position, patterns)
                    elif not await self.news.came(news, end):
                        # The client remembers a bare id and shows it to nobody.
                        yield b"id: %d\n\n" % position
                finally:
                    self.news.forget(news)
        finally:
            self.news.followers -= 1


def _begin(conn: Connection, asked: int | None) -> tuple[int, int]:
    """The position after which the stream begins, and how many events are lost."""
    last = outbox.last(conn)
    if asked is None or asked >= last:
        return last, 0
    oldest = outbox.oldest(conn)
    kept = last if oldest is None else oldest - 1
    return max(asked, kept), max(0, kept - asked)


def _lost(position: int, count: int) -> bytes:
    return b'event: lost\nid: %d\ndata: {"count":%d}\n\n' % (position, count)


def _lines(found: Sequence[Event], position: int, patterns: tuple[str, ...]) -> bytes:
    """Always with the id of the last event, even if it is not wanted."""
    told = [
        b"id: %d\nevent: %s\ndata: %s\n\n" % (each.position or 0, each.type.encode(), orjson.dumps(envelope(each)))
        for each in found
        if matches(each.type, patterns)
    ]
    return b"".join(told) or b"id: %d\n\n" % position
