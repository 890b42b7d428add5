"""Backends of volumes, and what else some can do. The rules for all drivers: `interfaces`."""

from __future__ import annotations

from zope.interface import Attribute, Interface

from cloudctl.drivers.driver_interface import IDriver
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


class IVolumeBackend(IDriver):
    """Block devices that hosts can connect to."""

    async def capacity() -> Capacity:
        """What there is and what is left."""

    async def inventory() -> tuple[VolumeState, ...]:
        """Every volume, also those that the cloud does not know, sorted by id."""

    async def observe(id: str) -> VolumeState:
        """One volume; what `inventory` says of it. Raises UnknownVolume."""

    async def ensure_created(spec: VolumeSpec) -> None:
        """The volume exists, filled from its source and grown to `size_gib`. One that is there stays as it is.

        A volume that is half filled is never seen under its id. Raises NoCapacity, Unfit, and UnknownVolume or
        UnknownSnapshot for a source.
        """

    async def ensure_extended(id: str, size_gib: int) -> None:
        """The volume has this size, connected or not. Raises UnknownVolume, NoCapacity, Unfit if it is larger now."""

    async def ensure_absent(id: str) -> None:
        """No volume of this id. An unknown id is no error. Raises InUse while it has snapshots or is connected."""

    async def connect(id: str, host: str) -> ConnectionInfo:
        """Let this host use the volume; says how. A repeat returns an equal answer. Raises UnknownVolume."""

    async def disconnect(id: str, host: str) -> None:
        """The host cannot use it any more. A host that could not, or an unknown id, is no error."""


class IVolumeSnapshots(Interface):
    """Volumes can be frozen in time."""

    async def snapshots() -> tuple[SnapshotState, ...]:
        """Every snapshot, also those that the cloud does not know, sorted by id."""

    async def ensure_snapshot(spec: SnapshotSpec) -> None:
        """The snapshot exists; one that is there stays as it is.

        Raises UnknownVolume, NoCapacity, and InUse if it cannot be taken while a guest has the volume open.
        """

    async def ensure_snapshot_absent(id: str) -> None:
        """No snapshot of this id. An unknown id is no error. Raises InUse if volumes depend on it."""

    async def ensure_reverted(id: str, snapshot_id: str) -> None:
        """The volume holds what the snapshot holds. Raises UnknownVolume, UnknownSnapshot, InUse if connected."""


class IVolumeData(Interface):
    """The content of volumes can be copied out and in: backups, images of volumes, moves between backends."""

    async def ensure_exported(id: str, path: str, snapshot_id: str | None = None) -> str:
        """`path` is a copy of the volume, or of its snapshot; returns its disk format: "raw", sparse where it is empty.

        The file appears whole or not at all; a repeat makes it anew. The copy shows the volume at one moment, also
        while guests write to it. Raises UnknownVolume, UnknownSnapshot, NoCapacity, and InUse if that cannot be done
        while a guest has the volume open.
        """

    async def ensure_imported(id: str, image: ImageSource) -> None:
        """The volume holds what the file holds, then zeros. If it fails the volume holds what it held.

        Raises UnknownVolume, InUse if connected, NoCapacity, and Unfit for a file that is no such image or too large.
        """


class IVolumeFormats(Interface):
    """What is copied out of volumes can be in other disk formats than raw."""

    formats = Attribute("Those formats, as images name them, in a tuple of str.")

    async def ensure_exported_as(id: str, path: str, disk_format: str, snapshot_id: str | None = None) -> None:
        """As `ensure_exported` of IVolumeData, in one of `formats`."""


class IVolumeChanges(Interface):
    """What has changed in a volume since a moment that was marked can be told, without reading all of it.

    Marks are no snapshots: nobody is told of them but by `marks`, they go with their volume, and keep it from nothing.
    To be reverted, filled or extended is a change of the volume like others.
    """

    async def marks(id: str) -> tuple[str, ...]:
        """Those of a volume, sorted. Raises UnknownVolume."""

    async def ensure_marked(id: str, mark: str) -> None:
        """The volume has the mark; one that is there stays where it is. Raises UnknownVolume, NoCapacity."""

    async def ensure_unmarked(id: str, mark: str) -> None:
        """The volume does not have it. A mark that it never had, or an unknown volume, is no error."""

    async def ensure_changes_exported(
        id: str, path: str, mark: str, since: str | None = None
    ) -> tuple[tuple[int, int], ...] | None:
        """`path` is a raw file with what the volume held at `mark` wherever it has changed after the mark `since`.

        Returns where that is: offsets and lengths in bytes, sorted, none within another. None: that is not known, and
        all of the volume is in the file; so it is without `since`, and with one that the volume does not have.
        The file is as large as the volume and appears whole or not at all; a repeat makes it anew. Raises
        UnknownVolume, UnknownSnapshot if the volume has no such `mark`, NoCapacity.
        """


class IVolumeAdoption(Interface):
    """What the backend has beside the volumes of the cloud can become such, and these can be left to it alone."""

    async def unmanaged() -> tuple[Unmanaged, ...]:
        """The volumes that it has beside those of `inventory`, sorted by name."""

    async def ensure_adopted(id: str, name: str) -> None:
        """What `unmanaged` called `name` is the volume `id`, its size rounded up to whole GiB.

        Raises UnknownVolume for a name that is not there, Unfit for what cannot be a volume, InUse while somebody
        has it open.
        """

    async def ensure_released(id: str, name: str) -> None:
        """The volume is one of `unmanaged`, and has this name there. An unknown id is no error.

        Raises InUse while it has snapshots or is connected, Unfit if something else has the name.
        """

    async def unmanaged_snapshots() -> tuple[Unmanaged, ...]:
        """The snapshots of volumes that it has beside those of `snapshots`, sorted by volume and name."""

    async def ensure_snapshot_adopted(id: str, volume_id: str, name: str) -> None:
        """What `unmanaged_snapshots` called `name` is the snapshot `id`. Raises UnknownVolume, UnknownSnapshot."""

    async def ensure_snapshot_released(id: str) -> None:
        """The snapshot is one of `unmanaged_snapshots`, by a name that is found there. An unknown id is no error."""
