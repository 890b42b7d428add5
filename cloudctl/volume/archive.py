"""The archive of backups: a directory, each backup in pieces that are named by their content.

    <backup id>/manifest.json     what the backup is made of, piece by piece
    <backup id>/ab/abcd…          a piece; its name is the SHA-256 of its bytes
    <backup id>.new/              a backup that is being written
    work/<name>                   the content of a volume on its way in or out

A piece of nothing but zeros is kept nowhere. An incremental backup keeps the pieces that its parents do not have, so it
needs them all. Volumes are not needed. All functions here block: see `archive_threads`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import orjson
from attrs import asdict, frozen

from cloudctl.errors import CloudError
from cloudctl.volume.changes import Changes, Extent, compared

MANIFEST = "manifest.json"
WORK = "work"
FORMAT = 1

Stop = Callable[[], bool]


class Damaged(CloudError):
    """The archive does not have, or has no more, what a backup is made of."""


class Stopped(Exception):
    """`stop` said so."""


@frozen
class Manifest:
    """Of one backup. Sizes in bytes. `pieces`: SHA-256 in hex; None: zeros."""

    id: str
    length: int
    piece: int
    parent: str | None
    stored: int  # pieces that this backup itself keeps
    pieces: tuple[str | None, ...]


@frozen
class Archive:
    directory: Path
    piece: int  # bytes of a piece of a full backup; an incremental one has its parent's

    def prepare(self) -> None:
        """Make the directories. What is in them is readable for this user alone."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.directory / WORK).mkdir(exist_ok=True, mode=0o700)

    def work(self, name: str) -> Path:
        """Where a driver, or `assemble`, puts the content of a volume."""
        return self.directory / WORK / name

    def manifest(self, backup_id: str) -> Manifest:
        """Raises Damaged if there is no such backup, or its manifest cannot be read."""
        path = self._place(backup_id) / MANIFEST
        try:
            found = orjson.loads(path.read_bytes())
            if found.pop("format") != FORMAT:
                raise ValueError("it is in another format")
            return Manifest(**{**found, "pieces": tuple(found["pieces"])})
        except FileNotFoundError:
            raise Damaged(f"The archive has no backup {backup_id}.") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"The manifest of backup {backup_id} cannot be read: {error}") from error

    def store(
        self, backup_id: str, source: Path, parent_id: str | None, stop: Stop, changes: Changes | None = None
    ) -> Manifest:
        """Take in the file `source`. A backup that is there stays as it is. Raises Damaged, Stopped, OSError.

        `changes`: what has changed since the parent, if that alone is in the file.
        """
        if (self._place(backup_id) / MANIFEST).exists():
            return self.manifest(backup_id)
        self.prepare()
        parent = None if parent_id is None else self.manifest(parent_id)
        known = set() if parent is None else {piece for piece in parent.pieces if piece is not None}
        size = self.piece if parent is None else parent.piece
        unchanged = {} if changes is None or parent is None else self._complete(source, changes, parent, stop)
        new = self._new(backup_id)
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        pieces: list[str | None] = []
        stored: set[str] = set()
        with source.open("rb") as file:
            for number, data in enumerate(read_pieces(file, size)):
                if stop():
                    raise Stopped(backup_id)
                name = name_of(data, number, unchanged)
                pieces.append(name)
                if data is not None and name is not None and name not in known and name not in stored:
                    _write(new / name[:2] / name, data)
                    stored.add(name)
            length = file.seek(0, os.SEEK_END)
        made = Manifest(backup_id, length, size, parent_id, len(stored), tuple(pieces))
        _write(new / MANIFEST, orjson.dumps({"format": FORMAT, **asdict(made)}))
        _sync(new)
        # Without a manifest it is what is left of one that was being removed.
        shutil.rmtree(self._place(backup_id), ignore_errors=True)
        new.replace(self._place(backup_id))
        _sync(self.directory)
        return made

    def _complete(self, source: Path, changes: Changes, parent: Manifest, stop: Stop) -> Mapping[int, str | None]:
        """What has changed in part is whole in the file. Returns the pieces that are as they were."""
        found = compared(changes, parent.length, parent.piece, parent.pieces)
        places = list(self._chain(parent))
        with source.open("r+b") as file:
            for number, gaps in found.gaps.items():
                if stop():
                    raise Stopped(parent.id)
                data = _piece(places, str(parent.pieces[number]))
                fill(file, data, number * parent.piece, gaps)
        return found.unchanged

    def assemble(self, backup_id: str, target: Path, stop: Stop) -> None:
        """The file `target` has the content that was backed up; zeros take no room.

        Raises Damaged, Stopped, OSError.
        """
        self.prepare()
        manifest = self.manifest(backup_id)
        places = list(self._chain(manifest))
        with target.open("wb") as file:
            file.truncate(manifest.length)
            for number, name in enumerate(manifest.pieces):
                if stop():
                    raise Stopped(backup_id)
                if name is not None:
                    file.seek(number * manifest.piece)
                    file.write(_piece(places, name))

    def remove(self, backup_id: str) -> None:
        """Nothing is left of the backup. An unknown id is no error. Those that build on it are damaged from now on."""
        for place in (self._place(backup_id), self._new(backup_id)):
            try:
                shutil.rmtree(place)
            except FileNotFoundError:
                continue

    def discard(self, name: str) -> None:
        """Nothing is left of the work of this name, nor of what a driver wrote beside it."""
        for path in (self.directory / WORK).glob(f"{name}*"):
            path.unlink(missing_ok=True)

    def _place(self, backup_id: str) -> Path:
        return self.directory / backup_id

    def _new(self, backup_id: str) -> Path:
        return self.directory / f"{backup_id}.new"

    def _chain(self, manifest: Manifest) -> Iterator[Path]:
        """Where the pieces of a backup may be, its own directory first. Raises Damaged."""
        seen = {manifest.id}
        yield self._place(manifest.id)
        while manifest.parent is not None:
            manifest = self.manifest(manifest.parent)
            if manifest.id in seen:
                raise Damaged(f"Backup {manifest.id} builds on itself.")
            seen.add(manifest.id)
            yield self._place(manifest.id)


