"""Custom properties and tags of images, for any number of images in one query each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import bindparam, delete, insert, select

from cloudctl.db import Connection
from cloudctl.image.tables import Image, ImageProperty, ImageTag

# Built once: building a statement costs more than running it.
_of = (
    select(ImageProperty)
    .where(ImageProperty.image_id.in_(bindparam("images", expanding=True)))
    .order_by(ImageProperty.name)
)
_with_format = (
    select(Image.owner, Image.disk_format, ImageProperty.name, ImageProperty.value)
    .join_from(Image, ImageProperty, ImageProperty.image_id == Image.id, isouter=True)
    .where(Image.id == bindparam("image"))
    .order_by(ImageProperty.name)
)


def of(conn: Connection, image_ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Image id → property → value; every id is a key."""
    found: dict[str, dict[str, str]] = {image_id: {} for image_id in image_ids}
    for row in conn.execute(_of, {"images": image_ids}):
        found[row.image_id][row.name] = row.value
    return found


def with_format(conn: Connection, image_id: str) -> tuple[str, str, dict[str, str]] | None:
    """The owner ("": none) and the disk format of an image, with its properties; None if there is no such image."""
    rows = conn.execute(_with_format, {"image": image_id}).all()
    if not rows:
        return None
    owner, disk_format, _, _ = rows[0]
    # The row of an image without properties has a name of None.
    return owner or "", disk_format or "", {name: value for _, _, name, value in rows if name is not None}


def tags_of(conn: Connection, image_ids: Sequence[str]) -> dict[str, list[str]]:
    """Image id → tags in alphabetical order."""
    found: dict[str, list[str]] = defaultdict(list)
    query = select(ImageTag).where(ImageTag.image_id.in_(image_ids)).order_by(ImageTag.tag)
    for row in conn.execute(query):
        found[row.image_id].append(row.tag)
    return found


def change(conn: Connection, image_id: str, given: Mapping[str, str], removed: Iterable[str] = ()) -> None:
    """Set the properties in `given` and drop those in `removed`. The caller holds the image's row."""
    gone = {*given, *removed}
    if gone:
        mine = ImageProperty.image_id == image_id
        conn.execute(delete(ImageProperty).where(mine, ImageProperty.name.in_(gone)))
    if given:
        rows = [{"image_id": image_id, "name": name, "value": value} for name, value in given.items()]
        conn.execute(insert(ImageProperty), rows)


def set_tags(conn: Connection, image_id: str, tags: Iterable[str]) -> None:
    """These tags and no others. The caller holds the image's row."""
    conn.execute(delete(ImageTag).where(ImageTag.image_id == image_id))
    rows = [{"image_id": image_id, "tag": tag} for tag in sorted(set(tags))]
    if rows:
        conn.execute(insert(ImageTag), rows)


def remove_all(conn: Connection, image_id: str) -> None:
    conn.execute(delete(ImageProperty).where(ImageProperty.image_id == image_id))
    conn.execute(delete(ImageTag).where(ImageTag.image_id == image_id))
