"""Live migration: the guest goes to another host and does not stop.

schedule (claim the new place, the migration keeps the old one) → prepare (its volumes and ports are on both hosts) →
move → leave (they are only on the new one). Once the guest has moved there is no way back, even if nobody was told:
undoing checks where it is, and cleans up behind it. Reference: compute-states.md, section 3.

`args`: `migration_id`; `forced`, whether the requested host is taken whatever the filters say; `disks`, as in
`ensure_migrated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import evolve, frozen

from cloudctl.compute import block_devices, guests, kinds, migrations, networking, placing, servers
from cloudctl.compute.lifecycle import defining, evacuate
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.tables import BlockDevice, Migration, Server
from cloudctl.db import Connection
from cloudctl.drivers.errors import Aborted, DriverError, HostDown, UnknownGuest
from cloudctl.drivers.hypervisors import out_of_reach
from cloudctl.network import plugging, ports
from cloudctl.placement import claims, hosts
from cloudctl.tasks import Context, Step, Transient, Workflow
from cloudctl.tasks.workflow import Cancelled, Memo, Task
from cloudctl.volume import attachments


def workflows(options: ComputeOptions) -> tuple[Workflow, ...]:
    async def schedule(ctx: Context) -> Memo:
        migration = await ctx.read(migrations.get, ctx.args["migration_id"])
        far = await out_of_reach(ctx.drivers.hypervisor, migration.source_host)
        await ctx.commit(place, ctx.resource_id, migration.id, ctx.args["forced"], far, options, ctx.now)
        return None

    steps = (
        Step("schedule", schedule, unschedule),
        Step("prepare", prepare, unprepare),
        Step("move", move),
        Step("leave", leave),
    )
    return (
        Workflow(kinds.LIVE_MIGRATE, steps, on_failure=failed, on_cancel=cancelled),
        Workflow(kinds.ABORT_MIGRATION, (Step("abort", abort),)),
        Workflow(kinds.FORCE_MIGRATION, (Step("force", force),)),
    )


# -- schedule


def place(
    conn: Connection,
    server_id: str,
    migration_id: str,
    forced: bool,
    far: frozenset[str],
    options: ComputeOptions,
    now: datetime,
) -> None:
    """Claim the new place, on a host that is not in `far`. Raises NoValidHost."""
    server, migration = servers.get(conn, server_id), migrations.get(conn, migration_id)
    wish = placing.moved(conn, server, migration.asked_host, forced=forced, out_of_reach=far)
    claims.hand_over(conn, server_id, migration_id)
    host = claims.claim(conn, server_id, server.project_id, wish, placing.weights(options))
    migrations.try_move(conn, migration_id, "prepare", now, dest_host=host.name)


async def unschedule(ctx: Context) -> None:
    await ctx.commit(give_back, ctx.resource_id, ctx.args["migration_id"])


def give_back(conn: Connection, server_id: str, migration_id: str) -> None:
    """Let the server hold the place where it is, and only that. May be repeated."""
    if not claims.holding(conn, migration_id):
        return
    server, migration = servers.find(conn, server_id), migrations.get(conn, migration_id)
    if server is not None and server.host == migration.dest_host:
        claims.release(conn, migration_id)
        return
    claims.release(conn, server_id)
    claims.hand_over(conn, migration_id, server_id)


# -- prepare


@frozen
class Trip:
    """What a migrating server has, and the hosts that it moves between."""

    server: Server
    migration: Migration
    devices: tuple[BlockDevice, ...]
    port_ids: tuple[str, ...]
    gone: frozenset[str]  # those that their owner has deleted, maybe while the driver was told to hold them


def trip(conn: Connection, server_id: str, migration_id: str) -> Trip:
    devices = [device for device, _ in guests.volumes_of(conn, server_id)]
    server = servers.get(conn, server_id)
    found = tuple(guests.plugged(conn, server_id))
    gone = frozenset(port_id for port_id in found if ports.find(conn, port_id) is None)
    return Trip(server, migrations.get(conn, migration_id), tuple(devices), found, gone)


async def prepare(ctx: Context) -> Memo:
    """Connect the server's volumes and ports to the new host. The bindings and connections are remembered."""
    going = await ctx.read(trip, ctx.resource_id, ctx.args["migration_id"])
    host = going.migration.new_host
    connections = {}
    for device in going.devices:
        connections[device.id] = dict(await ctx.drivers.volume.connect(device.volume_id, host))
    bindings = {}
    for port_id in going.port_ids:
        wiring = await ctx.read(plugging.wiring, port_id)
        if wiring is not None:
            bindings[port_id] = dict(await plugging.hold(ctx, wiring, host))
    ctx.remember(connections=connections, bindings=bindings)
    await ctx.commit(migrations.try_move, going.migration.id, "run", ctx.now)
    return None


async def unprepare(ctx: Context) -> None:
    """Leave nothing of the server on the host that it is not on."""
    migration = await ctx.read(migrations.get, ctx.args["migration_id"])
    if migration.status not in migrations.OPEN:
        # While this was held, the server was evacuated, maybe to the very host that it was to go to.
        going = await ctx.read(trip, ctx.resource_id, migration.id)
        if not has_moved(going.server, migration):
            await clean(ctx, going, migration.new_host)
        return
    async with evacuate.sparing_dead_hosts(ctx, moves=True):
        server = await ctx.read(servers.get, ctx.resource_id)
        may_have_moved = "prepare" in ctx.memo and not has_moved(server, migration)
        try:
            await ctx.drivers.hypervisor.ensure_migration_aborted(ctx.resource_id)
        except HostDown:
            # It may have arrived on the host that has died: then its server is to be recorded there.
            if not may_have_moved or await evacuate.whereabouts(ctx, migration) != migration.new_host:
                raise
        if may_have_moved and await evacuate.whereabouts(ctx, migration) == migration.new_host:
            await ctx.write(arrived, ctx.resource_id, migration.id, ctx.memo["prepare"], ctx.now)
    going = await ctx.read(trip, ctx.resource_id, migration.id)
    await clean(ctx, going, None if has_moved(going.server, going.migration) else going.migration.new_host)


