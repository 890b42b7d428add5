"""The state table of volumes: which request moves a volume from where to where. Reference: volume-states.md.

Every change of status is one compare-and-set over a row of MOVES, so of two requests at once exactly one wins.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import ColumnElement, Connection, or_, select, update

from cloudctl.errors import Conflict, NotFound
from cloudctl.volume.tables import volumes

CREATING, DOWNLOADING, AVAILABLE, IN_USE, ERROR = "creating", "downloading", "available", "in-use", "error"
RESERVED, ATTACHING, DETACHING = "reserved", "attaching", "detaching"
DELETING, ERROR_DELETING = "deleting", "error_deleting"
EXTENDING, ERROR_EXTENDING = "extending", "error_extending"
MAINTENANCE, UPLOADING = "maintenance", "uploading"

# What os-reset_status takes: volume-states.md, section 1. `deleting` is known, and refused.
RESETTABLE = frozenset(
    {
        "creating",
        "available",
        "error",
        "error_deleting",
        "error_managing",
        "managing",
        "attaching",
        "in-use",
        "detaching",
        "maintenance",
        "restoring-backup",
        "error_restoring",
        "reserved",
        "awaiting-transfer",
        "backing-up",
        "error_backing-up",
        "error_extending",
        "downloading",
        "uploading",
        "retyping",
        "extending",
    }
)
DELETABLE = frozenset({AVAILABLE, ERROR, "error_restoring", ERROR_EXTENDING, "error_managing"})
FAILED = frozenset({ERROR, ERROR_DELETING, "error_restoring", ERROR_EXTENDING, "error_managing", "error_backing-up"})

# Statuses that follow the attachments. In any other one, something else decides what comes next.
FOLLOWING = frozenset({AVAILABLE, RESERVED, ATTACHING, DETACHING, IN_USE, ERROR_EXTENDING})


# There is nothing on the backend, or soon will not be.
GONE = frozenset({CREATING, DOWNLOADING, DELETING, ERROR_DELETING, ERROR})


@frozen
class Move:
    """`target` None: the status follows the attachments. `refusal` may name `{id}` and `{status}`."""

    sources: frozenset[str] | None  # None: any
    target: str | None
    refusal: str = "Invalid volume: Volume {id} is in status {status}."


def _from(*sources: str) -> frozenset[str]:
    return frozenset(sources)


MOVES = {
    "download": Move(_from(CREATING), DOWNLOADING),
    "created": Move(_from(CREATING, DOWNLOADING), AVAILABLE),
    "create failed": Move(_from(CREATING, DOWNLOADING), ERROR),
    "delete": Move(
        DELETABLE,
        DELETING,
        "Invalid volume: Volume status must be available or error or error_restoring or error_extending or "
        "error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, "
        "or be disassociated from snapshots after volume transfer.",
    ),
    "force delete": Move(
        None,
        DELETING,
        "Invalid volume: Volume must not be migrating, attached, belong to a group, have snapshots, awaiting a "
        "transfer, or be disassociated from snapshots after volume transfer.",
    ),
    "delete failed": Move(_from(DELETING), ERROR_DELETING),
    "extend": Move(
        _from(AVAILABLE),
        EXTENDING,
        "Invalid volume: Volume {id} status must be 'available' to extend, currently {status}.",
    ),
    "extend in use": Move(
        _from(AVAILABLE, IN_USE),
        EXTENDING,
        "Invalid volume: Volume {id} status must be '('available', 'in-use')' to extend, currently {status}.",
    ),
    "extended": Move(_from(EXTENDING), None),
    "extend failed": Move(_from(EXTENDING), ERROR_EXTENDING),
    "reserve": Move(
        _from(AVAILABLE),
        ATTACHING,
        "Invalid volume: Volume status must be available to reserve, but the status is {status}.",
    ),
    "reserve again": Move(
        _from(AVAILABLE, IN_USE),
        ATTACHING,
        "Invalid volume: Volume status must be available or in-use to reserve, but the status is {status}.",
    ),
    "begin detaching": Move(
        _from(IN_USE),
        DETACHING,
        "Invalid volume: Unable to detach volume. Volume status must be 'in-use' and attach_status must be 'attached' "
        "to detach.",
    ),
    "roll detaching": Move(_from(DETACHING), IN_USE),
    "make read-only": Move(
        _from(AVAILABLE),
        AVAILABLE,
        "Invalid volume: Volume {id} status must be available to update readonly flag, but current status is: "
        "{status}.",
    ),
}


def move(
    conn: Connection,
    volume_id: str,
    name: str,
    now: datetime,
    *where: ColumnElement[bool],
    **values: Any,
) -> None:
    """Make a move of the state table, and set `values` with it, if the status and `where` allow.

    Raises Conflict in the words of the table, NotFound.
    """
    if not try_move(conn, volume_id, name, now, *where, **values):
        raise refusal(conn, volume_id, name)


def try_move(
    conn: Connection,
    volume_id: str,
    name: str,
    now: datetime,
    *where: ColumnElement[bool],
    **values: Any,
) -> bool:
    """As `move`; False where that raises."""
    wanted = MOVES[name]
    changed = update(volumes).where(volumes.c.id == volume_id, *where)
    if wanted.sources is not None:
        changed = changed.where(volumes.c.status.in_(wanted.sources))
    if wanted.target is not None:
        values["status"] = wanted.target
    return conn.execute(changed.values(updated_at=now, **values)).rowcount > 0


def refusal(conn: Connection, volume_id: str, name: str) -> Conflict | NotFound:
    status = conn.execute(select(volumes.c.status).where(volumes.c.id == volume_id)).scalar()
    if status is None:
        return unknown(volume_id)
    return Conflict(MOVES[name].refusal.format(id=volume_id, status=status))


def unknown(volume_id: str) -> NotFound:
    return NotFound(f"Volume {volume_id[:64]} could not be found.")


not_migrating: ColumnElement[bool] = or_(
    volumes.c.migration_status.is_(None), volumes.c.migration_status.in_(("deleting", "error", "success"))
)
