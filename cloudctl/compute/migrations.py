"""Migrations: the records of servers that are resized or moved. Reference: compute-states.md, section 4.4.

accepted → pre-migrating → migrating → post-migrating → finished → confirming → confirmed
                                                        finished → reverting → reverted
each of them → error

A live one: accepted → preparing → running → completed, or cancelled, or failed. An evacuation: accepted →
pre-migrating → done, or failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import ColumnElement, Select, and_, bindparam, func, insert, or_, select

from cloudctl.compute.states import STOPPED
from cloudctl.compute.tables import Migration, Server
from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.db.columns import new_id
from cloudctl.db.machine import Machine, Move, sources
from cloudctl.errors import Conflict
from cloudctl.placement import claims
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Listing, equals

ACCEPTED, PRE_MIGRATING, MIGRATING, POST_MIGRATING = "accepted", "pre-migrating", "migrating", "post-migrating"
FINISHED, CONFIRMING, REVERTING = "finished", "confirming", "reverting"
PREPARING, RUNNING, COMPLETED, CANCELLED, FAILED, DONE = (
    "preparing",
    "running",
    "completed",
    "cancelled",
    "failed",
    "done",
)
CONFIRMED, REVERTED, ERROR = "confirmed", "reverted", "error"
# A live migration that is under way.
ON_ITS_WAY = (ACCEPTED, PREPARING, RUNNING)
# A guest that has left its old place for good unless its user takes the move back.
TO_CONFIRM = (FINISHED, CONFIRMING)
# The guest is at one end, and the record may name the other.
BETWEEN = (*ON_ITS_WAY, PRE_MIGRATING, MIGRATING, POST_MIGRATING, REVERTING)
OPEN = (*BETWEEN, *TO_CONFIRM)
MOVES = {
    "placed": Move(sources(*OPEN), PRE_MIGRATING),
    "off": Move(sources(*OPEN), POST_MIGRATING),
    "finished": Move(sources(*OPEN), FINISHED),
    "confirm": Move(sources(FINISHED), CONFIRMING),
    "confirm cancelled": Move(sources(CONFIRMING), FINISHED),
    "confirmed": Move(sources(*OPEN), CONFIRMED),
    "revert": Move(sources(FINISHED), REVERTING),
    "reverted": Move(sources(*OPEN), REVERTED),
    "failed": Move(sources(*OPEN), ERROR),
    "prepare": Move(sources(*ON_ITS_WAY), PREPARING),
    "run": Move(sources(*ON_ITS_WAY), RUNNING),
    "completed": Move(sources(*ON_ITS_WAY), COMPLETED),
    "cancelled": Move(sources(*ON_ITS_WAY), CANCELLED),
    "did not arrive": Move(sources(*OPEN), FAILED),
    "evacuated": Move(sources(*OPEN), DONE),
}

RESIZE, COLD, LIVE, EVACUATION = "resize", "migration", "live-migration", "evacuation"

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

# Built once: building costs more than running it.
_open_of_server = select(Migration).where(Migration.server_id == bindparam("server"), Migration.status.in_(OPEN))


def touches(host: str) -> ColumnElement[bool]:
    """Those from or to this host."""
    return or_(Migration.source_host == host, Migration.dest_host == host)


def between(host: str) -> ColumnElement[bool]:
    """Moves under way from or to this host, whose guests may be there; evacuations know that theirs are not."""
    return and_(touches(host), Migration.status.in_(BETWEEN), Migration.kind != EVACUATION)


@frozen
class NewMigration:
    server: Server
    kind: str
    new_flavor_id: str
    new_flavor: Mapping[str, Any]
    asked_host: str | None = None


def create(conn: Connection, caller: Caller, new: NewMigration) -> Migration:
    """An ACCEPTED migration from the server's present host."""
    server = new.server
    values: dict[str, Any] = {
        "id": new_id(),
        "server_id": server.id,
        "kind": new.kind,
        "status": ACCEPTED,
        "source_host": server.host,
        "asked_host": new.asked_host,
        "old_flavor_id": server.flavor_id,
        "old_flavor": server.flavor,
        "new_flavor_id": new.new_flavor_id,
        "new_flavor": new.new_flavor,
        "was_stopped": server.vm_state == STOPPED,
        "user_id": caller.user_id,
        "project_id": server.project_id,
        "created_at": caller.now,
        "updated_at": caller.now,
    }
    return Migration(number=conn.execute(insert(Migration), values).key, **values)


