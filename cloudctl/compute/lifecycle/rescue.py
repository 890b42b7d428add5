"""Rescue, unrescue and the admin password. Reference: compute-states.md, sections 3 and 4.10.

`args` of a rescue: `image_id`; None is the server's own image.
"""

from __future__ import annotations

from datetime import datetime

from cloudctl.compute import guests, kinds, servers
from cloudctl.db import Connection
from cloudctl.drivers.errors import Unfit
from cloudctl.tasks import Context, Kind, Step, Workflow
from cloudctl.tasks.workflow import Cancelled, Memo, Task


async def leave_earlier(ctx: Context) -> Memo:
    """A rescue that failed may have left the guest with its image: another one would be taken for a repeat of it."""
    await ctx.drivers.hypervisor.ensure_unrescued(ctx.resource_id)
    return None


async def run_rescued(ctx: Context) -> Memo:
    server = await ctx.read(servers.get, ctx.resource_id)
    if server.admin_password is None:
        raise Cancelled("the server is being deleted")
    image_id = ctx.args["image_id"]
    image = await ctx.read(guests.image_source, image_id, ctx.drivers.image_path) if image_id else None
    await ctx.drivers.hypervisor.ensure_rescued(ctx.resource_id, image, server.admin_password)
    await ctx.commit(servers.try_move, ctx.resource_id, "rescued", ctx.now)
    return None


async def run_again(ctx: Context) -> Memo:
    await ctx.drivers.hypervisor.ensure_unrescued(ctx.resource_id)
    await ctx.commit(servers.try_move, ctx.resource_id, "unrescued", ctx.now)
    return None


async def tell_password(ctx: Context) -> Memo:
    server = await ctx.read(servers.get, ctx.resource_id)
    if server.admin_password is None:
        raise Cancelled("the server is being deleted")
    try:
        await ctx.drivers.hypervisor.ensure_password(ctx.resource_id, server.admin_password)
    except Unfit as error:
        # Nothing in the guest listens for it, so nothing has changed in the guest.
        await ctx.commit(refused, ctx.resource_id, str(error), ctx.now)
        return None
    await ctx.commit(servers.try_move, ctx.resource_id, "password set", ctx.now)
    return None


def refused(conn: Connection, server_id: str, why: str, now: datetime) -> None:
    servers.fail(conn, server_id, "failed", why, now, admin_password=None)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """Nobody knows what the guest runs, or which password it has."""
    servers.fail(conn, task.resource_id, "broken", error, now, admin_password=None)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By a deletion, whose task state stays, or by an operator: then there is no task any more."""
    servers.try_move(conn, task.resource_id, "rescue cancelled", now)


def _workflow(kind: Kind, *steps: Step) -> Workflow:
    return Workflow(kind, steps, on_failure=failed, on_cancel=cancelled)


RESCUE = _workflow(kinds.RESCUE, Step("leave-earlier", leave_earlier), Step("rescue", run_rescued))
UNRESCUE = _workflow(kinds.UNRESCUE, Step("unrescue", run_again))
SET_PASSWORD = _workflow(kinds.SET_PASSWORD, Step("password", tell_password))
