"""Resize and cold migration, confirm and revert. Reference: compute-states.md, section 4.4.

schedule (claim the new place, the migration keeps the old one) → off (the guest is stopped, the server points to the
new place) → finish (the guest is there, and started unless it was off). A failure is undone: the server is back where
it was, as it was. `args`: `migration_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from attrs import evolve

from cloudctl.compute import guests, kinds, migrations, placing, resizing, servers
from cloudctl.compute.lifecycle import defining, evacuate, storage
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.states import DELETING, SHUTDOWN
from cloudctl.compute.tables import Migration
from cloudctl.db import Connection
from cloudctl.drivers.errors import HostDown, UnknownGuest
from cloudctl.drivers.hypervisors import out_of_reach
from cloudctl.errors import CloudError, Conflict
from cloudctl.network import plugging
from cloudctl.placement import claims
from cloudctl.placement.allocations import MIGRATION
from cloudctl.placement.claims import NoValidHost
from cloudctl.tasks import Context, Kind, Step, Transaction, Workflow
from cloudctl.tasks.workflow import Cancelled, Memo, Task

NO_HOST: Mapping[str, str] = {
    migrations.RESIZE: "No valid host found for resize",
    migrations.COLD: "No valid host found for cold migrate",
}


def workflows(options: ComputeOptions) -> tuple[Workflow, ...]:
    async def schedule(ctx: Context) -> Memo:
        migration = await ctx.read(migrations.get, ctx.args["migration_id"])
        far = await out_of_reach(ctx.drivers.hypervisor, migration.source_host)
        await ctx.commit(place, ctx.resource_id, migration.id, far, options, ctx.now)
        return None

    async def off(ctx: Context) -> Memo:
        migration = await ctx.read(migrations.get, ctx.args["migration_id"])
        await ctx.drivers.hypervisor.ensure_stopped(ctx.resource_id, options.shutdown_timeout)
        if moves(migration):
            await storage.leave(ctx, migration.source_host)
        await ctx.commit(go, ctx.resource_id, migration.id, ctx.now)
        return None

    async def off_again(ctx: Context) -> Memo:
        """Part of a revert: the guest leaves the new place."""
        migration = await ctx.read(migrations.get, ctx.args["migration_id"])
        await ctx.drivers.hypervisor.ensure_stopped(ctx.resource_id, options.shutdown_timeout)
        await leave(ctx, migration, migration.new_host)
        await ctx.commit(go_back, ctx.resource_id, migration.id, ctx.now)
        return None

    def moving(kind: Kind) -> Workflow:
        steps = (Step("schedule", schedule, unschedule), Step("off", off, restore), Step("finish", finish, unfinish))
        return _workflow(kind, steps, failed, cancelled)

    revert = (Step("off", off_again), Step("finish", finish_revert))
    return (
        moving(kinds.RESIZE),
        moving(kinds.MIGRATE),
        _workflow(kinds.CONFIRM_RESIZE, (Step("confirm", Transaction(confirm)),), end_failed, confirm_cancelled),
        _workflow(kinds.REVERT_RESIZE, revert, end_failed, revert_cancelled),
    )


def _workflow(kind: Kind, steps: tuple[Step, ...], on_failure: Any, on_cancel: Any) -> Workflow:
    return Workflow(kind, steps, on_failure=on_failure, on_cancel=on_cancel)


def moves(migration: Migration) -> bool:
    return migration.dest_host != migration.source_host


# -- schedule


def place(
    conn: Connection,
    server_id: str,
    migration_id: str,
    far: frozenset[str],
    options: ComputeOptions,
    now: datetime,
) -> None:
    """Claim the new place, on a host that is not in `far`. Raises NoValidHost, CloudError, Cancelled."""
    server, migration = servers.get(conn, server_id), migrations.get(conn, migration_id)
    if server.image_id and 0 < migration.new_flavor["disk"] < migration.old_flavor["disk"]:
        raise CloudError("Flavor's disk is smaller than the one that the server has; a root disk cannot shrink.")
    stays = migration.kind == migrations.RESIZE and options.allow_resize_to_same_host
    wish = placing.wish(conn, server, far if stays else {migration.source_host} | far)
    wish = evolve(
        wish,
        resources=placing.resources(migration.new_flavor, bool(server.image_id)),
        extra_specs=migration.new_flavor["extra_specs"],
        forced=None,
        requested=migration.asked_host,
    )
    claims.hand_over(conn, server_id, migration_id, MIGRATION)
    try:
        host = claims.claim(conn, server_id, server.project_id, wish, placing.weights(options), server.user_id)
    except NoValidHost:
        raise NoValidHost(NO_HOST[migration.kind]) from None
    migrations.try_move(conn, migration_id, "placed", now, dest_host=host.name)
    if not servers.try_move(conn, server_id, "move", now):
        raise Cancelled(f"server {server_id} is not being resized any more")


async def unschedule(ctx: Context) -> None:
    await ctx.commit(give_back, ctx.resource_id, ctx.args["migration_id"])


def give_back(conn: Connection, server_id: str, migration_id: str) -> None:
    """Let the server hold its old place, and only that. May be repeated."""
    if claims.holding(conn, migration_id):
        claims.release(conn, server_id)
        claims.hand_over(conn, migration_id, server_id)


# -- off


def go(conn: Connection, server_id: str, migration_id: str, now: datetime) -> None:
    """Raises Cancelled."""
    migration = migrations.get(conn, migration_id)
    if not servers.try_move(conn, server_id, "moved", now):
        raise Cancelled(f"server {server_id} is not being resized any more")
    migrations.try_move(conn, migration_id, "off", now)
    resizing.point(conn, migration, now, forward=True)


async def restore(ctx: Context) -> None:
    """Put the guest back where it was, as it was."""
    migration = await ctx.read(migrations.get, ctx.args["migration_id"])
    if migration.status not in migrations.OPEN:
        return  # while this was held, the server was evacuated
    await ctx.write(resizing.point, migration, ctx.now, forward=False)
    server = await ctx.read(servers.find, ctx.resource_id)
    if server is None or server.task_state == DELETING:
        return  # nobody waits for the guest, and the deletion must not wait for one that does not come back
    async with evacuate.sparing_dead_hosts(ctx, moves=True):
        with suppress(UnknownGuest):  # a guest that has vanished, see `failed`
            plan, bindings = await appear(ctx, migration, migration.source_host)
            await ctx.commit(defining.plugged, bindings, plan.guest.host, ctx.now)


async def appear(ctx: Context, migration: Migration, host: str) -> tuple[defining.Plan, defining.Bindings]:
    """Put the guest on this host, to which its server already points; it runs unless it was off before.

    Raises UnknownGuest, HostDown: one that cannot be moved would be made anew, with other disks than it had.
    """
    if moves(migration):
        await storage.join(ctx, host)
    server = await ctx.read(servers.get, ctx.resource_id)
    if server.image_id or migration.old_flavor["ephemeral"]:
        await ctx.drivers.hypervisor.observe(ctx.resource_id)
    plan = await ctx.read(defining.plan, server, ctx.drivers.image_path, is_made=True)
    bindings = await defining.define(ctx, plan)
    if not migration.was_stopped:
        await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)
    return plan, bindings


async def leave(ctx: Context, migration: Migration, host: str) -> None:
    """Remove the guest's ports and volumes from this host; `appear` takes the guest away with its disk."""
    if moves(migration):
        for port_id in await ctx.read(guests.plugged, ctx.resource_id):
            await plugging.unplug(ctx, port_id, host)
        await storage.leave(ctx, host)


