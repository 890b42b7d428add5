"""Versions with ids: X-Versions-Enabled of Swift, versioning of S3. Reference: object-store.md, A8, B2.

The current object is a row of `objects`, as always. Old versions, and the markers of its deletions, are rows of
`object_versions`. An id encodes the time, so that the ids of one name are in order, the newest first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select

from cloudctl.db import Connection
from cloudctl.db.columns import seconds
from cloudctl.object_store.tables import Container, Object, Stored, Version

# On containers: versions are kept, or were.
HEADER = "X-Versions-Enabled"
ON, OFF = "True", "False"
# The id of a version made while no versions were kept.
NULL = "null"
DELETED = "application/x-deleted;swift_versions_deleted=1"

ID = re.compile("[0-9a-f]{14}")
END = 2**56  # microseconds since the epoch, which no clock reaches

_newest = (
    select(Version)
    .where(Version.container_id == bindparam("container"), Version.name == bindparam("name"))
    .order_by(Version.version)
    .limit(1)
)
_of_id = select(Version).where(
    Version.container_id == bindparam("container"),
    Version.name == bindparam("name"),
    Version.version == bindparam("version"),
)
_nulls = select(Version).where(
    Version.container_id == bindparam("container"), Version.name == bindparam("name"), Version.is_null
)


def is_known(container: Container) -> bool:
    """Whether there may be versions with ids."""
    return HEADER in container.headers


def is_on(container: Container) -> bool:
    """Whether they are kept now."""
    return container.headers.get(HEADER) == ON


def shown(row: Object | Version) -> str:
    """The id, as clients see it."""
    if isinstance(row, Version):
        return NULL if row.is_null else row.version
    return row.version or NULL


def is_id(text: str) -> bool:
    """Whether it looks like an id."""
    return text == NULL or ID.fullmatch(text) is not None


def is_marker(row: Object | Version) -> bool:
    return isinstance(row, Version) and row.is_marker


def newest(conn: Connection, container: Container, name: str) -> Version | None:
    """The newest old version."""
    return conn.execute(_newest, {"container": container.id, "name": name}).first()


def find(conn: Connection, container: Container, name: str, version: str) -> Version | None:
    """An old version."""
    named = {"container": container.id, "name": name}
    if version == NULL:
        return conn.execute(_nulls, named).first()
    found = conn.execute(_of_id, {**named, "version": version}).first()
    return None if found is None or found.is_null else found


def next_version(conn: Connection, container: Container, name: str, now: datetime) -> str:
    """An id before all existing ones, whatever the clock says. The current object must have been kept before."""
    before = newest(conn, container, name)
    return _earlier(_id(now), before)


def _id(when: datetime) -> str:
    return f"{END - int(seconds(when) * 1_000_000):014x}"


def _earlier(wanted: str, before: Version | None) -> str:
    if before is None or wanted < before.version:
        return wanted
    return f"{int(before.version, 16) - 1:014x}"


def keep(conn: Connection, container: Container, found: Object) -> None:
    """Make the object an old version."""
    version = found.version or _earlier(_id(found.updated_at), newest(conn, container, found.name))
    values = {**_stored(found), "version": version, "is_null": not found.version, "is_marker": False}
    conn.execute(insert(Version).values(**values))
    conn.execute(delete(Object).where(Object.container_id == found.container_id, Object.name == found.name))


def take(conn: Connection, found: Version) -> Version:
    """Delete a version, and return it."""
    mine = (Version.container_id == found.container_id, Version.name == found.name, Version.version == found.version)
    conn.execute(delete(Version).where(*mine))
    return found


def take_null(conn: Connection, container: Container, name: str) -> Sequence[Version]:
    """Delete and return the versions made while no versions were kept."""
    found = conn.execute(_nulls, {"container": container.id, "name": name}).all()
    return [take(conn, each) for each in found]


def bring_back(conn: Connection, container: Container, name: str) -> None:
    """Make the newest old version current again, unless it is a marker. Nothing may have the name now."""
    found = newest(conn, container, name)
    if found is None or found.is_marker:
        return
    make_current(conn, found)


def make_current(conn: Connection, found: Version) -> None:
    """Make an old version the current object. Nothing may have the name now."""
    take(conn, found)
    conn.execute(insert(Object).values(**_stored(found), version="" if found.is_null else found.version))


def _stored(row: Stored) -> dict[str, object]:
    own = row._asdict()
    return {name: value for name, value in own.items() if name not in ("version", "is_null", "is_marker")}
