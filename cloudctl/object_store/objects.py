"""Objects: a name in a container, its headers, the file with its data. Reference: object-store.md, A5."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any

from attrs import evolve, field, frozen
from sqlalchemy import bindparam, delete, func, insert, select, union, update

from cloudctl.db import Connection
from cloudctl.db.columns import seconds
from cloudctl.errors import NotFound, PreconditionFailed, TooLarge, Unavailable
from cloudctl.object_store import accounts, containers, numbered, versions
from cloudctl.object_store.metadata import check_headers, number
from cloudctl.object_store.names import Place
from cloudctl.object_store.store import EMPTY, Content
from cloudctl.object_store.tables import Container, Object, Upload, UploadPart, Version

OVER_QUOTA = "Upload exceeds quota."

_named = select(Object).where(Object.container_id == bindparam("container"), Object.name == bindparam("name"))
_lock_named = _named.with_for_update()
# What may have a file: objects, old versions, and parts.
HAVING_FILES = (Object, Version, UploadPart)
_keep_file = tuple(
    select(kind.file_id).where(kind.file_id == bindparam("file")).limit(1).with_for_update(read=True, key_share=True)
    for kind in HAVING_FILES
)
# In one statement: a version may become an object meanwhile, and an object a version.
_used = union(
    *(select(kind.file_id).where(kind.file_id.in_(bindparam("files", expanding=True))) for kind in HAVING_FILES)
)
# Bytes of uploads that are not finished.
_waiting = select(func.coalesce(func.sum(UploadPart.size), 0)).join(Upload, Upload.id == UploadPart.upload_id)
_waiting_in = _waiting.where(Upload.container_id == bindparam("container"))
_waiting_of = _waiting.where(Upload.project_id == bindparam("project"))
_files_of_parts = select(UploadPart.file_id).where(UploadPart.upload_id == bindparam("upload"))


@frozen
class NewObject:
    """Raises Invalid for headers that no answer could contain."""

    content: Content = EMPTY
    content_type: str = "application/octet-stream"
    headers: Mapping[str, str] = field(factory=dict)
    delete_at: int | None = None
    large_size: int | None = None
    large_etag: str | None = None
    parts_id: str | None = None
    only_if_absent: bool = False
    only_if_tag: str = ""  # it replaces an object with this tag; empty: any object, or none

    def __attrs_post_init__(self) -> None:
        check_headers({"Content-Type": self.content_type, **self.headers})


@frozen
class Removal:
    """What is to be deleted. `only_if_tag`: as for `remove`."""

    name: str
    version: str = ""
    only_if_tag: str = ""


@frozen
class Done:
    """The result of a change. `freed`: the files that something had that is gone; `version`: the one that it made."""

    freed: Sequence[str] = ()
    version: str = ""
    is_marker: bool = False
    etag: str = ""  # of what it made
    headers: Mapping[str, str] = field(factory=dict)  # of what it made of parts
    was_there: bool = True  # whether there was something to remove
    holds: bool = True  # whether what the client said of it before was right
    each: Sequence[Done] = ()  # the result for each of several


def find(conn: Connection, container: Container, name: str, now: datetime, *, lock: bool = False) -> Object | None:
    """None also for an expired object."""
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
    """The content type guessed from the name."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def is_expired(found: Object | Version, now: datetime) -> bool:
    return found.delete_at is not None and found.delete_at <= seconds(now)


def check_room(conn: Connection, container: Container, size: int, *, lock: bool = False) -> None:
    """Check that there is `room` for an object of this many bytes. Raises TooLarge."""
    if size > room(conn, container, lock=lock):
        raise TooLarge(OVER_QUOTA)


def room(conn: Connection, container: Container, *, lock: bool = False) -> float:
    """The bytes that the quotas of container and account leave for another object: less than 0 if there may be none,
    infinite without quotas.

    Parts of unfinished uploads count, too. `lock`: the caller has locked the container, and nobody else's bytes are
    counted meanwhile.
    """
    left, project_id = inf, container.project_id
    most, most_count = quota(container.headers, "X-Container-Meta-Quota")
    if most is not None or most_count is not None:
        waiting = int(conn.execute(_waiting_in, {"container": container.id}).scalar_one())
        left = _left(containers.usage(conn, container.id), waiting, most, most_count)
    most, most_count = quota(accounts.headers(conn, project_id), "X-Account-Quota")
    if most is not None or most_count is not None:
        if lock:
            # What others put into other containers was counted before, or waits.
            accounts.lock(conn, project_id)
        waiting = int(conn.execute(_waiting_of, {"project": project_id}).scalar_one())
        left = min(left, _left(accounts.usage(conn, project_id), waiting, most, most_count))
    return left


