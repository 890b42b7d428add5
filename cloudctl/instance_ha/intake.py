"""What others report: our own compute service through the outbox, those of other clouds through a bus.

Our own event is taken in the transaction that notes it as taken: once, and in order. A bus message is acknowledged
after the commit, so a repeated one is recognized by its id; so are our own events that come back on the bus.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.drivers.boundary import call
from cloudctl.drivers.bus_interface import BusMessage
from cloudctl.drivers.interfaces import IBusListening
from cloudctl.events.delivery import Taking
from cloudctl.events.tables import Event
from cloudctl.instance_ha import bus
from cloudctl.instance_ha.bus import INSTANCE_ERROR, Message
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.rest.formats import parse_time

log = Logger()

NAME = "instance_ha"


def own_events(clock: IReactorTime, db: Database, options: InstanceHaOptions) -> Taking:
    """Only instance errors: our own watch looks for hosts that are down, and checks a second channel, too."""

    def take(conn: Connection, event: Event, now: datetime) -> None:
        told = Message(event.id, event.type, event.publisher, event.payload, event.at, event.request_id)
        bus.take(conn, told, options, now, told_once=True)

    return Taking(clock, db, NAME, (INSTANCE_ERROR,), take)


class BusIntake(Service):
    """Listens to a bus for as long as it runs."""

    def __init__(self, db: Database, source: IBusListening, options: InstanceHaOptions) -> None:
        self.db = db
        self.source = source
        self.options = options

    def startService(self) -> None:
        super().startService()
        beginning = call(self.source.listen, self.hear)
        beginning.addErrback(lambda failure: log.failure("cannot listen on the bus", failure))

    async def hear(self, told: BusMessage) -> None:
        """Returns once it is stored for good. Raises what the database raises: then it is to be delivered again."""
        message = message_of(told)
        if message is not None:
            await self.db.run(self._write, message)

    def _write(self, conn: Connection, message: Message) -> None:
        if conn.execute(select(Event.number).where(Event.id == message.id).limit(1)).first() is None:
            bus.take(conn, message, self.options, utc(self.db.now(conn)))


def message_of(told: BusMessage) -> Message | None:
    """None if nothing can be made of it: other events, and what does not look like an event."""
    type, payload = told.body.get("event_type"), told.body.get("payload")
    if type not in bus.HEARD or not isinstance(payload, Mapping):
        return None
    publisher = told.body.get("publisher_id")
    at = _time(told.body.get("timestamp"))
    if at is None:
        log.warn("dropped message {id} on the bus: it has no timestamp", id=told.id)
        return None
    made = Message(told.id, type, publisher if isinstance(publisher, str) else "", payload, at)
    if any("\0" in each for each in (made.id, made.host, made.instance)):
        # PostgreSQL stores none, and the message would come again for ever.
        log.warn("dropped a message on the bus: there is a NUL in what it names")
        return None
    return made


def _time(value: Any) -> datetime | None:
    try:
        return parse_time(value)
    except (TypeError, ValueError, OverflowError):
        return None
