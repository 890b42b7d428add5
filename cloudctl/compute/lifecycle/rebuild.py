"""Rebuild: the guest is removed with its disk, and recreated on the same host.

Reference: compute-states.md, section 4.6. `args`: `stopped`, whether it was off and so stays off; `volume_id` and
`image_id`, if the volume that it boots from is filled with an image.
"""

from __future__ import annotations

from datetime import datetime

from cloudctl.compute import guests, kinds, placing, rebuilding, servers
from cloudctl.compute.lifecycle import defining, storage
from cloudctl.db import Connection
from cloudctl.drivers.interfaces import IVolumeData
from cloudctl.errors import CloudError, Conflict
from cloudctl.placement import claims
from cloudctl.placement.claims import NoValidHost
from cloudctl.placement.filters import capable, passing, suits_image
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Cancelled, Memo, Task


async def remove(ctx: Context) -> Memo:
    """The old disk is only given up for what the host can run."""
    await ctx.write(begin, ctx.resource_id, ctx.now)
    await ctx.drivers.hypervisor.ensure_absent(ctx.resource_id)
    return None


def begin(conn: Connection, server_id: str, now: datetime) -> None:
    """Raises NoValidHost, Cancelled."""
    server = servers.get(conn, server_id)
    wish = placing.wish(conn, server, ())
    here = claims.host_states(conn, name=server.host or "")
    if not passing(here, wish, (capable, suits_image)):
        raise NoValidHost("No valid host was found. The server's host cannot run the image.")
    if not servers.try_move(conn, server_id, "make anew", now):
        raise Cancelled(f"server {server_id} is not being rebuilt any more")


async def fill(ctx: Context) -> Memo:
    """Fill the volume that the server boots from with the image, which is not possible while a host uses it."""
    if "volume_id" not in ctx.args:
        return None
    volume_id, image_id = ctx.args["volume_id"], ctx.args["image_id"]
    if not IVolumeData.providedBy(ctx.drivers.volume):
        raise CloudError("The volume backend cannot fill a volume anew.")
    server = await ctx.read(servers.get, ctx.resource_id)
    if server.host is None:
        raise Cancelled("the server has no host")
    await storage.leave(ctx, server.host)
    image = await ctx.read(guests.image_source, image_id, ctx.drivers.image_path)
    await ctx.drivers.volume.ensure_imported(volume_id, image)
    await ctx.write(rebuilding.filled, volume_id, image_id, ctx.now)
    await storage.join(ctx, server.host)
    return None


async def make(ctx: Context) -> Memo:
    server = await ctx.read(servers.get, ctx.resource_id)
    plan = await ctx.read(defining.plan, server, ctx.drivers.image_path)
    bindings = await defining.define(ctx, plan)
    if not ctx.args["stopped"]:
        await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)
    try:
        await ctx.commit(made, ctx.resource_id, plan.guest.host, bindings, ctx.args["stopped"], ctx.now)
    except Conflict:
        await defining.look_again(ctx, bindings, plan.guest.host)
        raise
    return None


def made(
    conn: Connection, server_id: str, host: str, bindings: defining.Bindings, stopped: bool, now: datetime
) -> None:
    """The guest has its password, so it is forgotten. Raises Conflict."""
    defining.plugged(conn, bindings, host, now)
    servers.try_move(conn, server_id, "rebuilt, off" if stopped else "rebuilt", now, launched_at=now)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    servers.fail(conn, task.resource_id, "not made anew", error, now, admin_password=None)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By a deletion, whose task state stays; or by an operator, and nobody knows what is left of the guest."""
    servers.try_move(conn, task.resource_id, "rebuild cancelled", now)


REBUILD = Workflow(
    kinds.REBUILD,
    (Step("remove", remove), Step("fill", fill), Step("make", make)),
    on_failure=failed,
    on_cancel=cancelled,
)
