"""Upload: the content of a volume becomes the data of an image. Reference: volume-states.md, section 2.

`args`: `image_id`; its `disk_format`; `in_use`: somebody writes to the volume, so a frozen copy is taken first.
"""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.errors import CloudError
from cloudctl.image.kinds import ACTIVATE_IMAGE
from cloudctl.tasks import Context, Step, Transaction, Wait, Workflow
from cloudctl.tasks.tables import DONE, OPEN
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import attachments, kinds, messages, states, uploads, volumes
from cloudctl.volume.lifecycle import frozen_copy


async def freeze(ctx: Context) -> Memo:
    if ctx.args["in_use"]:
        await frozen_copy.ensure(ctx, ctx.resource_id, ctx.args["image_id"], _format(ctx) == uploads.RAW)
    return None


async def thaw(ctx: Context) -> None:
    if ctx.args["in_use"]:
        await frozen_copy.ensure_absent(ctx, ctx.args["image_id"])


async def export(ctx: Context) -> Memo:
    image_id = ctx.args["image_id"]
    path = str(ctx.drivers.image_path(image_id))
    snapshot_id = image_id if ctx.args["in_use"] else None
    found = _format(ctx)
    if found == uploads.RAW and ctx.args["in_use"]:
        found = await frozen_copy.export(ctx, ctx.resource_id, image_id, path)
    elif found == uploads.RAW:
        found = await ctx.drivers.volume.ensure_exported(ctx.resource_id, path)
    else:
        await ctx.drivers.volume.ensure_exported_as(ctx.resource_id, path, found, snapshot_id)
    await ctx.commit(uploads.exported, image_id, found, ctx.now)
    return None


def _format(ctx: Context) -> str:
    return str(ctx.args.get("disk_format", uploads.RAW))  # older tasks lack it


async def activate(ctx: Context) -> Memo | Wait:
    state = await ctx.child("activate", ACTIVATE_IMAGE, ctx.args["image_id"])
    if state in OPEN:
        return Wait()
    if state != DONE:
        why = await ctx.child_error("activate")
        raise CloudError(f"Image {ctx.args['image_id']} could not be kept: {why or state}")
    return None


def finish(conn: Connection, task: Task, now: datetime) -> None:
    attachments.follow(conn, task.resource_id, now, leaving=states.UPLOADING)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    ended(conn, task, now)
    volume = volumes.find(conn, task.resource_id)
    if volume is not None:
        messages.record(conn, messages.UPLOAD_FAILED, volume.project_id, task.request_id, volume.id, now)


def ended(conn: Connection, task: Task, now: datetime) -> None:
    """Delete the image, and stop work on it, unless it is complete; return the volume to its previous status."""
    uploads.give_up(conn, task.args["image_id"], task)
    attachments.follow(conn, task.resource_id, now, leaving=states.UPLOADING)


UPLOAD = Workflow(
    kinds.UPLOAD_VOLUME,
    (
        Step("freeze", freeze, undo=thaw),
        Step("export", export),
        Step("thaw", thaw),
        Step("activate", activate),
        Step("finish", Transaction(finish)),
    ),
    on_failure=failed,
    on_cancel=ended,
)
