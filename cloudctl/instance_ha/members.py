"""The hosts of segments. Reference: instance-ha.md, section 5."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, delete, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.db.columns import new_id, utc
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, Invalid
from cloudctl.instance_ha import kinds, segments
from cloudctl.instance_ha.tables import OPEN, Member, Notification, Segment
from cloudctl.placement import hosts
from cloudctl.rest.caller import Caller
from cloudctl.tasks import queue

_by_name = select(Member).where(Member.name == bindparam("wanted"))
_by_name_locked = _by_name.with_for_update()


@frozen
class NewMember:
    name: str
    type: str
    control_attributes: str
    reserved: bool = False
    on_maintenance: bool = False


# A notification locks its host: none comes while somebody else has.
RECORDS = ById(Member, "No host with id {}.")
get, not_found = RECORDS.get, RECORDS.not_found


def find(conn: Connection, name: str, *, lock: bool = False) -> Member | None:
    """By its name. `lock`: notifications about it take turns."""
    return conn.execute(_by_name_locked if lock else _by_name, {"wanted": name}).first()


def is_returning(conn: Connection, host_id: str) -> bool:
    """Whether its operator lets it return, and it is not back yet: a machine that has power again takes minutes to
    start, and its servers run elsewhere.
    """
    return tasks.has_open(conn, kinds.HOST, host_id, (kinds.RETURN,))


def is_let_back_since(conn: Connection, host_id: str, when: datetime) -> bool:
    """Whether it was taken off maintenance after that: what was wrong with it by then has been seen to."""
    last = queue.listing(conn, kinds=(kinds.RETURN,), resource=(kinds.HOST, host_id), limit=1)
    return any(utc(each.submitted_at) > when for each in last)


def create(conn: Connection, caller: Caller, segment: Segment, new: NewMember) -> Member:
    """Raises NotFound: the segment is gone; Invalid: no such compute service; Conflict: it is already in a segment."""
    segments.get(conn, segment.id, lock=True)
    _runs_servers(conn, new.name)
    values = {
        "id": new_id(),
        "segment_id": segment.id,
        "name": new.name,
        "type": new.type,
        "control_attributes": new.control_attributes,
        "reserved": new.reserved,
        "on_maintenance": new.on_maintenance,
        "created_at": caller.now,
    }
    with unique(conn, _taken(new.name)):
        conn.execute(insert(Member).values(values))
    return get(conn, str(values["id"]))


def change(conn: Connection, caller: Caller, member: Member, changes: Mapping[str, Any]) -> Member:
    """A host back from maintenance after a recovery is checked before it is used. Raises Invalid, Conflict."""
    member = _calm(conn, member.id)
    if changes.get("name", member.name) != member.name:
        _runs_servers(conn, changes["name"])
    with unique(conn, _taken(changes.get("name", member.name))):
        note(conn, member.id, changes, caller.now)
    if member.on_maintenance and not changes.get("on_maintenance", True):
        tasks.submit_once(conn, kinds.RETURN, member.id, caller)
    return get(conn, member.id)


def note(conn: Connection, host_id: str, changes: Mapping[str, Any], now: datetime) -> None:
    conn.execute(update(Member).where(Member.id == host_id).values(**changes, updated_at=now))


def remove(conn: Connection, member: Member) -> None:
    """Raises Conflict."""
    _calm(conn, member.id)
    conn.execute(delete(Member).where(Member.id == member.id))


def _calm(conn: Connection, host_id: str) -> Member:
    """Lock the host. Raises Conflict while a recovery from it is open, or it is the reserve of a recovery."""
    member = get(conn, host_id, lock=True)
    mine = Notification.host_id == member.id, Notification.status.in_(OPEN)
    if member.reserved_for or conn.execute(select(Notification.id).where(*mine).limit(1)).first() is not None:
        raise Conflict(f"Host {member.id} can't be updated as it is in-use to process notifications.")
    return member


def _runs_servers(conn: Connection, name: str) -> None:
    """Raises Invalid."""
    if hosts.find(conn, name) is None:
        raise Invalid(f"Host with name {name} could not be found.")


def _taken(name: str) -> Conflict:
    return Conflict(f"Host with name {name} already exists.")
