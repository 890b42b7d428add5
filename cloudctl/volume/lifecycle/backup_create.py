"""Create a backup: the backend gives out what the volume or its snapshot holds, the archive takes it in.

Of a volume that is in use (`args`: `in_use`) a frozen copy is taken first. Reference: volume-states.md, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cloudctl.db import Connection
from cloudctl.drivers.errors import Unfit
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import attachments, backups, kinds, messages, states
from cloudctl.volume.archives import Archives
from cloudctl.volume.lifecycle import frozen_copy


async def freeze(ctx: Context) -> Memo:
    if ctx.args["in_use"]:
        backup = await ctx.read(backups.get, ctx.resource_id)
        await frozen_copy.ensure(ctx, backup.volume_id, backup.id)
    return None


async def thaw(ctx: Context) -> None:
    if ctx.args["in_use"]:
        await frozen_copy.ensure_absent(ctx, ctx.resource_id)


def creation(archives: Archives) -> Workflow:
    async def export(ctx: Context) -> Memo:
        backup = await ctx.read(backups.get, ctx.resource_id)
        await archives.prepare()
        snapshot_id = backup.id if ctx.args["in_use"] else backup.snapshot_id
        path = str(archives.work(backup.id))
        found = await ctx.drivers.volume.ensure_exported(backup.volume_id, path, snapshot_id)
        if found != "raw":
            raise Unfit(f"the backend exports volumes as {found}, but backups need raw data")
        return None

    async def discard(ctx: Context) -> None:
        await archives.discard(ctx.resource_id)

    async def store(ctx: Context) -> Memo:
        backup = await ctx.read(backups.get, ctx.resource_id)
        source = archives.work(backup.id)
        if not source.exists():
            # Another process, on another machine, exported it and died. The volume as it is now will do as well.
            await freeze(ctx)
            await export(ctx)
            await thaw(ctx)
        return await archives.store(ctx, backup, source)

    async def remove(ctx: Context) -> None:
        backup = await ctx.read(backups.find, ctx.resource_id)
        if backup is not None:
            await archives.remove(ctx, backup)

    async def finish(ctx: Context) -> Memo:
        await discard(ctx)
        await ctx.commit(finished, ctx.resource_id, ctx.memo["store"], ctx.now)
        return None

    return Workflow(
        kinds.CREATE_BACKUP,
        (
            Step("freeze", freeze, undo=thaw),
            Step("export", export, undo=discard),
            Step("thaw", thaw),
            Step("store", store, undo=remove),
            Step("finish", finish),
        ),
        on_failure=failed,
        on_cancel=lambda conn, task, now: release(conn, task.resource_id, now),
    )


def finished(conn: Connection, backup_id: str, stored: Mapping[str, Any], now: datetime) -> None:
    """`available`. An administrator may have set another status meanwhile."""
    kept = {"object_count": stored["pieces"], "kept_digest": stored.get("digest")}
    states.BACKUP.try_move(conn, backup_id, "created", now, **kept)
    release(conn, backup_id, now)


def release(conn: Connection, backup_id: str, now: datetime) -> None:
    """What it was made of is as it was before."""
    backup = backups.find(conn, backup_id)
    if backup is None:
        return
    if backup.snapshot_id is not None:
        states.SNAPSHOT.try_move(conn, backup.snapshot_id, "backed up", now)
    else:
        attachments.follow(conn, backup.volume_id, now, leaving=states.BACKING_UP)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    release(conn, task.resource_id, now)
    backup = backups.find(conn, task.resource_id)
    if backup is not None and states.BACKUP.try_move(conn, backup.id, "create failed", now, fail_reason=error[:255]):
        messages.record(conn, messages.BACKUP_FAILED, backup.project_id, task.request_id, backup.id, now)
