"""Servers: the record, who sees it, and the compare-and-set moves between its states."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select, update

from cloudctl.compute import states
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.db.machine import Machine
from cloudctl.errors import Conflict, NotFound
from cloudctl.rest.caller import Caller


class Outline(NamedTuple):
    """Enough to tell who may see a server, and whether it has changed: a fifteenth of its columns."""

    id: str
    project_id: str
    revision: int
    host: str | None


# Rules.
ALL_PROJECTS = "compute:servers:all_projects"
OVER_LOCK = "compute:servers:over_lock"

# Built once: building costs more than running it.
_by_id = select(Server).where(Server.id == bindparam("wanted"))
_live_by_id = _by_id.where(Server.deleted_at.is_(None))
_locked_by_id = _live_by_id.with_for_update()
OUTLINE = (Server.id, Server.project_id, Server.revision, Server.host)
_outline = select(*OUTLINE).where(Server.id == bindparam("wanted"), Server.deleted_at.is_(None))
_change = update(Server).where(Server.id == bindparam("wanted"), Server.deleted_at.is_(None))


def not_found(server_id: str) -> NotFound:
    return NotFound(f"Instance {server_id} could not be found.")


def find(conn: Connection, server_id: str) -> Server | None:
    """The row, also of a server that was deleted; None if there never was one."""
    return conn.execute(_by_id, {"wanted": server_id}).first()


def get(conn: Connection, server_id: str) -> Server:
    """The row of a server that was not deleted. Raises NotFound."""
    row = conn.execute(_live_by_id, {"wanted": server_id}).first()
    if row is None:
        raise not_found(server_id)
    return row


def sees(caller: Caller, project_id: str) -> bool:
    return project_id == caller.project_id or caller.may(ALL_PROJECTS)


def visible(conn: Connection, caller: Caller, server_id: str, *, deleted: bool = False, lock: bool = False) -> Server:
    """The row, if the caller may see it. `lock`: nobody else changes it before this transaction ends.

    Raises NotFound.
    """
    query = _by_id if deleted else _locked_by_id if lock else _live_by_id
    row = conn.execute(query, {"wanted": server_id[:64]}).first()
    if row is None or not sees(caller, row.project_id):
        raise not_found(server_id)
    return row


def outline(conn: Connection, caller: Caller, server_id: str) -> Outline:
    """The outline of a server that the caller may see. Raises NotFound."""
    for row in conn.execute(_outline, {"wanted": server_id[:64]}):
        found = Outline(*row)
        if sees(caller, found.project_id):
            return found
    raise not_found(server_id)


# -- states

SERVER = Machine(Server, states.MOVES, not_found, states.REFUSAL, only=Server.deleted_at.is_(None))
move, try_move = SERVER.move, SERVER.try_move


def begin(conn: Connection, caller: Caller, server_id: str, name: str) -> Server:
    """Accept an action and set its task state; returns the row as it was before. Raises NotFound, Conflict."""
    row = allowed(conn, caller, server_id, name, lock=True)
    move(conn, row.id, name, caller.now)
    return row


def allowed(conn: Connection, caller: Caller, server_id: str, name: str, *, lock: bool = False) -> Server:
    """The row, if this action is allowed now. Raises NotFound, Conflict."""
    row = visible(conn, caller, server_id, lock=lock)
    check(row, name, over_lock=caller.may(OVER_LOCK))
    return row


def check(row: Server, name: str, *, over_lock: bool = False) -> None:
    """Refuse an action that the server's state forbids. `over_lock`: the caller may ignore locks. Raises Conflict."""
    if row.locked_by and not over_lock and name not in states.DESPITE_A_LOCK:
        raise Conflict(f"Instance {row.id} is locked")
    SERVER.check(row, name)
    if row.launched_at is None and name not in states.BEFORE_THE_LAUNCH:
        raise Conflict(f"Instance {row.id} is in an invalid state for '{states.TOLD.get(name, name)}'")


def fail(conn: Connection, server_id: str, name: str, message: str, now: datetime, **values: Any) -> bool:
    """Record a fault, with this move and these changes; False if the move cannot be made (any more)."""
    return try_move(conn, server_id, name, now, **fault(message, now), **values)


def fault(message: str, now: datetime) -> dict[str, Any]:
    return {"fault_code": 500, "fault_message": message[:2000], "fault_at": now}


# -- changes


def change(conn: Connection, server: Server, changes: Mapping[str, Any], now: datetime) -> Server:
    """Change columns that are not part of the state."""
    conn.execute(_change, {"wanted": server.id, "updated_at": now, **changes})
    return get(conn, server.id)


def remove(conn: Connection, server_id: str, now: datetime) -> None:
    """The server is gone; its row stays for changes-since, actions and usage. Repeating it does nothing."""
    gone = dict.fromkeys(("host", "admin_password", "user_data", "group_id"))
    try_move(conn, server_id, "deleted", now, deleted_at=now, terminated_at=now, **gone)


def members(conn: Connection, group_ids: Sequence[str]) -> dict[str, list[str]]:
    """Group → its servers, the oldest first."""
    found: dict[str, list[str]] = {group_id: [] for group_id in group_ids}
    rows = conn.execute(
        select(Server.group_id, Server.id)
        .where(Server.group_id.in_(group_ids), Server.deleted_at.is_(None))
        .order_by(Server.number)
    )
    for group_id, server_id in rows:
        if group_id is not None:
            found[group_id].append(server_id)
    return found


def hosts_of(conn: Connection, server_ids: Sequence[str], project_id: str) -> frozenset[str]:
    """The hosts that these servers of a project are on; unknown servers and those without a host do not count."""
    mine = Server.id.in_(server_ids), Server.project_id == project_id
    live = Server.deleted_at.is_(None), Server.host.is_not(None)
    return frozenset(host for host in conn.scalars(select(Server.host).where(*mine, *live)) if host is not None)


def host_id(project_id: str, host: str | None) -> str:
    """Lets a project see whether two servers share a host, but not which host it is."""
    return hashlib.sha224((project_id + host).encode()).hexdigest() if host else ""


def instance_name(number: int) -> str:
    return f"instance-{number:08x}"
