"""Root disks of guests as images of a pool: clones, written only where they differ from the image they were made from.
Every host reaches them, so a guest that moves copies nothing, and finds its data after its host died.

All that is known about them is in Ceph. For one call per guest at a time.
"""

from __future__ import annotations

from pathlib import Path

from attrs import define, evolve, field
from twisted.logger import Logger

from cloudctl.drivers.errors import InvalidPower, Unfit, Unreachable, Unusable
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.programs import Programs, require
from cloudctl.drivers.qcow2.images import Images
from cloudctl.drivers.qcow2.records import written
from cloudctl.drivers.rbd.bases import COPY, LOOK_SECONDS, MAKING, START, Bases
from cloudctl.drivers.rbd.ceph import GIB, Ceph, Missing
from cloudctl.drivers.rbd.contents import Contents
from cloudctl.drivers.rbd.disk import RbdDisk, monitors
from cloudctl.drivers.rbd.options import Pool
from cloudctl.drivers.specs import DriverResources, ImageSource
from cloudctl.trouble import Trouble

log = Logger()

ROOT = "root-"
RESCUE = "rescue-"


def root_disks(pool: Pool, resources: DriverResources) -> RootDisks:
    programs = Programs(resources.reactor, resources.clock)
    directory = (resources.state_dir or Path()).absolute() / "rbd"
    contents = Contents(Ceph(pool, programs), Images(programs, pool.copy_timeout), directory, resources.reactor)
    return RootDisks(Bases(contents, Locks()))


@define(eq=False)
class RootDisks:
    bases: Bases
    _size: int = 0  # GiB of the pool
    _told: float | None = None  # when the pool's size was last queried
    _unsized: Trouble = field(init=False)

    def __attrs_post_init__(self) -> None:
        size = f"the size of pool {self.ceph.config.pool} is"
        self._unsized = Trouble(log, f"{size} unknown", f"{size} known again")

    @property
    def ceph(self) -> Ceph:
        return self.bases.ceph

    def check(self, *, namespaces: bool = True) -> None:
        """`namespaces`: whether the hypervisor can reach images in namespaces. Raises Unusable."""
        require("rbd", "ceph", "qemu-img", "prlimit")
        self.ceph.config.demand_key()
        if self.ceph.config.namespace and not namespaces:
            raise Unusable("this hypervisor reaches no namespace of a pool of Ceph, so its root disks can be in none")
        self.bases.contents.open()

    def disk(self, id: str) -> RbdDisk:
        """Where a guest's root disk is, whether it exists or not."""
        config = self.ceph.config
        where = monitors(config.monitors)
        return RbdDisk(config.pool, config.namespace, root(id), config.user, str(config.keyring), where)

    async def ensure(self, id: str, image: ImageSource, size_gib: int, *, may_grow: bool = True) -> RbdDisk:
        """The guest has a root disk from the image, at least this large (0: the image's size). An existing one is kept.

        `may_grow`: nobody has it open. Raises Unfit, NoCapacity, Busy, InvalidPower.
        """
        wished = size_gib * GIB
        found = await self.ceph.find(root(id))
        if found is None:
            await self._make(id, image, wished)
        elif wished > found.size_bytes:
            if not may_grow:
                raise InvalidPower(f"guest {id} is on; its root disk can only grow while it is off")
            await self.bases.demand_room()
            await self._resize(root(id), wished)
        return self.disk(id)

    async def _make(self, id: str, image: ImageSource, wished: int) -> None:
        def fits(size: int) -> None:
            if wished and size > wished:
                raise Unfit(f"image {image.id} needs a disk of {-(-size // GIB)} GiB, not {wished // GIB}")

        await self.bases.demand_room()
        making = MAKING + root(id)
        async with self.bases.base(image, fits) as base:
            await self.bases.clone(base.name, START, making)
        if wished > base.size_bytes:
            await self._resize(making, wished)
        # A disk under its final name is complete.
        await self.ceph.rbd("rename", self.ceph.path(making), self.ceph.path(root(id)))

    async def make_rescue(self, id: str, image: ImageSource | None) -> RbdDisk:
        """A fresh disk to rescue the guest, from the image (None: from the one its root disk was made from).

        Raises Unfit, NoCapacity, Busy.
        """
        await self.bases.demand_room()
        if image is not None:
            async with self.bases.base(image, lambda _size: None) as base:
                await self.bases.clone(base.name, START, rescue(id))
        else:
            found = await self.ceph.find(root(id))
            if found is None or found.parent is None or found.parent.in_trash:
                raise Unfit(f"the image of guest {id} is not there any more; a rescue image must be given")
            await self.bases.clone(found.parent.image, START, rescue(id))
        return evolve(self.disk(id), image=rescue(id))

    async def remove_rescue(self, id: str) -> None:
        """The guest has no rescue disk. Raises Busy while somebody has it open."""
        await self.bases.remove(rescue(id))

    async def remove(self, id: str, *, rescued: bool = False) -> None:
        """The guest has no root disk, nor half of one, nor (`rescued`) a rescue disk. Raises Busy while one is open."""
        names, was_there = [root(id), MAKING + root(id), *([rescue(id)] if rescued else [])], False
        for name in names:
            if await self.ceph.find(name) is not None:
                was_there = True
                for each in await self.ceph.snapshots(name):
                    # Left by a copy that was given up.
                    await self.ceph.drop(each.name, self.ceph.path(name))
                await self.bases.remove(name)
        if not was_there:
            await self.bases.tidy(*names)

    async def copy(self, id: str, target: Path) -> str:
        """`target` is the disk as it is now, while its guest goes on; returns its format. Raises Unfit."""
        name = root(id)
        # Named after what is made of it: a repeat replaces the one that a killed process left.
        moment = f"{COPY}{written(target.name)}"
        try:
            await self.ceph.freeze(name, moment)
        except Missing as error:
            raise Unfit(f"guest {id} has no root disk of its own; it boots from a volume") from error
        try:
            await self.bases.contents.get(name, moment, target, "qcow2")
        finally:
            await self.ceph.drop(moment, self.ceph.path(name))
        return "qcow2"

    async def size_gib(self) -> int:
        """The size of the pool, as far as guests can write to it; the last known one while Ceph does not answer."""
        now = self.bases.contents.reactor.seconds()
        if self._told is None or now - self._told > LOOK_SECONDS:
            try:
                room = await self.ceph.room()
                self._size = (room.used + room.free) // GIB
                self._unsized.is_over()
            except Unreachable as error:
                self._unsized.is_met(error)
            self._told = now
        return self._size

    async def _resize(self, name: str, size: int) -> None:
        await self.ceph.rbd_long("resize", f"--size={size}B", self.ceph.path(name))


def root(id: str) -> str:
    return ROOT + written(id)


def rescue(id: str) -> str:
    return RESCUE + written(id)
