"""What a project may store in the image service. Reference: image.md, section 12.

The limits are identity's unified ones: those registered for the service `image` under these names, and those of
individual projects. A resource that is not registered has no limit.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, func, select

from cloudctl.db import Connection
from cloudctl.identity import limits as unified
from cloudctl.image.tables import Image
from cloudctl.rest.quota import UNLIMITED, Limited, Quotas

MIB = 2**20
# Images whose data is arriving.
BUSY = ("saving", "uploading", "importing")


def mebibytes(size: int) -> int:
    """`size` bytes in MiB, rounded up."""
    return -(-size // MIB)


def _stored(conn: Connection, project_id: str) -> int:
    return _sum(conn, select(func.sum(Image.size)).where(Image.owner == project_id))


def _staged(conn: Connection, project_id: str) -> int:
    return _sum(conn, select(func.sum(Image.staged_size)).where(Image.owner == project_id))


def _sum(conn: Connection, query: Select[Any]) -> int:
    """In MiB. PostgreSQL adds up 64-bit numbers to a Decimal, which is rounded down, and is no JSON."""
    return mebibytes(int(conn.execute(query).scalar_one() or 0))


def _count(conn: Connection, project_id: str) -> int:
    query = select(func.count()).select_from(Image).where(Image.owner == project_id)
    return conn.execute(query).scalar_one() or 0


def _uploading(conn: Connection, project_id: str) -> int:
    query = select(func.count()).select_from(Image)
    query = query.where(Image.owner == project_id, Image.status.in_(BUSY))
    return conn.execute(query).scalar_one() or 0


def _told(resource: str, asked: int, used: int, limit: int) -> str:
    return f"The limit {resource} of the project is {limit}; {used} are used and {asked} more were asked for."


# The first two in MiB.
QUOTAS = Quotas(
    "image",
    (
        Limited("image_size_total", UNLIMITED, _stored),
        Limited("image_stage_total", UNLIMITED, _staged),
        Limited("image_count_total", UNLIMITED, _count),
        Limited("image_count_uploading", UNLIMITED, _uploading),
    ),
    told=_told,
    unified=lambda conn, project_id: unified.in_force(conn, "image", project_id),
)
