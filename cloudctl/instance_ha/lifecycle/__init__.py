"""The workflows of instance high availability: for each kind of fault, the tasks that the configuration lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve

from cloudctl.db import Connection
from cloudctl.instance_ha import evacuation, notifications, recovery
from cloudctl.instance_ha.kinds import OF_HOST, OF_INSTANCE, OF_PROCESS, RECOVER
from cloudctl.instance_ha.lifecycle import returning
from cloudctl.instance_ha.lifecycle.beginning import begin
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.recovery import FAILURE, SUCCESS, NotDone, Over, Recovery, RecoveryTask, Run
from cloudctl.instance_ha.tables import ERROR, FAILED, FINISHED, OPEN
from cloudctl.tasks import Context, Step, Transaction, Wait, Workflow
from cloudctl.tasks.workflow import Memo, Task

_HERE = "cloudctl.instance_ha.lifecycle"
_SHIPPED = (
    RecoveryTask("disable_compute_service", "DisableComputeServiceTask", f"{_HERE}.host:disable_compute_service"),
    RecoveryTask("fence_host", "FenceHostTask", f"{_HERE}.host:fence_host"),
    RecoveryTask("prepare_HA_enabled_instances", "PrepareHAEnabledInstancesTask", f"{_HERE}.host:prepare_instances"),
    RecoveryTask("evacuate_instances", "EvacuateInstancesTask", f"{_HERE}.host:evacuate_instances"),
    RecoveryTask("stop_instance", "StopInstanceTask", f"{_HERE}.instance:stop_instance"),
    RecoveryTask("start_instance", "StartInstanceTask", f"{_HERE}.instance:start_instance"),
    RecoveryTask("move_instance", "MoveInstanceTask", f"{_HERE}.instance:move_instance"),
    RecoveryTask("confirm_instance_active", "ConfirmInstanceActiveTask", f"{_HERE}.instance:confirm_instance_active"),
    RecoveryTask("disable_compute_node", "DisableComputeNodeTask", f"{_HERE}.process:disable_compute_node"),
    RecoveryTask(
        "confirm_compute_node_disabled", "ConfirmComputeNodeDisabledTask", f"{_HERE}.process:confirm_disabled"
    ),
)
SHIPPED = {task.name: task for task in _SHIPPED}


def workflows(options: InstanceHaOptions) -> tuple[Workflow, ...]:
    """Raises ConfigError for tasks that do not exist."""
    lists = {
        OF_HOST: options.host_tasks,
        OF_INSTANCE: options.instance_tasks,
        OF_PROCESS: options.process_tasks,
    }
    return (*(_workflow(kind, names, options) for kind, names in lists.items()), returning.WORKFLOW)


def _workflow(kind: str, names: Sequence[str], options: InstanceHaOptions) -> Workflow:
    found = recovery.chosen(names, SHIPPED, f"instance_ha.{kind}_tasks")
    first = RecoveryTask("begin", "", "")
    steps = [
        _step(first, begin, options),
        *(_step(task, run, options) for task, run in found),
        Step("end", Transaction(end)),
    ]
    # A recovery that stood at a task which has been taken from the list since goes through those that are left.
    steps[1] = evolve(steps[1], aliases=tuple(name for name in SHIPPED if name not in names))
    return Workflow(RECOVER[kind], steps, on_failure=failed, on_cancel=cancelled)


def _step(task: RecoveryTask, run: Run, options: InstanceHaOptions) -> Step:
    async def do(ctx: Context) -> Memo | Wait:
        notification = await ctx.read(notifications.get, ctx.resource_id)
        if notification.status not in OPEN:
            return None
        if notification.status == ERROR:
            await ctx.write(notifications.try_move, notification.id, "run", ctx.now, held=False, message=None)
        try:
            outcome = await run(Recovery(ctx, options, notification, task.title))
        except Over as over:
            await ctx.commit(_over, ctx.task, task.title, over, ctx.now)
            return None
        except NotDone as error:
            again = error.waits or _failures(ctx, notification.tries) <= options.retries
            await ctx.write(_not_done, ctx.task, task.title, error, again, ctx.now)
            return Wait(options.process_unfinished_notifications_interval) if again else None
        if outcome is None:
            await ctx.commit(_done, notification.id, task.title, ctx.now)
        return outcome

    return Step(task.name, do)


def _done(conn: Connection, notification_id: str, title: str, now: datetime) -> None:
    """Go on to the next task; what this one waited for has come."""
    notifications.try_move(conn, notification_id, "run", now, held=False, message=None)
    if title:
        recovery.note(conn, notification_id, title, SUCCESS, "Done", 1.0, now)


def _over(conn: Connection, task: Task, title: str, over: Over, now: datetime) -> None:
    if title:
        recovery.note(conn, task.resource_id, title, SUCCESS, str(over), 1.0, now)
    name = "finish" if over.status == FINISHED else "ignore"
    notifications.try_move(conn, task.resource_id, name, now, message=str(over))


def _failures(ctx: Context, tries: int) -> int:
    """How many tries have failed, this one included; those that only wait are none. The same if it is called again."""
    known = ctx.memo.get(ctx.step, {}).get("failed", [])
    ctx.remember(failed=sorted({*known, tries}))
    return sum(len(each.get("failed", ())) for each in ctx.memo.values() if isinstance(each, dict))


def _not_done(conn: Connection, task: Task, title: str, error: NotDone, again: bool, now: datetime) -> None:
    """`again`: it is tried again."""
    notification = notifications.get(conn, task.resource_id)
    name = "try later" if again else "fail"
    held, tries = again and error.waits, notification.tries + 1
    notifications.try_move(conn, notification.id, name, now, message=str(error), held=held, tries=tries)
    recovery.note(conn, notification.id, title, FAILURE, str(error), 0.0, now)


def end(conn: Connection, task: Task, now: datetime) -> None:
    notifications.try_move(conn, task.resource_id, "finish", now, message=None)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    notification = notifications.find(conn, task.resource_id)
    if notification is None:
        return
    waited = f"; it waited: {notification.message}" if notification.held and notification.message else ""
    notifications.try_move(conn, notification.id, "fail", now, message=f"{error}{waited}")
    evacuation.settle(conn, notification, now)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """By an operator."""
    failed(conn, task, f"cancelled ({FAILED})", now)
