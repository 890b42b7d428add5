"""The image that a new cloud begins with: a small empty disk, public, enough to boot a fake guest from."""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.image import data, images
from cloudctl.image.images import NewImage
from cloudctl.image.store import ImageStore

NAME = "tiny"
DISK_BYTES = 1 << 20


def disk() -> bytes:
    """An empty raw disk whose boot sector is marked as one."""
    sector = bytes(510) + b"\x55\xaa"
    return sector + bytes(DISK_BYTES - len(sector))


def bootstrap(conn: Connection, store: ImageStore, owner: str, now: datetime) -> str:
    """Its id. The data is written first: a crash before the commit leaves a file that the next start removes."""
    new = NewImage(
        owner=owner, name=NAME, id=new_id(), visibility=images.PUBLIC, container_format="bare", disk_format="raw"
    )
    incoming = store.incoming(new.id)
    incoming.write_bytes(disk())
    store.settle(incoming, store.path(new.id))
    return images.create_stored(conn, new, data.measure(store.path(new.id), "raw", "bare"), now)
