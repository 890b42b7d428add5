"""Create a group snapshot of one moment: the backend freezes all volumes of the group by one call.

Group snapshots that need not be of one moment have no task: each of their snapshots has its own.
"""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.drivers.specs import SnapshotSpec
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import group_snapshots, kinds, messages, states


async def create(ctx: Context) -> Memo:
    rows = await ctx.read(group_snapshots.members, ctx.resource_id)
    specs = tuple(SnapshotSpec(row.id, row.volume_id, row.name or "") for row in rows)
    await ctx.drivers.volume.ensure_snapshots(specs)
    await ctx.commit(made, ctx.resource_id, ctx.now)
    return None


async def remove(ctx: Context) -> None:
    for row in await ctx.read(group_snapshots.members, ctx.resource_id):
        await ctx.drivers.volume.ensure_snapshot_absent(row.id)


def made(conn: Connection, id: str, now: datetime) -> None:
    """All are `available`. An administrator may have set other statuses meanwhile."""
    group_snapshots.get(conn, id, lock=True)
    for row in group_snapshots.members(conn, id):
        states.SNAPSHOT.try_move(conn, row.id, "created", now, progress="100%")
    group_snapshots.follow(conn, id, now)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    group_snapshots.get(conn, task.resource_id, lock=True)
    for row in group_snapshots.members(conn, task.resource_id):
        if states.SNAPSHOT.try_move(conn, row.id, "create failed", now):
            messages.record(conn, messages.SNAPSHOT_FAILED, row.project_id, task.request_id, row.id, now)
    group_snapshots.follow(conn, task.resource_id, now)


GROUP_SNAPSHOT_CREATE = Workflow(kinds.CREATE_GROUP_SNAPSHOT, (Step("create", create, undo=remove),), on_failure=failed)
