"""The tables of events."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Float, Index, Integer, Text

from cloudctl.db.columns import Field, column, identifier, json, text, time
from cloudctl.db.records import Record

_LONG = BigInteger().with_variant(Integer(), "sqlite")


class Event(Record, table="events"):
    """An event that somebody wants, kept until it is too old or there are too many."""

    # The order in which they were written, which for one resource is the order of its changes.
    number: Field[int] = column(_LONG, primary_key=True, autoincrement=True)
    # The order in which they are delivered. None: committed, but not yet put in order.
    position: Field[int | None] = column(_LONG, unique=True)
    id: Field[str] = identifier()
    type: Field[str] = text(100)  # "instance.create.end"
    priority: Field[str] = text(8)  # INFO, ERROR
    publisher: Field[str] = text()  # "nova-compute:host-1"
    resource: Field[str] = text(128)  # "server/ID"
    project_id: Field[str] = text(64)
    request_id: Field[str] = text(64)
    payload: Field[dict[str, Any]] = json(dict)
    at: Field[datetime] = time()


Index("ix_events_id", Event.id)  # whether a message of a bus is our own
Index("ix_events_at", Event.at)


class Receiver(Record, table="event_receivers"):
    """How far one has come, and the process that delivers to it. The one called "" is the outbox: what is ordered."""

    name: Field[str] = text(64, primary_key=True)
    position: Field[int] = column(_LONG, default=0)  # the last event that it has
    owner: Field[str | None] = identifier()
    lease_until: Field[float] = column(Float, default=0.0)
    failures: Field[int] = column(Integer, default=0)  # in a row
    not_before: Field[float] = column(Float, default=0.0)
    error: Field[str | None] = column(Text)  # the last one, until something was delivered
    stuck_since: Field[datetime | None] = time()
    refused: Field[int] = column(_LONG, default=0)  # events that it will never take
    lost: Field[int] = column(_LONG, default=0)  # events that were too old before it took them
