"""How the file of a volume is changed while hosts may be using it, and how these hosts reach it.

`volumes` keeps the records and decides; a driver's `Disks` know who has the file open.
"""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

from cloudctl.drivers.programs import require
from cloudctl.drivers.qcow2.images import Images
from cloudctl.drivers.qcow2.records import Records, Volume
from cloudctl.drivers.specs import ConnectionInfo


class Disks(Protocol):
    """All methods are called with the volume's lock held. `volume.hosts` are the hosts that may use it."""

    @property
    def protocol(self) -> str:
        """`storage_protocol` of the capacity."""

    @property
    def multiattach(self) -> bool:
        """Whether guests on several hosts can use a volume at once."""

    async def check(self) -> None:
        """As `IDriver.check`."""

    async def close(self) -> None:
        """As `IDriver.close`."""

    def place(self, volume: Volume) -> Volume:
        """The volume, which no host uses yet, with the place where it will be served."""

    async def serve(self, volume: Volume) -> None:
        """Exactly `volume.hosts` can use it, as its record says already. Raises Unreachable."""

    def connection(self, volume: Volume, host: str) -> ConnectionInfo:
        """How the host reaches it. A repeat returns an equal answer."""

    async def resize(self, volume: Volume, size_gib: int) -> None:
        """The disk has this size. Raises NoCapacity, Locked, Unreachable."""

    async def take(self, volume: Volume, name: str) -> None:
        """Take a consistent snapshot inside the file. Raises NoCapacity, Locked, Unreachable."""

    async def drop(self, volume: Volume, name: str) -> None:
        """Delete that snapshot, which exists. Raises Locked, Unreachable."""


@frozen
class LocalDisks:
    """The guest's own QEMU opens the file. While it has it open, changes of the file raise Locked."""

    records: Records
    images: Images
    protocol: str = "qcow2"
    multiattach: bool = False

    async def check(self) -> None:
        require("qemu-img", "prlimit", "setpriv")

    async def close(self) -> None:
        """Nothing is open."""

    def place(self, volume: Volume) -> Volume:
        return volume

    async def serve(self, volume: Volume) -> None:
        """Any QEMU that knows the path can open the file; QEMU's lock admits one at a time."""

    def connection(self, volume: Volume, host: str) -> ConnectionInfo:
        path = str(self.records.disk(volume.id))
        return {"driver_volume_type": "qcow2", "data": {"path": path, "format": "qcow2"}}

    async def resize(self, volume: Volume, size_gib: int) -> None:
        await self.images.resize(self.records.disk(volume.id), size_gib)

    async def take(self, volume: Volume, name: str) -> None:
        await self.images.take(self.records.disk(volume.id), name)

    async def drop(self, volume: Volume, name: str) -> None:
        await self.images.drop(self.records.disk(volume.id), name)
