"""Services that start one after the other and stop in reverse, each one awaited within a time limit.

`MultiService.stopService` stops all its children at once, so a database would close before HTTP had drained.
"""

from __future__ import annotations

from functools import partial
from threading import Thread

from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import Deferred, ensureDeferred, maybeDeferred
from twisted.internet.error import AlreadyCalled
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

log = Logger()


class OrderedService(MultiService):
    """Children start in the order in which they were added; `stopService` waits for each, last one first."""

    def __init__(self, clock: IReactorTime, stop_limit: float = 20.0) -> None:
        super().__init__()
        self.clock = clock
        self.stop_limit = stop_limit

    def stopService(self) -> Deferred[None]:
        self.running = 0
        return ensureDeferred(self._stop())

    async def _stop(self) -> None:
        for child in reversed(list(self.services)):
            await self._stop_child(child)

    async def _stop_child(self, child: IService) -> None:
        stopping = maybeDeferred(child.stopService)
        stopping.addTimeout(self.stop_limit, self.clock)
        try:
            await stopping
        except AlreadyCalled:
            pass
        except Exception:  # whatever it is, the other services must stop, too
            log.failure("{child} did not stop cleanly within {limit} s", child=child, limit=self.stop_limit)


class ThreadsService(Service):
    """A pool of threads that lives as long as the service: one for each kind of blocking work."""

    def __init__(self, name: str, most: int, reactor: IReactorFromThreads) -> None:
        self.pool = unhindering(ThreadPool(0, most, name=name))
        self.reactor = reactor

    def startService(self) -> None:
        super().startService()
        self.pool.start()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return stopped(self.pool, self.reactor)


def unhindering(pool: ThreadPool) -> ThreadPool:
    """The pool, whose threads do not keep the process from ending."""
    pool.threadFactory = partial(Thread, daemon=True)  # type: ignore[assignment]  # it is only called
    return pool


def stopped(pool: ThreadPool, reactor: IReactorFromThreads) -> Deferred[None]:
    """Fires once the threads of the pool have ended. They are waited for in another one: any of them may hang."""
    done: Deferred[None] = Deferred()

    def wait() -> None:
        pool.stop()
        reactor.callFromThread(done.callback, None)

    Thread(target=wait, name=f"end of {pool.name}", daemon=True).start()
    return done
