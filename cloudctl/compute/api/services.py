"""Services, as administrators see and control them. Reference: compute.md, section 14."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.compute import services
from cloudctl.compute.api import gates, query
from cloudctl.compute.services import COMPUTE, Service
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.placement import hosts
from cloudctl.rest.body import MISSING, Body, Length, LooseBool, Missing
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.rest.views import Fields

Reason = Annotated[str, Length(1, 255, blank=False)]


@frozen
class Change:
    """2.53 and later."""

    status: Literal["enabled", "disabled"] | Missing = MISSING
    disabled_reason: Reason | Missing = MISSING
    forced_down: LooseBool | Missing = MISSING


@frozen
class Switch:
    """Before 2.53."""

    host: Annotated[str, Length(1, 255)]
    binary: Annotated[str, Length(1, 255)] = COMPUTE
    disabled_reason: Reason | Missing = MISSING
    forced_down: LooseBool | Missing = MISSING


LATER = Fields[[Service]](
    "a service",
    {"forced_down": (since(2, 11), lambda service: service.machine is not None and service.machine.forced_down)},
)


def view(call: Call, service: Service) -> dict[str, Any]:
    host = service.machine
    shown = {
        "id": service.id if call.version in gates.UUIDS else service.number,
        "binary": service.binary,
        "host": service.host,
        "zone": service.zone,
        "status": "enabled" if host is None or host.enabled else "disabled",
        "state": "up" if service.up else "down",
        "disabled_reason": None if host is None else host.disabled_reason,
        "updated_at": micros(service.seen_at),
    }
    return shown | LATER.of(call.version, service)


@frozen
class Services:
    routes = Routes("Services")

    db: Database

    @routes.get("/os-services", policy="compute:services:list", query=("host", "binary"))
    async def list(self, call: Call) -> dict[str, Any]:
        """List the services of the hosts, and those that schedule and conduct."""
        query.only(call, ("host", "binary"))
        host, binary = call.query.get("host"), call.query.get("binary")
        found = await self.db.scan(services.every, call.now)
        return {
            "services": [
                view(call, each)
                for each in found
                if host in (None, "", each.host) and binary in (None, "", each.binary)
            ]
        }

    @routes.put("/os-services/<service_id>", policy="compute:services:update", body=Body(Change), since=(2, 53))
    async def update(self, call: Call, service_id: str, body: Change) -> dict[str, Any]:
        """Enable, disable or force down a service."""
        return {"service": view(call, await self.db.run(_update, call, service_id, body))}

    @routes.put("/os-services/enable", policy="compute:services:update", body=Body(Switch), until=(2, 52))
    async def enable(self, call: Call, body: Switch) -> dict[str, Any]:
        """Enable the service of a host."""
        await self.db.run(_switch, call, body, {"enabled": True, "disabled_reason": None})
        return {"service": {"host": body.host, "binary": body.binary, "status": "enabled"}}

    @routes.put("/os-services/disable", policy="compute:services:update", body=Body(Switch), until=(2, 52))
    async def disable(self, call: Call, body: Switch) -> dict[str, Any]:
        """Disable the service of a host."""
        await self.db.run(_switch, call, body, {"enabled": False, "disabled_reason": None})
        return {"service": {"host": body.host, "binary": body.binary, "status": "disabled"}}

    @routes.put("/os-services/disable-log-reason", policy="compute:services:update", body=Body(Switch), until=(2, 52))
    async def disable_with_reason(self, call: Call, body: Switch) -> dict[str, Any]:
        """Disable the service of a host and say why."""
        if body.disabled_reason is MISSING:
            raise Invalid("Missing disabled reason field")
        await self.db.run(_switch, call, body, {"enabled": False, "disabled_reason": body.disabled_reason})
        return {
            "service": {
                "host": body.host,
                "binary": body.binary,
                "status": "disabled",
                "disabled_reason": body.disabled_reason,
            }
        }

    @routes.put(
        "/os-services/force-down", policy="compute:services:update", body=Body(Switch), since=(2, 11), until=(2, 52)
    )
    async def force_down(self, call: Call, body: Switch) -> dict[str, Any]:
        """Declare a host down, whatever its driver reports."""
        if body.forced_down is MISSING:
            raise Invalid("Missing forced_down field")
        await self.db.run(_switch, call, body, {"forced_down": body.forced_down})
        return {"service": {"host": body.host, "binary": body.binary, "forced_down": body.forced_down}}

    @routes.delete("/os-services/<service_id>", policy="compute:services:delete")
    async def delete(self, call: Call, service_id: str) -> None:
        """Forget a host that is gone for good."""
        await self.db.run(_delete, call, service_id)


def _find(conn: Connection, call: Call, service_id: str) -> Service:
    """Raises Invalid, NotFound."""
    query.check_id(call, service_id)
    for each in services.every(conn, call.now):
        if service_id == (each.id if call.version in gates.UUIDS else str(each.number)):
            return each
    raise NotFound(f"Service {service_id[:64]} could not be found.")


def _update(conn: Connection, call: Call, service_id: str, body: Change) -> Service:
    host = services.machine(_find(conn, call, service_id))
    if body.disabled_reason is not MISSING and body.status != "disabled":
        raise Invalid("Specifying disabled_reason requires that status is disabled.")
    values: dict[str, Any] = {}
    if body.status is not MISSING:
        values = {"enabled": body.status == "enabled", "disabled_reason": body.disabled_reason or None}
    if body.forced_down is not MISSING:
        values["forced_down"] = body.forced_down
    if not values:
        raise Invalid("No updates were requested. Fields 'status' or 'forced_down' should be specified.")
    return services.of_host(hosts.change(conn, host, values))


def _switch(conn: Connection, call: Call, body: Switch, values: dict[str, Any]) -> None:
    hosts.change(conn, services.machine(services.at(conn, body.binary, body.host, call.now)), values)


def _delete(conn: Connection, call: Call, service_id: str) -> None:
    services.remove(conn, _find(conn, call, service_id))
