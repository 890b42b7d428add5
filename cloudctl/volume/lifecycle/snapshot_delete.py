"""Delete a snapshot. One that the backend still needs is available again. Reference: volume-states.md, section 5."""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.drivers.errors import InUse
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import group_snapshots, kinds, messages, snapshots, states


async def remove(ctx: Context) -> Memo:
    try:
        await ctx.drivers.volume.ensure_snapshot_absent(ctx.resource_id)
    except InUse:
        await ctx.commit(busy, ctx.task, ctx.now)
    else:
        await ctx.commit(gone, ctx.resource_id, ctx.now)
    return None


def gone(conn: Connection, snapshot_id: str, now: datetime) -> None:
    """Delete the record, and with the last one that of their group snapshot."""
    row = group_snapshots.member(conn, snapshot_id)
    snapshots.forget(conn, snapshot_id)
    if row is not None:
        group_snapshots.follow(conn, row.group_snapshot_id, now)


def busy(conn: Connection, task: Task, now: datetime) -> None:
    """Keep the snapshot, and tell its owner why."""
    row = group_snapshots.member(conn, task.resource_id)
    if row is not None and states.SNAPSHOT.try_move(conn, row.id, "busy", now):
        messages.record(conn, messages.SNAPSHOT_BUSY, row.project_id, task.request_id, row.id, now)
        group_snapshots.follow(conn, row.group_snapshot_id, now)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    row = group_snapshots.member(conn, task.resource_id)
    if row is not None and states.SNAPSHOT.try_move(conn, row.id, "delete failed", now):
        messages.record(conn, messages.SNAPSHOT_DELETE_FAILED, row.project_id, task.request_id, row.id, now)
        group_snapshots.follow(conn, row.group_snapshot_id, now)


SNAPSHOT_DELETE = Workflow(kinds.DELETE_SNAPSHOT, (Step("remove", remove),), on_failure=failed)
