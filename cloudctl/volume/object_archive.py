"""Backups as objects: in the project's account, in the container that the user named.

    volume_<volume>/<time>/az_<zone>_backup_<id>-00001 …    pieces of the volume, one after the other
    volume_<volume>/<time>/az_<zone>_backup_<id>_metadata   what the backup is made of, piece by piece; written last

As in a directory (`archive`), a piece of zeros is not stored, and an incremental backup stores only the pieces that its
parents lack. No object is held in memory whole: pieces flow from the exported file to the object, and back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO

import orjson
from attrs import asdict, define, field, frozen

from cloudctl.db import Connection
from cloudctl.drivers.errors import UnknownContent
from cloudctl.errors import InsufficientStorage, NotFound, Unavailable
from cloudctl.object_store import containers, listing, objects
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.listing import Wanted
from cloudctl.object_store.names import Place
from cloudctl.object_store.objects import NewObject
from cloudctl.tasks import Transient
from cloudctl.volume.archive import Damaged, Stop, Stopped, fill, name_of, read_pieces
from cloudctl.volume.changes import Changes, Extent, compared

FORMAT = 1
LIST = 1000  # objects that are removed per listing


def place_of(kept_at: str) -> Place:
    """Parse a backup's `project/container/name`; the names of its objects begin with that name."""
    project_id, container, name = kept_at.split("/", 2)
    return Place(project_id, container, name)


