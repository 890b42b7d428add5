"""Removing a container, with what nobody sees any more: expired objects, and unfinished uploads."""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.object_store import containers, objects, parts
from cloudctl.object_store.names import Place
from cloudctl.object_store.objects import Done


def remove(conn: Connection, place: Place, now: datetime) -> Done:
    """Raises NotFound; Conflict if there is something in it."""
    container = containers.get(conn, place, lock=True)
    freed = objects.expire_in(conn, container.id, now)
    containers.remove(conn, container)
    return Done([*freed, *parts.abort_all(conn, container.id)])
