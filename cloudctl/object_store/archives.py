"""Archives that users send, unpacked as they are read. All of it blocks. Reference: object-store.md, A8.

What an archive claims about itself is not trusted: its headers and its unpacked size are bounded.
"""

from __future__ import annotations

import bz2
import gzip
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from typing import IO, cast

from attrs import define, field, frozen

from cloudctl.errors import Invalid
from cloudctl.object_store.store import CHUNK

# The best ratio of the better format for anything but zeros: what unpacks to more is meant as a bomb.
RATIO = 1000
ROOM = 2**20  # bytes that even a tiny archive may unpack to
MOST_HEADERS = 16_384  # bytes, of one member
# The header parser takes time quadratic in the length of a number.
LONG_NUMBER = re.compile(rb"\d{300}")
BACKWARD = "The archive leads backward."

FORMATS: Mapping[str, Callable[[IO[bytes]], IO[bytes]]] = {
    "tar": lambda body: body,
    "tar.gz": lambda body: cast(IO[bytes], gzip.GzipFile(fileobj=body)),
    "tar.bz2": lambda body: cast(IO[bytes], bz2.BZ2File(body)),
}
# What the readers raise for anything that is not an archive.
BROKEN = (tarfile.TarError, EOFError, OSError, zlib.error, ValueError)


@frozen
class Member:
    """A file in an archive. It must be read before the next one is requested."""

    path: str
    size: int
    file: IO[bytes]

    def chunks(self) -> Iterator[bytes]:
        """Raises Invalid."""
        try:
            while data := self.file.read(CHUNK):
                yield data
        except BROKEN as error:
            raise broken(error) from error


@define
class _Unpacked:
    """The bytes of an archive, as a forward-only file that fails once it is too long."""

    file: IO[bytes]
    most: int
    headers: int = MOST_HEADERS  # bytes that may be read before the next member
    in_data: bool = False
    at: int = field(default=0, init=False)

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET or offset < self.at:
            raise tarfile.ReadError(BACKWARD)
        while self.at < offset and self._next(min(offset - self.at, CHUNK)):
            """What is stepped over."""
        return self.at

    def read(self, size: int = -1) -> bytes:
        if not self.in_data:
            self.headers -= size
            if size < 0 or self.headers < 0:
                raise tarfile.ReadError("The headers of a member are too long.")
        data = self._next(size)
        if not self.in_data and LONG_NUMBER.search(data):
            raise tarfile.ReadError("A number in a header is too long.")
        return data

    def _next(self, size: int) -> bytes:
        data = self.file.read(size)
        self.at += len(data)
        if self.at > self.most:
            raise tarfile.ReadError("The archive unpacks to too much.")
        return data


def members(body: IO[bytes], form: str, most: int) -> Generator[Member, None, None]:
    """The plain files, without links and the like. `most`: the bytes that it may unpack to. Raises Invalid."""
    size = body.seek(0, os.SEEK_END)
    body.seek(0)
    unpacked = _Unpacked(FORMATS[form](body), min(most, RATIO * size + ROOM))
    try:
        with closing(tarfile.TarFile(fileobj=cast(IO[bytes], unpacked))) as archive:
            while (each := archive.next()) is not None:
                file = archive.extractfile(each) if each.isreg() and not each.issparse() else None
                if file is not None:
                    unpacked.in_data = True
                    yield Member(each.name.removeprefix("./").lstrip("/"), each.size, file)
                unpacked.in_data, unpacked.headers = False, MOST_HEADERS
                # Nobody needs the members that are done, or headers for all that follow.
                vars(archive)["members"].clear()
                vars(archive)["pax_headers"].clear()
    except BROKEN as error:
        raise broken(error) from error


def broken(error: Exception) -> Invalid:
    return Invalid(f"Invalid Tar File: {error}")
