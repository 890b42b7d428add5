"""Manage and unmanage: the backend hands something over to the cloud, or gets it back.

`args` when managing: `name`, its name on the backend.
"""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.tasks import Context, Step, Transaction, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import kinds, managing, messages, snapshots, states, volumes
from cloudctl.volume.lifecycle import create, delete, snapshot_create, snapshot_delete

# -- volumes


async def adopt(ctx: Context) -> Memo:
    await ctx.drivers.volume.ensure_adopted(ctx.resource_id, ctx.args["name"])
    volume = await ctx.read(volumes.get, ctx.resource_id)
    await ctx.drivers.volume.ensure_extended(volume.id, volume.size)
    return None


async def give_back(ctx: Context) -> None:
    await ctx.drivers.volume.ensure_released(ctx.resource_id, ctx.args["name"])


def finish(conn: Connection, task: Task, now: datetime) -> None:
    create.made(conn, task.resource_id, now)


async def release(ctx: Context) -> Memo:
    await ctx.drivers.volume.ensure_released(ctx.resource_id, managing.name_of(ctx.resource_id))
    return None


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    volume = volumes.find(conn, task.resource_id)
    if volume is not None and states.try_move(conn, volume.id, "create failed", now):
        messages.record(conn, messages.MANAGE_FAILED, volume.project_id, task.request_id, volume.id, now)


MANAGE = Workflow(
    kinds.MANAGE_VOLUME,
    (
        Step("adopt", adopt, undo=give_back),
        Step("finish", Transaction(finish)),
    ),
    on_failure=failed,
)
UNMANAGE = Workflow(
    kinds.UNMANAGE_VOLUME,
    (
        Step("disconnect", delete.disconnect),
        Step("release", release),
        Step("forget", Transaction(delete.forget)),
    ),
    on_failure=delete.failed,
)

# -- snapshots


async def adopt_snapshot(ctx: Context) -> Memo:
    snapshot = await ctx.read(snapshots.get, ctx.resource_id)
    await ctx.drivers.volume.ensure_snapshot_adopted(snapshot.id, snapshot.volume_id, ctx.args["name"])
    return None


def finish_snapshot(conn: Connection, task: Task, now: datetime) -> None:
    snapshot_create.made(conn, task.resource_id, now)


async def release_snapshot(ctx: Context) -> None:
    await ctx.drivers.volume.ensure_snapshot_released(ctx.resource_id)


async def forget_snapshot(ctx: Context) -> Memo:
    await release_snapshot(ctx)
    await ctx.commit(snapshot_delete.gone, ctx.resource_id, ctx.now)
    return None


def snapshot_failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    snapshot = snapshots.find(conn, task.resource_id)
    if snapshot is not None and states.SNAPSHOT.try_move(conn, snapshot.id, "create failed", now):
        told = messages.SNAPSHOT_MANAGE_FAILED
        messages.record(conn, told, snapshot.project_id, task.request_id, snapshot.id, now)


MANAGE_SNAPSHOT = Workflow(
    kinds.MANAGE_SNAPSHOT,
    (
        Step("adopt", adopt_snapshot, undo=release_snapshot),
        Step("finish", Transaction(finish_snapshot)),
    ),
    on_failure=snapshot_failed,
)
UNMANAGE_SNAPSHOT = Workflow(
    kinds.UNMANAGE_SNAPSHOT, (Step("release", forget_snapshot),), on_failure=snapshot_delete.failed
)
