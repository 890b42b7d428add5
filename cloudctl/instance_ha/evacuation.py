"""The guests of a dead host: which of them go, in which order, and where to. Reference: instance-ha.md, section 6.

A guest has as many attempts as the recovery method has ways (`auto`: any host; `reserved_host`: a reserve), and as many
again whenever the recovery is retried. A guest that has arrived is not touched again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import field, frozen
from sqlalchemy import or_, select

from cloudctl import tasks
from cloudctl.compute import kinds, migrations, moving, resizing, servers
from cloudctl.compute.moving import Destination
from cloudctl.compute.states import (
    ACTIVE,
    BUILDING,
    ERROR,
    RESIZED,
    SHELVED,
    SHELVED_OFFLOADED,
    SHUTDOWN,
    SOFT_DELETED,
    STAYING,
    STOPPED,
    SUSPENDED,
)
from cloudctl.compute.tables import Migration, Server
from cloudctl.db import Connection
from cloudctl.errors import CloudError
from cloudctl.instance_ha import fencing, reserves, vmoves
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.segments import AUTO, AUTO_PRIORITY, RESERVED_HOST, RH_PRIORITY
from cloudctl.instance_ha.tables import Notification, Segment, VMove
from cloudctl.placement import hosts
from cloudctl.placement.claims import NoValidHost
from cloudctl.rest.body import truth
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.rest.policy import as_shipped
from cloudctl.tasks import Origin, children
from cloudctl.tasks.tables import DONE, OPEN, TaskRow
from cloudctl.tasks.workflow import ERROR as ERROR_CLASS
from cloudctl.tasks.workflow import Task

# Recovery method → the ways that are tried, in this order.
WAYS = {
    AUTO: (AUTO,),
    RESERVED_HOST: (RESERVED_HOST,),
    AUTO_PRIORITY: (AUTO, RESERVED_HOST),
    RH_PRIORITY: (RESERVED_HOST, AUTO),
}
HA_ENABLED = "HA_Enabled"
# They lose nothing with their host: they have no running guest.
STAYS = {
    BUILDING: "it is still being built",
    SHELVED: "it is shelved",
    SHELVED_OFFLOADED: "it is shelved",
    SOFT_DELETED: "it is deleted",
}


def is_ha_enabled(server: Server) -> bool:
    return truth(str(server.metadata.get(HA_ENABLED, ""))) is True


def acting(by: Origin, now: datetime) -> Caller:
    """The Caller that recovers: acts for the notification's sender, with the rights of an administrator."""
    identity = Identity(user_id=by.user_id, project_id=by.project_id, roles=frozenset({"admin"}))
    return Caller(identity, as_shipped(("cloudctl.compute",)), now, by.request_id)


def plan(conn: Connection, notification: Notification, options: InstanceHaOptions, now: datetime) -> Sequence[VMove]:
    """What is to be done with each server of the host: those marked as important first. May be repeated.

    One that moves from or to the host counts as its own, since its guest may be there: see `_begin`.
    """
    moving = select(Migration.server_id).where(migrations.between(notification.hostname))
    mine = or_(Server.host == notification.hostname, Server.id.in_(moving)), Server.deleted_at.is_(None)
    found = conn.execute(select(Server).where(*mine).order_by(Server.number)).all()
    ordered = sorted(found, key=lambda server: not is_ha_enabled(server))
    vmoves.plan(conn, notification, [(each, _is_off(each), _stays(each, options)) for each in ordered], now)
    return vmoves.of_notification(conn, notification.id)


def _is_off(server: Server) -> bool:
    return server.vm_state in (STOPPED, SUSPENDED) or (server.vm_state == RESIZED and server.power_state == SHUTDOWN)


def _stays(server: Server, options: InstanceHaOptions) -> str | None:
    if server.task_state not in STAYING:
        return "it is being deleted"
    if server.launched_at is None or server.vm_state in STAYS:
        return STAYS.get(server.vm_state, STAYS[BUILDING])
    if server.vm_state == ERROR and options.ignore_instances_in_error_state:
        return "it is in ERROR"
    if not options.evacuate_all_instances and not is_ha_enabled(server):
        return f"its metadata do not say {HA_ENABLED}"
    return None


