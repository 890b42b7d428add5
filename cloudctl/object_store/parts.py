"""Objects uploaded in parts: S3's multipart uploads. Reference: object-store.md, B2.

A part is a file, like an object's data. Once all have arrived, one transaction makes the object, which owns them all;
so nobody sees half of it, and nobody can take a part away. Parts of unfinished uploads count towards quotas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from attrs import evolve, field, frozen
from sqlalchemy import bindparam, delete, insert, select

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Invalid, NotFound
from cloudctl.object_store import containers, objects
from cloudctl.object_store.names import Place
from cloudctl.object_store.objects import Done, NewObject
from cloudctl.object_store.store import Content
from cloudctl.object_store.tables import Container, Object, Upload, UploadPart

MOST_PARTS = 10_000
LEAST_SIZE = 5 * 2**20  # bytes, of each but the last

_upload = select(Upload).where(Upload.id == bindparam("id"))
_lock_upload = _upload.with_for_update()
_part = select(UploadPart).where(UploadPart.upload_id == bindparam("id"), UploadPart.number == bindparam("number"))
_parts = select(UploadPart).where(UploadPart.upload_id == bindparam("id")).order_by(UploadPart.number)


class UnknownPart(Invalid):
    """There is no such part, or it is a different one."""

    type = "InvalidPart"

    def __init__(self, part: Wanted) -> None:
        super().__init__(
            "One or more of the specified parts could not be found.  The part may not have been uploaded, or the "
            "specified entity tag may not match the part's entity tag."
        )
        self.part = part


@frozen
class Wanted:
    """A part as the client names it."""

    number: int
    etag: str
    headers: Mapping[str, str] = field(factory=dict)  # some of those stored with it


# The headers to store for an object, from its upload and its parts.
Said = Callable[[Upload, Sequence[UploadPart]], Mapping[str, str]]


def begin(conn: Connection, place: Place, new: NewObject, now: datetime) -> str:
    """The id of the upload. Raises NotFound."""
    container = containers.get(conn, place, lock=True)
    upload_id = new_hex_id()
    conn.execute(
        insert(Upload).values(
            id=upload_id,
            container_id=container.id,
            name=place.name,
            project_id=container.project_id,
            content_type=new.content_type,
            headers=dict(new.headers),
            created_at=now,
        )
    )
    return upload_id


def get(conn: Connection, place: Place, upload_id: str, *, lock: bool = False) -> Upload:
    """Raises NotFound."""
    found = conn.execute(_lock_upload if lock else _upload, {"id": upload_id}).first()
    container = containers.find(conn, place)
    if found is None or container is None or (found.container_id, found.name) != (container.id, place.name):
        raise _unknown()
    return found


def _turn(conn: Connection, place: Place) -> Container:
    """The container, locked: others may be completing this upload, too, storing what counts towards its quota, or
    removing it with its uploads. Raises NotFound.
    """
    found = containers.find(conn, place, lock=True)
    if found is None:
        raise _unknown()
    return found


def list_parts(conn: Connection, upload_id: str, after: int, most: int) -> Sequence[UploadPart]:
    return conn.execute(_parts.where(UploadPart.number > after).limit(most), {"id": upload_id}).all()


def part_at(conn: Connection, upload_id: str, index: int) -> UploadPart | None:
    """By position: the first part of an object is 1, whatever its number was."""
    return conn.execute(_parts.offset(index - 1).limit(1), {"id": upload_id}).first()


def every_part(conn: Connection, upload_id: str) -> Sequence[UploadPart]:
    return conn.execute(_parts, {"id": upload_id}).all()


@frozen
class Putting:
    """Makes a content a part: `intake` calls it instead of `objects.put`."""

    upload_id: str
    number: int
    said: Callable[[], Mapping[str, str]] = dict  # headers to store with it, besides those known before

    def __call__(self, conn: Connection, place: Place, new: NewObject, now: datetime) -> Done:
        """Raises NotFound, TooLarge."""
        container = _turn(conn, place)
        get(conn, place, self.upload_id, lock=True)
        objects.check_room(conn, container, new.content.size, lock=True)
        named = {"id": self.upload_id, "number": self.number}
        before = conn.execute(_part, named).first()
        mine = (UploadPart.upload_id == self.upload_id, UploadPart.number == self.number)
        conn.execute(delete(UploadPart).where(*mine))
        conn.execute(
            insert(UploadPart).values(
                upload_id=self.upload_id,
                number=self.number,
                file_id=new.content.file_id,
                size=new.content.size,
                etag=new.content.etag,
                headers={**new.headers, **self.said()},
                updated_at=now,
            )
        )
        return Done(_files([] if before is None else [before]))


def complete(
    conn: Connection,
    place: Place,
    upload_id: str,
    wanted: Sequence[Wanted],
    most: int,
    new: NewObject,
    said: Said,
    now: datetime,
) -> Done:
    """Make the object from these parts. `new`: conditions.

    Raises NotFound, Invalid, TooLarge, and what `said` raises.
    """
    _turn(conn, place)
    if (before := completed(conn, place, upload_id, now)) is not None:
        return _again(conn, before, wanted)
    upload = get(conn, place, upload_id, lock=True)
    found = {part.number: part for part in every_part(conn, upload_id)}
    chosen = _chosen(found, wanted)
    size = sum(part.size for part in chosen)
    if size > most:
        raise Invalid("Your proposed upload exceeds the maximum allowed object size.", type="EntityTooLarge")
    kept = {part.number for part in chosen}
    left = [part for number, part in found.items() if number not in kept]
    for part in left:
        conn.execute(delete(UploadPart).where(UploadPart.upload_id == upload_id, UploadPart.number == part.number))
    conn.execute(delete(Upload).where(Upload.id == upload_id))
    etag = tag([part.etag for part in chosen])
    made = evolve(
        new,
        content=Content(None, size, etag),
        content_type=upload.content_type,
        headers=said(upload, chosen),
        parts_id=upload_id,
    )
    done = objects.put(conn, place, made, now)
    return evolve(done, freed=[*done.freed, *_files(left)], etag=etag, headers=made.headers)


def _files(gone: Iterable[UploadPart]) -> list[str]:
    return [part.file_id for part in gone if part.file_id]


def completed(conn: Connection, place: Place, upload_id: str, now: datetime) -> Object | None:
    """The object that an upload has become, if it still exists: a client that missed the answer completes it again."""
    container = containers.find(conn, place)
    found = None if container is None else objects.find(conn, container, place.name, now)
    return found if found is not None and found.parts_id == upload_id else None


def _again(conn: Connection, made: Object, wanted: Sequence[Wanted]) -> Done:
    """The same answer again, for the same request. Raises NotFound."""
    kept = [(part.number, part.etag) for part in every_part(conn, made.parts_id or "")]
    if kept != [(each.number, each.etag) for each in wanted]:
        raise _unknown()
    return Done(version=made.version, etag=made.etag, headers=made.headers)


def _unknown() -> NotFound:
    return NotFound("The specified multipart upload does not exist.", type="NoSuchUpload")


def tag(etags: Sequence[str]) -> str:
    """The tag of an object uploaded in parts."""
    return f"{hashlib.md5(b''.join(map(bytes.fromhex, etags)), usedforsecurity=False).hexdigest()}-{len(etags)}"


def _chosen(found: Mapping[int, UploadPart], wanted: Sequence[Wanted]) -> list[UploadPart]:
    """Raises Invalid."""
    numbers = [each.number for each in wanted]
    if numbers != sorted(set(numbers)):
        raise Invalid("The list of parts was not in ascending order.", type="InvalidPartOrder")
    chosen: list[UploadPart] = []
    for each in wanted:
        part = found.get(each.number)
        if part is None or part.etag != each.etag or not each.headers.items() <= part.headers.items():
            raise UnknownPart(each)
        chosen.append(part)
    if any(part.size < LEAST_SIZE for part in chosen[:-1]):
        raise Invalid("Your proposed upload is smaller than the minimum allowed size", type="EntityTooSmall")
    return chosen


def abort(conn: Connection, place: Place, upload_id: str) -> Done:
    """Raises NotFound."""
    return Done(remove(conn, [get(conn, place, upload_id, lock=True)]))


def abort_all(conn: Connection, container_id: str) -> list[str]:
    """Abort all uploads to a container. Returns their files."""
    return remove(conn, of_container(conn, container_id))


def of_container(conn: Connection, container_id: str) -> Sequence[Upload]:
    """The uploads to a container, locked, always in the same order."""
    query = select(Upload).where(Upload.container_id == container_id).order_by(Upload.name, Upload.id)
    return conn.execute(query.with_for_update()).all()


def remove(conn: Connection, uploads: Sequence[Upload]) -> list[str]:
    """Remove locked uploads. Returns their files."""
    freed: list[str] = []
    for upload in uploads:
        freed += _files(every_part(conn, upload.id))
        conn.execute(delete(UploadPart).where(UploadPart.upload_id == upload.id))
        conn.execute(delete(Upload).where(Upload.id == upload.id))
    return freed
