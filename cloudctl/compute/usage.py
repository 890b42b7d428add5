"""How long servers existed, and how large they were. Reference: compute.md, section 16."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from attrs import frozen
from sqlalchemy import ColumnElement, select

from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.db.records import select_without

FOUR_WEEKS = timedelta(weeks=4)
AT_ONCE = 1000

# Columns that reports do not need.
UNTOLD = tuple(
    column
    for column in Server.table.c
    if column.key
    not in {
        "number",
        "id",
        "name",
        "project_id",
        "flavor",
        "vcpus",
        "memory_mib",
        "vm_state",
        "launched_at",
        "terminated_at",
        "deleted_at",
    }
)


@frozen
class Used:
    """One server within a period. Times are naive UTC."""

    row: Server
    hours: float
    uptime: int  # seconds since it was launched

    @property
    def disk_gib(self) -> int:
        flavor = self.row.flavor
        return int(flavor["disk"] + flavor["ephemeral"])


@frozen
class Span:
    """A period, and whose servers: those of all projects if none is named. Times are naive UTC."""

    start: datetime
    stop: datetime
    project_id: str | None = None

    @property
    def there(self) -> ColumnElement[bool]:
        """Servers that existed for a part of it."""
        launched = Server.launched_at.is_not(None) & (Server.launched_at < self.stop)
        found = launched & (Server.terminated_at.is_(None) | (Server.terminated_at > self.start))
        return found if self.project_id is None else found & (Server.project_id == self.project_id)


def between(conn: Connection, span: Span, now: datetime, after: int = 0) -> Iterator[Used]:
    """The servers of a period, the oldest first. `after`: the number of the last one that is known.

    They are read in batches: there may be as many as a cloud ever had.
    """
    query = select_without(Server, *UNTOLD).where(span.there).order_by(Server.number).limit(AT_ONCE)
    while True:
        rows = conn.execute(query.where(Server.number > after)).all()
        yield from (used(row, span.start, span.stop, now) for row in rows)
        if len(rows) < AT_ONCE:
            return
        after = rows[-1].number


def number(conn: Connection, span: Span, server_id: str) -> int | None:
    """The number of a server of this period; None if it is not one."""
    return conn.scalar(select(Server.number).where(span.there, Server.id == server_id))


def used(row: Server, start: datetime, stop: datetime, now: datetime) -> Used:
    """Nothing counts as used before a launch, after an end, or in the future."""
    assert row.launched_at is not None, "`between` looks for those that were launched"
    ended = min(row.terminated_at or now, now)
    there = min(ended, stop) - max(row.launched_at, start)
    return Used(row, max(0.0, there.total_seconds() / 3600), max(0, int((ended - row.launched_at).total_seconds())))
