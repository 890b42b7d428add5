"""Old versions in a container of their own: X-Versions-Location, X-History-Location. Reference: object-store.md, A8.

With the one, deleting an object brings back the version before; with the other, what is deleted is kept, too. An old
version is the object's row under another name: `003abc/1800000000.00000` for one of `abc`.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select, update

from cloudctl.db import Connection
from cloudctl.db.columns import seconds
from cloudctl.errors import PreconditionFailed
from cloudctl.object_store import containers
from cloudctl.object_store.listing import after
from cloudctl.object_store.names import Place
from cloudctl.object_store.tables import Container, Object

STACK, HISTORY = "X-Versions-Location", "X-History-Location"
DELETED = "application/x-deleted;swift_versions_deleted=1"


def archive(conn: Connection, container: Container, *, lock: bool = False) -> Container | None:
    """Where old versions of a container's objects go; None: nowhere. Raises PreconditionFailed."""
    name = container.headers.get(STACK) or container.headers.get(HISTORY)
    if name is None:
        return None
    found = containers.find(conn, Place(container.project_id, name), lock=lock)
    if found is None:
        raise PreconditionFailed(f"The container {name[:64]} for old versions does not exist.")
    return found


def prefix(name: str) -> str:
    return f"{len(name.encode()):03x}{name}/"


def version_name(name: str, when: datetime) -> str:
    return f"{prefix(name)}{seconds(when):016.5f}"


def move(conn: Connection, found: Object, container: Container, name: str) -> None:
    """The row is another object from now on."""
    query = update(Object).where(Object.container_id == found.container_id, Object.name == found.name)
    conn.execute(query.values(container_id=container.id, name=name, project_id=container.project_id))


def latest(conn: Connection, container: Container, name: str) -> Object | None:
    """The newest old version of an object."""
    start = prefix(name)
    query = select(Object).where(Object.container_id == container.id, Object.name >= start, Object.name < after(start))
    return conn.execute(query.order_by(Object.name.desc()).limit(1).with_for_update()).first()
