"""Migrations: the records of servers that are resized or moved. Reference: compute-states.md, section 4.4.

accepted → pre-migrating → migrating → post-migrating → finished → confirming → confirmed
                                                        finished → reverting → reverted
each of them → error
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, insert, or_, select, update

from cloudctl.compute.tables import Migration
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, NotFound
from cloudctl.placement import claims
from cloudctl.rest.listing import Listing, equals

ACCEPTED, PRE_MIGRATING, MIGRATING, POST_MIGRATING = "accepted", "pre-migrating", "migrating", "post-migrating"
FINISHED, CONFIRMING, REVERTING = "finished", "confirming", "reverting"
CONFIRMED, REVERTED, ERROR = "confirmed", "reverted", "error"
OPEN = (ACCEPTED, PRE_MIGRATING, MIGRATING, POST_MIGRATING, FINISHED, CONFIRMING, REVERTING)

RESIZE, COLD = "resize", "migration"

LISTING = Listing(
    Migration.table,
    {"created_at": Migration.created_at},
    filters={
        "source_compute": equals(Migration.source_host),
        "status": equals(Migration.status),
        "migration_type": equals(Migration.kind),
        "instance_uuid": equals(Migration.server_id),
        "user_id": equals(Migration.user_id),
        "project_id": equals(Migration.project_id),
    },
)


def touches(host: str) -> ColumnElement[bool]:
    """Those from or to this host."""
    return or_(Migration.source_host == host, Migration.dest_host == host)


def add(conn: Connection, now: datetime, **values: Any) -> str:
    """A new record, ACCEPTED; its id."""
    made = new_id()
    conn.execute(insert(Migration).values(id=made, status=ACCEPTED, created_at=now, updated_at=now, **values))
    return made


def get(conn: Connection, migration_id: str) -> Row[Any]:
    """Raises NotFound."""
    row = conn.execute(select(Migration).where(Migration.id == migration_id)).first()
    if row is None:
        raise NotFound(f"Migration {migration_id} could not be found.")
    return row


def move(conn: Connection, migration_id: str, now: datetime, before: tuple[str, ...], status: str, **more: Any) -> bool:
    """Change the status if it is one of `before`; whether it was."""
    mine = Migration.id == migration_id, Migration.status.in_(before)
    return conn.execute(update(Migration).where(*mine).values(status=status, updated_at=now, **more)).rowcount > 0


def take(conn: Connection, server_id: str, now: datetime, status: str) -> Row[Any]:
    """The finished migration of a resized server, now in this status. Raises Conflict: another request was first."""
    mine = Migration.server_id == server_id, Migration.status == FINISHED
    row = conn.execute(select(Migration).where(*mine).order_by(Migration.number.desc())).first()
    if row is None or not move(conn, row.id, now, (FINISHED,), status):
        raise Conflict(f"Instance {server_id} is being confirmed or reverted.")
    return row


def open_ids() -> Select[Any]:
    """The ids of those that hold, or may hold, a share of a host."""
    return select(Migration.id).where(Migration.status.in_(OPEN))


def close_all(conn: Connection, server_id: str, now: datetime) -> None:
    """The server is gone: one that was finished counts as confirmed. May be repeated."""
    rows = conn.execute(select(Migration).where(Migration.server_id == server_id, Migration.status.in_(OPEN)))
    for row in rows.all():
        claims.release(conn, row.id)
        move(conn, row.id, now, OPEN, CONFIRMED if row.status in (FINISHED, CONFIRMING) else ERROR)
