"""Evacuate: a server whose host has died is recreated on another one.

schedule → storage → spawn, as in a boot, with the server's own ports and volumes. A local root disk is lost with the
host, which drops its copy when it returns; if nothing can be made on the new one, the server stays where it was, since
that disk is all that is left of it. `args`: `migration_id`; `forced`, whether the requested host is taken whatever the
filters say; `stopped`, whether the server stays off. Reference: compute-states.md, section 4.8.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime

from twisted.logger import Logger

from cloudctl.compute import guests, kinds, migrations, networking, placing, resizing, servers
from cloudctl.compute.lifecycle import defining, storage
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.states import SOFT_DELETING
from cloudctl.compute.tables import Migration, Server
from cloudctl.db import Connection
from cloudctl.drivers.errors import DriverError, HostDown, UnknownGuest, Unreachable
from cloudctl.drivers.specs import Power
from cloudctl.errors import Conflict
from cloudctl.network import plugging
from cloudctl.placement import claims, hosts
from cloudctl.placement.claims import NoValidHost
from cloudctl.placement.wishes import HostState
from cloudctl.tasks import Context, Step, Transaction, Workflow
from cloudctl.tasks.workflow import Cancelled, Memo, Task

log = Logger()

OFF = (Power.STOPPED, Power.CRASHED)


def workflow(options: ComputeOptions) -> Workflow:
    def schedule(conn: Connection, task: Task, now: datetime) -> None:
        place(conn, task.resource_id, task.args["migration_id"], task.args["forced"], options, now)

    steps = (Step("schedule", Transaction(schedule), unplace), Step("storage", connect), Step("spawn", spawn))
    return Workflow(kinds.EVACUATE, steps, on_failure=failed, on_cancel=cancelled)


def place(
    conn: Connection, server_id: str, migration_id: str, forced: bool, options: ComputeOptions, now: datetime
) -> None:
    """Claim the new place, and point the server and its ports to it. Raises NoValidHost, Cancelled."""
    server, migration = servers.get(conn, server_id), migrations.get(conn, migration_id)

    def claim(out_of_reach: frozenset[str] = frozenset()) -> HostState:
        wish = placing.moved(conn, server, migration.asked_host, forced=forced, out_of_reach=out_of_reach)
        return claims.claim(conn, server_id, server.project_id, wish, placing.weights(options))

    # Another move may be held, since it cannot be undone without the host that has died.
    resizing.end_all(conn, server_id, now, keep=migration_id)
    claims.hand_over(conn, server_id, migration_id)
    try:
        host = _claim_another(claim, migrations.tried(conn, migration))
    except NoValidHost:
        if not _may_stay(conn, server, migration.asked_host):
            raise
        claims.hand_over(conn, migration_id, server_id)
        # A server that holds a host keeps it.
        host = claim()
    migrations.try_move(conn, migration_id, "placed", now, dest_host=host.name)
    if not servers.try_move(conn, server_id, "make anew", now, host=host.name, zone=host.zone):
        raise Cancelled(f"server {server_id} is not being evacuated any more")
    networking.bind(conn, server, host.name, host.zone, now)


def _claim_another(claim: Callable[[frozenset[str]], HostState], tried: frozenset[str]) -> HostState:
    """A host on which an earlier evacuation has failed is taken only if there is no other. Raises NoValidHost."""
    if tried:
        with suppress(NoValidHost):
            return claim(tried)
    return claim(frozenset())


async def unplace(ctx: Context) -> None:
    """Point the server to where it was if its guest, or what is left of it, is still there."""
    migration = await ctx.read(migrations.get, ctx.args["migration_id"])
    source, host = migration.source_host, migration.dest_host
    if host in (None, source) or await ctx.is_void():
        return
    try:
        # Twice: the new host may be back between the two looks that one takes.
        for _ in range(2):
            if await whereabouts(ctx, migration) != source:
                return
        for port_id in await ctx.read(guests.plugged, ctx.resource_id):
            await plugging.unplug(ctx, port_id, host)
        await storage.leave(ctx, host)
    except DriverError as error:
        # Nobody can know, or help: the next evacuation begins from the new host.
        log.warn("server {id} is not taken back to {host}: {why}", id=ctx.resource_id, host=source, why=error)
        return
    await ctx.write(_placed_as_before, ctx.task, migration, ctx.now)


def _placed_as_before(conn: Connection, task: Task, migration: Migration, now: datetime) -> None:
    server, host = servers.get(conn, task.resource_id), hosts.find(conn, migration.source_host)
    if host is None or server.host != migration.new_host:
        return
    if servers.try_move(conn, server.id, "stay", now, host=host.name, zone=host.zone):
        claims.release(conn, server.id)
        claims.hand_over(conn, migration.id, server.id)
        networking.bind(conn, server, host.name, host.zone, now)


def _may_stay(conn: Connection, server: Server, asked: str | None) -> bool:
    """Whether the server points to a living host: one on which an earlier evacuation did not finish."""
    host = hosts.find(conn, server.host or "")
    return host is not None and hosts.is_alive(host) and host.enabled and asked in (None, host.name)


@asynccontextmanager
async def sparing_dead_hosts(ctx: Context, *, moves: bool = False) -> AsyncIterator[None]:
    """For what undoes other work: nothing need be undone on a host that is down for a server that is to be made anew,
    or deleted. For one that is deleted for a while, only if the host is known to be dead, and not if the work `moves`
    the guest: restored, it is defined anew where the server is recorded.
    """
    try:
        yield
    except HostDown:
        if not (await ctx.is_void() or (not moves and await ctx.read(_is_left_on_a_dead_host, ctx.resource_id))):
            raise


def _is_left_on_a_dead_host(conn: Connection, server_id: str) -> bool:
    server = servers.find(conn, server_id)
    is_left = server is not None and server.task_state == SOFT_DELETING
    return is_left and defining.is_on_a_dead_host(conn, server_id)


async def whereabouts(ctx: Context, migration: Migration) -> str | None:
    """Which host has a guest that was to move: if none that answers, then the only one of the two that is down.

    None: no host has it. Raises HostDown if nobody can know.
    """
    try:
        return str((await ctx.drivers.hypervisor.observe(ctx.resource_id)).host)
    except UnknownGuest:
        return None
    except HostDown:
        up = {host.name for host in await ctx.drivers.hypervisor.hosts() if host.up}
        down = {migration.source_host, migration.new_host} - up
        if len(down) != 1:
            raise
        return down.pop()


async def connect(ctx: Context) -> Memo:
    migration = await ctx.read(migrations.get, ctx.args["migration_id"])
    for host in await ctx.read(migrations.left_behind, migration):
        await storage.leave(ctx, host)
    await storage.join(ctx, migration.new_host)
    return None


async def spawn(ctx: Context) -> Memo:
    migration = await ctx.read(migrations.get, ctx.args["migration_id"])
    server = await ctx.read(servers.get, ctx.resource_id)
    # A driver whose hosts share their disks has the guest's, and needs no image.
    plan = await ctx.read(defining.plan, server, ctx.drivers.image_path, is_made=True)
    await _run_nowhere_else(ctx, migration.new_host)
    bindings = await defining.define(ctx, plan)
    if not ctx.args["stopped"]:
        await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)
    for host in await ctx.read(migrations.left_behind, migration):
        for port_id in bindings:
            await plugging.unplug(ctx, port_id, host)
    try:
        await ctx.commit(made, ctx.task, plan.guest.host, bindings, ctx.now)
    except Conflict:
        await defining.look_again(ctx, bindings, plan.guest.host)
        raise
    return None


async def _run_nowhere_else(ctx: Context, host: str) -> None:
    """The driver may still reach a host that is taken for dead: the guest is stopped there.

    A host that is not reached is not waited for: whoever requested the evacuation has seen to it.
    """
    hypervisor = ctx.drivers.hypervisor
    try:
        found = await hypervisor.observe(ctx.resource_id)
    except (UnknownGuest, HostDown, Unreachable):
        return
    if found.host != host and found.power not in OFF:
        await hypervisor.ensure_stopped(ctx.resource_id, 0.0)


def made(conn: Connection, task: Task, host: str, bindings: defining.Bindings, now: datetime) -> None:
    """The guest has its password, so it is forgotten. Raises Conflict."""
    defining.plugged(conn, bindings, host, now)
    migration_id = task.args["migration_id"]
    claims.release(conn, migration_id)
    migrations.try_move(conn, migration_id, "evacuated", now)
    name = "rebuilt, off" if task.args["stopped"] else "rebuilt"
    servers.try_move(conn, task.resource_id, name, now, launched_at=now)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """Nothing of the server runs any more: it can be evacuated again, or rebuilt, or started where it was."""
    _end(conn, task, now)
    servers.fail(conn, task.resource_id, "not made anew", error, now, admin_password=None)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By a deletion, whose task state stays, or by an operator."""
    _end(conn, task, now)
    servers.try_move(conn, task.resource_id, "rebuild cancelled", now)


def _end(conn: Connection, task: Task, now: datetime) -> None:
    """The server holds the place that it points to, and only that."""
    migration_id = task.args["migration_id"]
    if claims.holding(conn, task.resource_id):
        claims.release(conn, migration_id)
    else:
        claims.hand_over(conn, migration_id, task.resource_id)
    migrations.try_move(conn, migration_id, "did not arrive", now)
