"""Create image: the root disk as it is at one moment becomes an image. Reference: compute-states.md, section 4.11.

`args`: `image_id`; for a backup also `backup_type` and `rotation`.

The copy is written straight to where the image's data belongs; the image service then reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from cloudctl.compute import kinds, servers, snapshots
from cloudctl.db import Connection
from cloudctl.errors import CloudError
from cloudctl.image import images
from cloudctl.image.kinds import ACTIVATE_IMAGE
from cloudctl.tasks import Context, Step, Wait, Workflow
from cloudctl.tasks.tables import DONE, OPEN
from cloudctl.tasks.workflow import Memo, Task

CHILD = "image"
Captured = Callable[[Connection, str, str, str, datetime], None]
"""Of connection, server, image, disk format, now."""


async def capture(ctx: Context) -> Memo:
    await take(ctx, ctx.args["image_id"], captured)
    return None


async def take(ctx: Context, image_id: str, captured: Captured) -> None:
    """Copy the guest's disk to the image's data, and commit `captured`."""
    await ctx.write(saving, ctx.resource_id, image_id, ctx.now)
    path = ctx.drivers.image_path(image_id)
    disk_format = await ctx.drivers.hypervisor.ensure_captured(ctx.resource_id, str(path))
    await ctx.commit(captured, ctx.resource_id, image_id, disk_format, ctx.now)


def saving(conn: Connection, server_id: str, image_id: str, now: datetime) -> None:
    """Raises NotFound if the image was deleted."""
    images.get(conn, image_id)
    images.try_move(conn, image_id, "save", now)
    servers.try_move(conn, server_id, "capture", now)


def captured(conn: Connection, server_id: str, image_id: str, disk_format: str, now: datetime) -> None:
    """Raises NotFound if the image was deleted in the meantime."""
    images.change(conn, images.get(conn, image_id), {"disk_format": disk_format}, now)
    servers.try_move(conn, server_id, "captured", now)


async def discard(ctx: Context) -> None:
    await ctx.commit(snapshots.discard, ctx.args["image_id"], ctx.now, ctx.task)


async def keep(ctx: Context) -> Memo | Wait:
    state = await ctx.child(CHILD, ACTIVATE_IMAGE, ctx.args["image_id"])
    if state in OPEN:
        return Wait()
    if state != DONE:
        raise CloudError(f"The image could not be kept: {await ctx.child_error(CHILD) or state}")
    await ctx.commit(kept, ctx.task, ctx.now)
    return None


def kept(conn: Connection, task: Task, now: datetime) -> None:
    servers.try_move(conn, task.resource_id, "image ended", now)
    if "rotation" in task.args:
        snapshots.rotate(conn, task.resource_id, task.args["backup_type"], task.args["rotation"], task)


async def let_go(ctx: Context) -> Wait | None:
    return Wait(poll=1.0) if await ctx.cancel_child(CHILD) in OPEN else None


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """The server stays as it was."""
    servers.fail(conn, task.resource_id, "failed", error, now)
    snapshots.discard_record(conn, task.args["image_id"], now, task)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    servers.try_move(conn, task.resource_id, "image ended", now)
    # Perhaps no step has run, so that none was undone.
    snapshots.discard_record(conn, task.args["image_id"], now, task)


CREATE_IMAGE, CREATE_BACKUP = (
    Workflow(
        kind,
        (Step("capture", capture, discard), Step("keep", keep, let_go)),
        on_failure=failed,
        on_cancel=cancelled,
    )
    for kind in (kinds.CREATE_IMAGE, kinds.CREATE_BACKUP)
)