@frozen
class Contents:
    """What a backup is made of. Sizes in bytes. `pieces`: SHA-256 in hex of all; None: zeros. `own`: of those that it
    stores itself, in this order, `packed` per object.
    """

    length: int
    piece: int
    packed: int
    parent: str | None  # `kept_at` of its parent, and the digest of the parent's contents
    parent_digest: str | None
    own: tuple[str, ...]
    pieces: tuple[str | None, ...]

    @property
    def objects(self) -> int:
        return -(-len(self.own) // self.packed)


@frozen
class Stored:
    """How many objects a backup took, and the SHA-256 in hex of its contents as stored.

    Only contents with this digest are read back: users own the objects, and may write anything into them.
    """

    objects: int
    digest: str


@define
class Reading:
    """One pass over a volume: `take` yields the pieces to be stored. All functions here block, and raise Stopped."""

    file: IO[bytes]
    piece: int
    known: frozenset[str]
    unchanged: Mapping[int, str | None]
    stop: Stop
    own: dict[str, None] = field(factory=dict)
    pieces: list[str | None] = field(factory=list)
    _next: bytes | None = None
    _source: Iterator[bytes | None] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._source = read_pieces(self.file, self.piece)

    def has_more(self) -> bool:
        while self._next is None:
            if self.stop():
                raise Stopped(self.file.name)
            try:
                data = next(self._source)
            except StopIteration:
                return False
            name = name_of(data, len(self.pieces), self.unchanged)
            self.pieces.append(name)
            if name is not None and name not in self.known and name not in self.own:
                self.own[name] = None
                self._next = data
        return True

    def take(self, most: int) -> Iterator[bytes]:
        for _ in range(most):
            if not self.has_more() or self._next is None:
                return
            data, self._next = self._next, None
            yield data


@frozen
class Part:
    """A piece of a volume (`number`), and where it is in an object."""

    number: int
    offset: int
    length: int
    name: str


@frozen
class ObjectArchive:
    """`piece`: bytes per piece of a full backup; `size`: approximate bytes per object."""

    intake: Intake
    piece: int
    size: int

    async def store(
        self,
        kept_at: str,
        source: Path,
        below: tuple[str, str | None] | None,
        changes: Changes | None,
        now: datetime,
        stop: Stop,
    ) -> Stored:
        """Store the file `source`. `below`: place and digest of the parent.

        `changes`: what has changed since the parent, if the file holds only that. Raises Damaged, Stopped, Transient,
        and the object store's own errors.
        """
        place = place_of(kept_at)
        parent = None if below is None else await self.contents(*below, now)
        known = frozenset() if parent is None else frozenset(each for each in parent.pieces if each is not None)
        size = self.piece if parent is None else parent.piece
        packed = max(1, self.size // size)
        unchanged: Mapping[int, str | None] = {}
        if changes is not None and parent is not None and below is not None:
            found = await self.intake.run(compared, changes, parent.length, size, parent.pieces)
            unchanged = found.unchanged
            await self._gather(below[0], parent, found.gaps, source, now, stop)
        file = await self.intake.run(source.open, "rb")
        try:
            reading = Reading(file, size, known, unchanged, stop)
            number = 0
            while await self.intake.run(reading.has_more):
                number += 1
                await self._write(_part(place, number), reading.take(packed), now)
            length = await self.intake.run(file.seek, 0, 2)
        finally:
            # Closing it stops a thread that is still writing.
            file.close()
        on, on_digest = below or (None, None)
        made = Contents(length, size, packed, on, on_digest, tuple(reading.own), tuple(reading.pieces))
        told = await self.intake.run(orjson.dumps, {"format": FORMAT, **asdict(made)})
        await self._write(_metadata(place), iter((told,)), now, "application/json")
        return Stored(made.objects, await self.intake.run(_digest, told))

    async def _write(
        self, place: Place, data: Iterator[bytes], now: datetime, content_type: str = "application/octet-stream"
    ) -> None:
        try:
            await self.intake.write(place, data, NewObject(content_type=content_type), now)
        except (Unavailable, InsufficientStorage) as error:
            raise Transient(f"the object store does not take the backup now: {error}") from error

    async def contents(self, kept_at: str, digest: str | None, now: datetime) -> Contents:
        """Raises Damaged, also if they are not what was stored."""
        where = _metadata(place_of(kept_at))
        opens = await self._file(where, now)
        try:
            return await self.intake.run(_read_contents, opens, digest)
        except (UnknownContent, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"The object {where.name} in container {where.container} cannot be read: {error}") from error

    async def assemble(self, kept_at: str, digest: str | None, target: Path, now: datetime, stop: Stop) -> None:
        """Write the backed-up content to the file `target`; zeros take no room. Raises Damaged, Stopped."""
        contents = await self.contents(kept_at, digest, now)
        await self.intake.run(_make, target, contents.length)
        await self._gather(kept_at, contents, dict.fromkeys(range(len(contents.pieces))), target, now, stop)

    async def _gather(
        self,
        kept_at: str,
        contents: Contents,
        numbers: Mapping[int, Sequence[Extent] | None],
        target: Path,
        now: datetime,
        stop: Stop,
    ) -> None:
        """Write these pieces of a backup to the file; None: the whole piece, else only these parts of it.

        Raises Damaged, Stopped.
        """
        wanted: dict[str, list[int]] = {}
        for number in numbers:
            if (name := contents.pieces[number]) is not None:
                wanted.setdefault(name, []).append(number)
        seen = set()
        at: str | None = kept_at
        there = contents
        while at is not None and wanted:
            if at in seen:
                raise Damaged("The backup builds on itself.")
            seen.add(at)
            for number, parts in _found(there, contents, wanted).items():
                place = _part(place_of(at), number)
                opens = await self._file(place, now)
                try:
                    await self.intake.run(_copy, opens, parts, target, contents.piece, numbers, stop)
                except (UnknownContent, ValueError) as error:
                    where = f"The object {place.name} in container {place.container}"
                    raise Damaged(f"{where} has changed since the backup was made.") from error
            at = there.parent
            if at is not None and wanted:
                there = await self.contents(at, there.parent_digest, now)
        if wanted:
            raise Damaged(f"{len(wanted)} pieces are in none of the backups that this one builds on.")

    async def _file(self, place: Place, now: datetime) -> Callable[[], IO[bytes]]:
        """A function that opens the data of an object. Raises Damaged if its user has deleted it."""
        try:
            found = await self.intake.db.read(objects.get, place, now)
        except NotFound:
            raise Damaged(f"There is no object {place.name} in container {place.container} any more.") from None
        if found.file_id is None:
            raise Damaged(f"The object {place.name} in container {place.container} has no data any more.")
        return partial(self.intake.store.data.open, found.file_id)

    async def remove(self, kept_at: str, now: datetime) -> None:
        """Remove all of the backup. A missing one is not an error. Backups that build on it are damaged."""
        place = place_of(kept_at)
        last = ""
        while names := await self.intake.db.scan(_names, place, last, now):
            last = names[-1]
            for name in names:
                try:
                    await self.intake.change(objects.remove, Place(place.project_id, place.container, name), now)
                except NotFound:
                    """Its user, or its time, was faster."""


def _part(place: Place, number: int) -> Place:
    return Place(place.project_id, place.container, f"{place.name}-{number:05}")


def _metadata(place: Place) -> Place:
    return Place(place.project_id, place.container, f"{place.name}_metadata")


def _found(there: Contents, contents: Contents, wanted: dict[str, list[int]]) -> Mapping[int, Sequence[Part]]:
    """Number of an object of `there` → the parts needed from it, which are dropped from `wanted`."""
    found: dict[int, list[Part]] = {}
    for index, name in enumerate(there.own):
        for number in wanted.pop(name, ()):
            offset = index % there.packed * there.piece
            length = min(contents.piece, contents.length - number * contents.piece)
            found.setdefault(index // there.packed + 1, []).append(Part(number, offset, length, name))
    return found


def _names(conn: Connection, place: Place, marker: str, now: datetime) -> list[str]:
    container = containers.find(conn, place)
    if container is None:
        return []
    found = listing.of_objects(conn, container, Wanted(prefix=place.name, marker=marker, limit=LIST), now)
    return [each.name for each in found if not isinstance(each, str)]


# -- in threads


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read_contents(opens: Callable[[], IO[bytes]], digest: str | None) -> Contents:
    """Raises ValueError, KeyError, TypeError, AttributeError, DriverError."""
    with opens() as file:
        data = file.read()
    if _digest(data) != digest:
        raise ValueError("it has changed since the backup was made")
    told = orjson.loads(data)
    if told.pop("format") != FORMAT:
        raise ValueError("it is in another format")
    return Contents(**{**told, "own": tuple(told["own"]), "pieces": tuple(told["pieces"])})


def _make(target: Path, length: int) -> None:
    with target.open("wb") as file:
        file.truncate(length)


def _copy(
    opens: Callable[[], IO[bytes]],
    parts: Sequence[Part],
    target: Path,
    piece: int,
    numbers: Mapping[int, Sequence[Extent] | None],
    stop: Stop,
) -> None:
    """Raises ValueError for a piece that has changed, Stopped, DriverError."""
    with opens() as read, target.open("r+b") as written:
        for part in parts:
            if stop():
                raise Stopped(target.name)
            read.seek(part.offset)
            data = read.read(part.length)
            if hashlib.sha256(data).hexdigest() != part.name:
                raise ValueError(part.name)
            gaps, offset = numbers[part.number], part.number * piece
            fill(written, data, offset, [(offset, len(data))] if gaps is None else gaps)
