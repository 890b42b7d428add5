"""How data becomes an object: a body that has arrived → a file that the driver keeps → the row that names it.

A crash on the way leaves a file that no row names, which the sweep removes. What was replaced is removed after the
commit; a client that is reading it can go on.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import copy_context
from datetime import datetime
from typing import IO, ParamSpec, TypeVar, cast

from attrs import evolve, field, frozen
from sqlalchemy.exc import DBAPIError
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from cloudctl.db import Connection, Database
from cloudctl.db.threads import Threads
from cloudctl.drivers.errors import DriverError, NoCapacity
from cloudctl.errors import CloudError, InsufficientStorage, TooLarge, Unavailable, Unprocessable
from cloudctl.object_store import containers, objects
from cloudctl.object_store.names import Place
from cloudctl.object_store.objects import Done, NewObject
from cloudctl.object_store.store import Content, ObjectStore, Taken
from cloudctl.object_store.together import Together
from cloudctl.rest.finishing import finished

log = Logger()

P = ParamSpec("P")
T = TypeVar("T")

Keep = Callable[[Connection, Place, NewObject, datetime], Done]

BATCH = 500
FULL = (errno.ENOSPC, errno.EDQUOT)


def unwritable(error: OSError | DriverError) -> CloudError:
    log.error("the object store cannot be written: {error}", error=str(error))
    if isinstance(error, NoCapacity) or (isinstance(error, OSError) and error.errno in FULL):
        return InsufficientStorage("")
    return Unavailable("The object store cannot be written now.")


@frozen
class Intake:
    """`threads` wait for the disk; their results arrive in `reactor`."""

    db: Database
    store: ObjectStore
    threads: Threads
    reactor: IReactorFromThreads
    together: Together = field(init=False, eq=False)

    @together.default
    def _together(self) -> Together:
        return Together(lambda taken: self.run(self.store.settle_all, taken))

    def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """Run `fn` in a thread."""
        pool, run = cast(ThreadPool, self.threads), copy_context().run
        return deferToThreadPool(self.reactor, pool, lambda: run(fn, *args, **kwargs))

    async def put(
        self, place: Place, body: IO[bytes], new: NewObject, etag: str, now: datetime, keep: Keep | None = None
    ) -> Content:
        """`body` becomes the object's data. `etag`: the one that the client gave; empty: none.

        `keep`: what the content becomes in the database, if it is not an object.
        Raises Unprocessable, InsufficientStorage, Unavailable, and what `objects.put` does.
        """
        try:
            taken = self.store.take(body)
        except OSError as error:
            raise unwritable(error) from error
        # Nothing depends on the request any more.
        return await finished(self._put(place, taken, new, etag, now, keep))

    async def _put(
        self, place: Place, taken: Taken, new: NewObject, etag: str, now: datetime, keep: Keep | None
    ) -> Content:
        mine = [] if taken.file_id is None else [taken.file_id]
        try:
            # Waiting for others helps only if they are stored together.
            alone = taken.data is None or not self.store.keeps_many
            content = await (self.run(self.store.settle, taken) if alone else self.together.settle(taken))
        except (OSError, DriverError) as error:
            await self._discard(mine)
            raise unwritable(error) from error
        if etag and etag != content.etag:
            await self._discard(mine)
            raise Unprocessable("")
        return await self._name(place, content, new, now, keep)

    async def _name(self, place: Place, content: Content, new: NewObject, now: datetime, keep: Keep | None) -> Content:
        """Give the object this content, and remove files that are no longer used, or never were."""
        try:
            done = await self.db.run(keep or objects.put, place, evolve(new, content=content), now)
        except DBAPIError:
            # It may have been committed or not: the sweep finds out whether the file is used.
            raise
        except Exception:
            await self._discard([content.file_id] if content.file_id else [])
            raise
        await self.remove(done.freed)
        return evolve(content, version=done.version)

    async def write(
        self, place: Place, chunks: Iterable[bytes], new: NewObject, now: datetime, keep: Keep | None = None
    ) -> Content:
        """As `put`, with bytes that are here already, or are read in the thread that writes them.

        Raises NotFound, and TooLarge before more is written than there is room for.
        """
        return await finished(self._write(place, chunks, new, now, keep))

    async def _write(
        self, place: Place, chunks: Iterable[bytes], new: NewObject, now: datetime, keep: Keep | None
    ) -> Content:
        # It is checked again when all of it is there, since others may come first.
        left = await self.db.read(_room, place)
        try:
            content = await self.run(self.store.write, _within(chunks, left))
        except (OSError, DriverError) as error:
            raise unwritable(error) from error
        return await self._name(place, content, new, now, keep)

    async def change(self, fn: Callable[..., Done], *args: object) -> Done:
        """Run `fn(conn, …)` in a transaction, and remove the files that nothing has afterwards."""
        return await finished(self._change(fn, *args))

    async def _change(self, fn: Callable[..., Done], *args: object) -> Done:
        done = await self.db.run(fn, *args)
        await self.remove(done.freed)
        return done

    async def remove(self, file_ids: Sequence[str]) -> None:
        """Remove those of these files that nothing has. Those that cannot be removed now are left to the sweep.

        Call it after the commit: of two changes at once that each give up a share of a file, neither sees the other's.
        """
        unused: list[str] = []
        try:
            for start in range(0, len(file_ids), BATCH):
                batch = list(dict.fromkeys(file_ids[start : start + BATCH]))
                used = await self.db.read(objects.used, batch)
                unused += [each for each in batch if each not in used]
        except (DBAPIError, CloudError) as error:
            # What was changed is changed, whatever becomes of this.
            log.warn("unused data stays until the next sweep: {error}", error=str(error))
        await self._discard(unused)

    async def _discard(self, file_ids: Sequence[str]) -> None:
        """Remove files that nothing has, or ever had."""
        if file_ids:
            try:
                await self.run(self.store.remove, file_ids)
            except DriverError as error:
                log.warn("unused data stays until the next sweep: {error}", error=str(error))


def _room(conn: Connection, place: Place) -> float:
    return objects.room(conn, containers.get(conn, place))


def _within(chunks: Iterable[bytes], left: float) -> Iterator[bytes]:
    if left < 0:
        raise TooLarge(objects.OVER_QUOTA)
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise TooLarge(objects.OVER_QUOTA)
        yield chunk
