"""Start, stop, reboot, pause and suspend. Reference: compute-states.md, sections 3 and 4.5.

Each is one step that ensures an end; a failure leaves the server in the state that it had, with a fault.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cloudctl.compute import kinds, servers
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.states import (
    ACTIVE,
    ERROR,
    PAUSED,
    PAUSING,
    POWER_PAUSED,
    POWERING_OFF,
    POWERING_ON,
    REBOOTING,
    REBOOTING_HARD,
    RESUMING,
    RUNNING,
    SHUTDOWN,
    STOPPED,
    SUSPENDED,
    SUSPENDING,
    UNPAUSING,
)
from cloudctl.db import Connection
from cloudctl.tasks import Context, Kind, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task


def settle(conn: Connection, server_id: str, now: datetime, doing: tuple[str, ...], vm_state: str, power: int) -> None:
    """The work is done. If a delete has come meanwhile, its task state stays."""
    servers.move(conn, server_id, now, {"task_state": doing}, task_state=None, vm_state=vm_state, power_state=power)


async def start(ctx: Context) -> Memo:
    await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)
    await ctx.commit(settle, ctx.resource_id, ctx.now, (POWERING_ON,), ACTIVE, RUNNING)
    return None


async def reboot(ctx: Context) -> Memo:
    # The task's id: a repeat after a crash is the same reboot.
    await ctx.drivers.hypervisor.ensure_rebooted(ctx.resource_id, str(ctx.task.id), bool(ctx.args.get("hard")))
    await ctx.commit(settle, ctx.resource_id, ctx.now, (*REBOOTING, *REBOOTING_HARD), ACTIVE, RUNNING)
    return None


async def pause(ctx: Context) -> Memo:
    await ctx.drivers.hypervisor.ensure_paused(ctx.resource_id)
    await ctx.commit(settle, ctx.resource_id, ctx.now, (PAUSING,), PAUSED, POWER_PAUSED)
    return None


async def unpause(ctx: Context) -> Memo:
    await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)
    await ctx.commit(settle, ctx.resource_id, ctx.now, (UNPAUSING,), ACTIVE, RUNNING)
    return None


async def suspend(ctx: Context) -> Memo:
    await ctx.drivers.hypervisor.ensure_suspended(ctx.resource_id)
    await ctx.commit(settle, ctx.resource_id, ctx.now, (SUSPENDING,), SUSPENDED, SHUTDOWN)
    return None


async def resume(ctx: Context) -> Memo:
    await ctx.drivers.hypervisor.ensure_running(ctx.resource_id)
    await ctx.commit(settle, ctx.resource_id, ctx.now, (RESUMING,), ACTIVE, RUNNING)
    return None


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """Back to no task, in the state that it had."""
    servers.fail(conn, task.resource_id, now, error, task_state=None)


def reboot_failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """Nobody knows whether it runs: after a hard reboot that is an ERROR."""
    values: dict[str, Any] = {"vm_state": ERROR} if task.args.get("hard") else {}
    servers.fail(conn, task.resource_id, now, error, task_state=None, **values)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By a delete, whose task state stays, or by an operator: then there is no task any more."""
    doing = (POWERING_ON, POWERING_OFF, *REBOOTING, *REBOOTING_HARD, PAUSING, UNPAUSING, SUSPENDING, RESUMING)
    servers.move(conn, task.resource_id, now, {"task_state": doing}, task_state=None)


def stop(options: ComputeOptions) -> Workflow:
    async def stop_guest(ctx: Context) -> Memo:
        await ctx.drivers.hypervisor.ensure_stopped(ctx.resource_id, options.shutdown_timeout)
        await ctx.commit(settle, ctx.resource_id, ctx.now, (POWERING_OFF,), STOPPED, SHUTDOWN)
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
