"""What a compute service sends on its bus, and the notification that results. Reference: instance-ha.md, section 7.

A listener to a bus calls `take` for each message, and acknowledges it after the commit. A repeated message changes
nothing. Our own watch writes what it notices in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from attrs import frozen
from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError
from twisted.logger import Logger

from cloudctl import context
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.instance_ha import notifications
from cloudctl.instance_ha.kinds import NOTIFICATION, RECOVER
from cloudctl.instance_ha.notifications import COMPUTE, NORMAL, STOPPED, UNKNOWN, NewNotification
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.tables import Event
from cloudctl.tasks import Unasked
from cloudctl.tasks.tables import TaskRow

log = Logger()

HOST_ERROR, INSTANCE_ERROR = "compute.host.error", "compute.instance.error"
# What a stock compute service sends about a host that an administrator has declared down.
SERVICE_UPDATE = "service.update"
HEARD = (HOST_ERROR, INSTANCE_ERROR, SERVICE_UPDATE)
KEPT = timedelta(days=1)
FAILED = "STOPPED_FAILED"  # the only guest event that is acted upon
ID_LENGTH = 64


@frozen
class Message:
    """An event of one of the types in HEARD. `at`: when it was sent."""

    id: str
    type: str
    publisher: str  # "nova-compute:compute-01"
    payload: Mapping[str, Any]
    at: datetime
    request_id: str = ""  # of our own events: the request that caused it

    @property
    def data(self) -> Mapping[str, Any]:
        """With or without the wrapper of versioned objects."""
        wrapped = self.payload.get("nova_object.data")
        return wrapped if isinstance(wrapped, Mapping) else self.payload

    @property
    def host(self) -> str:
        named = self.data.get("host")
        return str(named) if named else self.publisher.partition(":")[2]

    @property
    def instance(self) -> str:
        return str(self.data.get("uuid") or self.data.get("instance_uuid") or "")

    @property
    def is_down(self) -> bool:
        return self.data.get("binary") == COMPUTE and self.data.get("forced_down") is True

    def notification(self) -> NewNotification | None:
        """None if the message says nothing of use."""
        if not self.host:
            return None
        if self.type == HOST_ERROR:
            status = NORMAL if self.data.get("forced_down") is True else UNKNOWN
            payload = {"event": STOPPED, "cluster_status": "OFFLINE", "host_status": status}
            return NewNotification(self.host, "COMPUTE_HOST", payload, self.at)
        if self.type == SERVICE_UPDATE and self.is_down:
            payload = {"event": STOPPED, "cluster_status": "OFFLINE", "host_status": NORMAL}
            return NewNotification(self.host, "COMPUTE_HOST", payload, self.at)
        if self.type == INSTANCE_ERROR and self.instance and self.data.get("asked_for") is not True:
            if self.data.get("vir_domain_event", FAILED) != FAILED:
                # The guest has shut itself down.
                return None
            payload = {"event": STOPPED, "instance_uuid": self.instance, "vir_domain_event": FAILED}
            return NewNotification(self.host, "COMPUTE_INSTANCE", payload, self.at)
        return None


def take(
    conn: Connection, message: Message, options: InstanceHaOptions, now: datetime, *, told_once: bool = False
) -> str | None:
    """The id of the resulting notification, if the message is new and results in one. Otherwise nobody is notified.

    `told_once`: as for `notifications.create`.
    """
    new = message.notification()
    row = {"message_id": message.id[:ID_LENGTH], "type": message.type[:64], "host": message.host[:255], "at": now}
    try:
        with conn.begin_nested():
            conn.execute(insert(Event).values(**row, outcome=""))
    except IntegrityError:
        return None
    made, outcome = None, "it says nothing of use"
    if new is not None and _is_of_ours(conn, message.request_id):
        new, outcome = None, "it comes of a recovery"
    if new is not None:
        try:
            with conn.begin_nested():
                by = Unasked(request_id=context.new_request_id())
                made = notifications.create(conn, by, new, options, now, told_once=told_once).id
        except (Conflict, Invalid) as error:
            outcome = error.message
            log.info("ignored {type} for host {host}: {why}", type=message.type, host=message.host, why=outcome)
    mine = Event.message_id == row["message_id"]
    conn.execute(Event.table.update().where(mine).values(outcome=made or outcome))
    return made


def _is_of_ours(conn: Connection, request_id: str) -> bool:
    """Whether a recovery caused it: the recovery itself knows that it failed."""
    if not request_id:
        return False
    kinds = [kind.name for kind in RECOVER.values()]
    mine = TaskRow.resource_type == NOTIFICATION, TaskRow.request_id == request_id, TaskRow.kind.in_(kinds)
    return conn.execute(select(TaskRow.id).where(*mine).limit(1)).first() is not None


def told_lately(conn: Connection, host: str, since: datetime) -> bool:
    """Whether this host's death was reported after that."""
    mine = Event.host == host, Event.type == HOST_ERROR, Event.at > since
    return conn.execute(select(Event.message_id).where(*mine).limit(1)).first() is not None


def forget(conn: Connection, now: datetime) -> None:
    """Delete events older than KEPT."""
    conn.execute(delete(Event).where(Event.at < now - KEPT))