def quota(headers: Mapping[str, str], name: str) -> tuple[int | None, int | None]:
    """The limits on bytes and objects; None: no limit."""
    return number(headers, f"{name}-Bytes"), number(headers, f"{name}-Count")


def _left(used: containers.Usage | accounts.Usage, waiting: int, most: int | None, most_count: int | None) -> float:
    if most_count is not None and used.objects >= most_count:
        return -inf
    return inf if most is None else most - used.bytes - waiting


def put(conn: Connection, place: Place, new: NewObject, now: datetime, *, shares: str | None = None) -> Done:
    """Create or replace the object. `shares`: its file, if it is not a new one.

    Raises NotFound, TooLarge, PreconditionFailed; Unavailable if that file is gone.
    """
    container = containers.get(conn, place, lock=True)
    if shares is not None and not is_kept(conn, shares):
        # There may be a new source under its name: it must not seem to be gone.
        raise Unavailable("The source was replaced or deleted meanwhile; try again.")
    if new.only_if_absent or new.only_if_tag:
        before = find(conn, container, place.name, now)
        if before is not None and new.only_if_absent:
            raise PreconditionFailed("")
        if new.only_if_tag and before is None:
            raise not_found()
        if new.only_if_tag and before is not None and not _has_tag(before, new.only_if_tag):
            raise PreconditionFailed("")
    check_room(conn, container, new.content.size, lock=True)
    freed = _make_room(conn, container, place.name, now)
    version = numbered.next_version(conn, container, place.name, now) if numbered.is_on(container) else ""
    conn.execute(insert(Object).values(**_values(container, place.name, new, now), version=version))
    return Done(freed, version)


def _has_tag(found: Object | Version, tag: str) -> bool:
    return tag in (found.etag, found.large_etag)


def copy(conn: Connection, source: Object | Version, target: Place, new: NewObject, now: datetime) -> Done:
    """As `put`, sharing the file of `source` from now on."""
    return put(conn, target, new, now, shares=source.file_id)


def _values(container: Container, name: str, new: NewObject, now: datetime) -> dict[str, Any]:
    return {
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
        "parts_id": new.parts_id,
        "delete_at": new.delete_at,
        "updated_at": now,
    }


def _make_room(conn: Connection, container: Container, name: str, now: datetime) -> list[str]:
    """Free the name: what had it becomes an old version, or is removed. Returns the files of what was removed."""
    found = find(conn, container, name, now, lock=True)
    if numbered.is_known(container):
        # There is at most one version made while no versions were kept.
        freed = [] if numbered.is_on(container) else drop(conn, numbered.take_null(conn, container, name))
        if found is None or not (numbered.is_on(container) or found.version):
            return [*freed, *_take_away(conn, container, name)]
        numbered.keep(conn, container, found)
        return freed
    archive = None if found is None else versions.archive(conn, container, lock=True)
    if found is None or archive is None:
        return _take_away(conn, container, name)
    versions.move(conn, found, archive, versions.version_name(conn, archive, name, found.updated_at))
    return []


def _take_away(conn: Connection, container: Container, name: str) -> list[str]:
    """Delete the object. Returns its files."""
    found = conn.execute(_lock_named, {"container": container.id, "name": name}).first()
    if found is None:
        return []
    conn.execute(delete(Object).where(Object.container_id == container.id, Object.name == name))
    return drop(conn, [found])


def drop(conn: Connection, rows: Iterable[Object | Version]) -> list[str]:
    """The files of deleted rows; their parts are deleted, too."""
    freed: list[str | None] = []
    for row in rows:
        freed.append(row.file_id)
        if row.parts_id is not None:
            freed += conn.scalars(_files_of_parts, {"upload": row.parts_id})
            conn.execute(delete(UploadPart).where(UploadPart.upload_id == row.parts_id))
    return [each for each in freed if each]


