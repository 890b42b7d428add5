"""Servers: the record, who sees it, and the compare-and-set moves between its states."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Update, bindparam, select, update

from cloudctl.compute.states import ACTIONS, DELETED, DELETING, Action, check, wrong_state
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import NotFound
from cloudctl.rest.caller import Caller

# Rules, and the task type of all work on servers.
ALL_PROJECTS = "compute:servers:all_projects"
OVER_LOCK = "compute:servers:over_lock"

# Built once: building costs more than running it.
_by_id = select(Server).where(Server.id == bindparam("wanted"))
_live_by_id = _by_id.where(Server.deleted_at.is_(None))
_remove = (
    update(Server)
    .where(Server.id == bindparam("wanted"), Server.deleted_at.is_(None))
    .values(
        vm_state=DELETED,
        task_state=None,
        power_state=0,
        host=None,
        admin_password=None,
        user_data=None,
        group_id=None,
    )
)
_locked_by_id = _live_by_id.with_for_update()


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
    """The row, if the caller may know of it. `lock`: nobody else changes it before this transaction ends.

    Raises NotFound.
    """
    query = _by_id if deleted else _locked_by_id if lock else _live_by_id
    row = conn.execute(query, {"wanted": server_id[:64]}).first()
    if row is None or not sees(caller, row.project_id):
        raise not_found(server_id)
    return row


def move(conn: Connection, server_id: str, now: datetime, expected: Mapping[str, Any], **values: Any) -> bool:
    """Change the row if it is in the expected states; False if it is not.

    `expected`: `vm_state` and `task_state`, each a value or a tuple of values that will do; one not given may be any.
    """
    kinds = tuple((name, "none" if wanted is None else type(wanted).__name__) for name, wanted in expected.items())
    here = {f"expected_{name}": wanted for name, wanted in expected.items() if wanted is not None}
    return conn.execute(_move(kinds), {"wanted": server_id, "updated_at": now, **here, **values}).rowcount > 0


@cache
def _move(expected: tuple[tuple[str, str], ...]) -> Update:
    here = [Server.id == bindparam("wanted"), Server.deleted_at.is_(None)]
    for name, kind in expected:
        column, key = Server.table.c[name], f"expected_{name}"
        if kind == "tuple":
            here.append(column.in_(bindparam(key, expanding=True)))
        else:
            # `== None` is written IS NULL.
            here.append(column == (None if kind == "none" else bindparam(key)))
    return update(Server).where(*here)


def begin(conn: Connection, caller: Caller, server_id: str, name: str) -> Server:
    """Accept an action: the row as it was, its task state now the action's. Raises NotFound, Conflict."""
    row = visible(conn, caller, server_id)
    action = ACTIONS[name]
    check(action, row, over_lock=caller.may(OVER_LOCK))
    accept(conn, caller, row, action)
    return row


def accept(conn: Connection, caller: Caller, row: Server, action: Action) -> None:
    """Compare and set: somebody else's action in between is a Conflict."""
    if action.task_state is None:
        return
    here = {"vm_state": row.vm_state, "task_state": row.task_state}
    if not move(conn, row.id, caller.now, here, task_state=action.task_state):
        raise wrong_state(action, row.id, "task_state", "that is changing")


def allowed(conn: Connection, caller: Caller, server_id: str, name: str, *, lock: bool = False) -> Server:
    """The row, if this action that sets no task state is allowed now. Raises NotFound, Conflict."""
    row = visible(conn, caller, server_id, lock=lock)
    check(ACTIONS[name], row, over_lock=caller.may(OVER_LOCK))
    return row


def fail(conn: Connection, server_id: str, now: datetime, message: str, **values: Any) -> bool:
    """Record a fault, with these changes; not on a server that is being deleted."""
    here = Server.id == server_id, Server.deleted_at.is_(None), Server.task_state.is_distinct_from(DELETING)
    fault = {"fault_code": 500, "fault_message": message[:2000], "fault_at": now}
    return conn.execute(update(Server).where(*here).values(updated_at=now, **fault, **values)).rowcount > 0


def remove(conn: Connection, server_id: str, now: datetime) -> None:
    """The server is gone; its row stays for changes-since, actions and usage. A repeat does nothing."""
    conn.execute(_remove, {"wanted": server_id, "deleted_at": now, "terminated_at": now, "updated_at": now})


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


def hosts_of(conn: Connection, server_ids: Sequence[str]) -> frozenset[str]:
    """Where these servers are; unknown ones and those that are nowhere do not count."""
    live = Server.id.in_(server_ids), Server.deleted_at.is_(None), Server.host.is_not(None)
    return frozenset(host for host in conn.scalars(select(Server.host).where(*live)) if host is not None)


def host_id(project_id: str, host: str | None) -> str:
    """Tells a project whether two servers share a host, and not which host it is."""
    return hashlib.sha224((project_id + host).encode()).hexdigest() if host else ""


def instance_name(number: int) -> str:
    return f"instance-{number:08x}"
