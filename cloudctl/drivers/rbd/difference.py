"""What `rbd export-diff` writes and `rbd import-diff` reads: how an image differs from an earlier state.

Source: Ceph's document «RBD Incremental Backup», format 1.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import IO

from cloudctl.drivers.errors import DriverError

HEADER = b"rbd diff v1\n"
NAME, SIZE, EXTENT = Struct("<I"), Struct("<Q"), Struct("<QQ")
CHUNK = 1 << 20
BLOCK = 512  # bytes, of stat(2)


def unpack(difference: Path, target: Path) -> tuple[tuple[int, int], ...]:
    """`target`, a new file as large as the image, has the changed parts; returns their offsets and lengths, sorted.

    The rest is a hole. Blocks. Raises DriverError if this is not a complete difference.
    """
    found: list[tuple[int, int]] = []
    with difference.open("rb") as file, target.open("wb") as made:
        if file.read(len(HEADER)) != HEADER:
            raise DriverError("rbd wrote no difference")
        while (tag := file.read(1)) != b"e":
            match tag:
                case b"f" | b"t":
                    (length,) = NAME.unpack(_read(file, NAME.size))
                    _read(file, length)
                case b"s":
                    made.truncate(*SIZE.unpack(_read(file, SIZE.size)))
                case b"w" | b"z":
                    offset, length = EXTENT.unpack(_read(file, EXTENT.size))
                    found.append((offset, length))
                    if tag == b"w":
                        made.seek(offset)
                        _copy(file, made, length)
                case _:
                    raise DriverError(f"rbd wrote a difference with an unknown part {tag!r}, or half of one")
    return tuple(sorted(found))


def is_mostly_holes(file: Path) -> bool:
    """Whether less than half of the file takes up room."""
    found = file.stat()
    return found.st_blocks * BLOCK * 2 < found.st_size


def pack(source: Path, target: Path) -> int:
    """`target` is the difference between an empty image and the file's content; returns the file's size. Blocks."""
    with source.open("rb") as file, target.open("wb") as made:
        size = os.fstat(file.fileno()).st_size
        made.write(HEADER + b"s" + SIZE.pack(size))
        for offset, end in _written(file):
            made.write(b"w" + EXTENT.pack(offset, end - offset))
            file.seek(offset)
            while offset < end:
                data = _read(file, min(end - offset, CHUNK))
                made.write(data)
                offset += len(data)
        made.write(b"e")
    return size


def _written(file: IO[bytes]) -> Iterator[tuple[int, int]]:
    """Begin and end of each part of the file that is not a hole."""
    end = 0
    while True:
        try:
            offset = os.lseek(file.fileno(), end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        end = os.lseek(file.fileno(), offset, os.SEEK_HOLE)
        yield offset, end


def _copy(source: IO[bytes], target: IO[bytes], length: int) -> None:
    while length:
        data = _read(source, min(length, CHUNK))
        if data.count(0) == len(data):
            target.seek(len(data), 1)
        else:
            target.write(data)
        length -= len(data)


def _read(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise DriverError("rbd wrote half of a difference")
    return data
