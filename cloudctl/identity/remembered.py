"""What tokens and signatures stand for, remembered until something changes that may affect it.

With SQLite, where one process serves, a commit that changes the epoch clears the memory; with PostgreSQL the epoch is
read for each request, so that the very next request sees a change made by another process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from attrs import frozen

from cloudctl.db import Database
from cloudctl.db.columns import utc
from cloudctl.identity import epoch
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.subject import Subject
from cloudctl.rest.identity import Identity

USUAL = 16  # roles and access rules of one token, at most


@frozen
class Remembered:
    subject: Subject
    identity: Identity
    until: float  # seconds since 1970

    @property
    def weight(self) -> int:
        """How many usual tokens it counts as. Everything else in it is short, so `cache_size` bounds bytes, too."""
        rules = self.identity.access_rules or ()
        return 1 + (len(self.subject.roles) + len(rules)) // USUAL


class Memory:
    """The memory of one process: `cache_size` usual tokens, for `cache_seconds` each."""

    def __init__(self, db: Database, options: IdentityOptions) -> None:
        self.db = db
        self.options = options
        self.kept: OrderedDict[Hashable, Remembered] = OrderedDict()  # least recently used first
        self._weight = 0
        # Raised whenever everything is forgotten: what was read before that may be stale.
        self.generation = 0
        db.on_commit(epoch.CHANNEL, self.forget)

    async def find(self, key: Hashable) -> Remembered | None:
        """None: it was never read, or has to be read again."""
        found = self.kept.get(key)
        if found is None or found.until <= self.db.clock.seconds() or not await self._is_current(found):
            return None
        # Another request may have cleared the memory in the meantime.
        if key in self.kept:
            self.kept.move_to_end(key)
        return found

    def put(self, key: Hashable, subject: Subject, generation: int) -> Remembered:
        """`generation`: its value before `subject` was read."""
        ends = (subject.ends_at - utc(0)).total_seconds()
        until = min(ends, self.db.clock.seconds() + self.options.cache_seconds)
        found = Remembered(subject, subject.identity, until)
        if generation == self.generation:
            self._drop(key)
            self.kept[key] = found
            self._weight += found.weight
            while self._weight > self.options.cache_size:
                self._drop(next(iter(self.kept)))
        return found

    def forget(self) -> None:
        self.kept.clear()
        self._weight = 0
        self.generation += 1

    async def _is_current(self, found: Remembered) -> bool:
        return self.db.is_sqlite or found.subject.epoch == await self.db.read(epoch.current)

    def _drop(self, key: Hashable) -> None:
        forgotten = self.kept.pop(key, None)
        if forgotten is not None:
            self._weight -= forgotten.weight
