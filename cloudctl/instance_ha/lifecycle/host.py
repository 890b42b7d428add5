"""What is done when a host is dead: no server is placed there, it is fenced, its servers go elsewhere."""

from __future__ import annotations

from datetime import datetime

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.drivers.boundary import call
from cloudctl.drivers.errors import DriverError
from cloudctl.instance_ha import evacuation, fencing, members, notifications, segments, vmoves
from cloudctl.instance_ha.evacuation import Round
from cloudctl.instance_ha.fencing import NewProof
from cloudctl.instance_ha.kinds import RETURN
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.recovery import NotDone, Over, Recovery
from cloudctl.instance_ha.tables import Notification
from cloudctl.placement import hosts
from cloudctl.tasks import Wait
from cloudctl.tasks.workflow import Task

POLL = 5.0  # seconds; an arriving guest wakes the task at once
BROKEN = "instance HA: the host is broken"


async def disable_compute_service(recovery: Recovery) -> None:
    """The scheduler reads this at each choice, so there is nothing to wait for."""
    name = recovery.notification.hostname
    await recovery.tell(f"Disabling compute service on host: '{name}'", 0.0)
    await recovery.ctx.write(disable, name)


def disable(conn: Connection, name: str) -> None:
    host = hosts.find(conn, name)
    if host is not None and host.enabled:
        hosts.change(conn, host, {"enabled": False, "disabled_reason": BROKEN})


async def fence_host(recovery: Recovery) -> Wait | None:
    """Ensure a proof: from the first configured fencer that gives one, or an operator's statement."""
    found, ctx = recovery.notification, recovery.ctx
    if await ctx.read(members.is_returning, found.host_id):
        # A fencer may be about to release it, for its last recovery: that would undo what is proven now.
        return await recovery.hold(f"host {found.hostname} is still being let back", POLL)
    if await ctx.read(fencing.find, found.id) is None:
        doubt = await ctx.read(notifications.doubt, found)
        if doubt is not None and await ctx.read(_answers, found.hostname):
            back = f"{doubt}, and the host answers again"
            was_reserved = bool(ctx.memo.get("begin", {}).get("reserved"))
            if await ctx.write(_leave_alone, ctx.task, found, back, was_reserved, ctx.now):
                raise Over(back, ignored=True)
        complaints = []
        for name, fencer in ctx.drivers.fencers.items():
            await recovery.tell(f"Fencing host '{found.hostname}' by {name}", 0.0)
            try:
                evidence = await call(fencer.ensure_fenced, found.hostname)
            except DriverError as error:
                complaints.append(f"{name}: {error}")
                continue
            await ctx.write(fencing.create, found, NewProof(name, evidence), ctx.now)
            break
        else:
            return await recovery.hold(_unproven(found, complaints), recovery.options.fencing_interval)
    await ctx.write(fencing.note_dead, found)
    return None


def _answers(conn: Connection, name: str) -> bool:
    host = hosts.find(conn, name)
    return host is not None and hosts.is_alive(host)


def _leave_alone(
    conn: Connection, task: Task, found: Notification, back: str, was_reserved: bool, now: datetime
) -> bool:
    """Let the host back, whatever fencers have begun. False: somebody has proven meanwhile that it is dead."""
    members.find(conn, found.hostname, lock=True)
    if fencing.find(conn, found.id) is not None:
        return False
    notifications.try_move(conn, found.id, "ignore", now, message=back)
    members.note(conn, found.host_id, {"on_maintenance": False, "reserved": was_reserved}, now)
    tasks.submit_once(conn, RETURN, found.host_id, task)
    return True


def _unproven(found: Notification, complaints: list[str]) -> str:
    why = "; ".join(complaints) or "no fencer is configured"
    return f"no proof that host {found.hostname} is fenced ({why}); an operator may say so: cloudctl hosts fenced"


async def prepare_instances(recovery: Recovery) -> None:
    ctx = recovery.ctx
    moves = await ctx.write(evacuation.plan, recovery.notification, recovery.options, ctx.now)
    going = [each.server_id for each in moves if each.status != vmoves.IGNORED]
    await recovery.tell(f"{len(going)} instances of host '{recovery.notification.hostname}' go elsewhere", 1.0)


async def evacuate_instances(recovery: Recovery) -> Wait | None:
    ctx, name = recovery.ctx, recovery.notification.hostname
    now = await ctx.write(_advance, ctx.task, recovery.options, ctx.now)
    if not now.fenced:
        return await recovery.hold(_unproven(recovery.notification, []), recovery.options.fencing_interval)
    if now.under_way:
        return Wait(POLL)
    if now.left:
        why = "; ".join(f"{each.server_id}: {each.message}" for each in now.left[:20])
        raise NotDone(f"{len(now.left)} instances of host {name} are not elsewhere: {why}", waits=now.roomless)
    await recovery.tell(f"{now.arrived} instances of host '{name}' are elsewhere", 1.0)
    return None


def _advance(conn: Connection, task: Task, options: InstanceHaOptions, now: datetime) -> Round:
    found = notifications.get(conn, task.resource_id)
    return evacuation.advance(conn, task, found, segments.get(conn, found.segment_id), options, now)
