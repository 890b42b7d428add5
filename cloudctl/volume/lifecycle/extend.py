"""Extend: the device grows; then each guest that has it is told, by a task of its server. Reference:
volume-states.md, section 2.

`args`: `size` in GiB.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.tasks import Context, Step, Transaction, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import attachments, kinds, messages, states, volumes
from cloudctl.volume.tables import Volume


async def extend(ctx: Context) -> Memo:
    await ctx.drivers.volume.ensure_extended(ctx.resource_id, ctx.args["size"])
    return None


def finish(conn: Connection, task: Task, now: datetime) -> None:
    """Set the new size, and the status that the attachments give. The rest is left to the guests' own tasks."""
    volume_id = task.resource_id
    conn.execute(update(Volume).where(Volume.id == volume_id).values(size=task.args["size"], reserved_size=None))
    attachments.follow(conn, volume_id, now, leaving=states.EXTENDING)
    for attachment in attachments.of_volume(conn, [volume_id]).get(volume_id, []):
        if attachment.status == attachments.ATTACHED and attachment.managed and attachment.server_id is not None:
            tasks.submit(conn, kinds.EXTEND_GUEST, attachment.server_id, task, args={"volume_id": volume_id})


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    volume = volumes.find(conn, task.resource_id)
    if volume is not None:
        states.try_move(conn, volume.id, "extend failed", now)
        give_back(conn, task, now)
        messages.record(conn, messages.EXTEND_FAILED, volume.project_id, task.request_id, volume.id, now)


def give_back(conn: Connection, task: Task, now: datetime) -> None:
    """Return the quota of the difference."""
    conn.execute(update(Volume).where(Volume.id == task.resource_id).values(reserved_size=None))


EXTEND = Workflow(
    kinds.EXTEND_VOLUME,
    (Step("extend", extend), Step("finish", Transaction(finish), aliases=("tell guests",))),
    on_failure=failed,
    on_cancel=give_back,
)
