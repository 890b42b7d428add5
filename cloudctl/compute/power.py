"""Start, stop, reboot, pause and suspend. Reference: compute-states.md, sections 3 and 4.5."""

from __future__ import annotations

from cloudctl import tasks
from cloudctl.compute import kinds, servers
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.rest.caller import Caller


def start(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    row = placed(servers.begin(conn, caller, server_id, "start"))
    tasks.submit(conn, kinds.START, row.id, caller)


def stop(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    row = placed(servers.begin(conn, caller, server_id, "stop"))
    tasks.submit(conn, kinds.STOP, row.id, caller)


def reboot(conn: Connection, caller: Caller, server_id: str, hard: bool) -> None:
    """Raises NotFound, Conflict."""
    row = placed(servers.begin(conn, caller, server_id, "reboot_hard" if hard else "reboot"))
    tasks.submit(conn, kinds.REBOOT, row.id, caller, args={"hard": hard})


def pause(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    row = placed(servers.begin(conn, caller, server_id, "pause"))
    tasks.submit(conn, kinds.PAUSE, row.id, caller)


def unpause(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    row = placed(servers.begin(conn, caller, server_id, "unpause"))
    tasks.submit(conn, kinds.UNPAUSE, row.id, caller)


def suspend(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    row = placed(servers.begin(conn, caller, server_id, "suspend"))
    tasks.submit(conn, kinds.SUSPEND, row.id, caller)


def resume(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    row = placed(servers.begin(conn, caller, server_id, "resume"))
    tasks.submit(conn, kinds.RESUME, row.id, caller)


def placed(row: Server) -> Server:
    """Raises Conflict for a server that has no host."""
    if row.host is None:
        raise Conflict(f"Instance {row.id} is not ready")
    return row
