"""Unshelve: a server that kept its host is started; any other gets a host and its disk back, as in a boot.

`args`: `here`, whether it kept its host; `host`, the only one that it may go to, or None.
Reference: compute-states.md, section 4.9.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from attrs import evolve

from cloudctl.compute import guests, kinds, networking, placing, servers, shelving
from cloudctl.compute.lifecycle import boot, defining, power, storage
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.states import UNSHELVING
from cloudctl.db import Connection
from cloudctl.drivers.errors import HostDown, UnknownGuest
from cloudctl.errors import Conflict
from cloudctl.network import plugging
from cloudctl.placement import claims
from cloudctl.tasks import Context, Origin, Step, Transaction, Workflow
from cloudctl.tasks.workflow import Cancelled, Memo, Task


def workflow(options: ComputeOptions) -> Workflow:
    def schedule(conn: Connection, task: Task, now: datetime) -> None:
        if not task.args["here"]:
            place(conn, task.resource_id, task.args["host"], placing.failed_before(task), options, now)

    steps = (
        Step("schedule", Transaction(schedule), unschedule),
        Step("storage", connect, disconnect),
        Step("spawn", spawn, unspawn),
    )
    return Workflow(kinds.UNSHELVE, steps, restarts=options.max_attempts - 1, on_failure=failed, on_cancel=cancelled)


# -- schedule


def place(
    conn: Connection,
    server_id: str,
    asked: str | None,
    failed: Iterable[str],
    options: ComputeOptions,
    now: datetime,
) -> None:
    """Claim a host, and record it on the server and its ports. Raises NoValidHost, Cancelled."""
    server = servers.get(conn, server_id)
    # It is no longer bound by where it had to be at first.
    wish = evolve(placing.wish(conn, server, failed), forced=None, requested=asked)
    host = claims.claim(conn, server_id, server.project_id, wish, placing.weights(options))
    if not servers.try_move(conn, server_id, "unshelving on a host", now, host=host.name, zone=host.zone):
        raise Cancelled(f"server {server_id} is not being unshelved any more")
    networking.bind(conn, server, host.name, host.zone, now)


async def unschedule(ctx: Context) -> None:
    if ctx.args["here"]:
        return
    server = await ctx.read(servers.find, ctx.resource_id)
    if server is not None and server.host is not None:
        # The next attempt leaves this host out.
        ctx.remember(host=server.host)
    await ctx.commit(give_back, ctx.resource_id, ctx.now)


def give_back(conn: Connection, server_id: str, now: datetime) -> None:
    """Give up the host. May be repeated."""
    server = servers.find(conn, server_id)
    if server is None or server.deleted_at is not None:
        return
    claims.release(conn, server_id)
    networking.leave_host(conn, server_id, now)
    zone = server.scheduling.get("zone")
    if not servers.try_move(conn, server_id, "unshelving again", now, zone=zone) and server.task_state != UNSHELVING:
        servers.try_move(conn, server_id, "shelved after all", now, zone=zone)


# -- storage


async def connect(ctx: Context) -> Memo:
    if not ctx.args["here"]:
        server = await ctx.read(servers.get, ctx.resource_id)
        if server.host is None:
            raise Cancelled("the server has no host")
        await storage.join(ctx, server.host)
    return None


async def disconnect(ctx: Context) -> None:
    server = await ctx.read(servers.find, ctx.resource_id)
    if not ctx.args["here"] and server is not None and server.host is not None:
        await storage.leave(ctx, server.host)


# -- spawn


async def spawn(ctx: Context) -> Memo:
    if ctx.args["here"]:
        # As a stopped server that is started: it may have been shelved after a rescue that failed.
        await power.start(ctx)
        await ctx.commit(running, ctx.resource_id, {}, "", ctx.now, ctx.task)
        return None
    plan = await ctx.read(boot.plan, ctx.resource_id, ctx.drivers.image_path)
    host = plan.guest.host
    await defining.drop_old(ctx, host)
    bindings = await defining.define(ctx, plan)
    await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)
    try:
        await ctx.commit(running, ctx.resource_id, bindings, host, ctx.now, ctx.task)
    except Conflict:
        await defining.look_again(ctx, bindings, host)
        raise
    return None


def running(
    conn: Connection, server_id: str, bindings: defining.Bindings, host: str, now: datetime, by: Origin
) -> None:
    """Raises Cancelled, Conflict."""
    defining.plugged(conn, bindings, host, now)
    if not shelving.unshelved(conn, server_id, now, by):
        raise Cancelled(f"server {server_id} is not being unshelved any more")


async def unspawn(ctx: Context) -> None:
    if ctx.args["here"]:
        # It may have begun to leave its host, which then failed.
        try:
            await ctx.drivers.hypervisor.ensure_stopped(ctx.resource_id, 0.0)
        except UnknownGuest:
            pass
        except HostDown:
            if not await defining.may_be_left(ctx):
                raise
        return
    await defining.undefine(ctx, only_if_dead=True)
    for port_id in await ctx.read(guests.plugged, ctx.resource_id):
        await plugging.unplug(ctx, port_id)


# -- ends


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """The server stays shelved."""
    servers.fail(conn, task.resource_id, "failed", error, now)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By a deletion, whose task state stays, or by an operator: then there is no task any more."""
    servers.try_move(conn, task.resource_id, "shelving cancelled", now)
