"""Guest moves that a recovery causes. Reference: instance-ha.md, sections 2 and 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import NotFound
from cloudctl.instance_ha.tables import Notification, VMove

PENDING, ONGOING, SUCCEEDED, FAILED, IGNORED = "pending", "ongoing", "succeeded", "failed", "ignored"
STATUSES = (PENDING, ONGOING, SUCCEEDED, FAILED, IGNORED)
UNFINISHED = (PENDING, ONGOING, FAILED)
EVACUATION, MIGRATION, LIVE_MIGRATION = "evacuation", "migration", "live_migration"
TYPES = (EVACUATION, MIGRATION, LIVE_MIGRATION)

_of_notification = select(VMove).where(VMove.notification_id == bindparam("notification")).order_by(VMove.number)
_known = select(VMove.server_id).where(VMove.notification_id == bindparam("notification"))


def not_found(vmove_id: str) -> NotFound:
    return NotFound(f"No vmove with id {vmove_id[:64]}.")


def get(conn: Connection, notification_id: str, vmove_id: str) -> VMove:
    """Raises NotFound."""
    mine = VMove.notification_id == notification_id, VMove.id == vmove_id
    found = conn.execute(select(VMove).where(*mine)).first()
    if found is None:
        raise not_found(vmove_id)
    return found


def of_notification(conn: Connection, notification_id: str) -> Sequence[VMove]:
    """In the order of their priority."""
    return conn.execute(_of_notification, {"notification": notification_id}).all()


def plan(
    conn: Connection,
    notification: Notification,
    found: Sequence[tuple[Server, bool, str | None]],
    now: datetime,
) -> None:
    """Insert the missing moves in this order, for (server, whether it was off, why it stays: None if it goes)."""
    known = set(conn.scalars(_known, {"notification": notification.id}))
    rows: list[dict[str, Any]] = [
        {
            "id": new_id(),
            "notification_id": notification.id,
            "server_id": server.id,
            "server_name": server.name,
            "source_host": notification.hostname,
            "type": EVACUATION,
            "status": PENDING if why is None else IGNORED,
            "message": why,
            "stopped": stopped,
            "tried": [],
            "created_at": now,
        }
        for server, stopped, why in found
        if server.id not in known
    ]
    for row in rows:
        conn.execute(insert(VMove).values(row))


def change(conn: Connection, vmove: VMove, changes: Mapping[str, Any], now: datetime) -> None:
    conn.execute(update(VMove).where(VMove.id == vmove.id).values(**changes, updated_at=now))
