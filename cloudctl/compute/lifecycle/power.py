"""Start, stop, reboot, pause and suspend. Reference: compute-states.md, sections 3 and 4.5.

Each is one step that ensures an end; a failure leaves the server in the state that it had, with a fault.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cloudctl.compute import kinds, servers
from cloudctl.compute.options import ComputeOptions
from cloudctl.db import Connection
from cloudctl.tasks import Context, Kind, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task


async def start(ctx: Context) -> Memo:
    await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)
    await ctx.commit(servers.try_move, ctx.resource_id, "started", ctx.now)
    return None


async def reboot(ctx: Context) -> Memo:
    # The task's id: a repeat after a crash is the same reboot.
    await ctx.drivers.hypervisor.ensure_rebooted(ctx.resource_id, str(ctx.task.id), bool(ctx.args.get("hard")))
    await ctx.commit(servers.try_move, ctx.resource_id, "rebooted", ctx.now)
    return None


async def pause(ctx: Context) -> Memo:
    await ctx.drivers.hypervisor.ensure_paused(ctx.resource_id)
    await ctx.commit(servers.try_move, ctx.resource_id, "paused", ctx.now)
    return None


async def unpause(ctx: Context) -> Memo:
    await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)
    await ctx.commit(servers.try_move, ctx.resource_id, "unpaused", ctx.now)
    return None


async def suspend(ctx: Context) -> Memo:
    await ctx.drivers.hypervisor.ensure_suspended(ctx.resource_id)
    await ctx.commit(servers.try_move, ctx.resource_id, "suspended", ctx.now)
    return None


async def resume(ctx: Context) -> Memo:
    await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)
    await ctx.commit(servers.try_move, ctx.resource_id, "resumed", ctx.now)
    return None


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """Back to no task, in the state that it had."""
    servers.fail(conn, task.resource_id, "failed", error, now)


def reboot_failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """Nobody knows whether it runs: after a hard reboot that is an ERROR."""
    servers.fail(conn, task.resource_id, "broken" if task.args.get("hard") else "failed", error, now)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By a delete, whose task state stays, or by an operator: then there is no task any more."""
    servers.try_move(conn, task.resource_id, "power cancelled", now)


def stop(options: ComputeOptions) -> Workflow:
    async def stop_guest(ctx: Context) -> Memo:
        await ctx.drivers.hypervisor.ensure_stopped(ctx.resource_id, options.shutdown_timeout)
        await ctx.commit(servers.try_move, ctx.resource_id, "stopped", ctx.now)
        return None

    return _workflow(kinds.STOP, stop_guest, failed)


def _workflow(kind: Kind, do: Any, on_failure: Any) -> Workflow:
    step = kind.name.rpartition(".")[2]
    return Workflow(kind, (Step(step, do),), on_failure=on_failure, on_cancel=cancelled)


START = _workflow(kinds.START, start, failed)
REBOOT = _workflow(kinds.REBOOT, reboot, reboot_failed)
PAUSE = _workflow(kinds.PAUSE, pause, failed)
UNPAUSE = _workflow(kinds.UNPAUSE, unpause, failed)
SUSPEND = _workflow(kinds.SUSPEND, suspend, failed)
RESUME = _workflow(kinds.RESUME, resume, failed)
