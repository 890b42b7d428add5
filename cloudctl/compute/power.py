"""Start, stop, reboot, pause and suspend. Reference: compute-states.md, sections 3 and 4.5."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from cloudctl import db, tasks
from cloudctl.compute import servers
from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.rest.caller import Caller

START, STOP, REBOOT = "compute.server.start", "compute.server.stop", "compute.server.reboot"
PAUSE, UNPAUSE = "compute.server.pause", "compute.server.unpause"
SUSPEND, RESUME = "compute.server.suspend", "compute.server.resume"
DEADLINE = 900.0


def start(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    submit(conn, caller, placed(servers.begin(conn, caller, server_id, "start")), START)


def stop(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    submit(conn, caller, placed(servers.begin(conn, caller, server_id, "stop")), STOP)


def reboot(conn: Connection, caller: Caller, server_id: str, hard: bool) -> None:
    """Raises NotFound, Conflict."""
    row = placed(servers.begin(conn, caller, server_id, "reboot_hard" if hard else "reboot"))
    submit(conn, caller, row, REBOOT, {"hard": hard})


def pause(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    submit(conn, caller, placed(servers.begin(conn, caller, server_id, "pause")), PAUSE)


def unpause(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    submit(conn, caller, placed(servers.begin(conn, caller, server_id, "unpause")), UNPAUSE)


def suspend(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    submit(conn, caller, placed(servers.begin(conn, caller, server_id, "suspend")), SUSPEND)


def resume(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    submit(conn, caller, placed(servers.begin(conn, caller, server_id, "resume")), RESUME)


def placed(row: Row[Any]) -> Row[Any]:
    """Raises Conflict for a server that has no host."""
    if row.host is None:
        raise Conflict(f"Instance {row.id} is not ready")
    return row


def submit(conn: Connection, caller: Caller, row: Any, kind: str, args: dict[str, Any] | None = None) -> None:
    """Work on a server, in the name of the caller."""
    tasks.submit(
        conn,
        kind,
        row.id,
        resource_type=servers.RESOURCE,
        now=db.now(conn),
        args=args,
        request_id=caller.request_id,
        user_id=caller.user_id,
        project_id=row.project_id,
        deadline=DEADLINE,
    )
