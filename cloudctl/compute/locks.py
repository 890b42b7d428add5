"""Locking servers against their own users, and resetting their state as an administrator.

Reference: compute-states.md, section 4.12; compute.md, section 7.
"""

from __future__ import annotations

from cloudctl.compute import migrations, resizing, servers
from cloudctl.db import Connection
from cloudctl.errors import Forbidden
from cloudctl.rest.caller import Caller

OWNER, ADMIN = "owner", "admin"
UNLOCK_ANY = "compute:servers:unlock:any"


def lock(conn: Connection, caller: Caller, server_id: str, reason: str | None) -> None:
    """A second lock by the owner changes nothing. Raises NotFound."""
    row = servers.visible(conn, caller, server_id, lock=True)
    own = row.project_id == caller.project_id and not caller.may(servers.OVER_LOCK)
    if row.locked_by and own:
        return
    servers.change(conn, row, {"locked_by": OWNER if own else ADMIN, "locked_reason": reason}, caller.now)


def unlock(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Forbidden for an administrator's lock."""
    row = servers.visible(conn, caller, server_id, lock=True)
    if row.locked_by == ADMIN and not caller.may(UNLOCK_ANY):
        raise Forbidden(f"Policy doesn't allow {UNLOCK_ANY} to be performed.")
    servers.change(conn, row, {"locked_by": None, "locked_reason": None}, caller.now)


def reset_state(conn: Connection, caller: Caller, server_id: str, vm_state: str) -> None:
    """Give the server the state that the administrator names, and no task state. Raises NotFound.

    A resize whose user was to decide is over; one that is under way, or taken back, is ended by its task.
    """
    row = servers.visible(conn, caller, server_id, lock=True)
    servers.move(conn, row.id, "reset", caller.now, vm_state=vm_state)
    resizing.end_all(conn, row.id, caller.now, migrations.TO_CONFIRM)
