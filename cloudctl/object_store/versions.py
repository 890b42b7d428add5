"""Old versions in a container of their own: X-Versions-Location, X-History-Location. Reference: object-store.md, A8.

With the former, deleting an object brings back the version before; with the latter, deleted objects are kept, too. An
old version is the object's row under another name: `003abc/1800000000.00000` for one of `abc`.
"""

from __future__ import annotations

import re
from datetime import datetime

from sqlalchemy import select, update

from cloudctl.db import Connection
from cloudctl.db.columns import seconds
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, PreconditionFailed
from cloudctl.object_store import containers
from cloudctl.object_store.listing import after
from cloudctl.object_store.names import MOST_OF_OBJECT, Place
from cloudctl.object_store.tables import Container, Object

STACK, HISTORY = "X-Versions-Location", "X-History-Location"
STAMP = re.compile(r"\d{10}\.\d{5}", re.ASCII)
LENGTH_OF_STAMP = 16
DELETED = "application/x-deleted;swift_versions_deleted=1"


def archive(conn: Connection, container: Container, *, lock: bool = False, optional: bool = False) -> Container | None:
    """Where old versions of a container's objects go; None: nowhere. Raises PreconditionFailed if that is missing and
    not `optional`.
    """
    name = container.headers.get(STACK) or container.headers.get(HISTORY)
    if name is None:
        return None
    found = containers.find(conn, Place(container.project_id, name), lock=lock)
    if found is None and not optional:
        raise PreconditionFailed(f"The container {name[:64]} for old versions does not exist.")
    return found


def is_marker(found: Object) -> bool:
    """Whether it marks a deletion."""
    return found.content_type == DELETED


def prefix(name: str) -> str:
    return f"{len(name.encode()):03x}{name}/"


def version_name(conn: Connection, container: Container, name: str, when: datetime) -> str:
    """A unique name: of two versions at the same time, the later one gets a slightly later time. Raises
    PreconditionFailed if it is longer than the name of an object may be: nobody could read or remove the version.
    """
    if len(prefix(name).encode()) + LENGTH_OF_STAMP > MOST_OF_OBJECT:
        raise PreconditionFailed("The name of the object is too long to keep old versions of it.")
    newest = latest(conn, container, name)
    at = f"{prefix(name)}{seconds(when):016.5f}"
    if newest is None or newest.name < at:
        return at
    return f"{prefix(name)}{float(newest.name.rpartition('/')[2]) + 0.00001:016.5f}"


def move(conn: Connection, found: Object, container: Container, name: str) -> None:
    """Move the row to another name. Raises Conflict if somebody has put an object there."""
    query = update(Object).where(Object.container_id == found.container_id, Object.name == found.name)
    with unique(conn, Conflict("An object stands where the old version would go.")):
        conn.execute(query.values(container_id=container.id, name=name, project_id=container.project_id))


def latest(conn: Connection, container: Container, name: str) -> Object | None:
    """The newest old version of an object. Objects that a user put there under other names do not count."""
    start = prefix(name)
    # From digit to digit.
    between = (Object.name >= f"{start}0", Object.name < after(f"{start}9"))
    query = select(Object).where(Object.container_id == container.id, *between)
    found = conn.execute(query.order_by(Object.name.desc()).limit(20).with_for_update()).all()
    return next((each for each in found if STAMP.fullmatch(each.name[len(start) :])), None)
