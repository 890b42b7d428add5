"""Copies data between files of this machine and images of the pool.

Only qemu-img, which may do little else, parses users' files; Ceph's programs, which have a key, see raw bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from attrs import frozen
from twisted.internet.threads import deferToThreadPool

from cloudctl.drivers.errors import Unusable
from cloudctl.drivers.qcow2.images import Images
from cloudctl.drivers.qcow2.records import drop_left, held, put_in_place, room_for
from cloudctl.drivers.rbd.ceph import Ceph, Present
from cloudctl.drivers.rbd.difference import is_mostly_holes, pack, unpack
from cloudctl.drivers.specs import ImageSource

T = TypeVar("T")


@frozen
class Contents:
    """`directory`: for files that exist as long as one call."""

    ceph: Ceph
    images: Images
    directory: Path
    reactor: Any

    def open(self) -> None:
        """Remove what a killed process left. Raises Unusable."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            for left in self.directory.glob("*.part"):
                if left.is_dir():
                    drop_left(left)
                else:
                    left.unlink(missing_ok=True)  # of an earlier release
        except OSError as error:
            raise Unusable(f"cannot keep files in {self.directory}: {error.strerror}") from error

    async def size_bytes(self, image: ImageSource) -> int:
        """The size of the disk in it. Raises Unfit."""
        return (await self.images.virtual_size(image))[1]

    async def put(self, image: ImageSource, name: str, *snapshots: str) -> None:
        """A new image has the content of the file; a half-filled one is recreated. Raises Unfit, NoCapacity.

        `snapshots`: those that a half-filled one may have.
        """
        format, _size = await self.images.virtual_size(image)
        source = Path(str(image.path))
        async with self._scratch() as raw:
            if format != "raw":
                await self.images.write_raw(source, format, raw)
                source = raw
            make = partial(self._fill if is_mostly_holes(source) else self._import, source, name)
            await anew(self.ceph, name, make, *snapshots)

    async def _import(self, source: Path, name: str) -> None:
        await self.ceph.rbd_long("import", str(source), self.ceph.path(name))

    async def _fill(self, source: Path, name: str) -> None:
        """As `_import`, which would read every hole."""
        async with self._scratch() as difference:
            with room_for(f"fill {name}"):
                size = await self._in_thread(pack, source, difference)
            await self.ceph.rbd("create", f"--size={size}B", self.ceph.path(name))
            await self.ceph.rbd_long("import-diff", str(difference), self.ceph.path(name))

    async def refill(self, name: str, source: str) -> None:
        """The image `name` has the content and the size of `source`; its snapshots keep their content."""
        ceph = self.ceph
        async with self._scratch() as difference:
            await ceph.rbd_long("export-diff", ceph.path(source), str(difference))
            # Shrinking is the quick way to discard everything.
            await ceph.rbd_long("resize", "--size=0", "--allow-shrink", ceph.path(name))
            await ceph.rbd_long("import-diff", str(difference), ceph.path(name))

    async def get(self, name: str, snapshot: str, target: Path, disk_format: str = "raw") -> None:
        """`target` has the content of the snapshot. It appears whole or not at all. Raises NoCapacity, Missing."""
        async with self._beside(target) as raw, self._beside(target) as made:
            await self.ceph.rbd_long("export", self.ceph.path(name, snapshot), str(raw))
            if disk_format != "raw":
                await self.images.write_as(raw, disk_format, made)
            whole = raw if disk_format == "raw" else made
            with room_for(f"deliver {target}"):
                await self._in_thread(put_in_place, whole, target, None)

    async def get_changes(self, name: str, since: str, snapshot: str, target: Path) -> tuple[tuple[int, int], ...]:
        """`target` has the content of the snapshot where it differs from the older one, `since`; returns where that is.

        Raises NoCapacity, Missing.
        """
        words = ("export-diff", f"--from-snap={since}", self.ceph.path(name, snapshot))
        async with self._scratch() as difference, self._beside(target) as made:
            await self.ceph.rbd_long(*words, str(difference))
            with room_for(f"deliver {target}"):
                found = await self._in_thread(unpack, difference, made)
                await self._in_thread(put_in_place, made, target, None)
        return found

    async def _in_thread(self, function: Callable[..., T], *args: Any) -> T:
        result: T = await deferToThreadPool(self.reactor, self.reactor.getThreadPool(), function, *args)
        return result

    @asynccontextmanager
    async def _scratch(self) -> AsyncIterator[Path]:
        place = self.directory / f"scratch-{uuid4().hex}.part"
        with room_for(f"make {place}"):
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with held(place):
            yield place / "content"

    @asynccontextmanager
    async def _beside(self, target: Path) -> AsyncIterator[Path]:
        """A name for a new file in the same directory, which is removed at the end."""
        path = target.with_name(f"{target.name}-{uuid4().hex}.part")
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


async def anew(ceph: Ceph, name: str, make: Callable[[], Awaitable[None]], *snapshots: str) -> None:
    """Make the image; a half-made one that another call left, perhaps with these snapshots, is removed first."""
    try:
        await make()
    except Present:
        await ceph.trash(name, *snapshots)
        await make()
