"""Rescue, unrescue and the admin password. Reference: compute-states.md, sections 3 and 4.10.

`args` of a rescue: `image_id`; None is the server's own image.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cloudctl.compute import guests, kinds, servers
from cloudctl.compute.states import ACTIVE, ERROR, RESCUED, RESCUING, RUNNING, UNRESCUING, UPDATING_PASSWORD
from cloudctl.db import Connection
from cloudctl.drivers.errors import Unfit
from cloudctl.tasks import Context, Kind, Step, Workflow
from cloudctl.tasks.workflow import Cancelled, Memo, Task


async def run_rescued(ctx: Context) -> Memo:
    server = await ctx.read(servers.get, ctx.resource_id)
    if server.admin_password is None:
        raise Cancelled("the server is being deleted")
    image_id = ctx.args["image_id"]
    image = await ctx.read(guests.image_source, image_id, ctx.drivers.image_path) if image_id else None
    await ctx.drivers.hypervisor.ensure_rescued(ctx.resource_id, image, server.admin_password)
    await ctx.commit(settle, ctx.resource_id, ctx.now, RESCUING, RESCUED)
    return None


async def run_again(ctx: Context) -> Memo:
    await ctx.drivers.hypervisor.ensure_unrescued(ctx.resource_id)
    await ctx.commit(settle, ctx.resource_id, ctx.now, UNRESCUING, ACTIVE)
    return None


async def tell_password(ctx: Context) -> Memo:
    server = await ctx.read(servers.get, ctx.resource_id)
    if server.admin_password is None:
        raise Cancelled("the server is being deleted")
    try:
        await ctx.drivers.hypervisor.ensure_password(ctx.resource_id, server.admin_password)
    except Unfit as error:
        # The guest has nobody who would listen: nothing has changed in it.
        await ctx.commit(refused, ctx.resource_id, str(error), ctx.now)
        return None
    await ctx.commit(settle, ctx.resource_id, ctx.now, UPDATING_PASSWORD, ACTIVE)
    return None


def settle(conn: Connection, server_id: str, now: datetime, doing: str, vm_state: str) -> None:
    """The work is done, and the guest has its password. If a delete has come meanwhile, its task state stays."""
    values: dict[str, Any] = {"vm_state": vm_state, "power_state": RUNNING, "admin_password": None}
    servers.move(conn, server_id, now, {"task_state": doing}, task_state=None, **values)


def refused(conn: Connection, server_id: str, why: str, now: datetime) -> None:
    servers.fail(conn, server_id, now, why, task_state=None, admin_password=None)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """Nobody knows what the guest runs, or which password it has."""
    values: dict[str, Any] = {"vm_state": ERROR, "admin_password": None}
    servers.fail(conn, task.resource_id, now, error, task_state=None, **values)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By a delete, whose task state stays, or by an operator: then there is no task any more."""
    doing = (RESCUING, UNRESCUING, UPDATING_PASSWORD)
    servers.move(conn, task.resource_id, now, {"task_state": doing}, task_state=None, admin_password=None)


def _workflow(kind: Kind, step: str, do: Any) -> Workflow:
    return Workflow(kind, (Step(step, do),), on_failure=failed, on_cancel=cancelled)


RESCUE = _workflow(kinds.RESCUE, "rescue", run_rescued)
UNRESCUE = _workflow(kinds.UNRESCUE, "unrescue", run_again)
SET_PASSWORD = _workflow(kinds.SET_PASSWORD, "password", tell_password)