def is_kept(conn: Connection, file_id: str) -> bool:
    """Whether anything has the file. It stays until the transaction ends: who removes it then finds the next."""
    return any(conn.scalar(query, {"file": file_id}) is not None for query in _keep_file)


def used(conn: Connection, file_ids: Sequence[str]) -> set[str]:
    """Those of these files that something has: a copy shares the file of its source."""
    return {each for each in conn.scalars(_used, {"files": file_ids}) if each}


def change(conn: Connection, found: Object, changes: Mapping[str, Any], now: datetime) -> None:
    query = update(Object).where(Object.container_id == found.container_id, Object.name == found.name)
    conn.execute(query.values(**changes, updated_at=now))


def remove(
    conn: Connection,
    place: Place,
    now: datetime,
    only_if_tag: str = "",
    *,
    marks: bool = True,
    only_if_delete_at: int | None = None,
) -> Done:
    """Delete an object; where versions are kept, leave a marker. Raises NotFound, PreconditionFailed.

    `only_if_tag`: the tag of the object, if there is one; `*`: any, but there must be one. `marks`: leave a marker also
    where versions are no longer kept. `only_if_delete_at`: when it would expire.
    """
    container = containers.get(conn, place, lock=True)
    before = find(conn, container, place.name, now, lock=True)
    if only_if_tag and (
        (before is None) if only_if_tag == "*" else not (before is None or _has_tag(before, only_if_tag))
    ):
        raise PreconditionFailed("")
    if only_if_delete_at is not None and before is not None and before.delete_at != only_if_delete_at:
        raise PreconditionFailed("X-If-Delete-At and X-Delete-At do not match")
    if numbered.is_known(container):
        return _remove_numbered(conn, container, place.name, before is not None, now, marks)
    if versions.HISTORY in container.headers:
        return _remove_into_history(conn, container, place.name, before is not None, now)
    # A container whose place for old versions is gone has none to bring back.
    archive = versions.archive(conn, container, lock=True, optional=True)
    last = None if archive is None else versions.latest(conn, archive, place.name)
    was_deleted = last is not None and versions.is_marker(last)
    if before is None and not was_deleted:
        raise not_found()
    freed = _take_away(conn, container, place.name)
    if archive is not None and last is not None and was_deleted:
        # The deletion that it marks is undone, if nothing came after it.
        freed += _take_away(conn, archive, last.name)
        last = versions.latest(conn, archive, place.name) if before is None else None
    if last is not None and not versions.is_marker(last):
        versions.move(conn, last, container, place.name)
    return Done(freed)


def _remove_numbered(
    conn: Connection, container: Container, name: str, was_there: bool, now: datetime, marks: bool
) -> Done:
    is_on = numbered.is_on(container)
    if not (marks or is_on or was_there):
        raise not_found()
    freed = _make_room(conn, container, name, now)
    if not (marks or is_on):
        return Done(freed)
    version = numbered.next_version(conn, container, name, now)
    values = _values(container, name, NewObject(content_type=numbered.DELETED), now)
    conn.execute(insert(Version).values(**values, version=version, is_null=not is_on, is_marker=True))
    return Done(freed, version if is_on else numbered.NULL, True, was_there=was_there)


def _remove_into_history(conn: Connection, container: Container, name: str, was_there: bool, now: datetime) -> Done:
    """Add a marker, whether or not there was an object."""
    archive = versions.archive(conn, container, lock=True)
    assert archive is not None
    freed = _make_room(conn, container, name, now)
    kept = versions.version_name(conn, archive, name, now)
    marker = NewObject(content_type=versions.DELETED)
    conn.execute(insert(Object).values(**_values(archive, kept, marker, now), version=""))
    return Done(freed, was_there=was_there)


def find_version(conn: Connection, container: Container, name: str, version: str, now: datetime) -> Object | Version:
    """The version with this id, current or old. Raises NotFound, also for one that has expired."""
    found = conn.execute(_named, {"container": container.id, "name": name}).first()
    if found is not None and (found.version or numbered.NULL) == version and not is_expired(found, now):
        return found
    old = numbered.find(conn, container, name, version)
    if old is None or is_expired(old, now):
        raise not_found()
    return old


