"""Migrations: the records of servers that are resized or moved. Reference: compute-states.md, section 4.4.

accepted → pre-migrating → migrating → post-migrating → finished → confirming → confirmed
                                                        finished → reverting → reverted
each of them → error
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, insert, or_, select, update

from cloudctl.compute.tables import migrations
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
    migrations,
    {"created_at": migrations.c.created_at},
    filters={
        "source_compute": equals(migrations.c.source_host),
        "status": equals(migrations.c.status),
        "migration_type": equals(migrations.c.kind),
        "instance_uuid": equals(migrations.c.server_id),
        "user_id": equals(migrations.c.user_id),
        "project_id": equals(migrations.c.project_id),
    },
)


def touches(host: str) -> ColumnElement[bool]:
    """Those from or to this host."""
    return or_(migrations.c.source_host == host, migrations.c.dest_host == host)


def add(conn: Connection, now: datetime, **values: Any) -> str:
    """A new record, ACCEPTED; its id."""
    made = new_id()
    conn.execute(insert(migrations).values(id=made, status=ACCEPTED, created_at=now, updated_at=now, **values))
    return made


def get(conn: Connection, migration_id: str) -> Row[Any]:
    """Raises NotFound."""
    row = conn.execute(select(migrations).where(migrations.c.id == migration_id)).first()
    if row is None:
        raise NotFound(f"Migration {migration_id} could not be found.")
    return row


def move(conn: Connection, migration_id: str, now: datetime, before: tuple[str, ...], status: str, **more: Any) -> bool:
    """Change the status if it is one of `before`; whether it was."""
    mine = migrations.c.id == migration_id, migrations.c.status.in_(before)
    return conn.execute(update(migrations).where(*mine).values(status=status, updated_at=now, **more)).rowcount > 0


def take(conn: Connection, server_id: str, now: datetime, status: str) -> Row[Any]:
    """The finished migration of a resized server, now in this status. Raises Conflict: another request was first."""
    mine = migrations.c.server_id == server_id, migrations.c.status == FINISHED
    row = conn.execute(select(migrations).where(*mine).order_by(migrations.c.number.desc())).first()
    if row is None or not move(conn, row.id, now, (FINISHED,), status):
        raise Conflict(f"Instance {server_id} is being confirmed or reverted.")
    return row


def open_ids() -> Select[Any]:
    """The ids of those that hold, or may hold, a share of a host."""
    return select(migrations.c.id).where(migrations.c.status.in_(OPEN))


def close_all(conn: Connection, server_id: str, now: datetime) -> None:
    """The server is gone: one that was finished counts as confirmed. May be repeated."""
    rows = conn.execute(select(migrations).where(migrations.c.server_id == server_id, migrations.c.status.in_(OPEN)))
    for row in rows.all():
        claims.release(conn, row.id)
        move(conn, row.id, now, OPEN, CONFIRMED if row.status in (FINISHED, CONFIRMING) else ERROR)
