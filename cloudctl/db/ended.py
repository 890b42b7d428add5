"""Rows that have outlived their use: what they are is declared, by the service whose rows they are.

    Ended("messages of volumes", Message, (before(Message.guaranteed_until),))

`purge_of` deletes them, in small transactions beside a running cloud. It looks for rows without keeping anybody from
writing, and looks at them again in the transaction that deletes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from attrs import frozen
from sqlalchemy import Column, ColumnElement, DateTime, Float, Integer, and_, bindparam, delete, func, select, tuple_

from cloudctl.db.columns import seconds
from cloudctl.db.connection import Connection
from cloudctl.db.database import Database
from cloudctl.db.records import RecordType

# Rows in one transaction: some milliseconds.
BATCH = 100
# Rows that one search looks for: it may have to go through all that stay.
SEARCH = 10_000
# Pauses between two transactions are so many times as long as these, and at least so many seconds: SQLite's writers do
# not queue, so whoever waits must find the lock free when it looks, which it does less and less often.
REST, LEAST = 3.0, 0.01

_time = bindparam("before", type_=DateTime())
_seconds = bindparam("before_seconds", type_=Float())


def before(column: Column[Any]) -> ColumnElement[bool]:
    """The time in this column, a datetime or seconds since the epoch, has long passed. One without a time has not."""
    return column < (_time if isinstance(column.type, DateTime) else _seconds)


@frozen
class Ended:
    """Rows of one table that nobody needs any more. `what`: their name for people.

    The newest row of a table that numbers its rows stays: SQLite would give its number again.
    """

    what: str
    record: RecordType
    where: tuple[ColumnElement[bool], ...]
    # (a column of another table, the one of ours whose value it has): those rows go with ours.
    along: tuple[tuple[Column[Any], Column[Any]], ...] = ()
    least: timedelta = timedelta()  # they stay for so long, whatever is asked

    @property
    def key(self) -> Sequence[Column[Any]]:
        return list(self.record.table.primary_key)

    @property
    def condition(self) -> ColumnElement[bool]:
        """To be executed with the parameters of `given`."""
        if len(self.key) > 1 or not isinstance(self.key[0].type, Integer):
            return and_(*self.where)
        numbers = self.record.table.alias().c[self.key[0].key]
        return and_(*self.where, self.key[0] < select(func.max(numbers)).scalar_subquery())


Keys = Sequence[tuple[Any, ...]]


def given(ended: Ended, now: datetime, age: timedelta) -> dict[str, Any]:
    when = now - max(age, ended.least)
    return {"before": when, "before_seconds": seconds(when)}


def count(conn: Connection, ended: Ended, times: dict[str, Any]) -> int:
    """How many rows `purge_of` would delete, without those that go with them."""
    query = select(func.count()).select_from(ended.record.table).where(ended.condition)
    return int(conn.execute(query, times).scalar_one())


def some(conn: Connection, ended: Ended, times: dict[str, Any], after: tuple[Any, ...] | None) -> Keys:
    """The keys of the first rows, or of those that come after this key."""
    query = select(*ended.key).where(ended.condition).order_by(*ended.key).limit(SEARCH)
    if after is not None:
        query = query.where(tuple_(*ended.key) > tuple_(*after))
    return conn.execute(query, times).all()


def remove(conn: Connection, ended: Ended, times: dict[str, Any], keys: Keys) -> int:
    """Delete those of these rows that still meet the condition. What somebody is changing stays. Returns how many."""
    ours = [column for _, column in ended.along]
    chosen = select(*ended.key, *ours).where(_are(ended, keys), ended.condition)
    found = conn.execute(chosen.with_for_update(of=ended.record.table, skip_locked=True), times).all()
    if not found:
        return 0
    width = len(ended.key)
    for place, (theirs, _) in enumerate(ended.along, width):
        conn.execute(delete(theirs.table).where(theirs.in_([row[place] for row in found])))
    return conn.execute(delete(ended.record.table).where(_are(ended, [row[:width] for row in found]))).rowcount


def _are(ended: Ended, keys: Keys) -> ColumnElement[bool]:
    if len(ended.key) == 1:
        return ended.key[0].in_([key for (key,) in keys])
    return tuple_(*ended.key).in_([tuple(key) for key in keys])


def purge_of(
    db: Database, ended: Ended, now: datetime, age: timedelta, pause: Callable[[float], object] = time.sleep
) -> Iterator[int]:
    """Delete what ended longer ago than `age`. Yields how many rows that were after each transaction. Blocks."""
    times = given(ended, now, age)
    keys: Keys = db.transact(True, some, ended, times, None)
    while keys:
        for start in range(0, len(keys), BATCH):
            began = time.monotonic()
            yield db.transact(False, remove, ended, times, keys[start : start + BATCH])
            pause(max(LEAST, REST * (time.monotonic() - began)))
        keys = db.transact(True, some, ended, times, keys[-1])
