"""The archive in its own threads: none of it runs in the reactor's thread."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from threading import Event
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from cloudctl.db.threads import Threads
from cloudctl.tasks import Context, Transient
from cloudctl.tasks.workflow import Cancelled
from cloudctl.volume.archive import Archive, Stopped

log = Logger()

P = ParamSpec("P")
T = TypeVar("T")


@frozen
class ArchiveThreads:
    archive: Archive
    threads: Threads
    reactor: IReactorFromThreads

    async def run(self, fn: Callable[Concatenate[Archive, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn(archive, …)` in a thread. Raises Transient for file system errors."""
        result: T = await self._run(fn, args, kwargs)
        return result

    async def work(self, ctx: Context, fn: Callable[..., T], *args: Any) -> T:
        """Run `fn(archive, …, stop)`, which ends early if the task is cancelled or interrupted. Raises Cancelled."""
        interrupted = Event()

        def stop() -> bool:
            return interrupted.is_set() or ctx.cancelled

        try:
            result: T = await self._run(fn, (*args, stop), {})
            return result
        except CancelledError:
            interrupted.set()
            raise
        except Stopped as error:
            raise Cancelled(str(error)) from None

    async def _run(self, fn: Any, args: Any, kwargs: Any) -> Any:
        run: Any = copy_context().run
        pool = cast(ThreadPool, self.threads)
        doing: Deferred[Any] = deferToThreadPool(self.reactor, pool, run, fn, self.archive, *args, **kwargs)
        try:
            return await doing
        except OSError as error:
            # Without the file's name: the backup's owner sees this as its `fail_reason`.
            log.warn("the backup archive failed: {error}", error=error)
            raise Transient(f"the backup archive failed: {error.strerror or 'a file was rejected'}") from error
