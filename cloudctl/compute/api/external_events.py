"""Events that other services report about servers. Reference: compute.md, section 17.

The answer to an event says whether its server exists and has a host; `outside` acts on the event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from attrs import frozen
from sqlalchemy import select

from cloudctl.compute import outside
from cloudctl.compute.tables import Server
from cloudctl.db import Connection, Database
from cloudctl.errors import NotFound
from cloudctl.rest import body as bodies
from cloudctl.rest.body import MISSING, Body, BodyError, Length, Missing, Problem, Uuid
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.standing import shown
from cloudctl.rest.versions import ALWAYS, since

# Name → the microversions that have it.
NAMES = {
    "network-changed": ALWAYS,
    "network-vif-plugged": ALWAYS,
    "network-vif-unplugged": ALWAYS,
    "network-vif-deleted": ALWAYS,
    "volume-extended": since(2, 51, "the external event `volume-extended`"),
    "power-update": since(2, 76, "the external event `power-update`"),
    "accelerator-request-bound": since(2, 82, "the external event `accelerator-request-bound`"),
    "volume-reimaged": since(2, 93, "the external event `volume-reimaged`"),
}
# Events that mean nothing without a tag: which volume, which power.
TAGGED = ("volume-extended", "power-update", "accelerator-request-bound", "volume-reimaged")
OK, BAD, UNKNOWN, HOMELESS, MIXED = 200, 400, 404, 422, 207


@frozen
class Event:
    name: str
    server_uuid: Uuid
    status: Literal["failed", "completed", "in-progress"] = "completed"
    tag: Annotated[str, Length(0, 255)] | Missing = MISSING


@frozen
class Events:
    events: Annotated[list[Event], bodies.Items(1, 1000)]


@frozen
class ExternalEvents:
    routes = Routes("External events")

    db: Database

    @routes.post("/os-server-external-events", policy="compute:external_events:create", body=Body(Events))
    async def create(self, call: Call, body: Events) -> Reply:
        """Report events outside compute that concern servers."""
        known = [name for name, span in NAMES.items() if call.version in span]
        wrong = [
            Problem(f"$.events[{place}].name", f"{shown(event.name)} is not one of {known}")
            for place, event in enumerate(body.events)
            if event.name not in known
        ]
        if wrong:
            raise BodyError(wrong)
        codes = await self.db.run(_heed, call, body.events)
        if OK not in codes:
            raise NotFound("No instances found for any event")
        answered = [view(event, code) for event, code in zip(body.events, codes, strict=True)]
        return Reply({"events": answered}, OK if set(codes) == {OK} else MIXED)


def view(event: Event, code: int) -> dict[str, Any]:
    told = {"name": event.name, "server_uuid": event.server_uuid, "code": code}
    tag = {} if event.tag is MISSING else {"tag": event.tag}
    return {**told, **tag, "status": event.status if code == OK else "failed"}


def _heed(conn: Connection, call: Call, events: Sequence[Event]) -> list[int]:
    asked = {event.server_uuid for event in events}
    rows = conn.execute(select(Server).where(Server.id.in_(asked), Server.deleted_at.is_(None)))
    found, codes = {server.id: server for server in rows}, []
    for event in events:
        server = found.get(event.server_uuid)
        codes.append(_code(event, server))
        if server is not None and codes[-1] == OK and event.status == "completed":
            outside.heed(conn, call.caller, event.name, server, event.tag or "")
    return codes


def _code(event: Event, server: Server | None) -> int:
    if server is None:
        return UNKNOWN
    if event.name in TAGGED and not event.tag:
        return BAD
    return OK if server.host is not None else HOMELESS
