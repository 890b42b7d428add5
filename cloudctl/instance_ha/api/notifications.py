"""Notifications and the guest moves that they cause. Reference: instance-ha.md, sections 2 and 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from attrs import frozen
from sqlalchemy import Text, cast, func

from cloudctl.db import Connection, Database
from cloudctl.errors import Conflict, Invalid
from cloudctl.instance_ha import fencing, notifications, vmoves
from cloudctl.instance_ha.api.attributes import LONG_AGO, moment, one_of, times
from cloudctl.instance_ha.api.fields import Posted, of_alerts
from cloudctl.instance_ha.kinds import OF_HOST
from cloudctl.instance_ha.notifications import TYPES, NewNotification
from cloudctl.instance_ha.options import InstanceHaOptions
from cloudctl.instance_ha.tables import Notification, VMove
from cloudctl.rest.body import Body, BodyError, Length, Problem
from cloudctl.rest.call import Call
from cloudctl.rest.declared import Declared, Path
from cloudctl.rest.formats import parse_time
from cloudctl.rest.listing import Condition, equals
from cloudctl.rest.resource import Attribute, Json
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since


def _notification(conn: Connection, call: Call, path: Path) -> Notification:
    return notifications.get(conn, path["notification_id"])


def _of_type(values: Sequence[str]) -> Condition:
    """In either spelling."""
    if values[-1] not in TYPES:
        raise Invalid(f"Invalid value {values[-1][:64]!r} for the filter type: it is one of {', '.join(TYPES)}.")
    return Notification.kind == TYPES[values[-1]]


def _generated_since(values: Sequence[str]) -> Condition:
    try:
        return Notification.generated_time >= parse_time(values[-1])
    except (ValueError, OverflowError):
        raise Invalid(f"Invalid value {values[-1][:64]!r} for generated-since: a time is expected.") from None


NOTIFICATIONS = Declared(
    service="instance_ha",
    name="notification",
    record=Notification,
    attributes=(
        Attribute("id", Notification.number, sort=True),
        Attribute("notification_uuid", Notification.id, sort=True),
        Attribute("type", Notification.type, sort=Notification.kind),
        Attribute("hostname", Notification.hostname),
        Attribute("status", Notification.status, filter=one_of(*notifications.STATUSES), sort=True),
        Attribute("source_host_uuid", Notification.host_id, filter=equals, sort=True),
        Attribute("failover_segment_uuid", Notification.segment_id, sort=True),
        moment("generated_time", Notification.generated_time, sort=True),
        Attribute("payload", Notification.payload, sort=cast(Notification.payload, Text)),
        Attribute("message", Notification.message, sort=func.coalesce(Notification.message, "")),
        *times(Notification),
    ),
    later=(Attribute("recovery_workflow_details", Notification.details, span=since(1, 1)),),
    filters={"type": _of_type, "generated-since": _generated_since},
    get=_notification,
)


@frozen
class Vouch:
    """An operator's statement that the host is off, and how that is known."""

    reason: Annotated[str, Length(1, 1000, blank=False)]


@frozen
class Reports:
    """Incoming notifications, and what operators say about those that wait."""

    routes = Routes("Notifications")

    db: Database
    options: InstanceHaOptions

    @routes.post("/notifications", policy="instance_ha:notifications:create", body=Body(Posted), status=202)
    async def create(self, call: Call, body: Posted) -> Json:
        """Say that a host, an instance or a process is broken."""
        if isinstance(body.alerts, list):
            if not self.options.accept_alertmanager:
                raise BodyError([Problem("$", "'alerts' was unexpected", "unknown")])
            return await self._alerts(call, body)
        return await self.db.run(self._create, call, body.notification_at(call.now))

    def _create(self, conn: Connection, call: Call, new: NewNotification) -> Json:
        made = notifications.create(conn, call.caller, new, self.options, call.now)
        return {"notification": NOTIFICATIONS.views(conn, call, [made])[0]}

    async def _alerts(self, call: Call, body: Posted) -> Json:
        """Each by itself: the sender has delivered the others even if one cannot be taken."""
        taken: list[Any] = []
        ignored: list[Json] = []
        for hostname, new in of_alerts(body.alerts or [], call.now):
            try:
                if isinstance(new, str):
                    raise Invalid(new)
                taken.append((await self.db.run(self._create, call, new))["notification"])
            except (Conflict, Invalid) as error:
                ignored.append({"hostname": hostname, "reason": error.message})
        return {"notifications": taken, "ignored": ignored}

    @routes.post(
        "/notifications/<notification_id>/fenced",
        policy="instance_ha:notifications:vouch",
        body=Body(Vouch, "fenced"),
        status=202,
    )
    async def vouch(self, call: Call, notification_id: str, body: Vouch) -> Json:
        """Say that the host of a notification is off, so that its servers may run elsewhere."""
        return await self.db.run(self._vouch, call, notification_id, body.reason)

    def _vouch(self, conn: Connection, call: Call, notification_id: str, reason: str) -> Json:
        found = notifications.get(conn, notification_id)
        waiting = notifications.open_of(conn, found.hostname)
        if waiting is None or waiting.id != found.id:
            raise Conflict(f"Notification {found.id} does not wait for a proof that its host is fenced.")
        fencing.vouch(conn, found.hostname, f"{call.user_id}: {reason}", call.now)
        found = notifications.get(conn, found.id)
        return {"notification": NOTIFICATIONS.views(conn, call, [found])[0]}


# -- moves of guests


def _of_host(conn: Connection, call: Call, path: Path) -> Notification:
    """Raises NotFound, Invalid."""
    found = _notification(conn, call, path)
    if found.kind != OF_HOST:
        raise Invalid(f"Notification {found.id} with type {found.type} has no vmoves: only COMPUTE_HOST has.")
    return found


def _scope(conn: Connection, call: Call, path: Path) -> list[Condition]:
    return [VMove.notification_id == _of_host(conn, call, path).id]


def _vmove(conn: Connection, call: Call, path: Path) -> VMove:
    return vmoves.get(conn, _of_host(conn, call, path).id, path["vmove_id"])


VMOVES = Declared(
    service="instance_ha",
    name="vmove",
    path="/notifications/<notification_id>/vmoves",
    record=VMove,
    attributes=(
        Attribute("id", VMove.number, sort=True),
        Attribute("uuid", VMove.id, sort=True, named="uuid"),
        Attribute("notification_uuid", VMove.notification_id),
        Attribute("instance_uuid", VMove.server_id, sort=True),
        Attribute("instance_name", VMove.server_name, sort=True),
        Attribute("source_host", VMove.source_host),
        Attribute("dest_host", VMove.dest_host),
        moment("start_time", VMove.start_time, sort=func.coalesce(VMove.start_time, LONG_AGO)),
        moment("end_time", VMove.end_time),
        Attribute("type", VMove.type, filter=one_of(*vmoves.TYPES), sort=True),
        Attribute("status", VMove.status, filter=one_of(*vmoves.STATUSES), sort=True),
        Attribute("message", VMove.message),
        *times(VMove),
    ),
    get=_vmove,
    scope=_scope,
    span=since(1, 3),
)
