"""Containers. Reference: object-store.md, A4."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import frozen
from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection, totals
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Conflict, NotFound
from cloudctl.object_store import accounts, metadata
from cloudctl.object_store.names import Place
from cloudctl.object_store.tables import Container, Version

TOTALS = ("objects.count", "objects.bytes")

_named = select(Container).where(Container.project_id == bindparam("project"), Container.name == bindparam("container"))
_lock_named = _named.with_for_update()
_has_versions = select(Version.name).where(Version.container_id == bindparam("container")).limit(1)


@frozen
class Usage:
    objects: int
    bytes: int


def find(conn: Connection, place: Place, *, lock: bool = False) -> Container | None:
    named = {"project": place.project_id, "container": place.container}
    return conn.execute(_lock_named if lock else _named, named).first()


def get(conn: Connection, place: Place, *, lock: bool = False) -> Container:
    """Raises NotFound."""
    found = find(conn, place, lock=lock)
    if found is None:
        raise not_found()
    return found


def not_found() -> NotFound:
    return NotFound("The resource could not be found.")


def usage(conn: Connection, container_id: str) -> Usage:
    found = totals.totals(conn, container_id, TOTALS)
    return Usage(*(found[name] for name in TOTALS))


def put(conn: Connection, place: Place, changes: Mapping[str, str | None], now: datetime) -> bool:
    """Create the container, or change the existing one. Returns whether it is new. Raises Invalid."""
    accounts.ensure(conn, place.project_id, now)
    found = find(conn, place, lock=True)
    if found is None:
        try:
            with conn.begin_nested():
                _insert(conn, place, metadata.merged({}, changes, metadata.CONTAINER), now)
            return True
        except IntegrityError:
            found = get(conn, place, lock=True)
    change(conn, found, changes, now)
    return False


def _insert(conn: Connection, place: Place, headers: Mapping[str, str], now: datetime) -> None:
    conn.execute(
        insert(Container).values(
            id=new_hex_id(),
            project_id=place.project_id,
            name=place.container,
            headers=headers,
            created_at=now,
            updated_at=now,
        )
    )


def change(conn: Connection, container: Container, changes: Mapping[str, str | None], now: datetime) -> None:
    """Set headers of a locked container; None removes one. Raises Invalid."""
    merged = metadata.merged(container.headers, changes, metadata.CONTAINER)
    conn.execute(update(Container).where(Container.id == container.id).values(headers=merged, updated_at=now))


def remove(conn: Connection, container: Container) -> None:
    """Remove a locked container. Raises Conflict if it has objects, or old versions of any."""
    if usage(conn, container.id).objects or conn.scalar(_has_versions, {"container": container.id}) is not None:
        raise Conflict("There was a conflict when trying to complete your request.", type="BucketNotEmpty")
    conn.execute(delete(Container).where(Container.id == container.id))
    # Its sums are meaningless now, and its id is never used again.
    conn.execute(delete(totals.Kept).where(totals.Kept.project_id == container.id))
