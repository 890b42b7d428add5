"""The cache: copies of images' data, near to those who download it, that administrators asked for.

The rows say what there is; a file without a row is a leftover, and a row without its file only means that the copy is
not used. When there is no room, the copy that was not read for longest goes first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import bindparam, delete, func, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Invalid, NotFound
from cloudctl.image import images as domain
from cloudctl.image import kinds
from cloudctl.image.images import ACTIVE, STORED
from cloudctl.image.tables import CachedImage, Image
from cloudctl.rest.caller import Caller

_one = select(CachedImage).where(CachedImage.image_id == bindparam("wanted"))
_read = (
    update(CachedImage)
    .where(CachedImage.image_id == bindparam("wanted"), CachedImage.cached_at.is_not(None))
    .values(hits=CachedImage.hits + 1, read_at=bindparam("now"))
)


def listed(conn: Connection) -> Sequence[CachedImage]:
    """The oldest request first."""
    return conn.execute(select(CachedImage).order_by(CachedImage.queued_at, CachedImage.image_id)).all()


def queue(conn: Connection, caller: Caller, image_id: str) -> None:
    """Have a copy made, unless there is one. Raises NotFound, Invalid."""
    image = domain.get(conn, image_id, lock=True)
    if image.status != ACTIVE:
        raise Invalid(f"The image {image.id} is {image.status}; an active image can be cached.")
    if conn.execute(_one, {"wanted": image.id}).first() is None:
        conn.execute(insert(CachedImage).values(image_id=image.id, size=image.size or 0, queued_at=caller.now))
        tasks.submit(conn, kinds.CACHE_IMAGE, image.id, caller)


def is_wanted(conn: Connection, image_id: str) -> bool:
    """Whether the image still waits for its copy, and has data."""
    waits = select(CachedImage.image_id).join(Image, Image.id == CachedImage.image_id)
    waits = waits.where(CachedImage.image_id == image_id, CachedImage.cached_at.is_(None), Image.status.in_(STORED))
    return conn.execute(waits).first() is not None


def keep(conn: Connection, image_id: str, now: datetime) -> bool:
    """The copy exists now; False if nobody wants it any more."""
    # What is at an address had no size before it was fetched for the copy.
    size = select(Image.size).where(Image.id == image_id).scalar_subquery()
    wanted = update(CachedImage).where(CachedImage.image_id == image_id)
    return conn.execute(wanted.values(cached_at=now, size=func.coalesce(size, CachedImage.size))).rowcount == 1


def surplus(conn: Connection, most: int) -> list[str]:
    """The images whose copies exceed `most` bytes."""
    last = func.coalesce(CachedImage.read_at, CachedImage.cached_at)
    rows = conn.execute(
        select(CachedImage.image_id, CachedImage.size).where(CachedImage.cached_at.is_not(None)).order_by(last.desc())
    )
    found, kept = [], 0
    for image_id, size in rows:
        kept += size
        if kept > most:
            found.append(image_id)
            kept -= size
    return found


def was_read(conn: Connection, image_id: str, now: datetime) -> None:
    conn.execute(_read, {"wanted": image_id, "now": now})


def is_cached(conn: Connection, image_id: str) -> bool:
    cached = conn.execute(_one, {"wanted": image_id}).first()
    return cached is not None and cached.cached_at is not None


def remove(conn: Connection, image_id: str) -> None:
    """Raises NotFound if it neither has nor waits for a copy."""
    if not forget(conn, [image_id]):
        raise NotFound(f"The image {image_id[:64]} is not cached.")


def forget(conn: Connection, image_ids: Collection[str]) -> int:
    """Returns how many of them there were. A copy that is being made is dropped by the task that makes it."""
    return conn.execute(delete(CachedImage).where(CachedImage.image_id.in_(image_ids))).rowcount


def clear(conn: Connection, *, cached: bool, queued: bool) -> list[str]:
    """Forget all copies, all requests, or both; returns the images."""
    query = select(CachedImage.image_id)
    if not queued:
        query = query.where(CachedImage.cached_at.is_not(None))
    if not cached:
        query = query.where(CachedImage.cached_at.is_(None))
    found = list(conn.scalars(query))
    forget(conn, found)
    return found


def known(conn: Connection, image_ids: Collection[str]) -> set[str]:
    """Those of them that have or wait for a copy."""
    return set(conn.scalars(select(CachedImage.image_id).where(CachedImage.image_id.in_(image_ids))))
