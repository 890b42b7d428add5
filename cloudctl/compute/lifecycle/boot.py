"""Boot: from an accepted request to a running guest. Reference: compute-states.md, section 4.1.

schedule (claim a host) → storage (only for servers with volumes: make, reserve, connect them) → spawn (ports, guest).
The spawn is one step, because everything in it is an ensure and each boundary between steps costs a transaction.

If a host fails, another one is tried while attempts remain: everything but the server's ports, volumes and wishes is
undone in between, but for the guest on a host that an administrator, or a fence, has declared dead. When the attempts
are used up the server is in ERROR, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from cloudctl.compute import block_devices, deletion, guests, networking, placing, servers
from cloudctl.compute.kinds import BOOT, BOOT_WITH_VOLUMES
from cloudctl.compute.lifecycle import defining, storage
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.states import DELETING
from cloudctl.db import Connection
from cloudctl.drivers.specs import PortBinding
from cloudctl.errors import Conflict
from cloudctl.network import plugging
from cloudctl.placement import claims, hosts
from cloudctl.tasks import Context, Kind, Step, Transaction, Workflow
from cloudctl.tasks.workflow import Cancelled, Memo, Reason, Task

EXHAUSTED = (
    "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures for instance "
    "{server_id}. {why}"
)


def boots(options: ComputeOptions) -> tuple[Workflow, Workflow]:
    """For servers without volumes, and for those with some."""

    def schedule(placed: str) -> Step:
        def claim(conn: Connection, task: Task, now: datetime) -> None:
            place(conn, task.resource_id, placing.failed_before(task), placed, options, now)

        return Step("schedule", Transaction(claim), unschedule)

    def workflow(kind: Kind, *steps: Step) -> Workflow:
        return Workflow(
            kind,
            (*steps, Step("spawn", spawn, unspawn)),
            restarts=options.max_attempts - 1,
            on_failure=failed,
            on_cancel=cancelled,
        )

    connecting = Step("storage", storage.connect, storage.disconnect)
    return workflow(BOOT, schedule("placed")), workflow(BOOT_WITH_VOLUMES, schedule("placed, with volumes"), connecting)


# -- schedule


def place(
    conn: Connection, server_id: str, failed: Iterable[str], placed: str, options: ComputeOptions, now: datetime
) -> None:
    """Claim a host, and record it on the server and its ports. Raises NoValidHost, Cancelled."""
    server = servers.get(conn, server_id)
    wish = placing.wish(conn, server, failed)
    host = claims.claim(conn, server_id, server.project_id, wish, placing.weights(options), server.user_id)
    storage.go_on(conn, server_id, placed, now, host=host.name, zone=host.zone)
    networking.bind(conn, server, host.name, host.zone, now, all_there=True)


async def unschedule(ctx: Context) -> None:
    server = await ctx.read(servers.find, ctx.resource_id)
    if server is not None and server.host is not None:
        # The next attempt leaves this host out.
        ctx.remember(host=server.host)
    await ctx.write(give_back, ctx.resource_id, ctx.reason is not Reason.CANCELLED, ctx.now)


def give_back(conn: Connection, server_id: str, is_hosts_fault: bool, now: datetime) -> None:
    """Give up the host, and go back to scheduling."""
    server = servers.find(conn, server_id)
    if server is None or server.deleted_at is not None:
        return
    if server.host is not None and is_hosts_fault:
        hosts.build_failed(conn, server.host)
    claims.release(conn, server_id)
    servers.try_move(conn, server_id, "leave the host", now, zone=server.scheduling.get("zone"))
    servers.try_move(conn, server_id, "schedule again", now)


# -- spawn


async def spawn(ctx: Context) -> Memo:
    found = await ctx.read(planned, ctx.resource_id, ctx.drivers.image_path)
    host = found.guest.host
    if placing.has_left_one_behind(ctx.task):
        await defining.drop_old(ctx, host)
    bindings = await defining.define(ctx, found)
    await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)
    try:
        await ctx.commit(running, ctx.resource_id, host, bindings, bool(found.guest.volumes), ctx.now)
    except Conflict:
        await defining.look_again(ctx, bindings, host)
        raise
    return None


def planned(conn: Connection, server_id: str, image_path: Any) -> defining.Plan:
    """As `plan`. Raises Conflict if a port is gone."""
    found = plan(conn, server_id, image_path)
    if found.gone:
        raise Conflict(f"Port {found.gone[0]} is gone.")
    return found


def plan(conn: Connection, server_id: str, image_path: Any) -> defining.Plan:
    """Raises Cancelled if a deletion has begun in the meantime."""
    server = servers.get(conn, server_id)
    if server.task_state == DELETING or server.host is None:
        raise Cancelled(f"server {server_id} is being deleted")
    return defining.plan(conn, server, image_path)


def running(
    conn: Connection,
    server_id: str,
    host: str,
    bindings: Mapping[str, PortBinding],
    has_volumes: bool,
    now: datetime,
) -> None:
    """The server is ACTIVE. The guest has its password, so it is forgotten here. Raises Cancelled, Conflict."""
    defining.plugged(conn, bindings, host, now)
    storage.go_on(conn, server_id, "booted", now, launched_at=now, admin_password=None)
    if has_volumes:
        block_devices.all_attached(conn, server_id)
    hosts.build_succeeded(conn, host)


async def unspawn(ctx: Context) -> None:
    await defining.undefine(ctx, only_if_dead=True)
    server = await ctx.read(servers.find, ctx.resource_id)
    if server is not None and server.host is not None:
        for port_id in await ctx.read(guests.plugged, ctx.resource_id):
            await plugging.unplug(ctx, port_id, server.host)


# -- ends


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """ERROR with a fault; ports and volumes made for the server are deleted, given ones are free again."""
    server = servers.find(conn, task.resource_id)
    if server is None or server.deleted_at is not None or server.task_state == DELETING:
        return
    message = EXHAUSTED.format(server_id=server.id, why=error) if task.restarts else error
    deletion.release_devices(conn, server.id, now, task, made_only=True)
    networking.let_all_go(conn, server.id, now, task)
    servers.fail(conn, server.id, "broken", message, now, host=None, admin_password=None)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """A deletion continues from here; if an operator stopped the boot, the server must not stay in BUILD."""
    failed(conn, task, "The build was cancelled.", now)
