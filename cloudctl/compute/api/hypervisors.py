"""Hypervisors: the hosts as administrators see them. Reference: compute.md, section 13."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from attrs import field, frozen
from sqlalchemy import select

from cloudctl.compute import migrations
from cloudctl.compute.api import gates, query
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.tables import Server
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound, NotImplementedHere
from cloudctl.placement import claims, hosts
from cloudctl.placement.hosts import Host, Load
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Page
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since

ONE_QUERY = {"with_servers": since(2, 53)}
QUERY = {
    "limit": since(2, 33),
    "marker": since(2, 33),
    "hypervisor_hostname_pattern": since(2, 53),
    **ONE_QUERY,
}


@frozen
class Found:
    """Hosts, and what runs on them."""

    rows: Sequence[Host]
    running: dict[str, int]
    loads: dict[str, Load]
    servers: dict[str, list[dict[str, str]]] | None
    more: bool = False


def brief(call: Call, row: Host) -> dict[str, Any]:
    return {
        "id": row.id if call.version in gates.UUIDS else row.number,
        "hypervisor_hostname": row.name,
        "state": "up" if hosts.is_alive(row) else "down",
        "status": "enabled" if row.enabled else "disabled",
    }


def view(call: Call, found: Found, row: Host) -> dict[str, Any]:
    shown = {
        **brief(call, row),
        "hypervisor_type": row.hypervisor_type,
        "hypervisor_version": row.hypervisor_version,
        "host_ip": row.host_ip,
        "service": {
            "id": row.service_id if call.version in gates.UUIDS else row.number,
            "host": row.name,
            "disabled_reason": row.disabled_reason,
        },
    }
    if call.version in gates.LEAN_HYPERVISOR:
        shown["uptime"] = uptime(call, row)
    else:
        shown |= amounts(row, found.loads.get(row.id, Load()), found.running.get(row.name, 0))
        shown["cpu_info"] = row.cpu_info if call.version in gates.CPU_OBJECT else orjson.dumps(row.cpu_info).decode()
    return {**shown, **servers_of(call, found, row)}


def servers_of(call: Call, found: Found, row: Host) -> dict[str, Any]:
    """`servers`, if they were asked for; before 2.75 a host without any has no such key."""
    if found.servers is None:
        return {}
    servers = found.servers.get(row.name, [])
    return {"servers": servers} if servers or call.version in gates.EMPTY_SERVERS else {}


def uptime(call: Call, row: Host) -> str | None:
    """In the form in which the program `uptime` begins its line; None if it is not known."""
    if row.up_since is None or not hosts.is_alive(row):
        return None
    minutes = int((call.now - row.up_since).total_seconds()) // 60
    days, hours = minutes // 1440, minutes // 60 % 24
    told = f"{days} day{'' if days == 1 else 's'}, " if days else ""
    return f" {call.now:%H:%M:%S} up {told}{hours:2}:{minutes % 60:02}"


def amounts(row: Host, load: Load, running: int) -> dict[str, int]:
    """The host's resources, and how much of them is promised."""
    return {
        "vcpus": row.vcpus,
        "vcpus_used": load.vcpus,
        "memory_mb": row.memory_mib,
        "memory_mb_used": load.memory_mib,
        "free_ram_mb": row.memory_mib - load.memory_mib,
        "local_gb": row.disk_gib,
        "local_gb_used": load.disk_gib,
        "free_disk_gb": row.disk_gib - load.disk_gib,
        "disk_available_least": row.disk_gib - load.disk_gib,
        "current_workload": 0,
        "running_vms": running,
    }


