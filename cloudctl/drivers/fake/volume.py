"""Volumes that consist of a name and a size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from attrs import define, evolve, field, frozen
from attrs.validators import ge
from zope.interface import implementer

from cloudctl.drivers.disk_formats import qcow2
from cloudctl.drivers.errors import InUse, NoCapacity, Unfit, UnknownSnapshot, UnknownVolume
from cloudctl.drivers.fake.behaviour import Behaviour, delays_of
from cloudctl.drivers.fake.store import Store, check_writable, directory, head, open_store, spill, write
from cloudctl.drivers.interfaces import (
    IConsistentSnapshots,
    IElsewhere,
    IVolumeAdoption,
    IVolumeBackend,
    IVolumeChanges,
    IVolumeData,
    IVolumeFormats,
    IVolumeSnapshots,
)
from cloudctl.drivers.specs import (
    Capacity,
    ConnectionInfo,
    DriverResources,
    ImageSource,
    SnapshotSpec,
    SnapshotState,
    Unmanaged,
    VolumeSpec,
    VolumeState,
)

GIB = 1 << 30
BLOCK = 64  # bytes; the granularity of reported changes

INTERFACES = (
    IVolumeBackend,
    IVolumeSnapshots,
    IConsistentSnapshots,
    IVolumeData,
    IVolumeFormats,
    IVolumeAdoption,
)


@frozen
class Config:
    """`[driver.volume.fake]`"""

    total_gib: int = field(default=10240, validator=ge(1))
    delays: dict[str, float] = field(
        factory=dict, validator=delays_of((*INTERFACES, IVolumeChanges))
    )  # method: seconds
    durable: bool = True  # keep volumes in the state directory, if there is one: they outlive this process
    directory: str = ""  # keep them here instead: for processes that have state directories of their own
    tells_changes: bool = False  # report what has changed since a mark


@frozen
class Volume:
    """What is stored of a volume."""

    id: str
    size_gib: int
    head: str = ""
    hosts: tuple[str, ...] = ()
    marks: dict[str, str] = field(factory=dict)  # mark → what the volume held then, the oldest first

    @cached_property
    def state(self) -> VolumeState:
        return VolumeState(self.id, self.size_gib, self.hosts)


@frozen
class Snapshot:
    state: SnapshotState
    head: str = ""


@frozen
class Loose:
    """What the backend has besides the cloud's own: a volume or, with `volume_id`, a snapshot of one of the cloud's."""

    name: str
    size_gib: int
    head: str = ""
    volume_id: str | None = None
    was: str = ""  # the id that it had as a volume of the cloud

    @property
    def state(self) -> Unmanaged:
        return Unmanaged(self.name, self.size_gib, self.volume_id)


def create(config: Config, resources: DriverResources) -> FakeVolumeBackend:
    root = directory(config.durable, resources, config.directory)
    kind = MarkedVolumeBackend if config.tells_changes else FakeVolumeBackend
    return kind(
        name=resources.name,
        total_gib=config.total_gib,
        behaviour=Behaviour(resources.clock, (*INTERFACES, IVolumeChanges), dict(config.delays)),
        root=root,
        volumes=open_store(Volume, root, "volumes"),
        frozen=open_store(Snapshot, root, "snapshots"),
        loose=open_store(Loose, root, "unmanaged"),
        loose_snapshots=open_store(Loose, root, "unmanaged_snapshots"),
        elsewhere=config.durable and bool(config.directory),
    )


@implementer(*INTERFACES, IElsewhere)
@define(eq=False)
class FakeVolumeBackend:
    name: str
    total_gib: int
    behaviour: Behaviour
    root: Path | None
    volumes: Store[Volume]
    frozen: Store[Snapshot]
    loose: Store[Loose]
    loose_snapshots: Store[Loose]
    elsewhere: bool = False
    # The volumes that the last inventory was made from, and that inventory.
    _inventory: tuple[list[Volume], tuple[VolumeState, ...]] | None = None

    formats = ("qcow2",)

    async def check(self) -> None:
        check_writable(self.root)

    async def close(self) -> None:
        """Nothing is open."""

    # -- core

    async def capacity(self) -> Capacity:
        async with self.behaviour.around("capacity"):
            used = self._used()
            return Capacity(
                self.total_gib, self.total_gib - used, used, thin=False, multiattach=True, storage_protocol="iSCSI"
            )

    async def inventory(self) -> tuple[VolumeState, ...]:
        async with self.behaviour.around("inventory"):
            volumes = self.volumes.values()
            # A store in memory returns the same list until something changes.
            if self._inventory is None or self._inventory[0] is not volumes:
                self._inventory = volumes, tuple(volume.state for volume in volumes)
            return self._inventory[1]

    async def observe(self, id: str) -> VolumeState:
        async with self.behaviour.around("observe", id):
            return self._volume(id).state

    async def ensure_created(self, spec: VolumeSpec) -> None:
        async with self.behaviour.around("ensure_created", spec.id):
            if self.volumes.get(spec.id) is None:
                content, least = self._source(spec)
                if spec.size_gib < least:
                    raise Unfit(f"volume {spec.id} of {spec.size_gib} GiB is smaller than its source of {least} GiB")
                self._take(spec.size_gib)
                self.volumes.put(spec.id, Volume(spec.id, spec.size_gib, content))

    async def ensure_extended(self, id: str, size_gib: int) -> None:
        async with self.behaviour.around("ensure_extended", id):
            volume = self._volume(id)
            if size_gib < volume.size_gib:
                raise Unfit(f"volume {id} of {volume.size_gib} GiB cannot shrink to {size_gib} GiB")
            self._take(size_gib - volume.size_gib)
            self.volumes.put(id, evolve(volume, size_gib=size_gib))

    async def ensure_absent(self, id: str) -> None:
        async with self.behaviour.around("ensure_absent", id):
            volume = self.volumes.get(id)
            if volume is None:
                return
            demand_free(volume)
            if any(each.state.volume_id == id for each in self.frozen.values()):
                raise InUse(f"volume {id} has snapshots")
            self.volumes.delete(id)

    async def connect(self, id: str, host: str) -> ConnectionInfo:
        async with self.behaviour.around("connect", id):
            volume = self._volume(id)
            self.volumes.put(id, evolve(volume, hosts=tuple(sorted({*volume.hosts, host}))))
            return {"driver_volume_type": "fake", "data": {"volume_id": id, "host": host, "backend": self.name}}

    async def disconnect(self, id: str, host: str) -> None:
        async with self.behaviour.around("disconnect", id):
            volume = self.volumes.get(id)
            if volume is not None:
                self.volumes.put(id, evolve(volume, hosts=tuple(each for each in volume.hosts if each != host)))

    # -- capabilities

    async def snapshots(self) -> tuple[SnapshotState, ...]:
        async with self.behaviour.around("snapshots"):
            return tuple(each.state for each in self.frozen.values())

    async def ensure_snapshot(self, spec: SnapshotSpec) -> None:
        async with self.behaviour.around("ensure_snapshot", spec.id):
            if self.frozen.get(spec.id) is None:
                volume = self._volume(spec.volume_id)
                self._take(volume.size_gib)
                self._freeze(spec.id, volume)

    async def ensure_snapshots(self, specs: Sequence[SnapshotSpec]) -> None:
        async with self.behaviour.around("ensure_snapshots"):
            missing = [spec for spec in specs if self.frozen.get(spec.id) is None]
            if not missing:
                return
            # Nothing is done unless all can be done.
            volumes = {spec.id: self._volume(spec.volume_id) for spec in specs}
            self._take(sum(volumes[spec.id].size_gib for spec in missing))
            # What is missing comes last: as long as it is, a repeat takes all of them anew.
            for spec in sorted(specs, key=missing.__contains__):
                self._freeze(spec.id, volumes[spec.id])

    async def ensure_snapshot_absent(self, id: str) -> None:
        async with self.behaviour.around("ensure_snapshot_absent", id):
            self.frozen.delete(id)

    async def ensure_reverted(self, id: str, snapshot_id: str) -> None:
        async with self.behaviour.around("ensure_reverted", id):
            volume, snapshot = self._volume(id), self._snapshot(snapshot_id)
            demand_free(volume)
            self.volumes.put(id, evolve(volume, head=snapshot.head))

    async def ensure_exported(self, id: str, path: str, snapshot_id: str | None = None) -> str:
        async with self.behaviour.around("ensure_exported", id):
            volume = self._volume(id)
            spill(volume.head if snapshot_id is None else self._snapshot(snapshot_id).head, path)
            return "raw"

    async def ensure_exported_as(self, id: str, path: str, disk_format: str, snapshot_id: str | None = None) -> None:
        async with self.behaviour.around("ensure_exported_as", id):
            if disk_format not in self.formats:
                raise Unfit(f"volumes are exported as {', '.join(self.formats)}, not as {disk_format}")
            volume = self._volume(id)
            snapshot = None if snapshot_id is None else self._snapshot(snapshot_id)
            content = volume.head if snapshot is None else snapshot.head
            size = volume.size_gib if snapshot is None else snapshot.state.size_gib
            write(Path(path), qcow2(content.encode("latin-1"), size * GIB))

    async def ensure_imported(self, id: str, image: ImageSource) -> None:
        async with self.behaviour.around("ensure_imported", id):
            volume = self._volume(id)
            demand_free(volume)
            self.volumes.put(id, evolve(volume, head=head(image)))

    # -- adoption: the new object is there before the old one goes, and a repeat removes what is left of the old one

    async def unmanaged(self) -> tuple[Unmanaged, ...]:
        async with self.behaviour.around("unmanaged"):
            return tuple(each.state for each in self.loose.values())

    async def ensure_adopted(self, id: str, name: str) -> None:
        async with self.behaviour.around("ensure_adopted", id):
            if self.volumes.get(id) is None:
                found = self.loose.get(name)
                if found is None:
                    raise UnknownVolume(name)
                self._take(found.size_gib)
                self.volumes.put(id, Volume(id, found.size_gib, found.head))
            self.loose.delete(name)

    async def ensure_released(self, id: str, name: str) -> None:
        async with self.behaviour.around("ensure_released", id):
            volume = self.volumes.get(id)
            if volume is None:
                return
            demand_free(volume)
            if any(each.state.volume_id == id for each in self.frozen.values()):
                raise InUse(f"volume {id} has snapshots")
            taken = self.loose.get(name)
            if taken is not None and taken.was != id:
                raise Unfit(f"the name {name} is taken")
            self.loose.put(name, Loose(name, volume.size_gib, volume.head, was=id))
            self.volumes.delete(id)

    async def unmanaged_snapshots(self) -> tuple[Unmanaged, ...]:
        async with self.behaviour.around("unmanaged_snapshots"):
            found = (each.state for each in self.loose_snapshots.values() if self.volumes.get(each.volume_id or ""))
            return tuple(sorted(found, key=lambda each: (each.volume_id, each.name)))

    async def ensure_snapshot_adopted(self, id: str, volume_id: str, name: str) -> None:
        async with self.behaviour.around("ensure_snapshot_adopted", id):
            self._volume(volume_id)
            if self.frozen.get(id) is None:
                found = self.loose_snapshots.get(name)
                if found is None or found.volume_id != volume_id:
                    raise UnknownSnapshot(name)
                self._take(found.size_gib)
                self.frozen.put(id, Snapshot(SnapshotState(id, volume_id, found.size_gib), found.head))
            self.loose_snapshots.delete(name)

    async def ensure_snapshot_released(self, id: str) -> None:
        async with self.behaviour.around("ensure_snapshot_released", id):
            snapshot = self.frozen.get(id)
            if snapshot is not None:
                name, state = f"_snapshot-{id}", snapshot.state
                self.loose_snapshots.put(name, Loose(name, state.size_gib, snapshot.head, state.volume_id))
                self.frozen.delete(id)

    # -- inside

    def _freeze(self, id: str, volume: Volume) -> None:
        state = SnapshotState(id, volume.id, volume.size_gib)
        self.frozen.put(id, Snapshot(state, volume.head))

    def _volume(self, id: str) -> Volume:
        volume = self.volumes.get(id)
        if volume is None:
            raise UnknownVolume(id)
        return volume

    def _snapshot(self, id: str) -> Snapshot:
        snapshot = self.frozen.get(id)
        if snapshot is None:
            raise UnknownSnapshot(id)
        return snapshot

    def _source(self, spec: VolumeSpec) -> tuple[str, int]:
        """The content of the source, and the least size in GiB that holds it."""
        if spec.snapshot_id is not None:
            snapshot = self._snapshot(spec.snapshot_id)
            return snapshot.head, snapshot.state.size_gib
        if spec.volume_id is not None:
            volume = self._volume(spec.volume_id)
            return volume.head, volume.size_gib
        return head(spec.image), 0

    def _used(self) -> int:
        return sum(v.size_gib for v in self.volumes.values()) + sum(s.state.size_gib for s in self.frozen.values())

    def _take(self, size_gib: int) -> None:
        free = self.total_gib - self._used()
        if size_gib > free:
            raise NoCapacity(f"{size_gib} GiB requested, {free} GiB free")


@implementer(IVolumeChanges)
@define(eq=False)
class MarkedVolumeBackend(FakeVolumeBackend):
    """A backend that reports what has changed."""

    async def marks(self, id: str) -> tuple[str, ...]:
        async with self.behaviour.around("marks", id):
            return tuple(sorted(self._volume(id).marks))

    async def ensure_marked(self, id: str, mark: str) -> None:
        async with self.behaviour.around("ensure_marked", id):
            volume = self._volume(id)
            if mark not in volume.marks:
                self.volumes.put(id, evolve(volume, marks={**volume.marks, mark: volume.head}))

    async def ensure_unmarked(self, id: str, mark: str) -> None:
        async with self.behaviour.around("ensure_unmarked", id):
            volume = self.volumes.get(id)
            if volume is not None and mark in volume.marks:
                kept = {name: head for name, head in volume.marks.items() if name != mark}
                self.volumes.put(id, evolve(volume, marks=kept))

    async def ensure_changes_exported(
        self, id: str, path: str, mark: str, since: str | None = None
    ) -> tuple[tuple[int, int], ...] | None:
        async with self.behaviour.around("ensure_changes_exported", id):
            marks = self._volume(id).marks
            if mark not in marks:
                raise UnknownSnapshot(mark)
            names, now = list(marks), marks[mark]
            if since not in names[: names.index(mark)]:
                spill(now, path)
                return None
            before = marks[since]
            starts = [start for start in range(0, len(now), BLOCK) if differ(before, now, start)]
            told = "".join(
                now[start : start + BLOCK] if start in starts else "\0" * len(now[start : start + BLOCK])
                for start in range(0, len(now), BLOCK)
            )
            spill(told, path)
            return tuple((start, len(now[start : start + BLOCK])) for start in starts)


def differ(before: str, now: str, start: int) -> bool:
    return before[start : start + BLOCK] != now[start : start + BLOCK]


def demand_free(volume: Volume) -> None:
    if volume.hosts:
        raise InUse(f"volume {volume.id} is connected to {', '.join(volume.hosts)}")
