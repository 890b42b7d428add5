"""Notifications: what is reported broken, and what was done about it. Reference: instance-ha.md, sections 2 and 3.

new → running → finished, ignored, or error → running → … → failed. A notification that waits for a proof, for room or
for an operator is `held`, and its message says for what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.db.columns import new_id
from cloudctl.db.machine import Machine, Move, sources
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, Invalid
from cloudctl.instance_ha import members
from cloudctl.instance_ha.kinds import NOTIFICATION, OF_HOST, OF_INSTANCE, OF_PROCESS, RECOVER
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.tables import ERROR, FAILED, FINISHED, IGNORED, NEW, OPEN, RUNNING, Notification
from cloudctl.tasks import Origin

# Type, as it is sent → what is broken.
TYPES = {
    "COMPUTE_HOST": OF_HOST,
    "COMPUTE_INSTANCE": OF_INSTANCE,
    "VM": OF_INSTANCE,
    "COMPUTE_PROCESS": OF_PROCESS,
    "PROCESS": OF_PROCESS,
}
STATUSES = (NEW, RUNNING, ERROR, FINISHED, FAILED, IGNORED)
STOPPED, STARTED = "STOPPED", "STARTED"
NORMAL, UNKNOWN = "NORMAL", "UNKNOWN"
COMPUTE = "nova-compute"
SUBJECT = 255  # characters
# Of what goes on happening, within the time in which a report is a duplicate: recovering does not help.
MOST_AT_ONCE = 3

MOVES = {
    "run": Move(sources(NEW, RUNNING, ERROR), RUNNING),
    "hold": Move(sources(*OPEN), {"status": RUNNING, "held": True}),
    "finish": Move(sources(*OPEN), {"status": FINISHED, "held": False}),
    "ignore": Move(sources(*OPEN), {"status": IGNORED, "held": False}),
    "try later": Move(sources(*OPEN), {"status": ERROR}),
    "fail": Move(sources(*OPEN), {"status": FAILED, "held": False}),
}

_old = (
    select(Notification)
    .where(Notification.status == NEW, Notification.created_at <= bindparam("before"))
    .order_by(Notification.number)
)


@frozen
class NewNotification:
    hostname: str
    type: str
    payload: Mapping[str, str]
    generated_time: datetime

    @property
    def kind(self) -> str:
        return TYPES[self.type]

    @property
    def subject(self) -> str | None:
        """What is broken; None if nothing is to be done."""
        if self.payload.get("event", "").upper() == STARTED:
            return None
        if self.kind == OF_INSTANCE:
            return _short(f"instance {self.payload['instance_uuid']}") if "instance_uuid" in self.payload else None
        return OF_HOST if self.kind == OF_HOST else _short(f"process {self.payload.get('process_name', COMPUTE)}")


def _short(subject: str) -> str:
    """PostgreSQL has no room for long ones in an index."""
    return subject if len(subject) <= SUBJECT else f"{subject[:100]}… {sha256(subject.encode()).hexdigest()}"


RECORDS = ById(Notification, "No notification with id {}.")
find, get, not_found = RECORDS.find, RECORDS.get, RECORDS.not_found


MACHINE = Machine(Notification, MOVES, not_found, "Notification {id} is {status}.")
try_move = MACHINE.try_move


def create(
    conn: Connection,
    by: Origin,
    new: NewNotification,
    options: InstanceHaOptions,
    now: datetime,
    *,
    told_once: bool = False,
) -> Notification:
    """The record and its task. `told_once`: its sender says each thing that happens once.

    Raises Invalid: no such host; Conflict: a duplicate, or the host is being recovered.
    """
    host = members.find(conn, new.hostname, lock=True)
    if host is None:
        raise Invalid(f"Host with name {new.hostname} could not be found.")
    if host.on_maintenance:
        raise Conflict(
            f"Notification received from host {host.name} of type {new.type} is ignored as the host is already "
            "under maintenance."
        )
    if _is_repeated(conn, host.id, new, options, now, told_once):
        raise _duplicate(new)
    _supersede(conn, host.id, new, now)
    values = {
        "id": new_id(),
        "type": new.type,
        "kind": new.kind,
        "hostname": host.name,
        "host_id": host.id,
        "segment_id": host.segment_id,
        "subject": new.subject,
        "status": NEW,
        "payload": dict(new.payload),
        "generated_time": new.generated_time,
        "created_at": now,
    }
    # An open notification says the same.
    with unique(conn, _duplicate(new)):
        conn.execute(insert(Notification).values(values))
    made = get(conn, str(values["id"]))
    if options.engine_enabled:
        begin(conn, made, by, options)
    return made


def begin(conn: Connection, notification: Notification, by: Origin, options: InstanceHaOptions) -> None:
    kind = RECOVER[notification.kind]
    tasks.submit(conn, kind, notification.id, by, deadline=options.notifications_expired_interval)


def _is_repeated(
    conn: Connection, host_id: str, new: NewNotification, options: InstanceHaOptions, now: datetime, told_once: bool
) -> bool:
    """A time later than the receipt counts as that: a clock that is ahead does not keep later reports away."""
    at = min(new.generated_time, now)
    since = at - min(timedelta(seconds=options.duplicate_notification_detection_interval), at - datetime.min)
    mine = Notification.host_id == host_id, Notification.kind == new.kind
    recent = Notification.generated_time >= since, Notification.created_at >= since
    same = [each for each in conn.execute(select(Notification).where(*mine, *recent)) if each.payload == new.payload]
    if told_once and len(same) < MOST_AT_ONCE and all(_is_over(each, at) for each in same):
        # It has happened again since.
        return False
    return bool(same)


def _is_over(notification: Notification, at: datetime) -> bool:
    """Whether it had been recovered from by then."""
    ended = notification.updated_at
    return notification.status == FINISHED and ended is not None and bool(ended < at)


def _supersede(conn: Connection, host_id: str, new: NewNotification, now: datetime) -> None:
    """A sure notification supersedes unsure ones: a host known to be dead no longer waits as one of unknown status."""
    if new.subject != OF_HOST or _doubt(conn, host_id, new) is not None:
        return
    mine = Notification.host_id == host_id, Notification.subject == OF_HOST, Notification.status.in_(OPEN)
    for each in conn.execute(select(Notification).where(*mine)).all():
        if doubt(conn, each) is not None:
            try_move(conn, each.id, "ignore", now, message="its host's status has become known meanwhile")


def doubt(conn: Connection, notification: Notification) -> str | None:
    """Why the host may be alive. None: it is dead for certain; the monitor has ensured it, or an operator says so."""
    return None if notification.approved else _doubt(conn, notification.host_id, notification)


def _doubt(conn: Connection, host_id: str, said: NewNotification | Notification) -> str | None:
    if said.payload.get("host_status") != NORMAL:
        return "host_status is not NORMAL"
    if members.is_let_back_since(conn, host_id, said.generated_time):
        # Who could not report it at once has repeated it, or a bus has kept it.
        return "the host was let back after what this reports"
    return None


def _duplicate(new: NewNotification) -> Conflict:
    return Conflict(f"Notification received from host {new.hostname} of type {new.type} is duplicate.")


def open_of(conn: Connection, hostname: str) -> Notification | None:
    """The open notification that this host is dead."""
    mine = Notification.hostname == hostname, Notification.subject == OF_HOST, Notification.status.in_(OPEN)
    return conn.execute(select(Notification).where(*mine)).first()


def held(conn: Connection) -> Sequence[Notification]:
    """Those that wait for something that does not come by itself."""
    waiting = select(Notification).where(Notification.held, Notification.status.in_(OPEN))
    return conn.execute(waiting.order_by(Notification.number)).all()


def unclaimed(conn: Connection, before: datetime) -> Sequence[Notification]:
    """Those that are still new since before then and have no open task."""
    found = conn.execute(_old, {"before": before}).all()
    return [each for each in found if not tasks.has_open(conn, NOTIFICATION, each.id)]


def tell(conn: Connection, notification_id: str, details: Sequence[Mapping[str, Any]], now: datetime) -> None:
    """Record how far its workflow has come."""
    changed = update(Notification).where(Notification.id == notification_id)
    conn.execute(changed.values(details=[dict(each) for each in details], updated_at=now))