@frozen
class Hypervisors:
    routes = Routes("Hypervisors")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get("/os-hypervisors", policy="compute:hypervisors:list", query=QUERY)
    async def list(self, call: Call) -> dict[str, Any]:
        """List hypervisors."""
        found = await self.db.scan(self._page, call)
        shown = [{**brief(call, row), **servers_of(call, found, row)} for row in found.rows]
        return {"hypervisors": shown, **_links(call, found)}

    @routes.get("/os-hypervisors/detail", policy="compute:hypervisors:list", query=QUERY)
    async def detail(self, call: Call) -> dict[str, Any]:
        """List hypervisors with their resources."""
        found = await self.db.scan(self._page, call)
        return {"hypervisors": [view(call, found, row) for row in found.rows], **_links(call, found)}

    def _page(self, conn: Connection, call: Call) -> Found:
        query.only(call, QUERY)
        rows = hosts.every(conn)
        pattern = call.query.get("hypervisor_hostname_pattern")
        if pattern is not None:
            if query.PAGING & set(call.query):
                raise Invalid("Paging over hypervisors with the hypervisor_hostname_pattern query is not supported.")
            rows = [row for row in rows if pattern in row.name]
            if not rows:
                raise NotFound(f"No hypervisor matching '{pattern[:255]}' could be found.")
        elif call.version in gates.HYPERVISOR_PAGES:
            page = query.cut(call, rows, self.options, lambda row: _id(call, row))
            return _surrounded(conn, call, page.rows, page.more)
        return _surrounded(conn, call, rows)

    @routes.get("/os-hypervisors/statistics", policy="compute:hypervisors:list", until=(2, 87))
    async def statistics(self, call: Call) -> dict[str, Any]:
        """Sum up all hypervisors."""
        return {"hypervisor_statistics": await self.db.scan(_statistics)}

    @routes.get("/os-hypervisors/<hypervisor_id>", policy="compute:hypervisors:show", query=ONE_QUERY)
    async def show(self, call: Call, hypervisor_id: str) -> dict[str, Any]:
        """Show one hypervisor."""
        query.only(call, ONE_QUERY)
        found = await self.db.scan(_one, call, hypervisor_id)
        return {"hypervisor": view(call, found, found.rows[0])}

    @routes.get("/os-hypervisors/<hypervisor_id>/uptime", policy="compute:hypervisors:show", until=(2, 87))
    async def uptime(self, call: Call, hypervisor_id: str) -> dict[str, Any]:
        """Show how long a hypervisor has been up."""
        row = (await self.db.scan(_one, call, hypervisor_id)).rows[0]
        if not hosts.is_alive(row):
            raise Invalid(f"Service is unavailable: the host {row.name} is down.")
        told = uptime(call, row)
        if told is None:
            raise NotImplementedHere("The driver of this host cannot tell for how long it has been up.")
        return {"hypervisor": {**brief(call, row), "uptime": told}}

    @routes.get("/os-hypervisors/<pattern>/search", policy="compute:hypervisors:list", until=(2, 52))
    async def search(self, call: Call, pattern: str) -> dict[str, Any]:
        """List hypervisors by part of their name."""
        rows = await self.db.scan(_matching, pattern)
        return {"hypervisors": [brief(call, row) for row in rows]}

    @routes.get("/os-hypervisors/<pattern>/servers", policy="compute:hypervisors:list", until=(2, 52))
    async def servers(self, call: Call, pattern: str) -> dict[str, Any]:
        """List hypervisors by part of their name, with their servers."""
        found = await self.db.scan(_with_servers, pattern)
        shown = [{**brief(call, row), **servers_of(call, found, row)} for row in found.rows]
        return {"hypervisors": shown}


def _links(call: Call, found: Found) -> dict[str, Any]:
    if not found.more:
        return {}
    return query.links(call, Page(found.rows, True), "hypervisors_links", _id(call, found.rows[-1]))


def _id(call: Call, row: Host) -> str:
    """As clients know it, in a path or as a marker."""
    return row.id if call.version in gates.UUIDS else str(row.number)


def _surrounded(conn: Connection, call: Call, rows: Sequence[Host], more: bool = False) -> Found:
    shown = _servers(conn) if call.query.flag("with_servers") else None
    loads = hosts.loads(conn)
    return Found(rows, _running(conn, rows, loads), loads, shown, more)


def _running(conn: Connection, rows: Iterable[Host], loads: Mapping[str, Load]) -> dict[str, int]:
    """Host → how many servers it has. From the hosts' own counts: there may be many servers, and few of them move."""
    left = claims.counted(conn, migrations.open_ids())
    return {host.name: loads[host.id].shares - left.get(host.name, 0) for host in rows if host.id in loads}


def _servers(conn: Connection) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    live = Server.deleted_at.is_(None), Server.host.is_not(None)
    for host, server_id, name in conn.execute(
        select(Server.host, Server.id, Server.name).where(*live).order_by(Server.number)
    ):
        if host is not None:
            found.setdefault(host, []).append({"uuid": server_id, "name": name})
    return found


SUMMED = (
    "vcpus",
    "vcpus_used",
    "memory_mb",
    "memory_mb_used",
    "local_gb",
    "local_gb_used",
    "free_ram_mb",
    "free_disk_gb",
    "current_workload",
    "running_vms",
    "disk_available_least",
)


def _statistics(conn: Connection) -> dict[str, int]:
    rows = hosts.every(conn)
    loads = hosts.loads(conn)
    running = _running(conn, rows, loads)
    each = [amounts(row, loads.get(row.id, Load()), running.get(row.name, 0)) for row in rows if row.enabled]
    return {"count": len(each), **{name: sum(item[name] for item in each) for name in SUMMED}}


def _one(conn: Connection, call: Call, hypervisor_id: str) -> Found:
    query.check_id(call, hypervisor_id)
    for row in hosts.every(conn):
        if hypervisor_id == _id(call, row):
            return _surrounded(conn, call, [row])
    raise NotFound(f"Compute host {hypervisor_id[:64]} could not be found.")


def _matching(conn: Connection, pattern: str) -> list[Host]:
    rows = [row for row in hosts.every(conn) if pattern in row.name]
    if not rows:
        raise NotFound(f"No hypervisor matching '{pattern[:255]}' could be found.")
    return rows


def _with_servers(conn: Connection, pattern: str) -> Found:
    return Found(_matching(conn, pattern), {}, {}, _servers(conn))
