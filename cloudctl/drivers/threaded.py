"""A driver written with plain blocking methods, run in threads of its own.

    def create(config, resources):
        return threaded(Blocking(config), resources.reactor, threads=4)

The reactor's own pool is left alone because it also resolves host names.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from cloudctl.drivers.boundary import call, through
from cloudctl.service import stopped, unhindering


def threaded(driver: Any, reactor: IReactorFromThreads, threads: int = 4) -> Any:
    """The driver, its declared methods run in up to `threads` threads at once (1: the driver need not be thread-safe).

    `check` stays in the calling thread, since it runs before the reactor does. `close` waits for the calls under way,
    and the reactor turns meanwhile; a call that never ends does not keep the process from ending.
    """
    pool = unhindering(ThreadPool(0, threads, name=f"driver {type(driver).__name__}"))
    pool.start()

    def in_thread(method: Any) -> Callable[..., Deferred[Any]]:
        return lambda *args, **kwargs: deferToThreadPool(reactor, pool, copy_context().run, method, *args, **kwargs)

    async def check() -> None:
        await call(driver.check)

    async def close() -> None:
        if pool.joined:
            return
        try:
            await in_thread(driver.close)()
        finally:
            await stopped(pool, reactor)

    adapted = through(in_thread, driver)
    adapted.__dict__.update(check=lambda: ensureDeferred(check()), close=lambda: ensureDeferred(close()))
    return adapted
