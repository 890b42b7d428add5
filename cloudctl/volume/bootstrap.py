"""What block storage needs before its first volume: a type for volumes created without one."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.volume import types
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import VolumeType
from cloudctl.volume.types import NewType


def bootstrap(conn: Connection, now: datetime, options: VolumeOptions | None = None) -> None:
    """Make the default type unless it exists. `now` is naive UTC."""
    name = (options or VolumeOptions()).default_type
    if conn.execute(select(VolumeType.id).where(VolumeType.name == name)).first() is None:
        types.create(conn, NewType(name, "Default Volume Type"), now)