# -- rounds


@frozen
class Round:
    """The result of a look at the moves. `fenced` False: nothing was done, since there is no proof."""

    fenced: bool
    under_way: int = 0
    left: Sequence[VMove] = field(factory=tuple)  # those that have not arrived and have no attempt left
    roomless: bool = False  # all of these may still arrive by themselves: for want of room, or of a host's answer
    arrived: int = 0
    all: int = 0


def advance(
    conn: Connection,
    task: Task,
    notification: Notification,
    segment: Segment,
    options: InstanceHaOptions,
    now: datetime,
) -> Round:
    """Note which moves have ended, and begin those that may. One transaction: no guest goes without a proof."""
    if not fencing.note_dead(conn, notification):
        return Round(False)
    ended = _ended(conn, task)
    ways = WAYS[segment.recovery_method]
    for vmove in vmoves.of_notification(conn, notification.id):
        if vmove.status == vmoves.ONGOING and (child := ended.get(_key(vmove))) is not None:
            _note_end(conn, notification, vmove, child, ways, options, now)
    under_way = 0
    for vmove in vmoves.of_notification(conn, notification.id):
        under_way += vmove.status == vmoves.ONGOING
    for vmove in vmoves.of_notification(conn, notification.id):
        if under_way >= options.host_failure_recovery_threads:
            break
        if _may_go(vmove, notification, ways):
            under_way += _begin(conn, task, notification, vmove, ways, options, now)
    moves = vmoves.of_notification(conn, notification.id)
    waiting = [each for each in moves if _may_go(each, notification, ways)]
    left = [each for each in moves if each.status in vmoves.UNFINISHED]
    if under_way or waiting:
        return Round(True, under_way or len(waiting), all=len(moves))
    settle(conn, notification, now)
    arrived = sum(each.status == vmoves.SUCCEEDED for each in moves)
    return Round(True, 0, left, all(each.roomless for each in left), arrived, len(moves))


def settle(conn: Connection, notification: Notification, now: datetime) -> None:
    """Once no guest is under way: reserves that got some are used, the others are given back."""
    done = vmoves.SUCCEEDED, vmoves.ONGOING
    used = {each.dest_host for each in vmoves.of_notification(conn, notification.id) if each.status in done}
    reserves.settle(conn, notification.id, frozenset(name for name in used if name), now)


def _may_go(vmove: VMove, notification: Notification, ways: Sequence[str]) -> bool:
    return vmove.status in (vmoves.PENDING, vmoves.FAILED) and vmove.attempts < len(ways) * (notification.tries + 1)


def _key(vmove: VMove) -> str:
    return f"{vmove.number}.{vmove.attempts}.{len(vmove.tried)}"


def _ended(conn: Connection, task: Task) -> Mapping[str, TaskRow]:
    """The children that are no longer open, by their keys."""
    mine = TaskRow.parent_id == task.id, TaskRow.state.not_in(OPEN)
    return {each.child_key or "": each for each in conn.execute(select(TaskRow).where(*mine))}


def _note_end(
    conn: Connection,
    notification: Notification,
    vmove: VMove,
    child: TaskRow,
    ways: Sequence[str],
    options: InstanceHaOptions,
    now: datetime,
) -> None:
    server = servers.find(conn, vmove.server_id)
    if child.state == DONE and server is not None:
        arrived = {"status": vmoves.SUCCEEDED, "dest_host": server.host, "end_time": now, "message": None}
        vmoves.change(conn, vmove, {**arrived, "roomless": False}, now)
        return
    if server is None or server.deleted_at is not None or server.task_state not in STAYING:
        vmoves.change(conn, vmove, {"status": vmoves.IGNORED, "message": "it was deleted", "end_time": now}, now)
        return
    roomless = child.memo.get(ERROR_CLASS) == NoValidHost.__name__
    changes = {
        "status": vmoves.FAILED,
        "message": child.error or child.state,
        "end_time": now,
        "roomless": roomless,
        "attempts": vmove.attempts + 1,
    }
    if roomless and ways[vmove.attempts % len(ways)] == RESERVED_HOST and vmove.dest_host is not None:
        tried = [*vmove.tried, vmove.dest_host]
        changes["tried"] = tried
        if reserves.take(conn, notification, options, frozenset(tried), now) is not None:
            # There is another reserve: this way is not exhausted.
            changes["attempts"] = vmove.attempts
    vmoves.change(conn, vmove, {**changes, "dest_host": None}, now)


