"""qemu-img: operations on the files of volumes while nobody else has them open.

Snapshots inside a file do not change, so they can be read while the file is open elsewhere (`-U`). Anything else raises
Locked for an open file, thanks to QEMU's own locks. Source: the manual page qemu-img(1).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from attrs import frozen

from cloudctl.drivers.disk_formats import QEMU_FORMATS, Qcow2Header, format_of, qcow2_header
from cloudctl.drivers.errors import Busy, DriverError, NoCapacity, Unfit
from cloudctl.drivers.handed import Argument, Lent, Node
from cloudctl.drivers.programs import ProgramFailed, Programs
from cloudctl.drivers.qcow2.records import GIB, room_for
from cloudctl.drivers.specs import ImageSource

NO_ROOM = "No space left on device"
LOCKED = "Is another process using the image"
HEADER = 104  # bytes
# Options per output format. force_size: a VHD has the requested size, not one that its geometry can express.
OPTIONS = {"vhd": ("force_size=on",), "vmdk": ("subformat=monolithicSparse",)}


class Locked(Busy):
    """Another process has the file open."""


@frozen
class Images:
    programs: Programs
    copy_timeout: float  # seconds

    async def create(self, path: Path, size_gib: int) -> None:
        """Raises NoCapacity."""
        await self._change("create", "-q", "-f", "qcow2", Lent(path, writable=True), str(size_gib * GIB))

    async def virtual_size(self, image: ImageSource) -> tuple[str, int]:
        """QEMU's format of a user's image, and the bytes of the disk in it. Raises Unfit."""
        format = format_of(image)
        assert image.path is not None, "it has bytes"
        try:
            found = await self._read("info", "-f", format, "--output=json", Lent(Path(image.path)))
        except ProgramFailed as error:
            raise Unfit(f"image {image.id} cannot be read as {image.disk_format}") from error
        return format, int(orjson.loads(found)["virtual-size"])

    async def demand_closed(self, path: Path) -> None:
        """Raises Locked while somebody writes to the qcow2."""
        with explained():
            await self._read("info", "--output=json", disk(path))

    async def convert(self, source: Path, format: str, target: Path) -> None:
        """`target`, a new file, is a qcow2 with the content of `source`. Raises NoCapacity, Unfit."""
        with readable(source):
            await self._copy("-f", format, "-O", "qcow2", Lent(source), Lent(target, writable=True))

    async def write_raw(self, source: Path, format: str, target: Path) -> None:
        """`target`, a new file, is raw, with the content of `source`. Raises NoCapacity, Unfit."""
        with readable(source):
            await self._copy("-f", format, "-O", "raw", Lent(source), Lent(target, writable=True))

    async def extract(self, source: Path, name: str, target: Path, format: str) -> None:
        """`target`, a new file, has the content of the snapshot inside the qcow2 `source`. It is as large as the volume
        is now, with zeros at the end. Raises NoCapacity."""
        files = (disk(source), Lent(target, writable=True))
        await self._copy("-U", "-l", f"snapshot.name={name}", "-O", format, *files)

    async def write_as(self, source: Path, disk_format: str, target: Path) -> None:
        """`target`, a new file, is an image of this format with the content of the raw `source`. Raises NoCapacity."""
        files = (Lent(source), Lent(target, writable=True))
        options = ("-o", ",".join(OPTIONS[disk_format])) if disk_format in OPTIONS else ()
        await self._copy("-f", "raw", "-O", QEMU_FORMATS[disk_format], *options, *files)

    async def refill(self, source: Path, format: str, target: Path, size_gib: int) -> None:
        """The qcow2 `target` has the content of `source`, then zeros. Its snapshots keep their content.

        Raises NoCapacity, Unfit, Locked.
        """
        # Shrinking is the quick way to discard everything; a disk of 0 bytes is refused.
        await self._change("resize", "-q", "--shrink", disk(target, writable=True), "512")
        await self.resize(target, size_gib)
        with readable(source):
            files = (Lent(source), Lent(target, writable=True))
            await self._copy("-n", "--target-is-zero", "-f", format, "-O", "qcow2", *files)

    async def resize(self, path: Path, size_gib: int) -> None:
        """The caller makes sure that nothing is lost. Raises NoCapacity, Locked."""
        await self._change("resize", "-q", "--shrink", disk(path, writable=True), str(size_gib * GIB))

    async def take(self, path: Path, name: str) -> None:
        """Take a snapshot inside the file; there is none of this name yet. Raises NoCapacity, Locked."""
        await self._change("snapshot", "-q", "-c", name, disk(path, writable=True))

    async def drop(self, path: Path, name: str) -> None:
        """Delete this snapshot, which exists. Raises Locked."""
        await self._change("snapshot", "-q", "-d", name, disk(path, writable=True), timeout=self.copy_timeout)

    async def go_back(self, path: Path, name: str) -> None:
        """The file has the content and the size of the snapshot inside it. Raises NoCapacity, Locked."""
        await self._change("snapshot", "-q", "-a", name, disk(path, writable=True), timeout=self.copy_timeout)

    async def names(self, path: Path) -> frozenset[str]:
        """The names of the snapshots inside the file."""
        found: dict[str, Any] = orjson.loads(await self._read("info", "-U", "--output=json", disk(path)))
        return frozenset(each["name"] for each in found.get("snapshots", ()))

    async def _read(self, *arguments: Argument) -> bytes:
        return await self.programs.read("qemu-img", *arguments)

    async def _copy(self, *arguments: Argument) -> None:
        # Writeback: qemu-img flushes when it ends, so that the fsync(2) after it is short.
        await self._change("convert", "-q", "-t", "writeback", *arguments, timeout=self.copy_timeout)

    async def _change(self, *arguments: Argument, timeout: float = 60.0) -> None:
        with explained():
            await self.programs.change("qemu-img", *arguments, timeout=timeout)


def disk(path: Path, *, writable: bool = False) -> Node:
    """A qcow2 of ours, which needs no other file."""
    file = {"driver": "file", "filename": Lent(path, writable)}
    return Node({"driver": "qcow2", "backing": None, "file": file})


@contextmanager
def explained() -> Iterator[None]:
    """qemu-img's complaints as DriverErrors."""
    try:
        yield
    except ProgramFailed as error:
        if NO_ROOM in error.complaint:
            raise NoCapacity("the file system of the volumes is full") from error
        if LOCKED in error.complaint:
            raise Locked("another process has the volume open") from error
        raise


@contextmanager
def readable(source: Path) -> Iterator[None]:
    """A user's file that cannot be read is Unfit."""
    try:
        yield
    except ProgramFailed as error:
        raise Unfit(f"{source.name} cannot be read") from error


def header(path: Path) -> Qcow2Header:
    """Of a qcow2 of ours. Raises DriverError for a damaged one, Unreachable."""
    with room_for(f"read {path}"), path.open("rb") as file:
        head = file.read(HEADER)
    try:
        return qcow2_header(head)
    except ValueError as error:
        raise DriverError(f"{path} is damaged: {error}") from error
