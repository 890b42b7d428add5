"""How long servers were there, and how large they were. Reference: compute.md, section 16."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import frozen
from sqlalchemy import or_

from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.db.records import select_without

FOUR_WEEKS = timedelta(weeks=4)

# What a report does not tell of.
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


def between(
    conn: Connection, start: datetime, stop: datetime, now: datetime, project_id: str | None = None
) -> list[Used]:
    """Servers that were there for a part of the period, the oldest first; of all projects if none is named."""
    there = [
        Server.launched_at.is_not(None),
        Server.launched_at < stop,
        or_(Server.terminated_at.is_(None), Server.terminated_at > start),
    ]
    if project_id is not None:
        there.append(Server.project_id == project_id)
    rows = conn.execute(select_without(Server, *UNTOLD).where(*there).order_by(Server.number))
    return [used(row, start, stop, now) for row in rows]


def used(row: Server, start: datetime, stop: datetime, now: datetime) -> Used:
    """A rule: nothing is used before a launch, after an end, or in the future."""
    assert row.launched_at is not None, "`between` looks for those that were launched"
    ended = min(row.terminated_at or now, now)
    there = min(ended, stop) - max(row.launched_at, start)
    return Used(row, max(0.0, there.total_seconds() / 3600), max(0, int((ended - row.launched_at).total_seconds())))
