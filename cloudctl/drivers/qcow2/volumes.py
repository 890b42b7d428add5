"""Volumes in qcow2 files, however they are served.

A snapshot is inside the file: taken in an instant, at any size, by the process that has the file open. A volume made
from a volume or a snapshot is a full copy, so nothing ever depends on anything else. A copy reads a snapshot, never the
live file, so it shows one moment and holds nobody up.

Before a step that a crash could leave half done, it is noted in the record (`moments`, `undo`); `_settle` finishes it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from attrs import define, evolve, field, frozen
from twisted.internet.defer import CancelledError, ensureDeferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

from cloudctl.drivers.errors import (
    Busy,
    DriverError,
    InUse,
    Unfit,
    UnknownSnapshot,
    UnknownVolume,
    Unreachable,
)
from cloudctl.drivers.interfaces import IVolumeAdoption, IVolumeBackend, IVolumeData, IVolumeFormats, IVolumeSnapshots
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.qcow2 import adoption
from cloudctl.drivers.qcow2.disks import Disks
from cloudctl.drivers.qcow2.images import Images, Locked, header
from cloudctl.drivers.qcow2.records import DISK, GIB, Records, Snapshot, Volume, written
from cloudctl.drivers.qcow2.room import Room
from cloudctl.drivers.specs import (
    Capacity,
    ConnectionInfo,
    ImageSource,
    SnapshotSpec,
    SnapshotState,
    Unmanaged,
    VolumeSpec,
    VolumeState,
)

LOOK_SECONDS = 0.005

_log = Logger()


@frozen
class Source:
    """What a copy is made from: a file, or a snapshot inside a file."""

    path: Path
    format: str
    size_bytes: int
    volume_id: str | None = None
    moment: str | None = None  # with `volume_id`: the name of the snapshot inside that volume's file


@implementer(IVolumeBackend, IVolumeSnapshots, IVolumeData, IVolumeFormats, IVolumeAdoption)
@define(eq=False)
class FileVolumes:
    """Locks are taken in this order: life (creation or removal of a volume), snapshot, volume."""

    records: Records
    images: Images
    disks: Disks
    room: Room
    locks: Locks = field(factory=Locks)
    _reading: set[str] = field(factory=set)  # moments that copies of this process read

    formats = ("qcow2", "vmdk", "vdi", "vhd", "vhdx")

    async def check(self) -> None:
        await self.disks.check()
        self.records.open()

    async def close(self) -> None:
        await self.disks.close()

    # -- core

    async def capacity(self) -> Capacity:
        total, free = self.records.room()
        allocated = sum(self.room.sizes().values())
        return Capacity(
            int(total),
            int(free),
            allocated,
            thin=True,
            multiattach=self.disks.multiattach,
            storage_protocol=self.disks.protocol,
        )

    async def inventory(self) -> tuple[VolumeState, ...]:
        return tuple(volume.state for volume in self.records.readable())

    async def observe(self, id: str) -> VolumeState:
        return self._volume(id).state

    async def ensure_created(self, spec: VolumeSpec) -> None:
        async with self.locks.hold("life", spec.id):
            if self.records.volume(spec.id) is not None:
                return
            async with self._source(spec) as source:
                if source is not None and source.size_bytes > spec.size_gib * GIB:
                    least = -(-source.size_bytes // GIB)
                    raise Unfit(f"volume {spec.id} of {spec.size_gib} GiB is smaller than its source of {least} GiB")
                with self.room.promised(spec.id, spec.size_gib), self.records.new() as place:
                    await self._fill(place / DISK, source, spec.size_gib)
                    await self.records.publish(place, Volume(spec.id, spec.size_gib))

    async def ensure_extended(self, id: str, size_gib: int) -> None:
        async with self._settled(id) as volume:
            if size_gib < volume.size_gib:
                raise Unfit(f"volume {id} of {volume.size_gib} GiB cannot shrink to {size_gib} GiB")
            if size_gib == volume.size_gib:
                return
            with self.room.promised(id, size_gib):
                try:
                    await self.disks.resize(volume, size_gib)
                except Locked:
                    # The guest's QEMU has it open: the hypervisor grows it there, or `_settle` does later.
                    if not volume.hosts:
                        raise
                await self.records.put(evolve(volume, size_gib=size_gib))

    async def ensure_absent(self, id: str) -> None:
        async with self.locks.hold("life", id), self.locks.hold("volume", id):
            volume = self.records.volume(id)
            if volume is None:
                return
            await self._demand_unused(volume)
            await self.disks.serve(volume)
            await self.records.drop(id)

    async def connect(self, id: str, host: str) -> ConnectionInfo:
        async with self._settled(id) as volume:
            reached = volume if volume.hosts else self.disks.place(volume)
            changed = evolve(reached, hosts=tuple(sorted({*volume.hosts, host})))
            if changed != volume:
                await self.records.put(changed)
            try:
                await self.disks.serve(changed)
            except DriverError:
                if changed != volume:
                    await self.records.put(volume)
                raise
            return self.disks.connection(changed, host)

    async def disconnect(self, id: str, host: str) -> None:
        async with self.locks.hold("volume", id):
            volume = self.records.volume(id)
            if volume is None:
                return
            changed = evolve(volume, hosts=tuple(each for each in volume.hosts if each != host))
            if changed != volume:
                await self.records.put(changed)
            await self.disks.serve(changed)
            await self._settle(changed)

    # -- snapshots

    async def snapshots(self) -> tuple[SnapshotState, ...]:
        return tuple(snapshot.state for snapshot in self.records.readable_snapshots())

    async def ensure_snapshot(self, spec: SnapshotSpec) -> None:
        async with self.locks.hold("snapshot", spec.id):
            if self.records.snapshot(spec.id) is not None:
                return
            async with self._settled(spec.volume_id) as volume:
                await self._take(volume, written(spec.id))
                await self.records.put_snapshot(Snapshot(spec.id, volume.id, volume.size_gib))
                await self.records.put(volume)

    async def ensure_snapshot_absent(self, id: str) -> None:
        async with self.locks.hold("snapshot", id):
            snapshot = self.records.snapshot(id)
            if snapshot is None:
                return
            async with self._settled(snapshot.volume_id) as volume:
                left = evolve(volume, moments=(*volume.moments, snapshot.moment))
                await self.records.put(left)
                await self.records.drop_snapshot(id)
                await self._settle(left)

    async def ensure_reverted(self, id: str, snapshot_id: str) -> None:
        async with self.locks.hold("snapshot", snapshot_id), self._settled(id) as volume:
            snapshot = self._snapshot(snapshot_id)
            if snapshot.volume_id != id:
                raise Unfit(f"snapshot {snapshot_id} is of volume {snapshot.volume_id}, not of {id}")
            demand_free(volume)
            await self.images.go_back(self.records.disk(id), snapshot.moment)
            # It has its old size now.
            await self.images.resize(self.records.disk(id), volume.size_gib)

    # -- content

    async def ensure_exported(self, id: str, path: str, snapshot_id: str | None = None) -> str:
        """A sparse raw file. Raises InUse if the guest's QEMU has the volume open and no snapshot is given."""
        await self._deliver(id, path, snapshot_id, "raw")
        return "raw"

    async def ensure_exported_as(self, id: str, path: str, disk_format: str, snapshot_id: str | None = None) -> None:
        if disk_format not in self.formats:
            raise Unfit(f"volumes are exported as {', '.join(self.formats)}, not as {disk_format}")
        await self._deliver(id, path, snapshot_id, disk_format)

    async def _deliver(self, id: str, path: str, snapshot_id: str | None, disk_format: str) -> None:
        async with self._moment(id) if snapshot_id is None else self._frozen(snapshot_id, of=id) as source:
            target = Path(path)
            raw, made = (target.with_name(f"{target.name}{suffix}") for suffix in (".new", ".converted"))
            async with self.locks.hold("file", str(target)):
                raw.unlink(missing_ok=True)
                made.unlink(missing_ok=True)
                try:
                    await self._extract(source, raw, "raw")
                    if disk_format == "raw":
                        await self.records.deliver(raw, target, source.size_bytes)
                    else:
                        # By way of raw, which can be cut to the snapshot's size: most formats cannot.
                        await self.records.cut(raw, source.size_bytes)
                        await self.images.write_as(raw, disk_format, made)
                        await self.records.deliver(made, target, None)
                finally:
                    raw.unlink(missing_ok=True)
                    made.unlink(missing_ok=True)

    async def ensure_imported(self, id: str, image: ImageSource) -> None:
        async with self._settled(id) as volume:
            demand_free(volume)
            source = await self._image(image)
            if source.size_bytes > volume.size_gib * GIB:
                raise Unfit(f"volume {id} of {volume.size_gib} GiB is smaller than image {image.id}")
            before = f"before-{uuid4().hex}"
            begun = evolve(await self._take(volume, before), undo=before)
            await self.records.put(begun)
            try:
                await self.images.refill(source.path, source.format, self.records.disk(id), volume.size_gib)
            except DriverError:
                await self._settle(begun)
                raise
            done = evolve(begun, undo=None)
            await self.records.put(done)
            await self._settle(done)

    # -- adoption

    async def unmanaged(self) -> tuple[Unmanaged, ...]:
        found = map(adoption.unmanaged, self.records.unmanaged())
        return tuple(each for each in found if each is not None)

    async def ensure_adopted(self, id: str, name: str) -> None:
        async with self.locks.hold("life", id), self.locks.hold("unmanaged", name):
            file = self.records.unmanaged_file(name)
            if self.records.volume(id) is not None:
                if file is not None and adoption.is_same(file, self.records.disk(id)):
                    await self.records.unlink(file)
            else:
                await self._adopt(id, name, file)
            volume = self.records.volume(id)
            # After a dry run there is none.
            if volume is not None:
                async with self.locks.hold("volume", id):
                    await self._settle(volume)

    async def _adopt(self, id: str, name: str, file: Path | None) -> None:
        if file is None or not file.is_file() or (found := adoption.unmanaged(file)) is None:
            raise UnknownVolume(name)
        if found.objection:
            raise Unfit(f"{name} cannot be a volume: {found.objection}")
        try:
            await self.images.demand_closed(file)
        except Locked as error:
            raise InUse(f"{name} is open in another process") from error
        with self.records.new() as place:
            await self.records.adopt(place, file, Volume(id, found.size_gib))

    async def ensure_released(self, id: str, name: str) -> None:
        async with self.locks.hold("life", id), self.locks.hold("volume", id):
            volume = self.records.volume(id)
            if volume is None:
                return
            await self._demand_unused(volume)
            file = self.records.unmanaged_file(name)
            if file is None or (file.exists() and not adoption.is_same(file, self.records.disk(id))):
                raise Unfit(f"{name!r} is not a usable file name, or another volume already has it")
            volume = await self._settle(volume)
            await self.disks.serve(volume)
            await self.records.release(id, file)

    async def unmanaged_snapshots(self) -> tuple[Unmanaged, ...]:
        found: list[Unmanaged] = []
        for volume in self.records.readable():
            try:
                names = await self._unmanaged_moments(volume)
            except DriverError:
                # While others were looked at, it may have been deleted.
                if self.records.volume(volume.id) is not None:
                    raise
                continue
            found += (Unmanaged(name, volume.size_gib, volume.id) for name in sorted(names))
        return tuple(found)

    async def _unmanaged_moments(self, volume: Volume) -> frozenset[str]:
        disk = self.records.disk(volume.id)
        there = await self.images.names(disk) if header(disk).snapshots else frozenset()
        # The current record: it lists snapshots that were taken for copies meanwhile.
        return there - self.records.moments(volume.id) - set(self._volume(volume.id).moments)

    async def ensure_snapshot_adopted(self, id: str, volume_id: str, name: str) -> None:
        async with self.locks.hold("snapshot", id), self._settled(volume_id) as volume:
            if self.records.snapshot(id) is None:
                if name not in await self._unmanaged_moments(volume):
                    raise UnknownSnapshot(name)
                await self.records.put_snapshot(Snapshot(id, volume_id, volume.size_gib, name))

    async def ensure_snapshot_released(self, id: str) -> None:
        async with self.locks.hold("snapshot", id):
            await self.records.drop_snapshot(id)

    # -- inside: sources of copies

    @asynccontextmanager
    async def _source(self, spec: VolumeSpec) -> AsyncIterator[Source | None]:
        if spec.snapshot_id is not None:
            async with self._frozen(spec.snapshot_id) as source:
                yield source
        elif spec.volume_id is not None:
            async with self._moment(spec.volume_id) as source:
                yield source
        elif spec.image is not None and spec.image.path is not None:
            yield await self._image(spec.image)
        else:
            yield None

    async def _image(self, image: ImageSource) -> Source:
        format, size = await self.images.virtual_size(image)
        return Source(Path(str(image.path)), format, size)

    @asynccontextmanager
    async def _frozen(self, snapshot_id: str, of: str | None = None) -> AsyncIterator[Source]:
        """A snapshot, which is not removed meanwhile."""
        if of is not None:
            self._volume(of)
        async with self.locks.hold("snapshot", snapshot_id):
            snapshot = self._snapshot(snapshot_id)
            if of not in (None, snapshot.volume_id):
                raise UnknownSnapshot(snapshot_id)
            disk = self.records.disk(snapshot.volume_id)
            yield Source(disk, "qcow2", snapshot.size_gib * GIB, snapshot.volume_id, snapshot.moment)

    @asynccontextmanager
    async def _moment(self, id: str) -> AsyncIterator[Source]:
        """The volume as it is now, whatever happens to it meanwhile. Raises InUse if no snapshot can be taken."""
        name = f"copy-{uuid4().hex}"
        self._reading.add(name)
        try:
            async with self._settled(id) as volume:
                await self._take(volume, name)
            yield Source(self.records.disk(id), "qcow2", volume.size_gib * GIB, id, name)
        finally:
            self._reading.discard(name)
            async with self.locks.hold("volume", id):
                left = self.records.volume(id)
                if left is not None:
                    await self._settle(left)

    async def _fill(self, disk: Path, source: Source | None, size_gib: int) -> None:
        if source is None:
            await self.images.create(disk, size_gib)
            return
        if source.moment is None:
            await self.images.convert(source.path, source.format, disk)
        else:
            await self._extract(source, disk, "qcow2")
        await self.images.resize(disk, size_gib)

    async def _extract(self, source: Source, target: Path, format: str) -> None:
        """Copy a snapshot into a new file.

        Its blocks do not change, but the snapshot table does whenever one is taken or dropped. So the volume stays
        locked until qemu-img has read that table: it fills its target after it has opened its source.
        """
        assert source.volume_id is not None and source.moment is not None
        async with self.locks.hold("volume", source.volume_id):
            copied = ensureDeferred(self.images.extract(source.path, source.moment, target, format))
            try:
                while not copied.called and not (target.exists() and target.stat().st_size):
                    await deferLater(self.images.programs.clock, LOOK_SECONDS)
            except CancelledError:
                copied.addErrback(lambda _: None).cancel()
                raise
        await copied

    # -- inside: one volume

    @asynccontextmanager
    async def _settled(self, id: str) -> AsyncIterator[Volume]:
        """The volume, locked, and with nothing left half done. Raises UnknownVolume."""
        async with self.locks.hold("volume", id):
            yield await self._settle(self._volume(id))

    async def _settle(self, volume: Volume) -> Volume:
        """Finish or undo what was begun; if the file is open, what can wait is left for later."""
        disk = self.records.disk(volume.id)
        there = await self.images.names(disk) if volume.moments or volume.undo else frozenset()
        if volume.undo is not None:
            if volume.undo in there:
                await self.images.go_back(disk, volume.undo)
            volume = evolve(volume, undo=None)
            await self.records.put(volume)
        left = []
        for name in volume.moments:
            if name in self._reading or not await self._dropped(volume, name, there):
                left.append(name)
        if tuple(left) != volume.moments:
            volume = evolve(volume, moments=tuple(left))
            await self.records.put(volume)
        if header(disk).size_bytes < volume.size_gib * GIB:
            try:
                await self.disks.resize(volume, volume.size_gib)
            except (Busy, Unreachable) as error:
                _log.info("volume {id} will be resized later: {error}", id=volume.id, error=error)
        return volume

    async def _dropped(self, volume: Volume, name: str, there: frozenset[str]) -> bool:
        """Whether no snapshot of this name is left over; one that has a record is kept."""
        if name in there and name not in self.records.moments(volume.id):
            try:
                await self.disks.drop(volume, name)
            except (Busy, Unreachable) as error:
                _log.info(
                    "snapshot {name} of volume {id} will be deleted later: {error}",
                    name=name,
                    id=volume.id,
                    error=error,
                )
                return False
        return True

    async def _take(self, volume: Volume, name: str) -> Volume:
        """The volume with a new snapshot inside it, recorded as one that may be left over."""
        taken = evolve(volume, moments=(*volume.moments, name))
        await self.records.put(taken)
        try:
            await self.disks.take(volume, name)
        except Locked as error:
            if volume.hosts:
                raise InUse(
                    f"volume {volume.id} is open in a running guest; stop the guest or detach the volume"
                ) from error
            raise
        return taken

    def _volume(self, id: str) -> Volume:
        volume = self.records.volume(id)
        if volume is None:
            raise UnknownVolume(id)
        return volume

    def _snapshot(self, id: str) -> Snapshot:
        snapshot = self.records.snapshot(id)
        if snapshot is None:
            raise UnknownSnapshot(id)
        return snapshot

    async def _demand_unused(self, volume: Volume) -> None:
        """Raises InUse while anything depends on the volume, Busy while it is being copied."""
        demand_free(volume)
        snapshots = self.records.readable_snapshots()
        if self.records.moments(volume.id) and await self.images.names(self.records.disk(volume.id)):
            # A damaged record may be of one of them; then this raises DriverError.
            snapshots = self.records.snapshots()
        if any(each.volume_id == volume.id for each in snapshots):
            raise InUse(f"volume {volume.id} has snapshots")
        if self._reading.intersection(volume.moments):
            raise Busy(f"volume {volume.id} is being copied")


def demand_free(volume: Volume) -> None:
    """Raises InUse while a host may use the volume."""
    if volume.hosts:
        raise InUse(f"volume {volume.id} is connected to {', '.join(volume.hosts)}")
