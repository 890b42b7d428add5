"""Projects that an image is shared with. Reference: image.md, section 10.

Members count while the image's visibility is `shared`; they are kept when it no longer is.
"""

from __future__ import annotations

from sqlalchemy import and_, delete, func, insert, or_, select, update

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Forbidden, NotFound, OverQuota
from cloudctl.image import images as domain
from cloudctl.image.images import MEMBER_STATUSES, PENDING, SHARED
from cloudctl.image.tables import Image, ImageMember
from cloudctl.rest.caller import Caller


def _known(conn: Connection, caller: Caller, image_id: str, *, lock: bool = False) -> Image:
    """The image, for callers who see it and for its members, whatever they answered. Raises NotFound."""
    member = domain.shared_with(caller.project_id, *MEMBER_STATUSES)
    query = select(Image).where(Image.id == image_id, or_(domain.seen_by(caller), member))
    row = conn.execute(query.with_for_update(of=Image.table) if lock else query).first()
    if row is None:
        raise domain.not_found(image_id)
    return row


def _manages(caller: Caller, image: Image) -> bool:
    return domain.sees_all(caller) or (bool(image.owner) and image.owner == caller.project_id)


def _find(conn: Connection, image_id: str, member_id: str) -> ImageMember | None:
    mine = and_(ImageMember.image_id == image_id, ImageMember.member_id == member_id)
    return conn.execute(select(ImageMember).where(mine)).first()


def _get(conn: Connection, caller: Caller, image: Image, member_id: str) -> ImageMember:
    """A membership that the caller may see: the owner sees all, a member its own. Raises NotFound."""
    row = _find(conn, image.id, member_id)
    if row is None or not (_manages(caller, image) or member_id == caller.project_id):
        raise NotFound(f"{member_id[:64]} not found in the member list of the image {image.id}.")
    return row


def listed(conn: Connection, caller: Caller, image_id: str) -> list[ImageMember]:
    """All members for the owner, its own membership for a member. Raises NotFound, Forbidden."""
    image = _known(conn, caller, image_id)
    query = select(ImageMember).where(ImageMember.image_id == image.id)
    if not _manages(caller, image):
        if image.visibility != SHARED:
            raise Forbidden("Only shared images have members.")
        query = query.where(ImageMember.member_id == caller.project_id)
    elif image.visibility != SHARED:
        return []
    return list(conn.execute(query.order_by(ImageMember.created_at, ImageMember.member_id)))


def show(conn: Connection, caller: Caller, image_id: str, member_id: str) -> ImageMember:
    return _get(conn, caller, _known(conn, caller, image_id), member_id)


def add(conn: Connection, caller: Caller, image_id: str, member_id: str, most: int) -> ImageMember:
    """Share an image. Raises NotFound, Forbidden, Conflict for an existing member, OverQuota beyond `most`."""
    image = domain.own(conn, caller, image_id, "image:members:create")
    if image.visibility != SHARED:
        raise Forbidden("Only shared images have members.")
    if _find(conn, image.id, member_id) is not None:
        raise Conflict(f"The image {image.id} is shared with {member_id[:64]} already.")
    count = select(func.count()).select_from(ImageMember).where(ImageMember.image_id == image.id)
    if conn.execute(count).scalar_one() >= most:
        raise OverQuota(f"The limit of {most} members of an image has been reached.")
    conn.execute(
        insert(ImageMember).values(
            image_id=image.id, member_id=member_id, status=PENDING, created_at=caller.now, updated_at=caller.now
        )
    )
    return _get(conn, caller, image, member_id)


def answer(conn: Connection, caller: Caller, image_id: str, member_id: str, status: str) -> ImageMember:
    """Accept, reject or leave open what was shared, as the member. Raises NotFound, Forbidden for the owner."""
    image = _known(conn, caller, image_id, lock=True)
    row = _get(conn, caller, image, member_id)
    caller.require("image:members:update", project_id=row.member_id)
    mine = and_(ImageMember.image_id == image.id, ImageMember.member_id == member_id)
    conn.execute(update(ImageMember).where(mine).values(status=status, updated_at=caller.now))
    return _get(conn, caller, image, member_id)


def remove(conn: Connection, caller: Caller, image_id: str, member_id: str) -> None:
    """Stop sharing. Raises NotFound, Forbidden for all but the owner."""
    image = _known(conn, caller, image_id, lock=True)
    caller.require("image:members:delete", project_id=image.owner or "")
    row = _get(conn, caller, image, member_id)
    mine = and_(ImageMember.image_id == image.id, ImageMember.member_id == row.member_id)
    conn.execute(delete(ImageMember).where(mine))
