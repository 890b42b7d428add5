"""Symlinks: objects that lead to whatever object has a name, or to one state of it. Reference: object-store.md, A6.

Static: `X-Symlink-Target-Etag` names the state; once that is gone, the link leads nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Forbidden
from cloudctl.object_store import containers, metadata, objects
from cloudctl.object_store.names import Place, placed
from cloudctl.object_store.tables import Container, Object, Version

MOST_LINKS = 2
TARGET, TARGET_ACCOUNT = "X-Symlink-Target", "X-Symlink-Target-Account"
TARGET_ETAG, TARGET_BYTES = "X-Symlink-Target-Etag", "X-Symlink-Target-Bytes"
# The tag of the static large object that a static link leads to: listings show it.
LARGE_ETAG = f"{metadata.PRIVATE}Symlink-Large-Etag"
HEADERS = (TARGET, TARGET_ACCOUNT, TARGET_ETAG, TARGET_BYTES, LARGE_ETAG)


def target_of(place: Place, headers: Mapping[str, str]) -> Place | None:
    """Where a symlink at `place` leads."""
    target = headers.get(TARGET)
    if target is None:
        return None
    container, _, name = target.partition("/")
    return placed(headers.get(TARGET_ACCOUNT, place.account), container, name)


def check(found: Object | Version, etag: str, *, is_link: bool) -> None:
    """Check that the target of a static link is in the state `etag`. Raises Conflict."""
    own = found.headers.get(TARGET_ETAG, found.etag) if is_link else found.etag
    if not etag or etag == own:
        return
    if is_link:
        raise Conflict(f"{TARGET_ETAG} headers do not match")
    raise Conflict(f"Object Etag {own!r} does not match {TARGET_ETAG} header {etag!r}")


def followed(
    conn: Connection, place: Place, may_read: Callable[[Connection, Container], bool], now: datetime
) -> tuple[Place, Object] | None:
    """The object at `place`, or the one that links there lead to; None if there is none.

    Raises Forbidden if a container on the way may not be read; Conflict if a link leads to another state, or if there
    are too many.
    """
    etag = ""
    for _ in range(MOST_LINKS + 1):
        container = containers.find(conn, place)
        if container is None:
            return None
        if not may_read(conn, container):
            # Do not reveal whether there is such an object, either.
            raise Forbidden(f"/{place.container[:64]}/{place.name[:64]} may not be read.")
        found = objects.find(conn, container, place.name, now)
        if found is None:
            return None
        target = target_of(place, found.headers)
        check(found, etag, is_link=target is not None)
        if target is None:
            return place, found
        etag, place = found.headers.get(TARGET_ETAG, ""), target
    raise too_many()


def too_many() -> Conflict:
    return Conflict(f"Too many levels of symbolic links, maximum allowed is {MOST_LINKS}")
