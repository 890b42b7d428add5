"""Restore: fill a volume with the content of a backup. Reference: volume-states.md, section 2.

`args`: `backup_id`; `new`: the volume is created for it.
"""

from __future__ import annotations

from datetime import datetime

from attrs import evolve
from sqlalchemy import update

from cloudctl.db import Connection
from cloudctl.drivers.specs import ImageSource
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import attachments, backups, kinds, messages, states, volumes
from cloudctl.volume.archive import Damaged
from cloudctl.volume.archives import Archives
from cloudctl.volume.lifecycle import place
from cloudctl.volume.restoring import provisional_name
from cloudctl.volume.tables import Volume

ORIGIN = "src_backup_id"
MOST_TOLD = 900  # of the 1024 characters of a message


async def start(ctx: Context) -> Memo:
    if ctx.args["new"]:
        await place.ensure_placed(ctx)
    await ctx.commit(begin, ctx.resource_id, ctx.now)
    return None


def begin(conn: Connection, volume_id: str, now: datetime) -> None:
    """`restoring-backup`, if it is a new volume that does not show it yet."""
    states.try_move(conn, volume_id, "restore new", now)


async def create(ctx: Context) -> Memo:
    if ctx.args["new"]:
        spec = await ctx.read(volumes.driver_spec, ctx.resource_id, ctx.drivers.image_path)
        await ctx.drivers.volume.ensure_created(spec)
    return None


async def remove(ctx: Context) -> None:
    if ctx.args["new"]:
        await ctx.drivers.volume.ensure_absent(ctx.resource_id)


def restoration(archives: Archives) -> Workflow:
    def work(volume_id: str) -> str:
        return f"{volume_id}.restore"

    async def assemble(ctx: Context) -> Memo:
        target = archives.work(work(ctx.resource_id))
        await archives.assemble(ctx, await ctx.read(backups.get, ctx.args["backup_id"]), target)
        return None

    async def discard(ctx: Context) -> None:
        await archives.discard(work(ctx.resource_id))

    async def fill(ctx: Context) -> Memo:
        path = archives.work(work(ctx.resource_id))
        if not path.exists():
            # Another process, on another machine, assembled it and died.
            await assemble(ctx)
        await ctx.drivers.volume.ensure_imported(ctx.resource_id, ImageSource(ctx.args["backup_id"], str(path), "raw"))
        return None

    async def finish(ctx: Context) -> Memo:
        await discard(ctx)
        await ctx.commit(restored, ctx.resource_id, ctx.args["backup_id"], ctx.now)
        return None

    return Workflow(
        kinds.RESTORE_VOLUME,
        (
            Step("start", start),
            Step("create", create, undo=remove),
            Step("assemble", assemble, undo=discard),
            Step("fill", fill),
            Step("finish", finish),
        ),
        on_failure=failed,
        on_cancel=lambda conn, task, now: backups.end_restore(conn, task.args["backup_id"], now),
    )


def restored(conn: Connection, volume_id: str, backup_id: str, now: datetime) -> None:
    """Set the status that its attachments give (available), and the origin's properties; note where it comes from."""
    backup, volume = backups.get(conn, backup_id), volumes.get(conn, volume_id, lock=True)
    metadata = {**volume.metadata, **backup.volume_metadata}
    if volume.id != backup.volume_id:
        metadata[ORIGIN] = backup_id
    values = {"bootable": backup.bootable, "image_metadata": backup.image_metadata, "metadata": metadata}
    if backup.volume_name is not None and volume.name == provisional_name(backup_id):
        values["name"] = backup.volume_name
    conn.execute(update(Volume).where(Volume.id == volume_id).values(**values))
    attachments.follow(conn, volume_id, now, leaving=states.RESTORING_BACKUP)
    backups.end_restore(conn, backup_id, now)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    backups.end_restore(conn, task.args["backup_id"], now)
    volume = volumes.find(conn, task.resource_id)
    if volume is not None:
        states.try_move(conn, volume.id, "restore new failed" if task.args["new"] else "restore failed", now)
        told = messages.RESTORE_FAILED
        if task.failed_by(Damaged):
            # What is missing is the user's own, so the error reveals nothing that they may not know.
            told = evolve(told, what=f"{told.what} {error}"[:MOST_TOLD])
        messages.record(conn, told, volume.project_id, task.request_id, task.args["backup_id"], now)
