"""What is done when a server has died or hangs: it is started again, here or elsewhere."""

from __future__ import annotations

from datetime import datetime

from cloudctl.compute import kinds, migrations, resizing, servers
from cloudctl.compute.migrations import COLD, NewMigration
from cloudctl.compute.states import ACTIVE, ERROR, PAUSED, RESCUED, RESIZED, STOPPED
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import CloudError, NotFound
from cloudctl.instance_ha.evacuation import acting
from cloudctl.instance_ha.recovery import NotDone, Over, Recovery
from cloudctl.tasks import Kind, Wait, children
from cloudctl.tasks.tables import OPEN
from cloudctl.tasks.workflow import Task

POLL = 2.0  # seconds
# State → what somebody is doing to it, which must not be undone.
LEFT_ALONE = {PAUSED: "it is paused", RESCUED: "it is being rescued"}


async def _server(recovery: Recovery) -> Server:
    """Raises Over."""
    try:
        return await recovery.ctx.read(servers.get, recovery.notification.payload["instance_uuid"])
    except NotFound as error:
        raise Over(error.message, ignored=True) from error


async def stop_instance(recovery: Recovery) -> Wait | None:
    server = await _server(recovery)
    if server.vm_state in LEFT_ALONE:
        raise Over(LEFT_ALONE[server.vm_state], ignored=True)
    if recovery.ctx.memo.get(recovery.ctx.step, {}).get("host", server.host) != server.host:
        # Its host has died, too: whatever was wrong with it there, it has been started elsewhere.
        raise Over(f"it was moved to {server.host} meanwhile")
    recovery.ctx.remember(host=server.host)
    if server.vm_state == STOPPED and server.task_state is None:
        return None
    if await recovery.elapsed() > recovery.options.wait_period_after_power_off:
        raise NotDone(f"instance {server.id} does not stop")
    if server.vm_state == RESIZED and server.task_state is None:
        await recovery.ctx.write(_reset, server.id, recovery.ctx.now)
    elif server.vm_state in (ACTIVE, ERROR) and server.task_state is None:
        await recovery.tell(f"Stopping instance: {server.id}", 0.0)
        await recovery.ctx.write(
            _begin, recovery.ctx.task, server.id, "stop", kinds.STOP, _key(recovery), recovery.ctx.now
        )
    return Wait(POLL)


def _reset(conn: Connection, server_id: str, now: datetime) -> None:
    """Give up the possibility of reverting its resize."""
    resizing.end_all(conn, server_id, now)
    servers.move(conn, server_id, "reset", now, vm_state=ACTIVE)


def _key(recovery: Recovery) -> str:
    return f"{recovery.ctx.step}.{recovery.notification.tries}"


def _begin(conn: Connection, task: Task, server_id: str, action: str, kind: Kind, key: str, now: datetime) -> None:
    """Once per key. Raises NotDone."""
    if children.find(conn, task, key) is not None:
        return
    try:
        servers.begin(conn, acting(task, now), server_id, action)
    except CloudError as error:
        raise NotDone(error.message) from error
    children.submit(conn, task, key, kind, server_id, {})


async def start_instance(recovery: Recovery) -> Wait | None:
    """The tasks after this one see whether it worked."""
    server = await _server(recovery)
    if server.vm_state == ACTIVE and server.task_state is None:
        return None
    if server.task_state is not None:
        return Wait(POLL)
    if server.vm_state != STOPPED or await _has_ended(recovery, _key(recovery)):
        return None
    await recovery.tell(f"Starting instance: {server.id}", 0.0)
    await recovery.ctx.write(
        _begin, recovery.ctx.task, server.id, "start", kinds.START, _key(recovery), recovery.ctx.now
    )
    return Wait(POLL)


async def _has_ended(recovery: Recovery, key: str) -> bool:
    """Whether the child was begun, and is at its end or held."""
    child = await recovery.ctx.read(children.find, recovery.ctx.task, key)
    return child is not None and child.state not in OPEN


async def move_instance(recovery: Recovery) -> Wait | None:
    """A server that does not start where it is goes to another host."""
    server, ctx = await _server(recovery), recovery.ctx
    if server.task_state is not None:
        return Wait(POLL)
    move, confirm, start = (f"{what}.{_key(recovery)}" for what in ("move", "confirm", "start"))
    if server.vm_state == ACTIVE:
        return None
    if server.vm_state == RESIZED:
        await ctx.write(_confirm, ctx.task, server.id, confirm, ctx.now)
        return Wait(POLL)
    for key in (move, confirm, start):
        if (error := await ctx.child_error(key)) is not None:
            raise NotDone(f"instance {server.id} starts nowhere: {error}")
    if server.vm_state != STOPPED:
        raise NotDone(f"instance {server.id} is {server.vm_state}")
    if await _has_ended(recovery, start):
        raise NotDone(f"instance {server.id} was started, and is off again")
    await recovery.tell(f"Moving instance: {server.id}", 0.5)
    await ctx.write(_move_or_start, ctx.task, server.id, move, start, ctx.now)
    return Wait(POLL)


def _move_or_start(conn: Connection, task: Task, server_id: str, move: str, start: str, now: datetime) -> None:
    if children.find(conn, task, move) is not None:
        _begin(conn, task, server_id, "start", kinds.START, start, now)
        return
    caller = acting(task, now)
    row = servers.begin(conn, caller, server_id, "migrate")
    migration = migrations.create(conn, caller, NewMigration(row, COLD, row.flavor_id, row.flavor))
    children.submit(conn, task, move, kinds.MIGRATE, server_id, {"migration_id": migration.id})


def _confirm(conn: Connection, task: Task, server_id: str, key: str, now: datetime) -> None:
    if children.find(conn, task, key) is None:
        found = migrations.take(conn, server_id, now, "confirm")
        children.submit(conn, task, key, kinds.CONFIRM_RESIZE, server_id, {"migration_id": found.id})


async def confirm_instance_active(recovery: Recovery) -> Wait | None:
    server = await _server(recovery)
    if server.vm_state == ACTIVE and server.task_state is None:
        return None
    if await recovery.elapsed() > recovery.options.wait_period_after_power_on:
        raise NotDone(f"instance {server.id} is not active: {server.fault_message or server.vm_state}")
    return Wait(POLL)
