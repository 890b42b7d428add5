"""The outbox: events are written in the transaction of their change, and put in order once that has committed.

Row numbers are assigned before the commit, so a reader following them would skip what commits late. Positions are
assigned after it, by one process at a time, to the rows visible by then; for one resource both orders are the same,
since its changes wait for each other. A reader that remembers its last position misses nothing and gets nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from attrs import field, frozen
from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from cloudctl import context
from cloudctl.db import Connection, notify
from cloudctl.db.columns import new_id
from cloudctl.events.tables import Event, Receiver

# Announced by each commit that writes an event, and by each one that puts some in order.
WRITTEN, ORDERED = "events.written", "events.ordered"
INFO, ERROR = "INFO", "ERROR"
OUTBOX = ""
BATCH = 500

_new = insert(Event)
_loose = select(Event.number).where(Event.position.is_(None)).order_by(Event.number).limit(bindparam("most"))
_place = update(Event).where(Event.number == bindparam("of")).values(position=bindparam("at_position"))
_after = select(Event).where(Event.position > bindparam("after")).order_by(Event.position).limit(bindparam("most"))
_outbox = select(Receiver).where(Receiver.name == OUTBOX).with_for_update()
_last = select(Receiver.position).where(Receiver.name == OUTBOX)


@frozen
class NewEvent:
    """`resource`: what the event is about; a resource's events are delivered in the order in which they were told."""

    type: str
    resource: str
    payload: Mapping[str, Any]
    publisher: str
    priority: str = INFO
    project_id: str = ""
    id: str = field(factory=new_id)


def tell(conn: Connection, new: NewEvent, now: datetime, request_id: str | None = None) -> None:
    """Write it, if somebody wants it. If an event is costly to make, check `conn.wishes` first."""
    if new.type not in conn.wishes:
        return
    values = {
        "id": new.id,
        "type": new.type,
        "priority": new.priority,
        "publisher": new.publisher[:255],
        "resource": new.resource[:128],
        "project_id": new.project_id,
        "request_id": context.request_id.get() if request_id is None else request_id,
        "payload": dict(new.payload),
        "at": now,
    }
    conn.execute(_new, values)
    notify(conn, WRITTEN)


def order(conn: Connection) -> bool:
    """Give positions to events that have none; returns whether more may be left."""
    outbox = conn.execute(_outbox).first()
    if outbox is None:
        # The first process to look makes it; if two do, the second one finds it.
        with suppress(IntegrityError), conn.begin_nested():
            conn.execute(insert(Receiver).values(name=OUTBOX))
        outbox = conn.execute(_outbox).one()
    found = conn.scalars(_loose, {"most": BATCH}).all()
    if not found:
        return False
    last = outbox.position
    conn.execute(_place, [{"of": number, "at_position": last + place} for place, number in enumerate(found, 1)])
    conn.execute(update(Receiver).where(Receiver.name == OUTBOX).values(position=last + len(found)))
    notify(conn, ORDERED)
    return len(found) == BATCH


def is_waiting(conn: Connection) -> bool:
    """Whether there is an event without a position."""
    return conn.execute(_loose, {"most": 1}).first() is not None


def last(conn: Connection) -> int:
    """The last position that was given."""
    return conn.scalar(_last) or 0


def after(conn: Connection, position: int, most: int = BATCH) -> Sequence[Event]:
    """Those after this position, in order."""
    return conn.execute(_after, {"after": position, "most": most}).all()


def oldest(conn: Connection) -> int | None:
    """The first position that is kept."""
    return conn.scalar(select(func.min(Event.position)))


def overdue(conn: Connection, now: datetime, keep: float, most: int) -> int:
    """The last position that is not kept any more: it is older than `keep` seconds, or not among the latest `most`."""
    old = conn.scalar(select(func.max(Event.position)).where(Event.at < now - timedelta(seconds=keep))) or 0
    return max(old, last(conn) - most)


def count(conn: Connection, position: int, end: int) -> Mapping[str, int]:
    """How many there are after this position and up to `end`, by their types."""
    found = select(Event.type, func.count()).where(Event.position > position, Event.position <= end)
    return dict(conn.execute(found.group_by(Event.type)).all())


def forget(conn: Connection, end: int) -> None:
    """Those up to this position."""
    conn.execute(delete(Event).where(Event.position <= end))
