"""Whether a notification is acted upon. Reference: instance-ha.md, sections 3 and 6."""

from __future__ import annotations

from datetime import datetime, timedelta

from cloudctl.compute import servers
from cloudctl.db import Connection
from cloudctl.instance_ha import gates, members, notifications, segments
from cloudctl.instance_ha.evacuation import is_ha_enabled
from cloudctl.instance_ha.kinds import HOST, OF_HOST, OF_INSTANCE
from cloudctl.instance_ha.notifications import STARTED, STOPPED
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.recovery import Over, Recovery
from cloudctl.instance_ha.tables import Notification
from cloudctl.placement import hosts
from cloudctl.tasks import Wait, queue

POLL = 30.0  # seconds between two looks at a closed gate
SOON = 2.0  # seconds between two looks at whether a host has been looked at

# Instance reports that are faults: event → what the hypervisor said.
FAULTS = {
    "LIFECYCLE": "STOPPED_FAILED",
    "QEMU_GUEST_AGENT_ERROR": "STOPPED_FAILED",
    "IO_ERROR": "IO_ERROR_REPORT",
}


async def begin(recovery: Recovery) -> Wait | None:
    found = recovery.notification
    await recovery.ctx.read(_worth, found, recovery.options)
    if found.kind == OF_HOST:
        unsure = await recovery.ctx.read(_unsure, found, recovery.options, recovery.ctx.now)
        if unsure is not None:
            return await recovery.hold(*unsure)
    why = None
    if found.kind == OF_HOST:
        # Those that wait look at all hosts time and again: without keeping anybody from writing.
        why = await recovery.ctx.read(_too_many, found, recovery.options, recovery.ctx.now)
    if why is None:
        await _remember_reserve(recovery)
        why = await recovery.ctx.write(start, found, recovery.options, recovery.ctx.now)
    if why is not None:
        return await recovery.hold(f"{why}; an operator may let it go on: cloudctl hosts approve", POLL)
    return None


async def _remember_reserve(recovery: Recovery) -> None:
    """Stored as the recovery begins: its host is a reserve again if it turns out to be alive."""
    ctx = recovery.ctx
    if "reserved" not in ctx.memo.get(ctx.step, {}):
        member = await ctx.read(members.find, recovery.notification.hostname)
        ctx.remember(reserved=member is not None and member.reserved)


def _worth(conn: Connection, notification: Notification, options: InstanceHaOptions) -> None:
    """Raises Over for one that is not acted upon."""
    segment = segments.find(conn, notification.segment_id)
    if segment is None or not segment.enabled:
        raise Over("segment HA is disabled", ignored=True)
    event = notification.payload.get("event", "").upper()
    if event == STARTED:
        raise Over("it works")
    late = notification.created_at - notification.generated_time
    if late > timedelta(seconds=options.notifications_expired_interval):
        # A bus keeps messages while nobody listens. What was broken may long be back.
        why = f"it came more than {options.notifications_expired_interval:g} s after what it reports"
        raise Over(why, ignored=True)
    if notification.kind == OF_INSTANCE:
        _instance(conn, notification, event, options)
    elif event != STOPPED:
        raise Over(f"the event {event} is not a failure", ignored=True)


def _instance(conn: Connection, notification: Notification, event: str, options: InstanceHaOptions) -> None:
    """Raises Over."""
    said = notification.payload
    if "instance_uuid" not in said:
        raise Over("it does not say which instance", ignored=True)
    if event != STOPPED and FAULTS.get(event) != said.get("vir_domain_event"):
        raise Over(f"the event {event} ({said.get('vir_domain_event')}) is not a failure", ignored=True)
    server = servers.find(conn, said["instance_uuid"])
    if server is None or server.deleted_at is not None:
        raise Over(f"there is no instance {said['instance_uuid']}", ignored=True)
    if server.host != notification.hostname:
        # A monitor repeats what it could not say at once. What was wrong there is no reason to stop the server here.
        raise Over(f"it is on {server.host or 'no host'} by now")
    if not options.process_all_instances and not is_ha_enabled(server):
        raise Over(f"instance {server.id} is not HA_Enabled")


def _unsure(
    conn: Connection, notification: Notification, options: InstanceHaOptions, now: datetime
) -> tuple[str, float] | None:
    """Why a host that may be alive is not taken for dead yet, and when to look again. Raises Over: it is alive."""
    doubt = notifications.doubt(conn, notification)
    if doubt is None:
        return None
    host = hosts.find(conn, notification.hostname)
    if host is None or _answers(host, notification):
        raise Over(f"{doubt}, and the host answers", ignored=True)
    if hosts.is_alive(host):
        return f"{doubt}, and the host has not been looked at since", SOON
    if members.is_returning(conn, notification.host_id):
        return f"{doubt}, and the host's operator lets it return: it may still be starting", options.unknown_interval
    silent = now - host.seen_at
    if silent >= timedelta(seconds=options.unknown_silence):
        return None
    why = f"{doubt}, and the host was heard of {silent.total_seconds():.0f} s ago"
    return why, options.unknown_interval


def _answers(host: hosts.Host, notification: Notification) -> bool:
    """What it did before it was reported says nothing: it is looked at every few seconds."""
    return hosts.is_alive(host) and host.seen_at > notification.created_at


def _too_many(conn: Connection, notification: Notification, options: InstanceHaOptions, now: datetime) -> str | None:
    """Why it waits. Raises Over: the host is back."""
    why = gates.closed(conn, notification, options, now)
    host = hosts.find(conn, notification.hostname)
    if why is not None and host is not None and _answers(host, notification):
        raise Over(f"{why}; and the host answers", ignored=True)
    return why


def start(conn: Connection, notification: Notification, options: InstanceHaOptions, now: datetime) -> str | None:
    """Begin the recovery, or say why it waits. Raises Over: the host is back."""
    if notification.kind == OF_HOST:
        # As a notification that comes does: one that is sure may supersede this one.
        members.find(conn, notification.hostname, lock=True)
        gates.passes(conn)
        why = _too_many(conn, notification, options, now)
        if why is not None:
            return why
    begun = notifications.try_move(conn, notification.id, "run", now, held=False, message=None)
    if begun and notification.kind == OF_HOST:
        # From now on nobody else begins a recovery from it, and it is not a reserve.
        members.note(conn, notification.host_id, {"on_maintenance": True, "reserved": False}, now)
        # If it is still being let back, that ends with its next look.
        queue.wake(conn, HOST, notification.host_id)
    return None
