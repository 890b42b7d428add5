"""Objects: a name in a container, what is said of it, the file with its data. Reference: object-store.md, A5."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen
from sqlalchemy import bindparam, delete, insert, select, update

from cloudctl.db import Connection
from cloudctl.db.columns import seconds
from cloudctl.errors import NotFound, PreconditionFailed, TooLarge
from cloudctl.object_store import accounts, containers, versions
from cloudctl.object_store.metadata import number
from cloudctl.object_store.names import Place
from cloudctl.object_store.store import EMPTY, Content
from cloudctl.object_store.tables import Container, Object

_named = select(Object).where(Object.container_id == bindparam("container"), Object.name == bindparam("name"))
_lock_named = _named.with_for_update()
_has_file = select(Object.file_id).where(Object.file_id == bindparam("file")).limit(1)


@frozen
class NewObject:
    content: Content = EMPTY
    content_type: str = "application/octet-stream"
    headers: Mapping[str, str] = field(factory=dict)
    delete_at: int | None = None
    large_size: int | None = None
    large_etag: str | None = None
    only_if_absent: bool = False


def find(conn: Connection, container: Container, name: str, now: datetime, *, lock: bool = False) -> Object | None:
    """None also for one whose time has come."""
    found = conn.execute(_lock_named if lock else _named, {"container": container.id, "name": name}).first()
    return None if found is None or is_expired(found, now) else found


def get(conn: Connection, place: Place, now: datetime, *, lock: bool = False) -> Object:
    """Raises NotFound."""
    container = containers.find(conn, place)
    found = None if container is None else find(conn, container, place.name, now, lock=lock)
    if found is None:
        raise not_found()
    return found


def not_found() -> NotFound:
    return NotFound("The resource could not be found.")


def guessed_type(name: str) -> str:
    """The content type, as the name says it."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def is_expired(found: Object, now: datetime) -> bool:
    return found.delete_at is not None and found.delete_at <= seconds(now)


def check_room(conn: Connection, container: Container, size: int, *, lock: bool = False) -> None:
    """Whether the quotas of container and account have room for an object of so many bytes. Raises TooLarge."""
    most, most_count = quota(container.headers, "X-Container-Meta-Quota")
    if most is not None or most_count is not None:
        _check(containers.usage(conn, container.id), size, most, most_count)
    most, most_count = quota(accounts.headers(conn, container.project_id), "X-Account-Quota")
    if most is not None or most_count is not None:
        if lock:
            # What others put into other containers is counted before, or waits.
            accounts.lock(conn, container.project_id)
        _check(accounts.usage(conn, container.project_id), size, most, most_count)


def quota(headers: Mapping[str, str], name: str) -> tuple[int | None, int | None]:
    """How many bytes and how many objects there may be; None: as many as one likes."""
    return number(headers, f"{name}-Bytes"), number(headers, f"{name}-Count")


def _check(used: containers.Usage | accounts.Usage, size: int, most: int | None, most_count: int | None) -> None:
    if (most is not None and used.bytes + size > most) or (most_count is not None and used.objects + 1 > most_count):
        raise TooLarge("Upload exceeds quota.")


def put(conn: Connection, place: Place, new: NewObject, now: datetime) -> Sequence[str]:
    """The object is this one from now on. The files that nobody needs any more.

    Raises NotFound, TooLarge, PreconditionFailed.
    """
    container = containers.get(conn, place, lock=True)
    if new.only_if_absent and find(conn, container, place.name, now) is not None:
        raise PreconditionFailed("")
    check_room(conn, container, new.content.size, lock=True)
    return unused(conn, _insert(conn, container, place.name, new, now))


def copy(conn: Connection, source: Object, target: Place, new: NewObject, now: datetime) -> Sequence[str]:
    """As `put`, with the file of `source`, which they share from now on. Raises NotFound, too: it is gone."""
    named = {"container": source.container_id, "name": source.name}
    found = conn.execute(_lock_named, named).first()
    if found is None or found.file_id != source.file_id:
        raise not_found()
    return put(conn, target, new, now)


def _insert(conn: Connection, container: Container, name: str, new: NewObject, now: datetime) -> list[str]:
    """The file of what it replaces."""
    freed = _make_room(conn, container, name, now)
    values: dict[str, Any] = {
        "container_id": container.id,
        "name": name,
        "project_id": container.project_id,
        "file_id": new.content.file_id,
        "size": new.content.size,
        "etag": new.content.etag,
        "content_type": new.content_type,
        "headers": new.headers,
        "large_size": new.large_size,
        "large_etag": new.large_etag,
        "delete_at": new.delete_at,
        "updated_at": now,
    }
    conn.execute(insert(Object).values(**values))
    return freed


def _make_room(conn: Connection, container: Container, name: str, now: datetime) -> list[str]:
    """Nothing has the name any more: what had it is an old version, or gone. The files of what is gone."""
    found = find(conn, container, name, now, lock=True)
    archive = None if found is None else versions.archive(conn, container, lock=True)
    if found is None or archive is None:
        return _take_away(conn, container, name)
    versions.move(conn, found, archive, versions.version_name(conn, archive, name, found.updated_at))
    return []


def _take_away(conn: Connection, container: Container, name: str) -> list[str]:
    """Its file."""
    found = conn.execute(_lock_named, {"container": container.id, "name": name}).first()
    if found is None:
        return []
    conn.execute(delete(Object).where(Object.container_id == container.id, Object.name == name))
    return [found.file_id] if found.file_id else []


def unused(conn: Connection, file_ids: Iterable[str | None]) -> list[str]:
    """Those of the files that no object has: a copy shares the file of what it was copied from."""
    return [each for each in file_ids if each and conn.execute(_has_file, {"file": each}).first() is None]


def change(conn: Connection, found: Object, changes: Mapping[str, Any], now: datetime) -> None:
    query = update(Object).where(Object.container_id == found.container_id, Object.name == found.name)
    conn.execute(query.values(**changes, updated_at=now))


def remove(conn: Connection, place: Place, now: datetime) -> Sequence[str]:
    """The files that nobody needs any more. Raises NotFound, PreconditionFailed."""
    container = containers.get(conn, place, lock=True)
    if find(conn, container, place.name, now, lock=True) is None:
        raise not_found()
    archive = versions.archive(conn, container, lock=True)
    if archive is None:
        return unused(conn, _take_away(conn, container, place.name))
    if versions.STACK in container.headers:
        freed = _take_away(conn, container, place.name)
        before = versions.latest(conn, archive, place.name)
        if before is not None:
            versions.move(conn, before, container, place.name)
        return unused(conn, freed)
    freed = _make_room(conn, container, place.name, now)
    marker = NewObject(content_type=versions.DELETED)
    name = versions.version_name(conn, archive, place.name, now)
    return unused(conn, [*freed, *_insert(conn, archive, name, marker, now)])


def expire(conn: Connection, now: datetime, most: int) -> tuple[int, list[str]]:
    """Take away those whose time has come, at most so many: how many they were, and the files that nobody needs."""
    due = select(Object).where(Object.delete_at <= int(seconds(now))).limit(most).with_for_update(skip_locked=True)
    found = conn.execute(due).all()
    for each in found:
        conn.execute(delete(Object).where(Object.container_id == each.container_id, Object.name == each.name))
    return len(found), unused(conn, {each.file_id for each in found})
