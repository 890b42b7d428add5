"""The tables of instance high availability."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, Integer, String, Text, UniqueConstraint, and_

from cloudctl.db.columns import Field, column, flag, identifier, json, optional_text, text, time
from cloudctl.db.records import Record

# A notification that is not done with.
NEW, RUNNING, ERROR = "new", "running", "error"
FINISHED, FAILED, IGNORED = "finished", "failed", "ignored"
OPEN = (NEW, RUNNING, ERROR)


class Segment(Record, table="ha_segments"):
    """Hosts whose guests may go to one another."""

    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(unique=True)
    name: Field[str] = text(unique=True)
    description: Field[str | None] = column(Text)
    recovery_method: Field[str] = text(16)  # auto, reserved_host, auto_priority, rh_priority
    service_type: Field[str] = text()
    enabled: Field[bool] = flag(True)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


class Member(Record, table="ha_hosts"):
    """A host of a segment."""

    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(unique=True)
    segment_id: Field[str] = identifier()
    name: Field[str] = text(unique=True)  # of a compute service
    type: Field[str] = text()
    control_attributes: Field[str] = column(Text)
    reserved: Field[bool] = flag(False)  # kept free for the guests of others
    on_maintenance: Field[bool] = flag(False)
    # The notification that it is a reserve for, until the guests are here or it is given back.
    reserved_for: Field[str | None] = optional_text(64)
    woken: Field[bool] = flag(False)  # its compute service was disabled before that
    joined: Field[list[Any]] = json(list)  # ids of the aggregates that it is in for that
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


Index("ix_ha_hosts_segment", Member.segment_id, Member.number)


class Notification(Record, table="ha_notifications"):
    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(unique=True)
    type: Field[str] = text(32)  # as it was sent: VM or COMPUTE_INSTANCE
    kind: Field[str] = text(16)  # host, instance, process
    hostname: Field[str] = text()
    host_id: Field[str] = identifier()
    segment_id: Field[str] = identifier()
    # What it says is broken: no two open notifications say the same. NULL: it asks for nothing.
    subject: Field[str | None] = column(Text)
    status: Field[str] = text(16)
    payload: Field[dict[str, Any]] = json(dict)
    generated_time: Field[datetime] = time()
    message: Field[str | None] = column(Text)  # why it ended so, or what it waits for
    held: Field[bool] = flag(False)  # it waits for what only an operator, or a machine, can bring about
    approved: Field[bool] = flag(False)  # an operator has let it go on
    tries: Field[int] = column(Integer, default=0)  # those that failed, or wait
    # [{name, state, progress, progress_details: [{timestamp, message, progress}]}]
    details: Field[list[Any]] = json(list)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


Index(
    "uq_ha_notifications_open",
    Notification.host_id,
    Notification.subject,
    unique=True,
    sqlite_where=and_(Notification.status.in_(OPEN), Notification.subject.is_not(None)),
    postgresql_where=and_(Notification.status.in_(OPEN), Notification.subject.is_not(None)),
)
Index("ix_ha_notifications_host", Notification.host_id, Notification.generated_time)
Index("ix_ha_notifications_created", Notification.created_at, Notification.id)
Index("ix_ha_notifications_segment", Notification.segment_id, Notification.status)
Index("ix_ha_notifications_status", Notification.status, Notification.created_at)


class Proof(Record, table="ha_proofs"):
    """A proof that a host is fenced: for one notification, and only for that."""

    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    notification_id: Field[str] = identifier()
    host: Field[str] = text()
    fencer: Field[str] = text(64)  # the name of a driver, or "operator"
    evidence: Field[str] = column(Text)
    at: Field[datetime] = time()
    lifted_at: Field[datetime | None] = time()  # when its host was allowed to work again


UniqueConstraint(Proof.notification_id, Proof.fencer)


class VMove(Record, table="ha_vmoves"):
    """A guest that a recovery takes elsewhere."""

    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    id: Field[str] = identifier(unique=True)
    notification_id: Field[str] = identifier()
    server_id: Field[str] = identifier()
    server_name: Field[str] = text()
    source_host: Field[str] = text()
    dest_host: Field[str | None] = optional_text()
    type: Field[str] = text(16)
    status: Field[str] = text(16)
    message: Field[str | None] = column(Text)
    stopped: Field[bool] = flag(False)  # it was off, and is to stay off
    attempts: Field[int] = column(Integer, default=0)
    tried: Field[list[Any]] = json(list)  # names of the reserves that had no room for it
    roomless: Field[bool] = flag(False)  # it stays where it is because there is no room anywhere
    start_time: Field[datetime | None] = time()
    end_time: Field[datetime | None] = time()
    created_at: Field[datetime] = time()
    updated_at: Field[datetime | None] = time()


UniqueConstraint(VMove.notification_id, VMove.server_id)


class Event(Record, table="ha_events"):
    """What came from a bus, and what has become of it. Kept for a while: it may be delivered again."""

    message_id: Field[str] = column(String(64), primary_key=True)
    type: Field[str] = text(64)
    host: Field[str] = text()
    outcome: Field[str] = column(Text)  # the id of the notification that it is, or why it is none
    at: Field[datetime] = time()


Index("ix_ha_events_host", Event.host, Event.at)
Index("ix_ha_events_at", Event.at)
