"""One image: its states, who sees it, making, changing and removing it. Reference: image.md, sections 1 to 3.

Functions that change an image take its row as returned by `visible` or `get` with `lock=True`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen
from sqlalchemy import ColumnElement, and_, bindparam, delete, false, insert, or_, select, true, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.db.columns import new_id
from cloudctl.db.machine import Machine, Move, sources
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, Forbidden, Invalid, NotFound
from cloudctl.image import kinds, properties
from cloudctl.image.data import Measured
from cloudctl.image.quotas import QUOTAS
from cloudctl.image.store import DEFAULT, WEB
from cloudctl.image.tables import CachedImage, DeletedImage, ImageMember, ImageProperty
from cloudctl.image.tables import Image as ImageRecord
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Origin

QUEUED, SAVING, UPLOADING, IMPORTING = "queued", "saving", "uploading", "importing"
ACTIVE, DEACTIVATED = "active", "deactivated"
STATUSES = (QUEUED, SAVING, UPLOADING, IMPORTING, ACTIVE, DEACTIVATED)

# Every image may be deleted at any time; then there is no record.
MOVES = {
    "save": Move(sources(QUEUED), SAVING),
    "saved": Move(sources(SAVING), ACTIVE),
    "save failed": Move(sources(SAVING), QUEUED),
    "stage": Move(sources(QUEUED), UPLOADING),
    "stage failed": Move(sources(UPLOADING), QUEUED),
    "import": Move(sources(QUEUED), IMPORTING),
    "import staged": Move(sources(UPLOADING), IMPORTING),
    "locate": Move(sources(QUEUED), ACTIVE),
    "imported": Move(sources(IMPORTING), ACTIVE),
    "import failed": Move(sources(IMPORTING), QUEUED),
    "deactivate": Move(sources(ACTIVE), DEACTIVATED),
    "reactivate": Move(sources(DEACTIVATED), ACTIVE),
}
# The images that have data.
STORED = (ACTIVE, DEACTIVATED)

PUBLIC, PRIVATE, SHARED, COMMUNITY = "public", "private", "shared", "community"
VISIBILITIES = (PUBLIC, PRIVATE, SHARED, COMMUNITY)
ACCEPTED, PENDING, REJECTED = "accepted", "pending", "rejected"
MEMBER_STATUSES = (ACCEPTED, PENDING, REJECTED)

CONTAINER_FORMATS = ("ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed")
DISK_FORMATS = ("ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop")


@frozen
class NewImage:
    """What is said of an image before it has data. `owner`: a project id."""

    owner: str | None
    name: str | None = None
    id: str = field(factory=new_id)
    visibility: str = SHARED
    protected: bool = False
    os_hidden: bool = False
    container_format: str | None = None
    disk_format: str | None = None
    min_disk: int = 0  # GiB
    min_ram: int = 0  # MiB
    tags: Sequence[str] = ()
    properties: Mapping[str, str] = field(factory=dict)


@frozen
class Image:
    """A row of `images` with its custom properties and tags."""

    row: ImageRecord
    properties: Mapping[str, str]
    tags: Sequence[str]


# -- who sees what


def shared_with(project_id: str, *statuses: str) -> ColumnElement[bool]:
    """Images that are shared with the project, if it has answered with one of these statuses."""
    if not project_id:
        return false()
    mine = select(ImageMember.image_id).where(ImageMember.member_id == project_id, ImageMember.status.in_(statuses))
    return and_(ImageRecord.visibility == SHARED, ImageRecord.id.in_(mine))


def owned_by(project_id: str) -> ColumnElement[bool]:
    return ImageRecord.owner == project_id if project_id else false()


def sees_all(caller: Caller) -> bool:
    return caller.may("image:images:all")


def seen_by(caller: Caller) -> ColumnElement[bool]:
    """Which images the caller may see by id."""
    return true() if sees_all(caller) else seen_in(caller.project_id)


def seen_in(project_id: str) -> ColumnElement[bool]:
    """Which images any caller of a project may see by id."""
    return or_(
        owned_by(project_id),
        ImageRecord.visibility.in_((PUBLIC, COMMUNITY)),
        shared_with(project_id, ACCEPTED, PENDING),
    )


# Built once: building a statement costs more than running it.
_membership = select(ImageMember.status).where(
    ImageMember.image_id == bindparam("image"), ImageMember.member_id == bindparam("member")
)


def sees(conn: Connection, caller: Caller, row: ImageRecord) -> bool:
    """`seen_by` for one row."""
    is_own = caller.project_id and row.owner == caller.project_id
    if is_own or row.visibility in (PUBLIC, COMMUNITY) or sees_all(caller):
        return True
    if row.visibility != SHARED or not caller.project_id:
        return False
    mine = {"image": row.id, "member": caller.project_id}
    return conn.scalar(_membership, mine) in (ACCEPTED, PENDING)


RECORDS = ById(ImageRecord, "No image found with ID {}")
find, get, not_found = RECORDS.find, RECORDS.get, RECORDS.not_found


MACHINE = Machine(ImageRecord, MOVES, not_found, "Image {id} is {status}.")
try_move = MACHINE.try_move


def visible(conn: Connection, caller: Caller, image_id: str, *, lock: bool = False) -> ImageRecord:
    """The row of an image that the caller may see. `lock`: it will be changed. Raises NotFound."""
    row = get(conn, image_id, lock=lock)
    if not sees(conn, caller, row):
        raise not_found(image_id)
    return row


def named(conn: Connection, caller: Caller, name: str) -> list[ImageRecord]:
    """The rows of the images with this name that the caller may see, the newest first; two at most."""
    query = (
        select(ImageRecord)
        .where(ImageRecord.name == name, seen_by(caller))
        .order_by(ImageRecord.created_at.desc())
        .limit(2)
    )
    return list(conn.execute(query).all())


def own(conn: Connection, caller: Caller, image_id: str, rule: str) -> ImageRecord:
    """The row, locked, of an image that `rule` lets the caller change. Raises NotFound, Forbidden."""
    row = visible(conn, caller, image_id, lock=True)
    caller.require(rule, project_id=row.owner or "")
    return row


def formats(image: ImageRecord) -> tuple[str, str]:
    """Of its disk and of its container. Raises Invalid while one is not set."""
    if not (image.disk_format and image.container_format):
        raise Invalid("Properties disk_format, container_format must be set prior to saving data.")
    return image.disk_format, image.container_format


def is_usable(conn: Connection, image_id: str, project_id: str) -> bool:
    """The image has data, and the project may use it."""
    query = select(ImageRecord.id).where(ImageRecord.id == image_id, ImageRecord.status == ACTIVE, seen_in(project_id))
    return conn.execute(query).first() is not None


def exists(conn: Connection, image_id: str) -> bool:
    return find(conn, image_id) is not None


def full(conn: Connection, rows: Sequence[ImageRecord]) -> list[Image]:
    """The rows with what belongs to them."""
    ids = [row.id for row in rows]
    given, tags = properties.of(conn, ids), properties.tags_of(conn, ids)
    return [Image(row, given[row.id], tags.get(row.id, [])) for row in rows]


def with_properties(conn: Connection, wanted: Mapping[str, str]) -> Sequence[ImageRecord]:
    """The images with all these properties, whoever asks; the newest first."""
    query = select(ImageRecord)
    for name, value in wanted.items():
        has = select(ImageProperty.image_id).where(ImageProperty.name == name, ImageProperty.value == value)
        query = query.where(ImageRecord.id.in_(has))
    return conn.execute(query.order_by(ImageRecord.created_at.desc(), ImageRecord.id.desc())).all()


# -- making


def create(conn: Connection, new: NewImage, now: datetime, *, status: str = QUEUED) -> str:
    """Register an image without data; returns its id.

    SAVING is for callers that write the data to the store themselves, where `image.image.activate` then takes it over.
    Raises Conflict if the id is or was in use, OverQuota.
    """
    # Its data arrives from now on, as that of an upload does.
    arriving = {"image_count_uploading": 1} if status == SAVING else {}
    quota.take(conn, QUOTAS, new.owner or "", {"image_count_total": 1, **arriving})
    _insert(conn, new, now, status=status)
    return new.id


def create_stored(conn: Connection, new: NewImage, measured: Measured, now: datetime) -> str:
    """Register an image whose data is already at `ImageStore.path(new.id)` (see `data.measure`); returns its id."""
    _insert(conn, new, now, status=ACTIVE, **_data(measured, (DEFAULT,)))
    return new.id


def _insert(conn: Connection, new: NewImage, now: datetime, **values: Any) -> None:
    taken = Conflict(f"An image with the identifier {new.id} already exists.")
    with unique(conn, taken):
        conn.execute(
            insert(ImageRecord).values(
                id=new.id,
                owner=new.owner,
                name=new.name,
                visibility=new.visibility,
                protected=new.protected,
                os_hidden=new.os_hidden,
                container_format=new.container_format,
                disk_format=new.disk_format,
                min_disk=new.min_disk,
                min_ram=new.min_ram,
                created_at=now,
                updated_at=now,
                **values,
            )
        )
        # Now, as the insertion waits for a transaction that deletes an image of this id.
        if conn.execute(select(DeletedImage).where(DeletedImage.id == new.id)).first() is not None:
            raise taken
    properties.change(conn, new.id, new.properties)
    properties.set_tags(conn, new.id, new.tags)


def _data(measured: Measured, stores: Sequence[str]) -> dict[str, Any]:
    return {
        "stores": list(stores),
        "size": measured.size,
        "virtual_size": measured.virtual_size,
        "checksum": measured.checksum,
        "os_hash_algo": measured.os_hash_algo,
        "os_hash_value": measured.os_hash_value,
    }


# -- changing


def activate(
    conn: Connection,
    /,
    image_id: str,
    name: str,
    measured: Measured,
    now: datetime,
    *where: ColumnElement[bool],
    stores: Sequence[str] = (DEFAULT,),
    **columns: Any,
) -> bool:
    """The data is in these stores, by the move `name`: saved or imported; False if that is not allowed (any more)."""
    values = {"upload_id": None, "staged_size": None, **_data(measured, stores), **columns}
    return try_move(conn, image_id, name, now, *where, **values)


def change(conn: Connection, image: ImageRecord, changes: Mapping[str, Any], now: datetime) -> ImageRecord:
    """Change columns that are not part of the state. Raises NotFound."""
    conn.execute(update(ImageRecord).where(ImageRecord.id == image.id).values(updated_at=now, **changes))
    return get(conn, image.id)


def block(conn: Connection, row: ImageRecord, now: datetime, *, blocked: bool) -> None:
    """Deactivate or reactivate an image; does nothing if it already is. Raises Forbidden without data."""
    name, done = ("deactivate", DEACTIVATED) if blocked else ("reactivate", ACTIVE)
    if row.status == done or try_move(conn, row.id, name, now):
        return
    raise Forbidden(f"The image {row.id} is {row.status}; only an image with data can be {name}d.")


# -- stores


def leave(conn: Connection, row: ImageRecord, store_id: str, now: datetime, by: Origin) -> ImageRecord:
    """The data is no longer in this store; a task removes it there.

    Raises NotFound, Forbidden for the only store that has it, Conflict while it is being copied.
    """
    if row.status not in STORED or store_id not in row.stores:
        raise NotFound(f"The image {row.id} has no data in a store {store_id[:64]!r}.")
    if row.stores == [store_id]:
        raise Forbidden(f"The store {store_id} holds the only copy of the data of image {row.id}.")
    if tasks.has_open(conn, kinds.IMAGE, row.id):
        raise Conflict(f"The data of the image {row.id} is being copied or removed; wait for the end of it.")
    tasks.submit(conn, kinds.DELETE_COPY, row.id, by, args={"store": store_id})
    left: dict[str, Any] = {"stores": [each for each in row.stores if each != store_id]}
    return change(conn, row, left | ({"locations": []} if store_id == WEB else {}), now)


# -- removing


def remove(conn: Connection, row: ImageRecord, by: Origin) -> None:
    """Forget an image at once and have its data removed by a task; whatever was being done with it stops.

    Raises Forbidden if the image is protected.
    """
    if row.protected:
        raise Forbidden(f"Image {row.id} is protected and cannot be deleted.")
    conn.execute(delete(ImageMember).where(ImageMember.image_id == row.id))
    conn.execute(delete(CachedImage).where(CachedImage.image_id == row.id))
    properties.remove_all(conn, row.id)
    conn.execute(delete(ImageRecord).where(ImageRecord.id == row.id))
    conn.execute(insert(DeletedImage).values(id=row.id))
    tasks.supersede(conn, kinds.DELETE_IMAGE, row.id, by)
