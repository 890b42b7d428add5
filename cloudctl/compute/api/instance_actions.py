"""What was done to a server, read from its tasks. Reference: compute.md, section 8.7; compute-states.md, section 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from cloudctl.compute import kinds, migrations, servers
from cloudctl.compute.api import gates, query
from cloudctl.compute.api.server_filters import changed
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.servers import host_id
from cloudctl.compute.tables import Server
from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.errors import NotFound
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.rest.views import Fields
from cloudctl.tasks import queue
from cloudctl.tasks.tables import CANCELLED, FAILED, HELD, TaskRow

EVENTS = "compute:actions:events"
DETAILS = "compute:actions:details"

QUERY = {"limit": since(2, 58), "marker": since(2, 58), "changes-since": since(2, 58), "changes-before": since(2, 66)}

FAILURES = (FAILED, HELD, CANCELLED)


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else micros(utc(seconds))


ACTION = Fields[[TaskRow]](
    "an action of a server", {"updated_at": (since(2, 58), lambda task: _time(updated_at(task)))}
)
EVENT = Fields[[Call, TaskRow, Server]](
    "an event of an action",
    {
        "hostId": (since(2, 62), lambda call, task, server: host_id(server.project_id, server.host)),
        "details": (since(2, 84), lambda call, task, server: task.error if call.may(DETAILS) else None),
    },
)
EVENT_FOR_ADMINS = Fields[[Server]](
    "an event of an action, to administrators", {"host": (since(2, 62), lambda server: server.host)}
)


def action(call: Call, row: TaskRow, server: Server) -> dict[str, Any]:
    shown = {
        "action": kinds.action(row.kind).name,
        "instance_uuid": server.id,
        "request_id": row.request_id,
        "user_id": row.user_id,
        "project_id": row.project_id,
        "start_time": _time(row.submitted_at),
        "message": "Error" if row.state in FAILURES else None,
    }
    return shown | ACTION.of(call.version, row)


def updated_at(row: TaskRow) -> float:
    """Seconds since the epoch: when the last thing happened that the task's row records."""
    times = [row.submitted_at, row.ended_at]
    times += [entry[key] for entry in row.log for key in ("started_at", "ended_at")]
    return float(max(time for time in times if time is not None))


def event(call: Call, row: TaskRow, server: Server) -> dict[str, Any]:
    """A task is one event: its steps are internal."""
    ended = row.ended_at is not None or row.state == HELD
    result = None if not ended else "Error" if row.state in FAILURES else "Success"
    shown: dict[str, Any] = {
        "event": kinds.action(row.kind).event,
        "start_time": _time(row.log[0]["started_at"] if row.log else row.submitted_at),
        "finish_time": _time(row.ended_at),
        "result": result,
    }
    admin = call.may(EVENTS)
    if admin or call.version not in gates.EVENTS:
        shown["traceback"] = None
    if admin:
        shown |= EVENT_FOR_ADMINS.of(call.version, server)
    return shown | EVENT.of(call.version, call, row, server)


@frozen
class InstanceActions:
    routes = Routes("Server action log")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get("/servers/<server_id>/os-instance-actions", policy="compute:actions:list", query=QUERY)
    async def list(self, call: Call, server_id: str) -> dict[str, Any]:
        """List what was done to a server, the newest first."""
        query.only(call, QUERY, gates.ACTION_PAGES)
        rows, server = await self.db.scan(_rows, call, server_id)
        if call.version not in gates.ACTION_PAGES:
            return {"instanceActions": [action(call, row, server) for row in rows]}
        return self._page(call, rows, server)

    def _page(self, call: Call, rows: Sequence[TaskRow], server: Server) -> dict[str, Any]:
        after, before = changed(call)
        rows = [
            row
            for row in rows
            if (after is None or utc(updated_at(row)) >= after) and (before is None or utc(updated_at(row)) <= before)
        ]
        page = query.cut(call, rows, self.options, lambda row: row.request_id)
        last = page.rows[-1].request_id if page.rows else None
        shown = [action(call, row, server) for row in page.rows]
        return {"instanceActions": shown, **query.links(call, page, "links", last)}

    @routes.get("/servers/<server_id>/os-instance-actions/<request_id>", policy="compute:actions:show")
    async def show(self, call: Call, server_id: str, request_id: str) -> dict[str, Any]:
        """Show one action with its events."""
        rows, server = await self.db.scan(_one, call, server_id, request_id)
        shown = action(call, rows[-1], server)
        if any(row.state in FAILURES for row in rows):
            shown["message"] = "Error"
        if call.version in gates.EVENTS or call.may(EVENTS):
            shown["events"] = [event(call, row, server) for row in rows]
        return {"instanceAction": shown}


# A server with more actions than this shows the newest ones.
MOST = 1000


def _server(conn: Connection, call: Call, server_id: str) -> Server:
    """The server, from 2.21 on even if it is gone."""
    return servers.visible(conn, call.caller, server_id, deleted=call.version in gates.GONE_ACTIONS)


def _rows(
    conn: Connection, call: Call, server_id: str, request_id: str | None = None
) -> tuple[Sequence[TaskRow], Server]:
    """What was done to the server and to its live migrations, the newest first."""
    server = _server(conn, call, server_id)
    wanted: dict[str, Any] = {"kinds": kinds.TOLD, "request_id": request_id, "limit": MOST}
    rows = queue.listing(conn, resource=(kinds.SERVER, server.id), **wanted)
    if live := migrations.live_ids(conn, server.id):
        rows += queue.listing(conn, resource=(kinds.MIGRATION, *live), **wanted)
        rows = sorted(rows, key=lambda row: row.id, reverse=True)[:MOST]
    return rows, server


def _one(conn: Connection, call: Call, server_id: str, request_id: str) -> tuple[Sequence[TaskRow], Server]:
    rows, server = _rows(conn, call, server_id, request_id)
    if not rows:
        raise NotFound(f"Action for request_id {request_id[:64]} on instance {server.id} not found")
    return rows, server
