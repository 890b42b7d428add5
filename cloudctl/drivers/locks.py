"""Locks by key, for drivers: two calls for the same object take turns, calls for different objects do not wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attrs import define, field
from twisted.internet.defer import DeferredLock


@define(eq=False)
class Locks:
    """A lock is made when it is first requested, and dropped when nobody holds it or waits for it."""

    _locks: dict[tuple[str, ...], DeferredLock] = field(factory=dict)

    @asynccontextmanager
    async def hold(self, *key: str) -> AsyncIterator[None]:
        """Wait for the lock of this key and hold it inside the block. The same call cannot take it twice."""
        lock = self._locks.setdefault(key, DeferredLock())
        await lock.acquire()
        try:
            yield
        finally:
            lock.release()
            # The next holder may have run to its end meanwhile, and another one may hold a lock made after that.
            if not lock.locked and self._locks.get(key) is lock:
                del self._locks[key]

    @property
    def held(self) -> frozenset[tuple[str, ...]]:
        """The keys that somebody holds."""
        return frozenset(self._locks)
