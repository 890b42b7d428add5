"""Extend: the device grows, then guests that have it see the new size. Reference: volume-states.md, section 2.

`args`: `size` in GiB.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import update
from twisted.logger import Logger

from cloudctl.db import Connection
from cloudctl.drivers.errors import HostDown, UnknownGuest, UnknownVolume
from cloudctl.drivers.interfaces import IResizeAttached
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import attachments, kinds, messages, states, volumes
from cloudctl.volume.tables import Volume

log = Logger()


async def extend(ctx: Context) -> Memo:
    await ctx.drivers.volume.ensure_extended(ctx.resource_id, ctx.args["size"])
    return None


async def tell_guests(ctx: Context) -> Memo:
    hypervisor = ctx.drivers.hypervisor
    if not IResizeAttached.providedBy(hypervisor):
        return None
    found = await ctx.read(attachments.of_volume, [ctx.resource_id])
    for attachment in found.get(ctx.resource_id, []):
        guest = attachment.server_id
        if attachment.status != attachments.ATTACHED or not attachment.managed or guest is None:
            continue
        try:
            await hypervisor.ensure_volume_size(guest, ctx.resource_id, ctx.args["size"])
        except (UnknownGuest, UnknownVolume, HostDown) as error:
            # The volume has grown all the same; the guest sees it once it starts again.
            log.info("guest {guest} was not notified of its volume's new size: {why}", guest=guest, why=error)
    return None


async def finish(ctx: Context) -> Memo:
    await ctx.commit(extended, ctx.resource_id, ctx.args["size"], ctx.now)
    return None


def extended(conn: Connection, volume_id: str, size: int, now: datetime) -> None:
    """The new size, and the status that its attachments give it."""
    conn.execute(update(Volume).where(Volume.id == volume_id).values(size=size, reserved_size=None))
    attachments.follow(conn, volume_id, now, leaving=states.EXTENDING)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    volume = volumes.find(conn, task.resource_id)
    if volume is not None:
        states.try_move(conn, volume.id, "extend failed", now)
        give_back(conn, task, now)
        messages.record(conn, messages.EXTEND_FAILED, volume.project_id, task.request_id, volume.id, now)


def give_back(conn: Connection, task: Task, now: datetime) -> None:
    """The quota of the difference."""
    conn.execute(update(Volume).where(Volume.id == task.resource_id).values(reserved_size=None))


EXTEND = Workflow(
    kinds.EXTEND_VOLUME,
    (
        Step("extend", extend),
        Step("tell guests", tell_guests),
        Step("finish", finish),
    ),
    on_failure=failed,
    on_cancel=give_back,
)
