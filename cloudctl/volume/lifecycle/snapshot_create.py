"""Create a snapshot: the backend freezes what the volume holds. Reference: volume-states.md, section 5."""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.drivers.specs import SnapshotSpec
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import group_snapshots, kinds, messages, snapshots, states


async def create(ctx: Context) -> Memo:
    row = await ctx.read(snapshots.get, ctx.resource_id)
    await ctx.drivers.volume.ensure_snapshot(SnapshotSpec(row.id, row.volume_id, row.name or ""))
    await ctx.commit(made, ctx.resource_id, ctx.now)
    return None


async def remove(ctx: Context) -> None:
    await ctx.drivers.volume.ensure_snapshot_absent(ctx.resource_id)


def made(conn: Connection, snapshot_id: str, now: datetime) -> None:
    """`available`. An administrator may have set another status meanwhile."""
    row = group_snapshots.member(conn, snapshot_id)
    states.SNAPSHOT.try_move(conn, snapshot_id, "created", now, progress="100%")
    if row is not None:
        group_snapshots.follow(conn, row.group_snapshot_id, now)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    row = group_snapshots.member(conn, task.resource_id)
    if row is not None and states.SNAPSHOT.try_move(conn, row.id, "create failed", now):
        messages.record(conn, messages.SNAPSHOT_FAILED, row.project_id, task.request_id, row.id, now)
        group_snapshots.follow(conn, row.group_snapshot_id, now)


SNAPSHOT_CREATE = Workflow(
    kinds.CREATE_SNAPSHOT,
    (Step("create", create, undo=remove, aliases=("finish",)),),
    on_failure=failed,
)
