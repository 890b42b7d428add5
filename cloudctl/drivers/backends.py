"""Several volume backends as one: each call goes to the backend that has the volume.

`place` tells where a volume is; a volume that is nowhere is unknown to every backend. Calls that ensure an absence go
to all of them: ids are ours, and an interrupted move may have left something anywhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from attrs import define, evolve
from zope.interface import alsoProvides, implementer

from cloudctl.drivers.errors import Unfit, UnknownVolume
from cloudctl.drivers.interfaces import (
    IConsistentSnapshots,
    IVolumeAdoption,
    IVolumeBackend,
    IVolumeData,
    IVolumeFormats,
    IVolumeSnapshots,
)
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

# Volume id → the name, in `at`, of the backend that it is on or is to be on; None: on none.
Place = Callable[[str], Awaitable[str | None]]


CAPABILITIES = (IVolumeSnapshots, IConsistentSnapshots, IVolumeData, IVolumeFormats, IVolumeAdoption)


@implementer(IVolumeBackend)
@define(eq=False, slots=False)
class Backends:
    """Has the capabilities that all of them have. `at`: name → backend."""

    at: Mapping[str, IVolumeBackend]
    place: Place

    def __attrs_post_init__(self) -> None:
        for capability in CAPABILITIES:
            if all(capability.providedBy(each) for each in self.at.values()):
                alsoProvides(self, capability)

    def each(self, wrapped: Callable[[Any], Any]) -> Backends:
        """The same with each backend wrapped: code that looks for several backends still finds several."""
        return evolve(self, at={name: wrapped(backend) for name, backend in self.at.items()})

    async def check(self) -> None:
        for each in self.at.values():
            await each.check()

    async def close(self) -> None:
        for each in self.at.values():
            await each.close()

    # -- of all together

    async def capacity(self) -> Capacity:
        found = [await each.capacity() for each in self.at.values()]
        return Capacity(
            sum(each.total_gib for each in found),
            sum(each.free_gib for each in found),
            sum(each.allocated_gib for each in found),
            thin=all(each.thin for each in found),
            multiattach=all(each.multiattach for each in found),
            storage_protocol=found[0].storage_protocol,
        )

    async def inventory(self) -> tuple[VolumeState, ...]:
        """A volume that is being moved is on two backends: the one that `place` names counts."""
        found = [[(name, state) for state in await each.inventory()] for name, each in self.at.items()]
        kept: dict[str, VolumeState] = {}
        for name, state in chain.from_iterable(found):
            if state.id not in kept or await self.place(state.id) == name:
                kept[state.id] = state
        return tuple(kept[id] for id in sorted(kept))

    async def snapshots(self) -> tuple[SnapshotState, ...]:
        found = [await cast(Any, each).snapshots() for each in self.at.values()]
        return tuple(sorted(chain.from_iterable(found), key=lambda state: state.id))

    async def unmanaged(self) -> tuple[Unmanaged, ...]:
        found = [await cast(Any, each).unmanaged() for each in self.at.values()]
        return tuple(sorted(chain.from_iterable(found), key=lambda each: each.name))

    async def unmanaged_snapshots(self) -> tuple[Unmanaged, ...]:
        found = [await cast(Any, each).unmanaged_snapshots() for each in self.at.values()]
        return tuple(sorted(chain.from_iterable(found), key=lambda each: (each.volume_id, each.name)))

    async def ensure_snapshot_released(self, id: str) -> None:
        for each in self.at.values():
            await cast(Any, each).ensure_snapshot_released(id)

    async def ensure_absent(self, id: str) -> None:
        for each in self.at.values():
            await each.ensure_absent(id)

    async def ensure_snapshot_absent(self, id: str) -> None:
        for each in self.at.values():
            await cast(Any, each).ensure_snapshot_absent(id)

    # -- of one volume

    async def where(self, id: str) -> Any:
        """The backend of a volume, whatever it provides. Raises UnknownVolume."""
        name = await self.place(id)
        if name is None or name not in self.at:
            raise UnknownVolume(id)
        return self.at[name]

    async def observe(self, id: str) -> VolumeState:
        found: VolumeState = await (await self.where(id)).observe(id)
        return found

    async def ensure_created(self, spec: VolumeSpec) -> None:
        await (await self.where(spec.id)).ensure_created(spec)

    async def ensure_extended(self, id: str, size_gib: int) -> None:
        await (await self.where(id)).ensure_extended(id, size_gib)

    async def connect(self, id: str, host: str) -> ConnectionInfo:
        found: ConnectionInfo = await (await self.where(id)).connect(id, host)
        return found

    async def disconnect(self, id: str, host: str) -> None:
        try:
            backend = await self.where(id)
        except UnknownVolume:
            return
        await backend.disconnect(id, host)

    async def ensure_snapshot(self, spec: SnapshotSpec) -> None:
        await (await self.where(spec.volume_id)).ensure_snapshot(spec)

    async def ensure_snapshots(self, specs: Sequence[SnapshotSpec]) -> None:
        """Also if not all backends can, but the one that has all these volumes."""
        found = [await self.where(spec.volume_id) for spec in specs]
        if any(each is not found[0] or not IConsistentSnapshots.providedBy(each) for each in found):
            raise Unfit("the volumes are not all on one backend that can freeze several at one moment")
        if found:
            await found[0].ensure_snapshots(specs)

    async def ensure_reverted(self, id: str, snapshot_id: str) -> None:
        await (await self.where(id)).ensure_reverted(id, snapshot_id)

    async def ensure_exported(self, id: str, path: str, snapshot_id: str | None = None) -> str:
        found: str = await (await self.where(id)).ensure_exported(id, path, snapshot_id)
        return found

    @property
    def formats(self) -> tuple[str, ...]:
        """Those that all of them can write."""
        first, *others = (cast(Any, each).formats for each in self.at.values())
        return tuple(each for each in first if all(each in formats for formats in others))

    async def ensure_exported_as(self, id: str, path: str, disk_format: str, snapshot_id: str | None = None) -> None:
        await (await self.where(id)).ensure_exported_as(id, path, disk_format, snapshot_id)

    async def ensure_imported(self, id: str, image: ImageSource) -> None:
        await (await self.where(id)).ensure_imported(id, image)

    async def ensure_adopted(self, id: str, name: str) -> None:
        await (await self.where(id)).ensure_adopted(id, name)

    async def ensure_released(self, id: str, name: str) -> None:
        try:
            backend = await self.where(id)
        except UnknownVolume:
            return
        await backend.ensure_released(id, name)

    async def ensure_snapshot_adopted(self, id: str, volume_id: str, name: str) -> None:
        await (await self.where(volume_id)).ensure_snapshot_adopted(id, volume_id, name)