# -- finish


async def finish(ctx: Context) -> Memo:
    migration = await ctx.read(migrations.get, ctx.args["migration_id"])
    plan, bindings = await appear(ctx, migration, migration.new_host)
    if moves(migration):
        for port_id in bindings:
            await plugging.unplug(ctx, port_id, migration.source_host)
    try:
        await ctx.commit(resized, ctx.resource_id, migration, bindings, ctx.now)
    except Conflict:
        await defining.look_again(ctx, bindings, plan.guest.host)
        raise
    return None


def resized(conn: Connection, server_id: str, migration: Migration, bindings: defining.Bindings, now: datetime) -> None:
    """Raises Conflict, Cancelled."""
    defining.plugged(conn, bindings, migration.new_host, now)
    migrations.try_move(conn, migration.id, "finished", now)
    name = "resized, off" if migration.was_stopped else "resized"
    if not servers.try_move(conn, server_id, name, now, waiting_since=now):
        raise Cancelled(f"server {server_id} is not being resized any more")


async def unfinish(ctx: Context) -> None:
    migration = await ctx.read(migrations.get, ctx.args["migration_id"])
    if migration.status not in migrations.OPEN:
        return
    async with evacuate.sparing_dead_hosts(ctx, moves=True):
        try:
            await ctx.drivers.hypervisor.ensure_stopped(ctx.resource_id, 0.0)
        except UnknownGuest:
            pass
        except HostDown:
            # If it never came here, then its server is to be recorded where it is, with the host that has died.
            if await evacuate.whereabouts(ctx, migration) != migration.source_host:
                raise
        await leave(ctx, migration, migration.new_host)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """The server is as it was, with a fault; in error, if its guest has vanished."""
    if not migrations.try_move(conn, task.args["migration_id"], "failed", now):
        return
    resizing.count_one(conn, task.resource_id, now)
    servers.fail(conn, task.resource_id, "broken" if task.failed_by(UnknownGuest) else "failed", error, now)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By a deletion, whose task state stays, or by an operator: then there is no task any more."""
    migrations.try_move(conn, task.args["migration_id"], "failed", now)
    resizing.count_one(conn, task.resource_id, now)
    servers.try_move(conn, task.resource_id, "resize cancelled", now)


# -- confirm and revert


def confirm(conn: Connection, task: Task, now: datetime) -> None:
    """Free the share of the old place; the guest itself has left it already."""
    server_id, migration_id = task.resource_id, task.args["migration_id"]
    claims.release(conn, migration_id)
    migrations.try_move(conn, migration_id, "confirmed", now)
    is_off = servers.get(conn, server_id).power_state == SHUTDOWN
    servers.try_move(conn, server_id, "confirmed, off" if is_off else "confirmed", now)
    resizing.count_one(conn, server_id, now)


def go_back(conn: Connection, server_id: str, migration_id: str, now: datetime) -> None:
    resizing.point(conn, migrations.get(conn, migration_id), now, forward=False)


async def finish_revert(ctx: Context) -> Memo:
    migration = await ctx.read(migrations.get, ctx.args["migration_id"])
    try:
        plan, bindings = await appear(ctx, migration, migration.source_host)
    except HostDown:
        ctx.remember(stays=await evacuate.whereabouts(ctx, migration) == migration.new_host)
        raise
    try:
        await ctx.commit(reverted, ctx.resource_id, migration, bindings, ctx.now)
    except Conflict:
        await defining.look_again(ctx, bindings, plan.guest.host)
        raise
    return None


def reverted(
    conn: Connection, server_id: str, migration: Migration, bindings: defining.Bindings, now: datetime
) -> None:
    """Raises Conflict."""
    defining.plugged(conn, bindings, migration.source_host, now)
    give_back(conn, server_id, migration.id)
    migrations.try_move(conn, migration.id, "reverted", now)
    servers.try_move(conn, server_id, "reverted, off" if migration.was_stopped else "reverted", now)
    resizing.count_one(conn, server_id, now)


def end_failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """Nobody knows where the guest is: an administrator has to look. It may be known that it has not come back."""
    if task.memo.get("finish", {}).get("stays"):
        resizing.point(conn, migrations.get(conn, task.args["migration_id"]), now, forward=True)
    give_up(conn, task, now)
    servers.fail(conn, task.resource_id, "broken", error, now)


def give_up(conn: Connection, task: Task, now: datetime) -> None:
    """The migration is over. The server keeps its share of the host that it points to until it is deleted."""
    migration, server = migrations.get(conn, task.args["migration_id"]), servers.find(conn, task.resource_id)
    before = migration.source_host, migration.old_flavor_id
    if server is not None and (server.host, server.flavor_id) == before:
        give_back(conn, server.id, migration.id)
    claims.release(conn, migration.id)
    migrations.try_move(conn, migration.id, "failed", now)
    resizing.count_one(conn, task.resource_id, now)


def confirm_cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By a deletion, or by an operator: then the resize can be confirmed or reverted again."""
    migrations.try_move(conn, task.args["migration_id"], "confirm cancelled", now)


def revert_cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By a deletion, whose task state stays, or by an operator: then nobody knows where the guest is, as above."""
    give_up(conn, task, now)
    servers.try_move(conn, task.resource_id, "revert cancelled", now)