def remove_version(
    conn: Connection, place: Place, version: str, now: datetime, only_if_tag: str = "", *, brings_back: bool = True
) -> Done:
    """Delete a version for good. `brings_back`: if it was the newest, the one before becomes current.

    Raises NotFound; PreconditionFailed if the version has another tag.
    """
    container = containers.get(conn, place, lock=True)
    found = conn.execute(_lock_named, {"container": container.id, "name": place.name}).first()
    is_marker = False
    if found is not None and (found.version or numbered.NULL) == version:
        _check_tag(found, only_if_tag)
        freed = _take_away(conn, container, place.name)
    else:
        old = numbered.find(conn, container, place.name, version)
        if old is None:
            raise not_found()
        _check_tag(old, only_if_tag)
        is_marker = old.is_marker
        freed = drop(conn, [numbered.take(conn, old)])
        if found is not None:
            return Done(freed, version, is_marker)
    if brings_back or is_marker:
        numbered.bring_back(conn, container, place.name)
    return Done(freed, version, is_marker)


def _check_tag(found: Object | Version, only_if_tag: str) -> None:
    """Raises PreconditionFailed."""
    if only_if_tag not in ("", "*") and (numbered.is_marker(found) or not _has_tag(found, only_if_tag)):
        raise PreconditionFailed("")


def restore(conn: Connection, place: Place, version: str, now: datetime) -> Done:
    """Make the old version with this id the object again, keeping its id. Raises NotFound, also for a marker, and for
    one that has expired: as the object it would be removed for good.
    """
    container = containers.get(conn, place, lock=True)
    found = find(conn, container, place.name, now, lock=True)
    if found is not None and found.version == version:
        return Done(version=version)
    old = numbered.find(conn, container, place.name, version)
    if old is None or old.is_marker or is_expired(old, now):
        raise not_found()
    freed: list[str] = []
    if found is not None:
        numbered.keep(conn, container, found)
    else:
        freed = _take_away(conn, container, place.name)
    numbered.make_current(conn, old)
    return Done(freed, version)


def remove_many(conn: Connection, place: Place, wanted: Sequence[Removal], now: datetime) -> Done:
    """Delete all of these; none needs to exist. Raises NotFound."""
    each: list[Done] = []
    for one in wanted:
        where = evolve(place, name=one.name)
        try:
            if one.version:
                each.append(remove_version(conn, where, one.version, now, one.only_if_tag))
            else:
                each.append(remove(conn, where, now, one.only_if_tag))
        except NotFound:
            each.append(Done())
        except PreconditionFailed:
            # It is checked before anything is changed.
            each.append(Done(holds=False))
    return Done([file_id for done in each for file_id in done.freed], each=each)


def relabel(conn: Connection, found: Object | Version, headers: Mapping[str, str]) -> None:
    """Replace its headers; its time stays as it is."""
    kind = Version if isinstance(found, Version) else Object
    mine = [kind.container_id == found.container_id, kind.name == found.name]
    if isinstance(found, Version):
        mine.append(Version.version == found.version)
    conn.execute(update(kind).where(*mine).values(headers=headers))


def expire(conn: Connection, now: datetime, most: int) -> tuple[int, list[str]]:
    """Remove expired objects, at most `most`. Returns how many, and their files."""
    due = select(Object).where(Object.delete_at <= int(seconds(now))).limit(most).with_for_update(skip_locked=True)
    return _take_all(conn, conn.execute(due).all())


def expire_in(conn: Connection, container_id: str, now: datetime) -> list[str]:
    """The same for one container."""
    due = select(Object).where(Object.container_id == container_id, Object.delete_at <= int(seconds(now)))
    return _take_all(conn, conn.execute(due.with_for_update()).all())[1]


def _take_all(conn: Connection, found: Sequence[Object]) -> tuple[int, list[str]]:
    for each in found:
        conn.execute(delete(Object).where(Object.container_id == each.container_id, Object.name == each.name))
    return len(found), drop(conn, found)


def take_some(conn: Connection, container_id: str, most: int) -> list[str] | None:
    """Delete at most `most` objects or versions for good. Returns their files; None if nothing is left."""
    found = conn.execute(select(Object).where(Object.container_id == container_id).limit(most).with_for_update()).all()
    if found:
        return _take_all(conn, found)[1]
    were = conn.execute(select(Version).where(Version.container_id == container_id).limit(most).with_for_update()).all()
    if not were:
        return None
    return drop(conn, [numbered.take(conn, each) for each in were])
