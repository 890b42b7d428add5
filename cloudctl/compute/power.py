"""Start, stop, reboot, pause and suspend. Reference: compute-states.md, sections 3 and 4.5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cloudctl import tasks
from cloudctl.compute import kinds, servers
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.placement import hosts
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Kind

# Action → its kind of work, and the arguments of that. What comes before the work: `states.ASKED`.
WORK: Mapping[str, tuple[Kind, Mapping[str, Any]]] = {
    "start": (kinds.START, {}),
    "stop": (kinds.STOP, {}),
    "reboot": (kinds.REBOOT, {}),
    "reboot_hard": (kinds.REBOOT, {"hard": True}),
    "pause": (kinds.PAUSE, {}),
    "unpause": (kinds.UNPAUSE, {}),
    "suspend": (kinds.SUSPEND, {}),
    "resume": (kinds.RESUME, {}),
}


def begin(conn: Connection, caller: Caller, server_id: str, action: str) -> None:
    """Raises NotFound, Conflict."""
    row = placed(servers.begin(conn, caller, server_id, action))
    kind, args = WORK[action]
    tasks.submit(conn, kind, row.id, caller, args=args)


def placed(row: Server) -> Server:
    """Raises Conflict for a server that has no host."""
    if row.host is None:
        raise Conflict(f"Instance {row.id} is not ready")
    return row


def on_a_living_host(conn: Connection, row: Server) -> Server:
    """Raises Conflict for a server without a host, or on one that is down."""
    host = hosts.find(conn, placed(row).host or "")
    if host is None or not hosts.is_alive(host):
        raise Conflict("Service is unavailable at this time.")
    return row
