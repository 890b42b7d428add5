"""Answers that are cached until the database changes: clients poll, and most of the time nothing has happened.

Only answers of Operations that declare `pure` are cached: they depend on the database, the caller and the request, and
on nothing else. Any commit of this process invalidates all cached answers, so a client never reads less than what it
was told. With PostgreSQL other processes write, too, and nothing is cached.

Any commit counts, not only one to the tables that a handler read: a handler may answer from a cache of its own, without
reading the tables behind it.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Hashable

from attrs import frozen

from cloudctl.db import Database

MOST_BYTES = 8 * 2**20
# Of one answer: a page of a thousand records would push out all others.
LARGEST = MOST_BYTES // 4


@frozen
class Answer:
    """A body as it was sent. `until`: seconds since the epoch."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...]
    generation: int
    until: float


class Answers:
    """The cached answers of one cloud; the least recently used ones go first."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._kept: OrderedDict[Hashable, tuple[Answer, int]] = OrderedDict()  # with their sizes
        self._size = 0

    @property
    def generation(self) -> int | None:
        """Take it before the database is read for an answer. None: nothing is cached."""
        return self.db.generation

    def find(self, key: Hashable, now: float) -> Answer | None:
        found = self._kept.get(key)
        if found is None:
            return None
        answer, _ = found
        if answer.generation != self.db.generation or now >= answer.until:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return answer

    def keep(self, key: Hashable, answer: Answer) -> None:
        if len(answer.body) > LARGEST or answer.generation != self.db.generation:
            return
        self._drop(key)
        size = _size(key, answer)
        self._kept[key] = answer, size
        self._size += size
        while self._size > MOST_BYTES:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self._size -= dropped[1]


# Bytes of an answer and its entry besides what `_size` measures: tuples, the identity, the slots in the table.
AROUND = 2048


def _size(key: Hashable, answer: Answer) -> int:
    """In bytes, including the key: a client's request is as long as it likes."""
    parts = key if isinstance(key, tuple) else (key,)
    asked = sum(sys.getsizeof(part) for part in parts)
    said = sum(sys.getsizeof(name) + sys.getsizeof(value) for name, value in answer.headers)
    return AROUND + sys.getsizeof(answer.body) + asked + said
