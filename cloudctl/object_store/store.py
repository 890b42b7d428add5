"""The files with the data of objects: `<directory>/<two digits>/<file id>`. All functions here block.

An id is made here and used once, so a file never changes after it has its name. Whoever reads one may go on although it
is removed. What no row knows is found by `sweep`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from attrs import define, field, frozen

from cloudctl.db.columns import new_hex_id
from cloudctl.rest.uploads import SPOOL_PREFIX

CHUNK = 2**20  # bytes that are in memory at once
EMPTY_ETAG = hashlib.md5(usedforsecurity=False).hexdigest()


@frozen
class Content:
    """Data that are on the disk, whatever happens. `file_id`: None if there are none."""

    file_id: str | None
    size: int
    etag: str  # MD5, hex
    version: str = ""  # of the object that it became, where versions are kept


EMPTY = Content(None, 0, EMPTY_ETAG)


@frozen
class Taken:
    """The body of a request: in a file that has its name already, or, a small one, in memory."""

    file_id: str | None
    data: bytes | None
    size: int = 0
    etag: str = ""


@define
class HashedFile:
    """A file that hashes what is written to it."""

    file: IO[bytes]
    md5: hashlib._Hash = field(factory=lambda: hashlib.md5(usedforsecurity=False))
    size: int = 0

    def write(self, data: bytes) -> int:
        self.file.write(data)
        self.md5.update(data)
        self.size += len(data)
        return len(data)

    def read(self, size: int = -1) -> bytes:
        return self.file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        return self.file.name

    def fileno(self) -> int:
        return self.file.fileno()


@frozen
class ObjectStore:
    directory: Path

    @property
    def spool(self) -> Path:
        """Where data are until all of them have come."""
        return self.directory / "incoming"

    def prepare(self) -> None:
        """Make the directories. Call it once, before the listener starts."""
        self.spool.mkdir(parents=True, exist_ok=True, mode=0o700)

    def path(self, file_id: str) -> Path:
        return self.directory / file_id[:2] / file_id

    def take(self, body: IO[bytes]) -> Taken:
        """Take over the body of a request, which may be gone afterwards: a file of the spool by a hard link.

        It does not wait for the disk: see `settle`. Raises OSError.
        """
        file: object = body
        if not isinstance(file, HashedFile):
            body.seek(0)
            return Taken(new_hex_id(), body.read())
        file.flush()
        taken = Taken(new_hex_id() if file.size else None, None, file.size, file.md5.hexdigest())
        if taken.file_id is not None:
            self._link(file.name, taken.file_id)
        return taken

    def settle(self, taken: Taken) -> Content:
        """The data are on the disk. Raises OSError."""
        if taken.data is not None:
            return self.write((taken.data,), taken.file_id)
        if taken.file_id is not None:
            path = self.path(taken.file_id)
            with path.open("rb") as file:
                os.fsync(file.fileno())
            _sync(path.parent)
        return Content(taken.file_id, taken.size, taken.etag)

    def write(self, chunks: Iterable[bytes], file_id: str | None = None) -> Content:
        """Keep these bytes. Raises OSError."""
        with HashedFile(cast(IO[bytes], tempfile.NamedTemporaryFile(prefix=SPOOL_PREFIX, dir=self.spool))) as file:
            for chunk in chunks:
                file.write(chunk)
            if not file.size:
                return EMPTY
            file.flush()
            os.fsync(file.fileno())
            file_id = file_id or new_hex_id()
            self._link(file.name, file_id)
            _sync(self.path(file_id).parent)
            return Content(file_id, file.size, file.md5.hexdigest())

    @staticmethod
    def hashed(file: IO[bytes]) -> IO[bytes]:
        """For `Uploads.through`."""
        return cast(IO[bytes], HashedFile(file))

    def _link(self, name: str, file_id: str) -> None:
        path = self.path(file_id)
        if not path.parent.exists():
            path.parent.mkdir(exist_ok=True, mode=0o700)
            _sync(self.directory)
        os.link(name, path)

    def remove(self, file_ids: Iterable[str]) -> None:
        """What a power cut brings back is found by `sweep`."""
        for file_id in file_ids:
            self.path(file_id).unlink(missing_ok=True)

    def folders(self) -> Iterator[list[tuple[str, float]]]:
        """Of each folder the ids of its files, and since when they have had their names (seconds since the epoch)."""
        for folder in sorted(self.directory.iterdir()):
            if folder != self.spool and folder.is_dir():
                yield [(entry.name, entry.stat().st_ctime) for entry in os.scandir(folder)]


def _sync(directory: Path) -> None:
    """A name that was made here is there after a power cut, too."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