RECORDS = ById(Migration, "Migration {} could not be found.")
get, not_found = RECORDS.get, RECORDS.not_found


REFUSAL = "Instance {server_id} is being confirmed or reverted."
MACHINE = Machine(Migration, MOVES, not_found, REFUSAL)
try_move = MACHINE.try_move


def take(conn: Connection, server_id: str, now: datetime, name: str) -> Migration:
    """Make the move `name` with a resized server's finished migration. Raises Conflict: another request was first."""
    mine = Migration.server_id == server_id, Migration.status == FINISHED
    row = conn.execute(select(Migration).where(*mine).order_by(Migration.number.desc())).first()
    if row is None or not try_move(conn, row.id, name, now):
        raise Conflict(REFUSAL.format(server_id=server_id))
    return row


_before = Migration.server_id == bindparam("server"), Migration.number < bindparam("this")
_last_other = select(func.coalesce(func.max(Migration.number), 0)).where(
    *_before, or_(Migration.kind != EVACUATION, Migration.status != FAILED)
)
_failed_before = *_before, Migration.number > _last_other.scalar_subquery()
_left_behind = select(Migration.source_host).where(*_failed_before).distinct()
_tried = select(Migration.dest_host).where(*_failed_before, Migration.dest_host.is_not(None)).distinct()
_on_their_way = (
    select(Migration)
    .where(Migration.server_id == bindparam("server"), Migration.kind == LIVE, Migration.status.in_(ON_ITS_WAY))
    .order_by(Migration.number)
)


def on_its_way(conn: Connection, server_id: str) -> Sequence[Migration]:
    """A server's live migrations that are under way: at most one, unless something was left behind."""
    return conn.execute(_on_their_way, {"server": server_id}).all()


def unfinished(conn: Connection, server_id: str) -> Sequence[Migration]:
    """A server's migrations, of every kind, that have not ended."""
    return conn.execute(_open_of_server, {"server": server_id}).all()


def left_behind(conn: Connection, migration: Migration) -> Sequence[str]:
    """The hosts that an evacuation leaves: its source, and those of the failed evacuations directly before it."""
    sources = conn.scalars(_left_behind, {"server": migration.server_id, "this": migration.number})
    return [name for name in sorted({migration.source_host, *sources}) if name != migration.dest_host]


def tried(conn: Connection, migration: Migration) -> frozenset[str]:
    """The hosts on which the failed evacuations directly before this one did not succeed."""
    hosts = conn.scalars(_tried, {"server": migration.server_id, "this": migration.number})
    return frozenset(name for name in hosts if name is not None)


def live_ids(conn: Connection, server_id: str) -> Sequence[str]:
    """The ids of all live migrations of a server, however they ended."""
    mine = Migration.server_id == server_id, Migration.kind == LIVE
    return conn.scalars(select(Migration.id).where(*mine)).all()


def open_ids() -> Select[Any]:
    """The ids of migrations that hold, or may hold, a share of a host."""
    return select(Migration.id).where(Migration.status.in_(OPEN))


def close_all(
    conn: Connection, server_id: str, now: datetime, statuses: Sequence[str] = OPEN, *, keep: str = ""
) -> int:
    """End a server's migrations, of these statuses, but for the one to `keep`; how many there are.

    One that had finished counts as confirmed.
    """
    found = [row for row in unfinished(conn, server_id) if row.status in statuses and row.id != keep]
    for row in found:
        claims.release(conn, row.id)
        try_move(conn, row.id, "confirmed" if row.status in TO_CONFIRM else "failed", now)
    return len(found)
