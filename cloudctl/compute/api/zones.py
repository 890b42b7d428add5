"""Availability zones. Reference: compute.md, section 11."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.placement import hosts
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.route import Routes

# Where stock clients look for the services that run no servers. Those are this process: they have no host.
INTERNAL = "internal"


@frozen
class AvailabilityZones:
    routes = Routes("Availability zones")

    db: Database

    @routes.get("/os-availability-zone", policy="compute:zones:list")
    async def list(self, call: Call) -> dict[str, Any]:
        """List availability zones."""
        found = await self.db.scan(hosts.zones)
        return {"availabilityZoneInfo": [_zone(name, usable, None) for name, usable in found.items()]}

    @routes.get("/os-availability-zone/detail", policy="compute:zones:detail")
    async def detail(self, call: Call) -> dict[str, Any]:
        """List availability zones with their hosts."""
        return {"availabilityZoneInfo": await self.db.scan(_with_hosts)}


def _zone(name: str, usable: bool, members: dict[str, Any] | None) -> dict[str, Any]:
    return {"zoneName": name, "zoneState": {"available": usable}, "hosts": members}


def _with_hosts(conn: Connection) -> list[dict[str, Any]]:
    usable = {INTERNAL: True, **hosts.zones(conn)}
    zones: dict[str, dict[str, Any]] = {name: {} for name in usable}
    for host in hosts.every(conn):
        state = {"available": hosts.is_alive(host), "active": host.enabled, "updated_at": micros(host.seen_at)}
        zones[host.zone][host.name] = {"nova-compute": state}
    return [_zone(name, usable[name], members) for name, members in zones.items()]