def name_of(data: bytes | None, number: int, unchanged: Mapping[int, str | None]) -> str | None:
    """Of a piece. None for one of zeros; of those that are unchanged nothing was read."""
    if number in unchanged:
        return unchanged[number]
    return None if data is None else hashlib.sha256(data).hexdigest()


def fill(file: IO[bytes], data: bytes, offset: int, gaps: Sequence[Extent]) -> None:
    """Those parts of the file are as in `data`, a piece that begins at `offset`."""
    for start, length in gaps:
        file.seek(start)
        file.write(data[start - offset : start - offset + length])


def read_pieces(file: IO[bytes], size: int) -> Iterator[bytes | None]:
    """The file in pieces of `size` bytes, the last one may be shorter; None for one of zeros. Holes are not read."""
    end = file.seek(0, os.SEEK_END)
    data_at = 0
    for offset in range(0, end, size):
        if data_at < offset:
            data_at = offset
        if data_at < offset + size:
            data_at = _next_data(file, data_at, end)
        if data_at >= offset + size:
            yield None
            continue
        data = _read(file.fileno(), offset, min(size, end - offset))
        yield None if data.count(0) == len(data) else data


def _read(handle: int, offset: int, size: int) -> bytes:
    """Past the file's buffer, which knows nothing of where `lseek` has been. Raises OSError at the end of the file."""
    parts = []
    while size:
        part = os.pread(handle, size, offset)
        if not part:
            raise OSError(errno.EIO, "the file was truncated while it was being read")
        parts.append(part)
        offset, size = offset + len(part), size - len(part)
    return b"".join(parts)


def _next_data(file: IO[bytes], offset: int, end: int) -> int:
    try:
        return os.lseek(file.fileno(), offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return end + 1 if offset < end else end
        if error.errno == errno.EINVAL:
            # This file system does not know holes.
            return offset
        raise


def _piece(places: list[Path], name: str) -> bytes:
    """Raises Damaged."""
    for place in places:
        try:
            data = (place / name[:2] / name).read_bytes()
        except FileNotFoundError:
            continue
        if hashlib.sha256(data).hexdigest() != name:
            raise Damaged(f"The piece {name} of backup {place.name} has changed.")
        return data
    raise Damaged(f"The piece {name} is in none of {', '.join(place.name for place in places)}.")


def _write(path: Path, data: bytes) -> None:
    """On the disk once it returns."""
    path.parent.mkdir(exist_ok=True, mode=0o700)
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """The names in it are on the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
