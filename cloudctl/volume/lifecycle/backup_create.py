"""Create a backup: the backend exports the volume or its snapshot, the archive stores it.

For a volume in use (`args`: `in_use`), a frozen copy is taken first. A backend that can tell what has changed since the
parent backup exports only that. Reference: volume-states.md, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from twisted.logger import Logger

from cloudctl.db import Connection
from cloudctl.drivers.errors import Unfit
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import attachments, backups, kinds, messages, states
from cloudctl.volume.archives import Archives
from cloudctl.volume.lifecycle import frozen_copy, marks
from cloudctl.volume.tables import Backup

log = Logger()


async def freeze(ctx: Context) -> Memo:
    if ctx.args["in_use"]:
        backup = await ctx.read(backups.get, ctx.resource_id)
        if await marks.backend(ctx, backup) is None:
            await frozen_copy.ensure(ctx, backup.volume_id, backup.id)
    return None


async def thaw(ctx: Context) -> None:
    if ctx.args["in_use"]:
        await frozen_copy.ensure_absent(ctx, ctx.resource_id)


def creation(archives: Archives) -> Workflow:
    async def export(ctx: Context) -> Memo:
        backup = await ctx.read(backups.get, ctx.resource_id)
        await archives.prepare()
        # Left over from an attempt that was given up.
        await archives.discard(backup.id)
        backend = None if backup.snapshot_id is not None else await marks.backend(ctx, backup)
        if backend is not None:
            await export_marked(backend, backup)
            return None
        path = str(archives.whole(backup))
        if ctx.args["in_use"]:
            found = await frozen_copy.export(ctx, backup.volume_id, backup.id, path)
        else:
            found = await ctx.drivers.volume.ensure_exported(backup.volume_id, path, backup.snapshot_id)
        if found != "raw":
            raise Unfit(f"the backend exports volumes as {found}, but backups need raw data")
        return None

    async def export_marked(backend: Any, backup: Backup) -> None:
        volume_id, since = backup.volume_id, backup.parent_id
        await backend.ensure_marked(volume_id, backup.id)
        changed = archives.changed(backup)
        extents = await backend.ensure_changes_exported(volume_id, str(changed), backup.id, since)
        if extents is not None:
            await archives.note(backup, extents)
            return
        if since is not None:
            told = (
                "backup {id} reads all of volume {volume}: what has changed since backup {since} is not known any more"
            )
            log.info(told, id=backup.id, volume=volume_id, since=since)
        changed.replace(archives.whole(backup))

    async def discard(ctx: Context) -> None:
        await archives.discard(ctx.resource_id)

    async def take_back(ctx: Context) -> None:
        await discard(ctx)
        backup = await ctx.read(backups.find, ctx.resource_id)
        if backup is not None:
            await marks.ensure_absent(ctx, backup)

    async def store(ctx: Context) -> Memo:
        backup = await ctx.read(backups.get, ctx.resource_id)
        exported = await archives.exported(backup)
        if exported is None:
            # Another process, on another machine, exported it and died. The volume as it is now will do as well.
            await freeze(ctx)
            await export(ctx)
            await thaw(ctx)
            exported = await archives.exported(backup)
        assert exported is not None, "it has just been exported here"
        return await archives.store(ctx, backup, *exported)

    async def remove(ctx: Context) -> None:
        backup = await ctx.read(backups.find, ctx.resource_id)
        if backup is not None:
            await archives.remove(ctx, backup)

    async def finish(ctx: Context) -> Memo:
        await discard(ctx)
        backup = await ctx.read(backups.find, ctx.resource_id)
        if backup is not None:
            await marks.ensure_only(ctx, backup)
        await ctx.commit(finished, ctx.resource_id, ctx.memo["store"], ctx.now)
        return None

    return Workflow(
        kinds.CREATE_BACKUP,
        (
            Step("freeze", freeze, undo=thaw),
            Step("export", export, undo=take_back),
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
    """Return the volume or snapshot that was backed up to its previous status."""
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
