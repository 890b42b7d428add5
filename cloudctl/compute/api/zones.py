"""Availability zones. Reference: compute.md, section 11."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import frozen

from cloudctl.compute import services
from cloudctl.compute.options import INTERNAL
from cloudctl.db import Connection, Database
from cloudctl.placement import hosts
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.route import Routes


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
        return {"availabilityZoneInfo": await self.db.scan(_with_hosts, call.now)}


def _zone(name: str, usable: bool, members: dict[str, Any] | None) -> dict[str, Any]:
    return {"zoneName": name, "zoneState": {"available": usable}, "hosts": members}


def _with_hosts(conn: Connection, now: datetime) -> list[dict[str, Any]]:
    usable = {INTERNAL: True, **hosts.zones(conn)}
    zones: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in usable}
    for each in services.every(conn, now):
        active = each.machine is None or each.machine.enabled
        state = {"available": each.up, "active": active, "updated_at": micros(each.seen_at)}
        zones[each.zone].setdefault(each.host, {})[each.binary] = state
    return [_zone(name, usable[name], members) for name, members in zones.items()]
