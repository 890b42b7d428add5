"""Create: from an accepted request to a volume on the backend. Reference: volume-states.md, section 2."""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import attachments, kinds, messages, states, volumes
from cloudctl.volume.lifecycle import lend, place
from cloudctl.volume.tables import Volume


async def create(ctx: Context) -> Memo:
    """One step: all of it checks before it acts, and each boundary between steps costs a transaction."""
    volume = await place.ensure_placed(ctx)
    if volume.image_id is not None:
        await ctx.write(states.try_move, ctx.resource_id, "download", ctx.now)
    spec = await ctx.read(volumes.driver_spec, ctx.resource_id, ctx.drivers.image_path)
    await ctx.drivers.volume.ensure_created(spec)
    await ctx.commit(created, volume, ctx.now)
    return None


async def remove(ctx: Context) -> None:
    volume = await ctx.read(volumes.find, ctx.resource_id)
    if volume is not None and volume.host is None:
        return  # it never had a pool, so nothing was made
    await ctx.drivers.volume.ensure_absent(ctx.resource_id)


def created(conn: Connection, volume: Volume, now: datetime) -> None:
    made(conn, volume.id, now)
    lend.returned(conn, volume)


def made(conn: Connection, volume_id: str, now: datetime) -> None:
    """`available`, or `reserved` if somebody waited for it. An administrator may have set another status meanwhile."""
    if states.try_move(conn, volume_id, "created", now):
        attachments.follow(conn, volume_id, now)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    volume = volumes.find(conn, task.resource_id)
    if volume is None:
        return
    states.try_move(conn, volume.id, "create failed", now)
    trouble = messages.CREATE_FAILED if volume.image_id is None else messages.IMAGE_FAILED
    if task.failed_by(place.NoBackend):
        trouble = messages.NO_BACKEND
        volumes.place(conn, volume.id, None)  # nothing was made in the pool it would have had
    messages.record(conn, trouble, volume.project_id, task.request_id, volume.id, now)
    lend.returned(conn, volume)


CREATE = Workflow(
    kinds.CREATE_VOLUME,
    (Step("create", create, undo=remove, aliases=("start", "finish")),),
    on_failure=failed,
)
