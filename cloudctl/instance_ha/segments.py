"""Segments: hosts that stand in for each other. Reference: instance-ha.md, section 4."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import delete, insert, select, update

from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.db.columns import new_id
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict
from cloudctl.instance_ha.tables import OPEN, Member, Notification, Segment
from cloudctl.rest.caller import Caller

AUTO, RESERVED_HOST, AUTO_PRIORITY, RH_PRIORITY = "auto", "reserved_host", "auto_priority", "rh_priority"
METHODS = (AUTO, RESERVED_HOST, AUTO_PRIORITY, RH_PRIORITY)


@frozen
class NewSegment:
    name: str
    recovery_method: str
    service_type: str
    description: str | None = None
    enabled: bool = True


RECORDS = ById(Segment, "No failover segment with id {}.")
find, get, not_found = RECORDS.find, RECORDS.get, RECORDS.not_found


def create(conn: Connection, caller: Caller, new: NewSegment) -> Segment:
    """Raises Conflict."""
    values = {
        "id": new_id(),
        "name": new.name,
        "description": new.description,
        "recovery_method": new.recovery_method,
        "service_type": new.service_type,
        "enabled": new.enabled,
        "created_at": caller.now,
    }
    with unique(conn, _taken(new.name)):
        conn.execute(insert(Segment).values(values))
    return get(conn, str(values["id"]))


def change(conn: Connection, segment: Segment, changes: Mapping[str, Any], now: datetime) -> Segment:
    """Raises Conflict: the name is taken, or a recovery is under way."""
    _calm(conn, segment)
    with unique(conn, _taken(changes.get("name", segment.name))):
        conn.execute(update(Segment).where(Segment.id == segment.id).values(**changes, updated_at=now))
    return get(conn, segment.id)


def remove(conn: Connection, segment: Segment) -> None:
    """Its hosts, too. Raises Conflict: a recovery is under way."""
    _calm(conn, segment)
    conn.execute(delete(Member).where(Member.segment_id == segment.id))
    conn.execute(delete(Segment).where(Segment.id == segment.id))


def is_recovering(conn: Connection, segment_id: str) -> bool:
    mine = Notification.segment_id == segment_id, Notification.status.in_(OPEN)
    return conn.execute(select(Notification.id).where(*mine).limit(1)).first() is not None


def _calm(conn: Connection, segment: Segment) -> None:
    """Lock the segment and its hosts: a notification locks its host, and a new host its segment. Raises Conflict."""
    get(conn, segment.id, lock=True)
    conn.execute(select(Member.id).where(Member.segment_id == segment.id).order_by(Member.id).with_for_update()).all()
    if is_recovering(conn, segment.id):
        raise Conflict(f"FailoverSegment {segment.id} can't be updated as it is in-use to process notifications.")


def _taken(name: str) -> Conflict:
    return Conflict(f"Failover segment with name {name} already exists.")
