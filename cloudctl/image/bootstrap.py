"""What a new cloud begins with: one image, small, empty and public, enough to boot a fake guest from; and the usual
metadata definitions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from typing import Any

from cloudctl.db import Connection, schema
from cloudctl.db.columns import new_id
from cloudctl.image import data, definitions, images, namespaces
from cloudctl.image.definitions import NewDefinitions
from cloudctl.image.images import NewImage
from cloudctl.image.namespaces import NewNamespace
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
    measured = data.measure(incoming, "raw", "bare")
    store.receive(incoming, new.id)
    store.remove(incoming)
    return images.create_stored(conn, new, measured, now)


@lru_cache(maxsize=1)
def _usual() -> dict[str, Any]:
    return tomllib.loads((files("cloudctl.image") / "usual_definitions.toml").read_text())


def usual(owner: str | None) -> Iterator[NewNamespace]:
    """The namespaces of `usual_definitions.toml`, public, of one project or of none."""
    for each in _usual()["namespaces"]:
        properties = [{"name": name, "definition": definition} for name, definition in each["properties"].items()]
        yield NewNamespace(
            namespace=each["namespace"],
            owner=owner,
            display_name=each["display_name"],
            description=each["description"],
            visibility=namespaces.PUBLIC,
            protected=True,
            holds=NewDefinitions(associations=each["types"], properties=properties),
        )


def define_in_older(conn: Connection, now: datetime) -> None:
    """Write the usual definitions into a cloud that is older than they are. What was deleted since stays deleted."""
    schema.lock(conn)
    if not definitions.resource_types(conn):
        define(conn, None, now)


def define(conn: Connection, owner: str | None, now: datetime) -> None:
    """Write the usual definitions; the resource types first, because some are in no namespace yet."""
    for name in _usual()["resource_types"]:
        definitions.know(conn, name, now)
    for each in usual(owner):
        namespaces.create(conn, each, now)
