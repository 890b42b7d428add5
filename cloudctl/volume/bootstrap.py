"""What block storage begins with: a type for volumes created without one, and that of consistency groups."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.volume import consistency, types
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import VolumeType
from cloudctl.volume.types import NewType


def bootstrap(conn: Connection, now: datetime, options: VolumeOptions | None = None) -> None:
    """Make the types that do not exist yet. `now` is naive UTC."""
    name = (options or VolumeOptions()).default_type
    if conn.execute(select(VolumeType.id).where(VolumeType.name == name)).first() is None:
        types.create(conn, NewType(name, "Default Volume Type"), now)
    consistency.ensure_type(conn, now)
