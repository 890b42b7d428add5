"""The data of objects on their way to the driver that keeps them, and back. All functions here block.

What arrives is a file of the spool until the driver has it. An id is made here and used once, so the data under it
never changes. A reader may go on although it is removed. `sweep` finds the data that no row knows.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, cast

from attrs import field, frozen
from twisted.logger import Logger

from cloudctl.db.columns import new_hex_id
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.interfaces import IFarData, IManyContents, IObjectData
from cloudctl.drivers.objects_interface import ContentState
from cloudctl.errors import Unavailable
from cloudctl.object_store.hashing import HashedFile, Hashing, md5
from cloudctl.rest import write_back
from cloudctl.rest.uploads import SPOOL_PREFIX

log = Logger()

CHUNK = 2**20  # bytes in memory at once
EMPTY_ETAG = md5().hexdigest()


@frozen
class Content:
    """Data that is safely on disk. `file_id`: None if there is none."""

    file_id: str | None
    size: int
    etag: str  # MD5, hex
    version: str = ""  # of the object that it became, if versions are kept


EMPTY = Content(None, 0, EMPTY_ETAG)


@frozen
class Taken:
    """The body of a request: in a file of the spool, or in memory if it is small."""

    file_id: str | None
    data: bytes | None
    size: int = 0
    etag: str = ""


@frozen
class ObjectStore:
    """`spool`: where data is until all of it has arrived, best on the same file system as a driver's files."""

    spool: Path
    data: IObjectData
    hashing: Hashing = field(factory=Hashing)

    @property
    def is_far(self) -> bool:
        """Whether stored data may only be opened and read in threads."""
        return bool(IFarData.providedBy(self.data))

    @property
    def keeps_many(self) -> bool:
        """Whether storing several contents at once costs little more than one."""
        return bool(IManyContents.providedBy(self.data))

    def prepare(self) -> None:
        """Make the directory. Call it once, before the listener starts."""
        self.spool.mkdir(parents=True, exist_ok=True, mode=0o700)

    def take(self, body: IO[bytes]) -> Taken:
        """Take over the body of a request, which may be gone afterwards: a file of the spool is hard-linked.

        It does not wait for the disk: see `settle`. Raises OSError.
        """
        file: object = body
        if not isinstance(file, HashedFile):
            body.seek(0)
            data = body.read()
            hashed = hashlib.md5(data, usedforsecurity=False).hexdigest()
            return Taken(new_hex_id() if data else None, data, len(data), hashed)
        file.flush()
        taken = Taken(new_hex_id() if file.size else None, None, file.size, file.md5.hexdigest())
        if taken.file_id is not None:
            os.link(file.name, self._arrived(taken.file_id))
        return taken

    def _arrived(self, file_id: str) -> Path:
        return self.spool / f"{SPOOL_PREFIX}{file_id}"

    def settle(self, taken: Taken) -> Content:
        """Hand the data to the driver. Raises OSError, DriverError."""
        return self.settle_all((taken,))[0]

    def settle_all(self, taken: Sequence[Taken]) -> list[Content]:
        """Hand all of them to the driver; if it raises, none is of use. Raises OSError, DriverError."""
        arrived = {each.file_id: self._arrived(each.file_id) for each in taken if each.file_id is not None}
        try:
            for each in taken:
                if each.data and each.file_id is not None:
                    _lay(arrived[each.file_id], each.data)
            self._keep([(file_id, str(path)) for file_id, path in arrived.items()])
        finally:
            for path in arrived.values():
                path.unlink(missing_ok=True)
        return [Content(each.file_id, each.size, each.etag) for each in taken]

    def _keep(self, contents: Sequence[tuple[str, str]]) -> None:
        if self.keeps_many:
            cast(IManyContents, self.data).ensure_all_kept(contents)
            return
        for file_id, path in contents:
            self.data.ensure_kept(file_id, path)

    def write(self, chunks: Iterable[bytes]) -> Content:
        """Store these bytes. Raises OSError, DriverError."""
        arriving = tempfile.NamedTemporaryFile(prefix=SPOOL_PREFIX, dir=self.spool)  # noqa: SIM115 (closed by the next)
        with HashedFile(cast(IO[bytes], arriving), self.hashing) as file:
            for chunk in chunks:
                file.write(chunk)
            if not file.size:
                return EMPTY
            file.flush()
            file_id = new_hex_id()
            self.data.ensure_kept(file_id, file.name)
            return Content(file_id, file.size, file.md5.hexdigest())

    def hashed(self, file: IO[bytes]) -> IO[bytes]:
        """For `Uploads.through`."""
        return cast(IO[bytes], HashedFile(file, self.hashing))

    def open(self, file_id: str) -> IO[bytes]:
        """Raises Unavailable."""
        try:
            return self.data.open(file_id)
        except DriverError as error:
            log.error("the data of an object cannot be read: {error}", error=str(error))
            raise Unavailable("The data cannot be read now.") from error

    def remove(self, file_ids: Iterable[str]) -> None:
        """Remove files; `sweep` finds those that come back after a power cut. Raises DriverError."""
        for file_id in file_ids:
            self.data.ensure_absent(file_id)

    def pages(self) -> Iterator[tuple[ContentState, ...]]:
        """Everything that is stored, whether or not a row knows it."""
        after = ""
        while page := self.data.inventory(after):
            yield page
            after = page[-1].id


def _lay(path: Path, data: bytes) -> None:
    """Write a new file, and have the disk begin with it: syncing many then takes as long as one."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        write_back.begin(file.fileno())
