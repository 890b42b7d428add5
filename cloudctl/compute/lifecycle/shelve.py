"""Shelve: the guest is off, and its root disk is an image; then it leaves its host, by a task of its own.

off → capture → keep, as for creating an image of it: a failure is undone. Leaving the host is not: once the disk is
gone only the image is left. `args` of a shelve: `image_id`, None if its root disk is a volume; `was`, its state before.
Reference: compute-states.md, section 4.9.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from cloudctl.compute import guests, kinds, servers, shelving, snapshots
from cloudctl.compute.lifecycle import create_image, defining, evacuate, storage
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.states import ACTIVE, STOPPED
from cloudctl.db import Connection
from cloudctl.drivers.errors import UnknownGuest
from cloudctl.errors import CloudError
from cloudctl.image.kinds import ACTIVATE_IMAGE
from cloudctl.network import plugging
from cloudctl.tasks import Context, Kind, Step, Wait, Workflow
from cloudctl.tasks.tables import DONE, OPEN
from cloudctl.tasks.workflow import Cancelled, Memo, Task


def workflows(options: ComputeOptions) -> tuple[Workflow, ...]:
    async def off(ctx: Context) -> Memo:
        await ctx.drivers.hypervisor.ensure_stopped(ctx.resource_id, options.shutdown_timeout)
        return None

    async def keep(ctx: Context) -> Memo | Wait:
        image_id = ctx.args["image_id"]
        if image_id is not None:
            state = await ctx.child(create_image.CHILD, ACTIVATE_IMAGE, image_id)
            if state in OPEN:
                return Wait()
            if state != DONE:
                why = await ctx.child_error(create_image.CHILD)
                raise CloudError(f"The disk could not be kept: {why or state}")
        # A server whose disks are volumes has nothing to stay for.
        goes_on = image_id is None or options.shelved_offload_time == 0
        await ctx.commit(_shelved, ctx.task, ctx.now, goes_on)
        return None

    steps = (Step("off", off, on_again), Step("capture", capture, discard), Step("keep", keep, create_image.let_go))
    return (
        Workflow(kinds.SHELVE, steps, on_failure=failed, on_cancel=cancelled),
        _leaving(kinds.OFFLOAD),
        _leaving(kinds.LEAVE_HOST),
    )


def _leaving(kind: Kind) -> Workflow:
    return Workflow(kind, (Step("leave", leave),), on_failure=stays, on_cancel=stopped)


# -- shelve


async def on_again(ctx: Context) -> None:
    if ctx.args["was"] == ACTIVE:
        # One that is gone is not brought back by this.
        async with evacuate.sparing_dead_hosts(ctx):
            with suppress(UnknownGuest):
                await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)
    elif ctx.args["was"] != STOPPED:
        await ctx.commit(servers.try_move, ctx.resource_id, "shelve undone", ctx.now)


async def capture(ctx: Context) -> Memo:
    image_id = ctx.args["image_id"]
    if image_id is not None:
        await create_image.take(ctx, image_id, captured)
    return None


def captured(conn: Connection, server_id: str, image_id: str, disk_format: str, now: datetime) -> None:
    """Raises NotFound if the image was deleted in the meantime."""
    create_image.captured(conn, server_id, image_id, disk_format, now)
    servers.try_move(conn, server_id, "shelving uploads", now)


async def discard(ctx: Context) -> None:
    if ctx.args["image_id"] is not None:
        await create_image.discard(ctx)


def _shelved(conn: Connection, task: Task, now: datetime, goes_on: bool) -> None:
    if not shelving.shelved(conn, task.resource_id, task.args["image_id"], now, task, goes_on=goes_on):
        raise Cancelled(f"server {task.resource_id} is not being shelved any more")


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    servers.fail(conn, task.resource_id, "failed", error, now)
    _drop_record(conn, task, now)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By a deletion, whose task state stays, or by an operator: then there is no task any more."""
    servers.try_move(conn, task.resource_id, "shelving cancelled", now)
    _drop_record(conn, task, now)


def _drop_record(conn: Connection, task: Task, now: datetime) -> None:
    """Discard the record of an image for which no step has run, so that none was undone."""
    if task.args["image_id"] is not None:
        snapshots.discard_record(conn, task.args["image_id"], now, task)


# -- the host


async def leave(ctx: Context) -> Memo:
    """One step, because everything in it is an ensure and each boundary between steps costs a transaction."""
    server = await ctx.read(servers.get, ctx.resource_id)
    if server.host is None:
        raise Cancelled("the server is on no host")
    # The guest is off, and its disk is an image: if the host is down, it keeps only what nobody needs.
    await defining.undefine(ctx)
    for port_id in await ctx.read(guests.plugged, ctx.resource_id):
        await plugging.unplug(ctx, port_id)
    await storage.leave(ctx, server.host)
    await ctx.commit(shelving.offloaded, ctx.resource_id, ctx.now)
    return None


def stays(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """The server stays shelved, and can be offloaded again."""
    servers.fail(conn, task.resource_id, "failed", error, now)


def stopped(conn: Connection, task: Task, now: datetime) -> None:
    servers.try_move(conn, task.resource_id, "shelving cancelled", now)
