"""What a project may store in the image service. Reference: image.md, section 12.

The limits are identity's unified ones: those registered for the service `image` under these names, and those of
individual projects. A resource that is not registered has no limit.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, case, func, select

from cloudctl.db import Connection
from cloudctl.identity import limits as unified
from cloudctl.image.tables import Image
from cloudctl.rest.quota import UNLIMITED, Limited, Quotas

MIB = 2**20
# Images whose data is arriving.
BUSY = ("saving", "uploading", "importing")
# Of these, the ones whose bytes are to be stored, and the ones whose bytes are staged.
TO_STORE = ("saving", "importing")
STAGED = ("uploading", "importing")


def mebibytes(size: int) -> int:
    """`size` bytes in MiB, rounded up."""
    return -(-size // MIB)


def _stored(conn: Connection, project_id: str) -> int:
    """With what is still being checked: images that arrive at the same time must not each find the same room."""
    coming = case((Image.status.in_(TO_STORE), Image.staged_size))
    query = select(func.sum(func.coalesce(Image.size, coming, 0))).where(Image.owner == project_id)
    return mebibytes(_sum(conn, query))


def _staged(conn: Connection, project_id: str) -> int:
    query = select(func.sum(Image.staged_size)).where(Image.owner == project_id, Image.status.in_(STAGED))
    return mebibytes(_sum(conn, query))


def begun(conn: Connection, project_id: str, status: str) -> int:
    """Bytes of the uploads for `status` that have arrived and are not finished yet. They are counted already."""
    mine = (Image.owner == project_id, Image.status == status, Image.upload_id.is_not(None))
    return _sum(conn, select(func.sum(Image.staged_size)).where(*mine))


def begun_count(conn: Connection, project_id: str) -> int:
    """How many uploads have arrived and are not finished yet. They are counted already."""
    mine = (Image.owner == project_id, Image.status.in_(BUSY), Image.upload_id.is_not(None))
    return conn.execute(select(func.count()).select_from(Image).where(*mine)).scalar_one()


def _sum(conn: Connection, query: Select[Any]) -> int:
    """PostgreSQL adds up 64-bit numbers to a Decimal, which `mebibytes` would round down, and which is no JSON."""
    return int(conn.execute(query).scalar_one() or 0)


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
