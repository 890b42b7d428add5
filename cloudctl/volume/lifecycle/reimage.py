"""Reimage: fill a volume with the content of an image, then with zeros. Reference: volume-states.md, section 2.

`args`: `image_id`, its `format`, and the `metadata` that the volume remembers of it.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import update

from cloudctl.db import Connection
from cloudctl.drivers.specs import ImageSource
from cloudctl.tasks import Context, Step, Transaction, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import attachments, kinds, messages, states, volumes
from cloudctl.volume.tables import Volume


async def fill(ctx: Context) -> Memo:
    image_id = ctx.args["image_id"]
    source = ImageSource(image_id, str(ctx.drivers.image_path(image_id)), ctx.args["format"] or "raw")
    await ctx.drivers.volume.ensure_imported(ctx.resource_id, source)
    return None


def finish(conn: Connection, task: Task, now: datetime) -> None:
    """Set the status that its attachments give, and remember the new image."""
    values = {"bootable": True, "image_metadata": task.args["metadata"]}
    conn.execute(update(Volume).where(Volume.id == task.resource_id).values(**values))
    attachments.follow(conn, task.resource_id, now, leaving=states.DOWNLOADING)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    volume = volumes.find(conn, task.resource_id)
    if volume is not None and states.try_move(conn, volume.id, "reimage failed", now):
        messages.record(conn, messages.REIMAGE_FAILED, volume.project_id, task.request_id, volume.id, now)


REIMAGE = Workflow(
    kinds.REIMAGE_VOLUME,
    (
        Step("fill", fill),
        Step("finish", Transaction(finish)),
    ),
    on_failure=failed,
)
