"""What servers used over a time. Reference: compute.md, section 16."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import field, frozen

from cloudctl.compute import usage
from cloudctl.compute.api import query
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.usage import Used
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.listing import next_link
from cloudctl.rest.route import Routes

OTHERS = "compute:usage:others"
QUERY = frozenset({"start", "end", "detailed", "limit", "marker"})
FORMATS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f")


def server(used: Used) -> dict[str, Any]:
    row = used.row
    return {
        "instance_id": row.id,
        "name": row.name,
        "flavor": row.flavor["original_name"],
        "tenant_id": row.project_id,
        "hours": used.hours,
        "vcpus": row.vcpus,
        "memory_mb": row.memory_mib,
        "local_gb": used.disk_gib,
        "state": "terminated" if row.deleted_at is not None else row.vm_state,
        "started_at": micros(row.launched_at),
        "ended_at": micros(row.terminated_at),
        "uptime": used.uptime,
    }


# What is on a page, whether others follow, and the last id.
Page = tuple[list[Used], bool, str]


@frozen
class Usages:
    routes = Routes("Usage")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get("/os-simple-tenant-usage", policy="compute:usage:list", query=tuple(sorted(QUERY)))
    async def list(self, call: Call) -> dict[str, Any]:
        """Sum up what every project used."""
        start, stop = _period(call)
        found, more, last = await self._page(call, start, stop, None)
        projects: dict[str, list[Used]] = {}
        for used in found:
            projects.setdefault(used.row.project_id, []).append(used)
        detailed = call.query.get("detailed") == "1"
        shown = {"tenant_usages": [_summed(name, each, start, stop, detailed) for name, each in projects.items()]}
        return {**shown, **_links(call, more, last, "tenant_usages_links")}

    @routes.get("/os-simple-tenant-usage/<project_id>", policy="compute:usage:show", query=tuple(sorted(QUERY)))
    async def show(self, call: Call, project_id: str) -> dict[str, Any]:
        """Show what one project used."""
        if project_id != call.project_id and not call.may(OTHERS):
            raise NotFound(f"Project {project_id[:64]} could not be found.")
        start, stop = _period(call)
        found, more, last = await self._page(call, start, stop, project_id)
        shown = {"tenant_usage": _summed(project_id, found, start, stop, True) if found else {}}
        return {**shown, **_links(call, more, last, "tenant_usage_links")}

    async def _page(self, call: Call, start: datetime, stop: datetime, project_id: str | None) -> Page:
        query.only(call, QUERY)
        limit, marker = None, None
        if call.version >= (2, 40):
            asked = call.query.integer("limit")
            limit = self.options.max_limit if asked is None else min(asked, self.options.max_limit)
            marker = call.query.get("marker")
        return await self.db.scan(_found, call, start, stop, project_id, limit, marker)


def _found(
    conn: Connection,
    call: Call,
    start: datetime,
    stop: datetime,
    project_id: str | None,
    limit: int | None,
    marker: str | None,
) -> Page:
    found = usage.between(conn, start, stop, call.now, project_id)
    if marker is not None:
        place = next((at for at, used in enumerate(found) if used.row.id == marker), None)
        if place is None:
            raise Invalid(f"marker [{marker[:64]}] not found")
        found = found[place + 1 :]
    page = found if limit is None else found[:limit]
    return page, len(page) < len(found) and bool(page), page[-1].row.id if page else ""


def _links(call: Call, more: bool, last: str, key: str) -> dict[str, Any]:
    return {key: [{"rel": "next", "href": next_link(call, last)}]} if more else {}


def _summed(project_id: str, found: list[Used], start: datetime, stop: datetime, detailed: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "tenant_id": project_id,
        "start": micros(start),
        "stop": micros(stop),
        "total_hours": sum(used.hours for used in found),
        "total_vcpus_usage": sum(used.hours * used.row.vcpus for used in found),
        "total_memory_mb_usage": sum(used.hours * used.row.memory_mib for used in found),
        "total_local_gb_usage": sum(used.hours * used.disk_gib for used in found),
    }
    return {**shown, "server_usages": [server(used) for used in found]} if detailed else shown


def _period(call: Call) -> tuple[datetime, datetime]:
    """From `start` to `end`, the last four weeks if they are not given. Raises Invalid."""
    stop = _time(call, "end") or call.now
    start = _time(call, "start")
    if start is None:
        start = max(stop, datetime(1970, 2, 1)) - usage.FOUR_WEEKS
    if start >= stop:
        raise Invalid("Invalid start time. The start time cannot occur after the end time.")
    return start, stop


def _time(call: Call, name: str) -> datetime | None:
    text = call.query.get(name)
    if not text:
        return None
    for shape in FORMATS:
        try:
            return datetime.strptime(text, shape)
        except ValueError:
            continue
    raise Invalid(f"Datetime is in invalid format: {text[:64]}")
