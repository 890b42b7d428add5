"""Hosts as administrators saw them until 2.42. Reference: compute.md, section 17."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Literal

from attrs import frozen

from cloudctl.compute import services
from cloudctl.compute.services import Service
from cloudctl.compute.tables import Server
from cloudctl.db import Connection, Database
from cloudctl.db.records import select_without
from cloudctl.errors import Invalid, NotFound, NotImplementedHere
from cloudctl.placement import hosts
from cloudctl.placement.hosts import Host, Load
from cloudctl.rest.body import MISSING, Body, Missing
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

LAST = (2, 42)
Switch = Literal["enable", "disable"]
AMOUNTS = ("cpu", "memory_mb", "disk_gb")
# The columns of a server that are needed for the sums.
READ = ("project_id", "vcpus", "memory_mib", "flavor")
UNREAD = tuple(each for each in Server.table.c if each.key not in READ)


@frozen
class ChangeHost:
    status: Switch | Missing = MISSING
    maintenance_mode: Switch | Missing = MISSING


def view(each: Service) -> dict[str, str]:
    return {"host_name": each.host, "service": each.binary.removeprefix("nova-"), "zone": each.zone}


def resource(host: Host, project: str, amounts: Iterable[int]) -> dict[str, Any]:
    return {"resource": {"host": host.name, "project": project, **dict(zip(AMOUNTS, amounts, strict=True))}}


@frozen
class Hosts:
    routes = Routes("Hosts (deprecated)")

    db: Database

    @routes.get("/os-hosts", policy="compute:hosts:list", until=LAST, query=("zone",))
    async def list(self, call: Call) -> dict[str, Any]:
        """List the hosts of all services."""
        zone = call.query.get("zone")
        found = await self.db.scan(services.every, call.now)
        return {"hosts": [view(each) for each in found if zone in (None, "", each.zone)]}

    @routes.get("/os-hosts/<host>", policy="compute:hosts:show", until=LAST)
    async def show(self, call: Call, host: str) -> dict[str, Any]:
        """Show the resources of a host, how much of them is used, and by which projects."""
        return {"host": await self.db.scan(_resources, host)}

    @routes.put("/os-hosts/<host>", policy="compute:hosts:manage", until=LAST, body=Body(ChangeHost))
    async def update(self, call: Call, host: str, body: ChangeHost) -> dict[str, str]:
        """Enable or disable the service of a host."""
        if body.status is MISSING and body.maintenance_mode is MISSING:
            raise Invalid("Neither status nor maintenance_mode was given.")
        return await self.db.run(_change, host, body)

    @routes.get("/os-hosts/<host>/startup", policy="compute:hosts:manage", until=LAST)
    async def startup(self, call: Call, host: str) -> None:
        """Start a machine, which no driver can."""
        await self._refuse(host)

    @routes.get("/os-hosts/<host>/shutdown", policy="compute:hosts:manage", until=LAST)
    async def shutdown(self, call: Call, host: str) -> None:
        """Shut down a machine, which no driver can."""
        await self._refuse(host)

    @routes.get("/os-hosts/<host>/reboot", policy="compute:hosts:manage", until=LAST)
    async def reboot(self, call: Call, host: str) -> None:
        """Reboot a machine, which no driver can."""
        await self._refuse(host)

    async def _refuse(self, host: str) -> None:
        await self.db.read(_get, host)
        raise NotImplementedHere("Virt driver does not implement host power actions.")


def _get(conn: Connection, name: str) -> Host:
    found = hosts.find(conn, name)
    if found is None:
        raise NotFound(f"Compute host {name[:255]} could not be found.")
    return found


def _change(conn: Connection, name: str, body: ChangeHost) -> dict[str, str]:
    host = _get(conn, name)
    if body.maintenance_mode is not MISSING:
        raise NotImplementedHere("Virt driver does not implement host maintenance mode.")
    enabled = body.status == "enable"
    hosts.change(conn, host, {"enabled": enabled, "disabled_reason": None})
    return {"host": name, "status": f"{body.status}d"}


def _resources(conn: Connection, name: str) -> list[dict[str, Any]]:
    host = _get(conn, name)
    used: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for server in conn.execute(select_without(Server, *UNREAD).where(Server.host == name, Server.deleted_at.is_(None))):
        flavor = server.flavor
        amounts = (server.vcpus, server.memory_mib, flavor["disk"] + flavor["ephemeral"])
        used[server.project_id] = [sum(pair) for pair in zip(used[server.project_id], amounts, strict=True)]
    by_all = [sum(column) for column in zip(*used.values(), strict=True)] or [0, 0, 0]
    load = hosts.loads(conn).get(host.id, Load())
    taken = (load.vcpus, load.memory_mib, load.disk_gib)
    return [
        resource(host, "(total)", (host.vcpus, host.memory_mib, host.disk_gib)),
        resource(host, "(used_now)", taken),
        resource(host, "(used_max)", by_all),
        *(resource(host, project_id, amounts) for project_id, amounts in sorted(used.items())),
    ]
