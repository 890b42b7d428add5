"""Volumes as images of a pool. All that is known about them is in Ceph, so any number of processes may use one pool.

An image is filled under a temporary name and gets the volume's name at the end. A volume made from a volume, a snapshot
or an image is a clone, which reads from its parent what has not been written to itself. Still nothing blocks a removal:
a snapshot or volume that is removed while clones depend on it stays in Ceph's trash until the last of them has gone.

The notes beside the images (`Ceph.notes`):

    host VOLUME HOST        the host may use the volume
    snapshot ID VOLUME      where to look for a snapshot
    size VOLUME BYTES       its size after it is reverted to a snapshot that had another size
    undo VOLUME             it is being filled; until that is done, revert it to its snapshot UNDO

Marks are snapshots with names of their own: the next backup gets the differences to them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from attrs import define, field, frozen
from zope.interface import implementer

from cloudctl.drivers.errors import (
    Busy,
    DriverError,
    InUse,
    Unfit,
    UnknownSnapshot,
    UnknownVolume,
)
from cloudctl.drivers.interfaces import (
    IElsewhere,
    IVolumeBackend,
    IVolumeChanges,
    IVolumeData,
    IVolumeFormats,
    IVolumeSnapshots,
)
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.programs import require
from cloudctl.drivers.qcow2.records import written
from cloudctl.drivers.rbd.bases import COPY, MAKING, START, Bases
from cloudctl.drivers.rbd.ceph import GIB, Ceph, Image, Missing, Present
from cloudctl.drivers.rbd.contents import Contents, anew
from cloudctl.drivers.rbd.disk import RbdDisk, monitors
from cloudctl.drivers.specs import (
    Capacity,
    ConnectionInfo,
    ImageSource,
    SnapshotSpec,
    SnapshotState,
    VolumeSpec,
    VolumeState,
)

VOLUME, SNAPSHOT, MARK, UNDO = "volume-", "snapshot-", "mark-", "undo"


@frozen
class Origin:
    """A snapshot that a volume is cloned from. `passing`: it was taken only for that."""

    image: str
    snapshot: str
    size_bytes: int
    depth: int  # of clones made from it
    passing: bool = False


@implementer(IVolumeBackend, IVolumeSnapshots, IVolumeData, IVolumeFormats, IVolumeChanges, IElsewhere)
@define(eq=False)
class RbdVolumes:
    """Locks are taken in this order: life (creation or removal of a volume), snapshot, volume, base."""

    bases: Bases
    clone_depth: int
    _reading: set[str] = field(factory=set)  # paths of snapshots that copies of this process read
    _promised: int = 0  # GiB allocated when the pool last had room

    elsewhere = True  # files in its directory live only as long as a call
    formats = ("qcow2", "vmdk", "vdi", "vhd", "vhdx")

    @property
    def ceph(self) -> Ceph:
        return self.bases.ceph

    @property
    def contents(self) -> Contents:
        return self.bases.contents

    @property
    def locks(self) -> Locks:
        return self.bases.locks

    async def check(self) -> None:
        require("rbd", "rados", "ceph", "qemu-img", "prlimit")
        self.ceph.config.demand_key()
        self.contents.open()

    async def close(self) -> None:
        """Nothing is open."""

    # -- core

    async def capacity(self) -> Capacity:
        room = await self.ceph.room()
        if room.free > 0:
            # For a full pool Ceph's program does not list a namespace until there is room.
            images, _snapshots = await self.ceph.listed()
            self._promised = sum(gib(each.size_bytes) for each in images if each.name.startswith(VOLUME))
        total, free = (room.used + room.free) // GIB, room.free // GIB
        return Capacity(total, free, self._promised, thin=True, multiattach=True, storage_protocol="ceph")

    async def inventory(self) -> tuple[VolumeState, ...]:
        images, _snapshots = await self.ceph.listed()
        notes = await self.ceph.notes()
        found = (state(each, notes) for each in images if each.name.startswith(VOLUME))
        return tuple(sorted(found, key=lambda each: each.id))

    async def observe(self, id: str) -> VolumeState:
        return state(await self._volume(id), await self.ceph.notes())

    async def ensure_created(self, spec: VolumeSpec) -> None:
        async with self.locks.hold("life", spec.id):
            await self.bases.demand_room()
            making = MAKING + written(spec.id)
            try:
                await self._fill(making, spec)
                await self.ceph.rbd("rename", self.ceph.path(making), self.ceph.path(volume(spec.id)))
            except DriverError:
                # Perhaps it has been made already, and its source is gone. Nobody looks first: of the time that a clone
                # takes, each program's start is a quarter.
                if await self.ceph.find(volume(spec.id)) is None:
                    raise
                await self.bases.remove(making)

    async def _fill(self, making: str, spec: VolumeSpec) -> None:
        ceph, size = self.ceph, spec.size_gib * GIB
        if spec.image is not None and spec.image.path is not None and self.clone_depth == 0:
            demand_fits(spec, await self.contents.size_bytes(spec.image))
            await self.contents.put(spec.image, making)
            await self._resize_unless(making, size)
            return
        async with self._origin(spec) as origin:
            if origin is None:
                await anew(ceph, making, lambda: ceph.rbd("create", f"--size={size}B", ceph.path(making)))
                return
            demand_fits(spec, origin.size_bytes)
            await self.bases.clone(origin.image, origin.snapshot, making)
        if origin.size_bytes != size:
            await self._resize(making, size)
        if origin.depth > self.clone_depth:
            await ceph.rbd_long("flatten", ceph.path(making))

    async def ensure_extended(self, id: str, size_gib: int) -> None:
        await self.bases.demand_room()
        async with self._settled(id) as image:
            if size_gib * GIB < image.size_bytes:
                raise Unfit(f"volume {id} cannot shrink to {size_gib} GiB")
            if size_gib * GIB > image.size_bytes:
                await self._resize(image.name, size_gib * GIB)

    async def ensure_absent(self, id: str) -> None:
        async with self.locks.hold("life", id), self.locks.hold("volume", id):
            image, making = await self.ceph.find(volume(id)), MAKING + written(id)
            if image is None:
                # Left by a creation that failed.
                await self.bases.remove(making)
                await self.bases.tidy(volume(id), making)
            else:
                demand_free(id, await self.ceph.notes())
                for each in await self.ceph.snapshots(image.name):
                    if each.name.startswith(SNAPSHOT):
                        raise InUse(f"volume {id} has snapshots")
                    if self.ceph.path(image.name, each.name) in self._reading:
                        raise Busy(f"volume {id} is being copied")
                    await self._drop(image.name, each.name)
                # Left by an import that failed.
                await self.bases.remove(making)
                await self.ceph.trash(image.name)
                await self.bases.let_go(image.parent)

    async def connect(self, id: str, host: str) -> ConnectionInfo:
        async with self._settled(id) as image:
            await self.ceph.note("host", written(id), written(host))
            config = self.ceph.config
            where = monitors(config.monitors)
            return RbdDisk(config.pool, config.namespace, image.name, config.user, str(config.keyring), where).info

    async def disconnect(self, id: str, host: str) -> None:
        await self.ceph.forget("host", written(id), written(host))

    # -- snapshots

    async def snapshots(self) -> tuple[SnapshotState, ...]:
        _images, found = await self.ceph.listed()
        ours = (
            SnapshotState(unquote(each.name[len(SNAPSHOT) :]), unquote(each.image[len(VOLUME) :]), gib(each.size_bytes))
            for each in found
            if each.image.startswith(VOLUME) and each.name.startswith(SNAPSHOT)
        )
        return tuple(sorted(ours, key=lambda each: each.id))

    async def ensure_snapshot(self, spec: SnapshotSpec) -> None:
        async with self.locks.hold("snapshot", spec.id), self._settled(spec.volume_id) as image:
            # The note comes first: a snapshot without one would never be found again.
            await self.ceph.note("snapshot", written(spec.id), written(spec.volume_id))
            try:
                await self.ceph.rbd("snap", "create", "--no-progress", self.ceph.path(image.name, snapshot(spec.id)))
            except Present:
                return

    async def ensure_snapshot_absent(self, id: str) -> None:
        async with self.locks.hold("snapshot", id):
            for volume_id in places(await self.ceph.notes(), id):
                await self._drop(volume(volume_id), snapshot(id))
                await self.ceph.forget("snapshot", written(id), written(volume_id))

    async def ensure_reverted(self, id: str, snapshot_id: str) -> None:
        async with self.locks.hold("snapshot", snapshot_id), self._settled(id) as image:
            demand_free(id, await self.ceph.notes())
            there = await self.ceph.snapshots(image.name)
            found = next((each for each in there if each.name == snapshot(snapshot_id)), None)
            if found is None:
                raise UnknownSnapshot(snapshot_id)
            if found.size_bytes == image.size_bytes:
                await self._go_back(id, found.name)
                return
            note = ("size", written(id), str(image.size_bytes))
            await self.ceph.note(*note)
            await self._go_back(id, found.name)
            await self._resize(image.name, image.size_bytes)
            await self.ceph.forget(*note)

    # -- content

    async def ensure_exported(self, id: str, path: str, snapshot_id: str | None = None) -> str:
        await self._deliver(id, path, snapshot_id, "raw")
        return "raw"

    async def ensure_exported_as(self, id: str, path: str, disk_format: str, snapshot_id: str | None = None) -> None:
        if disk_format not in self.formats:
            raise Unfit(f"volumes are exported as {', '.join(self.formats)}, not as {disk_format}")
        await self._deliver(id, path, snapshot_id, disk_format)

    async def _deliver(self, id: str, path: str, snapshot_id: str | None, disk_format: str) -> None:
        if snapshot_id is None:
            async with self._moment(id, Path(path)) as moment:
                await self.contents.get(volume(id), moment, Path(path), disk_format)
            return
        async with self.locks.hold("snapshot", snapshot_id):
            await self._volume(id)
            try:
                await self.contents.get(volume(id), snapshot(snapshot_id), Path(path), disk_format)
            except Missing as error:
                raise UnknownSnapshot(snapshot_id) from error

    async def ensure_imported(self, id: str, image: ImageSource) -> None:
        async with self._settled(id) as there:
            demand_free(id, await self.ceph.notes())
            if await self.contents.size_bytes(image) > there.size_bytes:
                raise Unfit(f"volume {id} of {gib(there.size_bytes)} GiB is smaller than image {image.id}")
            making = MAKING + written(id)
            await self.contents.put(image, making)
            await self._resize_unless(making, there.size_bytes)
            await self.ceph.freeze(there.name, UNDO)
            await self.ceph.note("undo", written(id))
            try:
                await self.contents.refill(there.name, making)
            except DriverError:
                await self._undo(id)
                raise
            await self.ceph.forget("undo", written(id))
            await self._drop(there.name, UNDO)
            await self.ceph.trash(making)

    # -- changes

    async def marks(self, id: str) -> tuple[str, ...]:
        there = await self.ceph.snapshots((await self._volume(id)).name)
        return tuple(sorted(unquote(each.name[len(MARK) :]) for each in there if each.name.startswith(MARK)))

    async def ensure_marked(self, id: str, mark: str) -> None:
        async with self._settled(id) as image:
            try:
                await self.ceph.rbd("snap", "create", "--no-progress", self.ceph.path(image.name, MARK + written(mark)))
            except Present:
                return

    async def ensure_unmarked(self, id: str, mark: str) -> None:
        await self._drop(volume(id), MARK + written(mark))

    async def ensure_changes_exported(
        self, id: str, path: str, mark: str, since: str | None = None
    ) -> tuple[tuple[int, int], ...] | None:
        image, at = await self._volume(id), MARK + written(mark)
        older = [each.name for each in await self.ceph.snapshots(image.name)]
        if at not in older:
            raise UnknownSnapshot(mark)
        older = older[: older.index(at)]
        try:
            if since is not None and (begin := MARK + written(since)) in older:
                return await self.contents.get_changes(image.name, begin, at, Path(path))
            await self.contents.get(image.name, at, Path(path))
        except Missing as error:
            raise UnknownSnapshot(mark) from error
        return None

    # -- inside: sources of volumes

    @asynccontextmanager
    async def _origin(self, spec: VolumeSpec) -> AsyncIterator[Origin | None]:
        """The origin, which is not removed meanwhile."""
        if spec.snapshot_id is not None:
            async with self.locks.hold("snapshot", spec.snapshot_id):
                yield await self._of_snapshot(spec.snapshot_id)
        elif spec.volume_id is not None:
            async with self._settled(spec.volume_id) as image:
                # A fixed name: what an abandoned attempt left is found and dropped by the next one.
                name = f"for-{written(spec.id)}"
                await self.ceph.freeze(image.name, name)
                try:
                    yield Origin(image.name, name, image.size_bytes, await self._depth(image) + 1)
                finally:
                    await self._drop(image.name, name)
        elif spec.image is not None and spec.image.path is not None:
            async with self.bases.base(spec.image, partial(demand_fits, spec)) as base:
                yield Origin(base.name, START, base.size_bytes, 1)
        else:
            yield None

    async def _of_snapshot(self, id: str) -> Origin:
        for volume_id in places(await self.ceph.notes(), id):
            image = await self.ceph.find(volume(volume_id))
            if image is not None:
                for each in await self.ceph.snapshots(image.name):
                    if each.name == snapshot(id):
                        return Origin(image.name, each.name, each.size_bytes, await self._depth(image) + 1)
        raise UnknownSnapshot(id)

    async def _depth(self, image: Image) -> int:
        """How long its chain of parents is, counted up to `clone_depth`."""
        depth, above = 0, image.parent
        while above is not None and depth < self.clone_depth:
            depth += 1
            found = await self.ceph.find_by_id(above.id)
            above = None if found is None else found.parent
        return depth

    # -- inside: one volume

    async def _volume(self, id: str) -> Image:
        found = await self.ceph.find(volume(id))
        if found is None:
            raise UnknownVolume(id)
        return found

    @asynccontextmanager
    async def _settled(self, id: str) -> AsyncIterator[Image]:
        """The volume, locked, and with nothing left half done. Raises UnknownVolume."""
        async with self.locks.hold("volume", id):
            image = await self._volume(id)
            left = [note for note in await self.ceph.notes() if note[0] in ("undo", "size") and note[1] == written(id)]
            for note in left:
                if note[0] == "undo":
                    await self._undo(id)
                else:
                    await self._resize_unless(image.name, int(note[2]))
                    await self.ceph.forget(*note)
            yield await self._volume(id) if left else image

    async def _undo(self, id: str) -> None:
        """Revert a half-finished import."""
        try:
            await self._go_back(id, UNDO)
        except Missing:
            pass
        await self.ceph.forget("undo", written(id))
        await self._drop(volume(id), UNDO)

    async def _go_back(self, id: str, name: str) -> None:
        await self.ceph.rbd_long("snap", "rollback", self.ceph.path(volume(id), name))

    async def _resize(self, image: str, size_bytes: int) -> None:
        """Resize; the caller makes sure that nothing needed is lost. rbd refuses an image that has this size."""
        await self.ceph.rbd_long("resize", f"--size={size_bytes}B", "--allow-shrink", self.ceph.path(image))

    async def _resize_unless(self, image: str, size_bytes: int) -> None:
        """As `_resize`, for an image that may have this size already."""
        found = await self.ceph.find(image)
        if found is None or found.size_bytes != size_bytes:
            await self._resize(image, size_bytes)

    @asynccontextmanager
    async def _moment(self, id: str, target: Path) -> AsyncIterator[str]:
        """A snapshot of the volume as it is now, dropped at the end.

        It is named after what is made of it: a repeat replaces the one that a killed process left.
        """
        name = f"{COPY}{written(target.name)}"
        path = self.ceph.path(volume(id), name)
        async with self.locks.hold("copy", path):
            self._reading.add(path)
            try:
                async with self._settled(id) as image:
                    await self.ceph.freeze(image.name, name)
                yield name
            finally:
                self._reading.discard(path)
                await self._drop(volume(id), name)

    async def _drop(self, image: str, name: str) -> None:
        await self.ceph.drop(name, self.ceph.path(image))


# -- names


def volume(id: str) -> str:
    return VOLUME + written(id)


def snapshot(id: str) -> str:
    return SNAPSHOT + written(id)


def gib(size_bytes: int) -> int:
    return -(-size_bytes // GIB)


def state(image: Image, notes: Sequence[Sequence[str]]) -> VolumeState:
    name = image.name[len(VOLUME) :]
    hosts = sorted(unquote(note[2]) for note in notes if note[:2] == ("host", name))
    return VolumeState(unquote(name), gib(image.size_bytes), tuple(hosts))


def places(notes: Sequence[Sequence[str]], snapshot_id: str) -> list[str]:
    """The ids of the volumes that may have the snapshot."""
    return [unquote(note[2]) for note in notes if note[:2] == ("snapshot", written(snapshot_id))]


def demand_free(id: str, notes: Sequence[Sequence[str]]) -> None:
    """Raises InUse while a host may use the volume."""
    hosts = [unquote(note[2]) for note in notes if note[:2] == ("host", written(id))]
    if hosts:
        raise InUse(f"volume {id} is connected to {', '.join(sorted(hosts))}")


def demand_fits(spec: VolumeSpec, size_bytes: int) -> None:
    if size_bytes > spec.size_gib * GIB:
        raise Unfit(f"volume {spec.id} of {spec.size_gib} GiB is smaller than its source of {gib(size_bytes)} GiB")
