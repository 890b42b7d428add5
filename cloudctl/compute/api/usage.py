"""What servers used over a period. Reference: compute.md, section 16."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson
from attrs import define, field, frozen

from cloudctl.compute import usage
from cloudctl.compute.api import gates, query
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.usage import Span, Used
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.listing import next_link
from cloudctl.rest.rendered import kept_json
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import ALWAYS, since

OTHERS = "compute:usage:others"
QUERY = {"start": ALWAYS, "end": ALWAYS, "detailed": ALWAYS, "limit": since(2, 40), "marker": since(2, 40)}
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


@define
class Sums:
    """The sums over one project's servers. `usages`: each of them as JSON, if that is requested."""

    hours: float = 0
    vcpus: float = 0
    memory_mb: float = 0
    local_gb: float = 0
    usages: list[orjson.Fragment] | None = None

    def add(self, used: Used) -> None:
        self.hours += used.hours
        self.vcpus += used.hours * used.row.vcpus
        self.memory_mb += used.hours * used.row.memory_mib
        self.local_gb += used.hours * used.disk_gib
        if self.usages is not None:
            self.usages.append(orjson.Fragment(kept_json(server(used))))

    def shown(self, project_id: str, span: Span) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "tenant_id": project_id,
            "start": micros(span.start),
            "stop": micros(span.stop),
            "total_hours": self.hours,
            "total_vcpus_usage": self.vcpus,
            "total_memory_mb_usage": self.memory_mb,
            "total_local_gb_usage": self.local_gb,
        }
        return shown if self.usages is None else {**shown, "server_usages": self.usages}


@frozen
class Page:
    """Project → what its servers on this page used. `last`: the id of the last one if others follow."""

    projects: dict[str, Sums]
    last: str | None = None


@frozen
class Usages:
    routes = Routes("Usage")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get("/os-simple-tenant-usage", policy="compute:usage:list", query=QUERY)
    async def list(self, call: Call) -> dict[str, Any]:
        """Sum up the usage of every project."""
        span = Span(*_period(call))
        page = await self._page(call, span, call.query.get("detailed") == "1")
        shown = [sums.shown(project_id, span) for project_id, sums in page.projects.items()]
        return {"tenant_usages": shown, **_links(call, page, "tenant_usages_links")}

    @routes.get("/os-simple-tenant-usage/<project_id>", policy="compute:usage:show", query=QUERY)
    async def show(self, call: Call, project_id: str) -> dict[str, Any]:
        """Show the usage of one project."""
        if project_id != call.project_id and not call.may(OTHERS):
            raise NotFound(f"Project {project_id[:64]} could not be found.")
        span = Span(*_period(call), project_id)
        page = await self._page(call, span, True)
        sums = page.projects.get(project_id)
        shown = {} if sums is None else sums.shown(project_id, span)
        return {"tenant_usage": shown, **_links(call, page, "tenant_usage_links")}

    async def _page(self, call: Call, span: Span, detailed: bool) -> Page:
        query.only(call, QUERY)
        limit, marker = None, None
        if call.version in gates.USAGE_PAGES:
            limit = query.limit(call, self.options)
            marker = call.query.get("marker")
        return await self.db.scan(_found, call, span, detailed, limit, marker)


def _found(conn: Connection, call: Call, span: Span, detailed: bool, limit: int | None, marker: str | None) -> Page:
    after = 0
    if marker is not None:
        number = usage.number(conn, span, marker)
        if number is None:
            raise query.no_marker(marker)
        after = number
    projects: dict[str, Sums] = {}
    last = None
    for place, used in enumerate(usage.between(conn, span, call.now, after)):
        if place == limit:
            return Page(projects, last)
        mine = projects.get(used.row.project_id)
        if mine is None:
            mine = projects[used.row.project_id] = Sums(usages=[] if detailed else None)
        mine.add(used)
        last = used.row.id
    return Page(projects)


def _links(call: Call, page: Page, key: str) -> dict[str, Any]:
    return {key: [{"rel": "next", "href": next_link(call, page.last)}]} if page.last is not None else {}


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
