"""What a killed process left behind: abandoned uploads, files without a record. Reference: image.md, section 14.

Call `recover` at start. It spares what another living process works on, so it is safe at any other time, too. Uploads
that died are also found by the audit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import partial

from sqlalchemy import select
from twisted.logger import Logger

from cloudctl.db import Connection, Database
from cloudctl.db.columns import seconds, utc
from cloudctl.image import cache, uploads
from cloudctl.image.data import ImageData
from cloudctl.image.images import IMPORTING, QUEUED, SAVING, STORED, UPLOADING
from cloudctl.image.kept import YOUNG, KeptStore
from cloudctl.image.store import INCOMING, STAGED, ImageStore, is_held
from cloudctl.image.stores import Stores
from cloudctl.image.tables import Image
from cloudctl.tasks.audit import Check, Finding

log = Logger()

IMAGE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
BATCH = 500
DIED = "its upload died with its process, or could not be ended; it is queued again"


def recover(db: Database, stores: Stores) -> None:
    """Uploads that died are queued again, and files that belong to no image are removed."""
    arrival = stores.default
    for image_id in queue_again(db, stores):
        log.info("image {id}: {why}", id=image_id, why=DIED)
    for store in stores:
        _recover(db, store)
    if isinstance(arrival, KeptStore):
        removed = arrival.sweep(partial(db.transact, True, _known), db.clock.seconds() - YOUNG)
        if removed:
            log.info("removed the data of {count} images that are gone", count=removed)
    if stores.cache is not None:
        _recover_cache(db, stores.cache)


def queue_again(db: Database, stores: Stores) -> list[str]:
    """The images whose uploads died: they are queued again."""
    now = db.clock.seconds()
    return [
        image_id
        for image_id, upload_id, since in db.transact(True, _uploading)
        if stores.default.has_died(image_id, upload_id, now - seconds(since))
        and db.transact(False, _abandon, stores, image_id, upload_id, utc(now))
    ]


def _abandon(conn: Connection, stores: Stores, image_id: str, upload_id: str, now: datetime) -> bool:
    """Its data goes while the record is locked: once the image is queued, what has its name may be another upload's."""
    if uploads.under_way(conn, image_id, upload_id, lock=True) is None:
        return False
    for store in stores:
        store.remove(store.path(image_id), store.staged(image_id), store.incoming(upload_id))
    return uploads.abandon(conn, image_id, upload_id, now)


def check(db: Database, data: ImageData) -> Check:
    """The audit's: a process that died may not start again, and one that lives could not record a failure."""

    async def round() -> Sequence[Finding]:
        found = await data.run(queue_again, db, data.stores)
        return [Finding("upload-died", "image", image_id, DIED, submitted=False) for image_id in found]

    return round


def _recover_cache(db: Database, store: ImageStore) -> None:
    names = _of_images(store)
    for start in range(0, len(names), BATCH):
        batch = names[start : start + BATCH]
        wanted = db.transact(True, cache.known, batch)
        _sweep(store, [name for name in batch if name not in wanted])


def _recover(db: Database, store: ImageStore) -> None:
    names = _of_images(store)
    for start in range(0, len(names), BATCH):
        batch = names[start : start + BATCH]
        images = db.transact(True, _images, [_image_of(name) for name in batch])
        orphans = [name for name in batch if not _belongs(name, images.get(_image_of(name)), store.id)]
        _sweep(store, orphans, partial(_is_still_orphan, db, store.id))


def _of_images(store: ImageStore) -> list[str]:
    """The names in it that are ours: an operator may have other things in the directory that an option names."""
    return [name for name in store.names() if name.startswith(INCOMING) or IMAGE_ID.fullmatch(_image_of(name))]


def _is_still_orphan(db: Database, store_id: str, name: str) -> bool:
    """Asked once nobody holds the file: an upload that ended since then has made it the data of its image."""
    image_id = _image_of(name)
    return not _belongs(name, db.transact(True, _images, [image_id]).get(image_id), store_id)


def _uploading(conn: Connection) -> list[tuple[str, str, datetime]]:
    """(image, upload, since when)"""
    coming = Image.status.in_((SAVING, UPLOADING)), Image.upload_id.is_not(None)
    rows = conn.execute(select(Image.id, Image.upload_id, Image.updated_at).where(*coming))
    return [(image_id, upload_id, since) for image_id, upload_id, since in rows if upload_id is not None]


def _known(conn: Connection, ids: Collection[str]) -> list[tuple[str, bool]]:
    """Those of the images `ids` that may have data, and all images, asked for or not, that may have staged data.

    As (id, whether it is staged).
    """
    named = conn.execute(select(Image.id, Image.status).where(Image.id.in_(ids)))
    waiting = conn.scalars(select(Image.id).where(Image.status.in_((UPLOADING, IMPORTING))))
    found = [(id, False) for id, status in named if status not in (QUEUED, UPLOADING)]
    return [*found, *((id, True) for id in waiting)]


def _image_of(name: str) -> str:
    return name.removeprefix(STAGED)


def _images(conn: Connection, ids: Iterable[str]) -> dict[str, Image]:
    return {image.id: image for image in conn.execute(select(Image).where(Image.id.in_(set(ids))))}


def _belongs(name: str, image: Image | None, store_id: str) -> bool:
    """Whether a file of this name, in this store, belongs to the image (None: there is no such image)."""
    if name.startswith(INCOMING) or image is None:
        return False
    if name.startswith(STAGED):
        # SAVING: a driver may be writing it, or it is being looked at: see `kept`.
        return image.status in (SAVING, UPLOADING, IMPORTING)
    if image.status in STORED:
        return store_id in image.stores or store_id in (image.importing_to or "").split(",")
    return image.status not in (QUEUED, UPLOADING)


def _sweep(store: ImageStore, names: Iterable[str], is_orphan: Callable[[str], bool] = lambda _: True) -> None:
    for name in names:
        path = store.directory / name
        if not is_held(path) and is_orphan(name):
            log.info("removed {path}: it belongs to no image", path=str(path))
            store.remove(path)
