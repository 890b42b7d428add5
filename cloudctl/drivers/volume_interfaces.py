"""Volume backends, and what some can do besides. The rules for all drivers: `interfaces`."""

from __future__ import annotations

from collections.abc import Sequence

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
        """The capacity there is, and what is left of it."""

    async def inventory() -> tuple[VolumeState, ...]:
        """Every volume, including those that the cloud does not know, sorted by id."""

    async def observe(id: str) -> VolumeState:
        """One volume, as `inventory` reports it. Raises UnknownVolume."""

    async def ensure_created(spec: VolumeSpec) -> None:
        """The volume exists, filled from its source and grown to `size_gib`. An existing one stays as it is.

        A half-filled volume is never seen under its id. Raises NoCapacity, Unfit, and UnknownVolume or UnknownSnapshot
        for a source.
        """

    async def ensure_extended(id: str, size_gib: int) -> None:
        """The volume has this size, connected or not. Raises UnknownVolume, NoCapacity, Unfit if it is larger now."""

    async def ensure_absent(id: str) -> None:
        """No volume of this id. An unknown id is no error. Raises InUse while it has snapshots or is connected."""

    async def connect(id: str, host: str) -> ConnectionInfo:
        """This host may use the volume; returns how. A repeat returns an equal answer. Raises UnknownVolume."""

    async def disconnect(id: str, host: str) -> None:
        """The host can no longer use the volume. A host that could not use it, or an unknown id, is no error."""


class IVolumeSnapshots(Interface):
    """Snapshots of volumes can be taken."""

    async def snapshots() -> tuple[SnapshotState, ...]:
        """Every snapshot, including those that the cloud does not know, sorted by id."""

    async def ensure_snapshot(spec: SnapshotSpec) -> None:
        """The snapshot exists; an existing one stays as it is.

        Raises UnknownVolume, NoCapacity, and InUse if it cannot be taken while a guest has the volume open.
        """

    async def ensure_snapshot_absent(id: str) -> None:
        """No snapshot of this id. An unknown id is no error. Raises InUse if volumes depend on it."""

    async def ensure_reverted(id: str, snapshot_id: str) -> None:
        """The volume holds what the snapshot holds. Raises UnknownVolume, UnknownSnapshot, InUse if connected."""


class IConsistentSnapshots(Interface):
    """Snapshots of several volumes can be taken at one moment, even while guests write to them."""

    async def ensure_snapshots(specs: Sequence[SnapshotSpec]) -> None:
        """All these snapshots exist, and show their volumes at one moment.

        If all exist already, they stay as they are. If some are missing, the others are what an interrupted call left
        of another moment, and are taken anew. Raises what `ensure_snapshot` of IVolumeSnapshots raises, and Unfit for
        volumes that cannot be frozen together.
        """


class IVolumeData(Interface):
    """The content of volumes can be exported and imported: backups, images of volumes, moves between backends."""

    async def ensure_exported(id: str, path: str, snapshot_id: str | None = None) -> str:
        """`path` is a copy of the volume, or of its snapshot; returns its disk format: "raw", sparse where it is empty.

        The file appears whole or not at all; a repeat recreates it. The copy shows the volume at one moment, even
        while guests write to it. Raises UnknownVolume, UnknownSnapshot, NoCapacity, and InUse if that cannot be done
        while a guest has the volume open.
        """

    async def ensure_imported(id: str, image: ImageSource) -> None:
        """The volume holds what the file holds, then zeros. If the call fails, the volume holds what it held before.

        Raises UnknownVolume, InUse if connected, NoCapacity, and Unfit for a file that is too large or not such an
        image.
        """


class IVolumeFormats(Interface):
    """Volumes can be exported in other disk formats than raw."""

    formats = Attribute("Those formats, as images name them, in a tuple of str.")

    async def ensure_exported_as(id: str, path: str, disk_format: str, snapshot_id: str | None = None) -> None:
        """As `ensure_exported` of IVolumeData, in one of `formats`."""


class IVolumeChanges(Interface):
    """The backend can tell what has changed in a volume since a mark was set, without reading all of the volume.

    Marks are not snapshots: only `marks` lists them, they are deleted with their volume and prevent nothing that can
    be done to it. Reverting, filling or extending a volume is a change like any other.
    """

    async def marks(id: str) -> tuple[str, ...]:
        """The marks of a volume, sorted. Raises UnknownVolume."""

    async def ensure_marked(id: str, mark: str) -> None:
        """The volume has the mark, set now unless it was set before. Raises UnknownVolume, NoCapacity."""

    async def ensure_unmarked(id: str, mark: str) -> None:
        """The volume does not have the mark. A mark that it never had, or an unknown volume, is no error."""

    async def ensure_changes_exported(
        id: str, path: str, mark: str, since: str | None = None
    ) -> tuple[tuple[int, int], ...] | None:
        """`path` is a raw file with what the volume held at `mark` wherever it had changed after the mark `since`.

        Returns where that is: offsets and lengths in bytes, sorted, none within another. None: that is not known, so
        the file holds all of the volume; this is so without `since`, and with one that the volume does not have. The
        file is as large as the volume and appears whole or not at all; a repeat recreates it. Raises UnknownVolume,
        UnknownSnapshot if the volume has no such `mark`, NoCapacity.
        """


class IVolumeAdoption(Interface):
    """Volumes that the backend has besides the cloud's can be adopted, and the cloud's can be released to it."""

    async def unmanaged() -> tuple[Unmanaged, ...]:
        """The volumes that the backend has besides those of `inventory`, sorted by name."""

    async def ensure_adopted(id: str, name: str) -> None:
        """What `unmanaged` called `name` is the volume `id`, its size rounded up to whole GiB.

        Raises UnknownVolume for an unknown name, Unfit for what cannot be a volume, InUse while somebody has it open.
        """

    async def ensure_released(id: str, name: str) -> None:
        """The volume is one of `unmanaged` and has this name there. An unknown id is no error.

        Raises InUse while it has snapshots or is connected, Unfit if something else has the name.
        """

    async def unmanaged_snapshots() -> tuple[Unmanaged, ...]:
        """The snapshots of volumes that the backend has besides those of `snapshots`, sorted by volume and name."""

    async def ensure_snapshot_adopted(id: str, volume_id: str, name: str) -> None:
        """What `unmanaged_snapshots` called `name` is the snapshot `id`. Raises UnknownVolume, UnknownSnapshot."""

    async def ensure_snapshot_released(id: str) -> None:
        """The snapshot is one of `unmanaged_snapshots`, under a name the backend chooses. An unknown id is no error."""
