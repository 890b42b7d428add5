"""Start, stop, reboot, pause and suspend, and deletions that can be undone.

Reference: compute-states.md, sections 3, 4.3 and 4.5.

Each ensures a result, nearly all in one step; a failure leaves the server in the state that it had, with a fault.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime

from cloudctl.compute import deletion, kinds, servers, shelving
from cloudctl.compute.lifecycle import defining, storage
from cloudctl.compute.options import ComputeOptions
from cloudctl.db import Connection
from cloudctl.drivers.errors import HostDown, UnknownGuest
from cloudctl.drivers.interfaces import IRescue
from cloudctl.errors import Conflict
from cloudctl.tasks import Context, Kind, Origin, Step, Transient, Workflow
from cloudctl.tasks.workflow import Memo, Task


def workflows(options: ComputeOptions) -> tuple[Workflow, ...]:
    async def stop(ctx: Context) -> None:
        await ctx.drivers.hypervisor.ensure_stopped(ctx.resource_id, options.shutdown_timeout)

    async def off(ctx: Context) -> Memo:
        # A host that is down keeps its guest, as with a deletion for good, which comes when the time is over. A rebuild
        # that was under way may have left none.
        with suppress(HostDown, UnknownGuest):
            await stop(ctx)
        await ctx.commit(deletion.soft_deleted, ctx.resource_id, ctx.now)
        return None

    return (
        _workflow(kinds.START, start, "started"),
        _workflow(kinds.STOP, stop, "stopped"),
        _workflow(kinds.REBOOT, reboot, "rebooted", Step("renew", cut)),
        _workflow(kinds.PAUSE, pause, "paused"),
        _workflow(kinds.UNPAUSE, run, "unpaused"),
        _workflow(kinds.SUSPEND, suspend, "suspended"),
        _workflow(kinds.RESUME, run, "resumed"),
        Workflow(kinds.SOFT_DELETE, (Step("soft_delete", off),), on_failure=not_deleted, on_cancel=deletion_cancelled),
        Workflow(kinds.RESTORE, (Step("restore", restore),), on_failure=not_restored, on_cancel=restore_cancelled),
        Workflow(kinds.CRASH_DUMP, (Step("interrupt", crash),), on_failure=not_interrupted),
    )


def _workflow(kind: Kind, ensure: Callable[[Context], Awaitable[None]], name: str, *before: Step) -> Workflow:
    """`name`: the move once the guest is as it should be."""

    async def do(ctx: Context) -> Memo:
        await ensure(ctx)
        await ctx.commit(servers.try_move, ctx.resource_id, name, ctx.now)
        return None

    step = kind.name.rpartition(".")[2]
    return Workflow(kind, (*before, Step(step, do)), on_failure=failed, on_cancel=cancelled)


async def crash(ctx: Context) -> Memo:
    # The task's id: a repeat after a crash of ours is the same interrupt.
    await ctx.drivers.hypervisor.ensure_interrupted(ctx.resource_id, str(ctx.task.id))
    return None


def not_interrupted(conn: Connection, task: Task, error: str, now: datetime) -> None:
    servers.fail(conn, task.resource_id, "fault", error, now)


async def restore(ctx: Context) -> Memo:
    # It may have been deleted while it ran from another image, which the state that it gets knows nothing of, and its
    # ports may have been deleted since.
    await start(ctx)
    await ctx.commit(restored, ctx.resource_id, ctx.now, ctx.task)
    return None


def restored(conn: Connection, server_id: str, now: datetime, by: Origin) -> None:
    """It may have been deleted while it was shelved on its host: its disk is its own again."""
    if servers.try_move(conn, server_id, "restored", now):
        shelving.forget_image(conn, servers.get(conn, server_id), now, by)


async def leave_rescue(ctx: Context) -> None:
    """The guest starts from its own disk."""
    if IRescue.providedBy(ctx.drivers.hypervisor):
        await ctx.drivers.hypervisor.ensure_unrescued(ctx.resource_id)


async def start(ctx: Context) -> None:
    # Stopped, it is no longer in error, whatever a rescue that failed has left it with.
    await leave_rescue(ctx)
    await renew(ctx)
    await run(ctx)


async def run(ctx: Context) -> None:
    await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)


async def cut(ctx: Context) -> Memo:
    """The first half of a hard reboot, a step of its own: repeated later, it would be a second one."""
    if ctx.args.get("hard"):
        # A rescue that failed may have left it with another image, and this leads out of every error.
        await leave_rescue(ctx)
        await ctx.drivers.hypervisor.ensure_stopped(ctx.resource_id, 0.0)
        await renew(ctx)
    return None


async def reboot(ctx: Context) -> None:
    # The task's id: a repeat after a crash is the same reboot.
    await ctx.drivers.hypervisor.ensure_rebooted(ctx.resource_id, str(ctx.task.id), bool(ctx.args.get("hard")))


async def renew(ctx: Context) -> None:
    """Give a guest that is off the volumes and ports that its server has: their owners may have taken some away.

    One that is not where its server is said to be stays as it is: that is a matter of moves.
    """
    server = await ctx.read(servers.get, ctx.resource_id)
    found = await ctx.drivers.hypervisor.observe(ctx.resource_id)
    if found.host != server.host:
        return
    await storage.join(ctx, found.host)
    plan = await ctx.read(defining.plan_here, server, ctx.drivers.image_path)
    bindings = await defining.define(ctx, plan)
    try:
        await ctx.write(defining.plugged, bindings, found.host, ctx.now)
    except Conflict:
        with suppress(Conflict):
            await defining.look_again(ctx, bindings, found.host)
        raise Transient("a port was bound elsewhere meanwhile") from None


async def pause(ctx: Context) -> None:
    await ctx.drivers.hypervisor.ensure_paused(ctx.resource_id)


async def suspend(ctx: Context) -> None:
    await ctx.drivers.hypervisor.ensure_suspended(ctx.resource_id)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """No task any more, in the state that it had. After a hard reboot nobody knows if it runs: that is an ERROR."""
    servers.fail(conn, task.resource_id, "broken" if task.args.get("hard") else "failed", error, now)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By a deletion, whose task state stays, or by an operator: then there is no task any more."""
    servers.try_move(conn, task.resource_id, "power cancelled", now)


def not_deleted(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """The server is there as before, unless it is being deleted for good by now."""
    servers.fail(conn, task.resource_id, "soft delete ended", error, now)


def deletion_cancelled(conn: Connection, task: Task, now: datetime) -> None:
    servers.try_move(conn, task.resource_id, "soft delete ended", now)


def not_restored(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """It waits anew for the end of its time, and does not count towards the quota."""
    servers.fail(conn, task.resource_id, "restore ended", error, now, waiting_since=now)


def restore_cancelled(conn: Connection, task: Task, now: datetime) -> None:
    servers.try_move(conn, task.resource_id, "restore ended", now, waiting_since=now)