async def clean(ctx: Context, going: Trip, host: str | None) -> None:
    """`host` None: the one that the server has left."""
    host = host or going.migration.source_host
    for port_id in going.port_ids:
        await plugging.unplug(ctx, port_id, None if port_id in going.gone else host)
    for device in going.devices:
        if not await ctx.read(attachments.host_is_used, device.volume_id, host, device.attachment_id or ""):
            await ctx.drivers.volume.disconnect(device.volume_id, host)


# -- move


async def move(ctx: Context) -> Memo:
    told = ctx.memo["prepare"]
    plan = await ctx.read(planned, ctx.resource_id, ctx.args["migration_id"], told, ctx.drivers.image_path)
    try:
        # A task submitted by the previous release says nothing about disks.
        await ctx.drivers.hypervisor.ensure_migrated(plan.guest, ctx.args.get("disks"))
    except Aborted as error:
        raise Cancelled(str(error)) from error
    except DriverError as error:
        if isinstance(error, Transient) or not await has_arrived(ctx, plan.guest.host):
            raise
    await ctx.commit(arrived, ctx.resource_id, ctx.args["migration_id"], told, ctx.now)
    return None


async def has_arrived(ctx: Context, host: str) -> bool:
    """Whether the guest is on this host: the answer may be lost although it has arrived."""
    try:
        return bool((await ctx.drivers.hypervisor.observe(ctx.resource_id)).host == host)
    except UnknownGuest:
        return False


def planned(
    conn: Connection, server_id: str, migration_id: str, told: Mapping[str, Any], image_path: Any
) -> defining.Plan:
    """The guest as it is to be on its new host."""
    server, migration = servers.get(conn, server_id), migrations.get(conn, migration_id)
    plan = defining.plan(conn, server, image_path, is_made=True)
    by_volume = {
        device.volume_id: told["connections"][device.id]
        for device in block_devices.of_server(conn, server_id)
        if device.id in told["connections"]
    }
    volumes = tuple(
        evolve(each, info=by_volume[each.volume_id]) for each in plan.guest.volumes if each.volume_id in by_volume
    )
    plugs = tuple(
        evolve(each, binding=told["bindings"][each.id]) for each in plan.guest.ports if each.id in told["bindings"]
    )
    return evolve(plan, guest=evolve(plan.guest, host=migration.new_host, volumes=volumes, ports=plugs))


def has_moved(server: Server | None, migration: Migration) -> bool:
    """Whether the server has moved, by the records."""
    return server is not None and server.host == migration.dest_host


def arrived(conn: Connection, server_id: str, migration_id: str, told: Mapping[str, Any], now: datetime) -> None:
    """Record that the server, its ports and its volumes are on the new host."""
    server, migration = servers.get(conn, server_id), migrations.get(conn, migration_id)
    host = hosts.find(conn, migration.new_host)
    zone = server.zone if host is None else host.zone
    servers.change(conn, server, {"host": migration.new_host, "zone": zone}, now)
    networking.bind(conn, server, migration.new_host, zone or "", now)
    for port_id, binding in told["bindings"].items():
        plugging.plugged(conn, port_id, migration.new_host, binding, now)
    for device, attachment in guests.volumes_of(conn, server_id):
        if device.id in told["connections"]:
            info = told["connections"][device.id]
            attachments.complete(conn, attachment.id, info, migration.new_host, now, device.device_name)


async def leave(ctx: Context) -> Memo:
    going = await ctx.read(trip, ctx.resource_id, ctx.args["migration_id"])
    await clean(ctx, going, None)
    await ctx.commit(left, ctx.resource_id, going.migration.id, ctx.now)
    return None


def left(conn: Connection, server_id: str, migration_id: str, now: datetime) -> None:
    claims.release(conn, migration_id)
    migrations.try_move(conn, migration_id, "completed", now)
    servers.try_move(conn, server_id, "migrated", now)


# -- ends


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """The server continues where it is: on the new host, if it had moved before something failed."""
    server, migration = servers.find(conn, task.resource_id), migrations.get(conn, task.args["migration_id"])
    if has_moved(server, migration):
        migrations.try_move(conn, migration.id, "completed", now)
        servers.try_move(conn, task.resource_id, "migrated", now)
        return
    if migrations.try_move(conn, migration.id, "did not arrive", now):
        servers.fail(conn, task.resource_id, "failed", error, now)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By its user, by a deletion, whose task state stays, or by an operator."""
    server, migration = servers.find(conn, task.resource_id), migrations.get(conn, task.args["migration_id"])
    migrations.try_move(conn, migration.id, "completed" if has_moved(server, migration) else "cancelled", now)
    servers.try_move(conn, task.resource_id, "migrated", now)


# -- what is done to a migration under way


async def abort(ctx: Context) -> Memo:
    if (server_id := await travelling(ctx)) is not None:
        await ctx.drivers.hypervisor.ensure_migration_aborted(server_id)
    return None


async def force(ctx: Context) -> Memo:
    if (server_id := await travelling(ctx)) is not None:
        await ctx.drivers.hypervisor.ensure_migration_forced(server_id)
    return None


async def travelling(ctx: Context) -> str | None:
    """The server of a migration; None if that has ended: the server may be in another one by now."""
    migration = await ctx.read(migrations.get, ctx.resource_id)
    return migration.server_id if migration.status in migrations.ON_ITS_WAY else None
