"""The backup archive: a directory that holds each backup as pieces named after their content.

    <backup id>/manifest.json     what the backup is made of, piece by piece
    <backup id>/ab/abcd…          a piece; its name is the SHA-256 of its bytes
    <backup id>.new/              a backup being written
    work/<name>                   the content of a volume on its way in or out

A piece of nothing but zeros is not stored. An incremental backup stores only the pieces that its parents lack, so it
needs all of them; it needs no volume. All functions here block: see `archive_threads`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
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
    """The archive never had, or has lost, part of a backup."""


class Stopped(Exception):
    """`stop` returned true."""


@frozen
class Manifest:
    """The manifest of one backup. Sizes in bytes. `pieces`: SHA-256 in hex; None: zeros."""

    id: str
    length: int
    piece: int
    parent: str | None
    stored: int  # pieces that this backup itself stores
    pieces: tuple[str | None, ...]


@frozen
class Archive:
    directory: Path
    piece: int  # bytes per piece of a full backup; an incremental one uses its parent's value

    def prepare(self) -> None:
        """Make the directories, readable only by this user."""
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
        """Store the file `source`. An existing backup stays as it is. Raises Damaged, Stopped, OSError.

        `changes`: what has changed since the parent, if the file holds only that.
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
        # Without a manifest it is the remains of a backup that was being removed.
        shutil.rmtree(self._place(backup_id), ignore_errors=True)
        new.replace(self._place(backup_id))
        _sync(self.directory)
        return made

    def _complete(self, source: Path, changes: Changes, parent: Manifest, stop: Stop) -> Mapping[int, str | None]:
        """Complete the partly changed pieces in the file. Returns the unchanged pieces."""
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
        """Write the backed-up content to the file `target`; zeros take no room.

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
        """Remove all of the backup. An unknown id is not an error. Backups that build on it are damaged then."""
        for place in (self._place(backup_id), self._new(backup_id)):
            try:
                shutil.rmtree(place)
            except FileNotFoundError:
                continue

    def discard(self, name: str) -> None:
        """Remove the work of this name and whatever a driver wrote beside it."""
        for path in (self.directory / WORK).glob(f"{name}*"):
            path.unlink(missing_ok=True)

    def at_work(self) -> dict[str, int]:
        """All work: the name of each file → when it was last changed."""
        found: dict[str, int] = {}
        for path in (self.directory / WORK).iterdir():
            with suppress(FileNotFoundError):
                found[path.name] = path.lstat().st_mtime_ns
        return found

    def remove_unchanged(self, files: Mapping[str, int]) -> int:
        """Remove these files, unless somebody has changed them since. Returns how many there were."""
        removed = 0
        for name, changed_at in files.items():
            path = self.work(name)
            with suppress(FileNotFoundError):
                if path.lstat().st_mtime_ns == changed_at:
                    path.unlink()
                    removed += 1
        return removed

    def _place(self, backup_id: str) -> Path:
        return self.directory / backup_id

    def _new(self, backup_id: str) -> Path:
        return self.directory / f"{backup_id}.new"

    def _chain(self, manifest: Manifest) -> Iterator[Path]:
        """The directories that may hold the pieces of a backup, its own first. Raises Damaged."""
        seen = {manifest.id}
        yield self._place(manifest.id)
        while manifest.parent is not None:
            manifest = self.manifest(manifest.parent)
            if manifest.id in seen:
                raise Damaged(f"Backup {manifest.id} builds on itself.")
            seen.add(manifest.id)
            yield self._place(manifest.id)


def name_of(data: bytes | None, number: int, unchanged: Mapping[int, str | None]) -> str | None:
    """The name of a piece; None for zeros. Unchanged pieces were not read: `unchanged` has their names."""
    if number in unchanged:
        return unchanged[number]
    return None if data is None else hashlib.sha256(data).hexdigest()


def fill(file: IO[bytes], data: bytes, offset: int, gaps: Sequence[Extent]) -> None:
    """Write the parts `gaps` of `data`, a piece that begins at `offset`, to the file."""
    for start, length in gaps:
        file.seek(start)
        file.write(data[start - offset : start - offset + length])


def read_pieces(file: IO[bytes], size: int) -> Iterator[bytes | None]:
    """The file in pieces of `size` bytes (the last may be shorter); None for a piece of zeros. Holes are not read."""
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
    """Bypass the file's buffer, which does not notice `lseek`. Raises OSError at the end of the file."""
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
            # This file system does not report holes.
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
    """The data is on the disk once this returns."""
    path.parent.mkdir(exist_ok=True, mode=0o700)
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """Flush the names in the directory to the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