def _begin(
    conn: Connection,
    task: Task,
    notification: Notification,
    vmove: VMove,
    ways: Sequence[str],
    options: InstanceHaOptions,
    now: datetime,
) -> bool:
    """Returns whether it is under way."""
    server = servers.find(conn, vmove.server_id)
    if server is None or server.deleted_at is not None or server.task_state not in STAYING:
        vmoves.change(conn, vmove, {"status": vmoves.IGNORED, "message": "it was deleted"}, now)
        return False
    if server.host != vmove.source_host:
        if is_held := _is_moving(conn, server.id, vmove.source_host):
            if tasks.has_open(conn, kinds.SERVER, server.id):
                # It arrives, or turns back.
                return False
        elif not vmove.attempts or server.vm_state != ERROR:
            # Somebody has moved it, or has brought it up where an attempt has failed.
            vmoves.change(conn, vmove, {"status": vmoves.IGNORED, "message": f"it is on {server.host}"}, now)
            return False
        elif server.task_state is not None:
            # Somebody is at it.
            return False
        answers = _answers(conn, server.host)
        if is_held or not answers:
            why = f"it may run on {server.host}, which does not answer and is not fenced for it"
            if answers:
                why = f"it may run on {server.host}: its move is held (cloudctl tasks)"
            # As one without room: it is looked at again until that host is back, or has been recovered from.
            waits = {"status": vmoves.FAILED, "message": why, "roomless": True, "attempts": vmove.attempts + 1}
            vmoves.change(conn, vmove, waits, now)
            return False
    host = None
    if ways[vmove.attempts % len(ways)] == RESERVED_HOST:
        host = reserves.take(conn, notification, options, frozenset(vmove.tried), now)
        if host is None:
            failed = {"status": vmoves.FAILED, "message": "there is no reserved host", "roomless": False, "tried": []}
            vmoves.change(conn, vmove, {**failed, "attempts": vmove.attempts + 1}, now)
            return False
    try:
        with conn.begin_nested():
            _evacuate(conn, task, vmove, server, host, now)
    except CloudError as error:
        failed = {"status": vmoves.FAILED, "message": error.message, "roomless": False}
        vmoves.change(conn, vmove, {**failed, "attempts": vmove.attempts + 1}, now)
        return False
    start = {"status": vmoves.ONGOING, "start_time": now, "end_time": None, "message": None, "dest_host": host}
    vmoves.change(conn, vmove, start, now)
    return True


def _is_moving(conn: Connection, server_id: str, host: str) -> bool:
    """Whether its guest may be on this host, though its record names another one."""
    mine = select(Migration.id).where(Migration.server_id == server_id, migrations.between(host))
    return conn.execute(mine.limit(1)).first() is not None


def _answers(conn: Connection, name: str | None) -> bool:
    host = hosts.find(conn, name or "")
    return host is not None and hosts.is_alive(host)


def _evacuate(conn: Connection, task: Task, vmove: VMove, server: Server, host: str | None, now: datetime) -> None:
    """Raises CloudError."""
    caller = acting(task, now)
    if server.vm_state not in (ACTIVE, STOPPED, ERROR):
        # What was frozen in memory is lost, and a resize can no longer be reverted.
        if server.vm_state == RESIZED:
            resizing.end_all(conn, server.id, now)
        servers.move(conn, server.id, "reset", now, vm_state=STOPPED if vmove.stopped else ACTIVE)
    row = servers.begin(conn, caller, server.id, "evacuate")
    # There is nobody to receive a new password.
    args = moving.leave_dead_host(conn, caller, row, Destination(host), None, stopped=vmove.stopped)
    children.submit(conn, task, _key(vmove), kinds.EVACUATE, server.id, args)
