"""What disks are cloned from: users' images, each imported into the pool once and kept while anything depends on it.

Any number of processes may use one pool. A base that another process removes while it is cloned stays in Ceph's trash.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress

from attrs import define, field

from cloudctl.drivers.errors import Busy, NoCapacity
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.qcow2.records import written
from cloudctl.drivers.rbd.ceph import Ceph, Image, Missing, Parent, Present
from cloudctl.drivers.rbd.contents import Contents, anew
from cloudctl.drivers.specs import ImageSource

BASE, MAKING = "image-", "making-"
COPY = "copy-"  # and the name of a file: a snapshot of which that file is being made
START = "base"  # the snapshot of a base that disks are cloned from
CLONES = "--rbd-default-clone-format=2"  # whose parents may go
LOOK_SECONDS = 30.0  # for which a pool that had room is assumed to have some
SWEEP_SECONDS = 600.0  # between two searches for bases that have no clones any more


@define(eq=False)
class Bases:
    contents: Contents
    locks: Locks = field(factory=Locks)
    looked: float | None = None  # when the pool was last seen to have room
    swept: float | None = None  # when the pool was last cleared of unneeded bases
    known: dict[str, Image] = field(factory=dict)  # bases that existed when they were last looked for

    @property
    def ceph(self) -> Ceph:
        return self.contents.ceph

    async def demand_room(self) -> None:
        """To be called before anything else: opening an image of a full pool hangs until there is room again.

        Raises NoCapacity.
        """
        now = self.contents.reactor.seconds()
        if self.looked is None or now - self.looked > LOOK_SECONDS:
            if (await self.ceph.room()).free < 1:
                raise NoCapacity(f"pool {self.ceph.config.pool} is full")
            self.looked = now

    @asynccontextmanager
    async def base(self, image: ImageSource, fits: Callable[[int], None]) -> AsyncIterator[Image]:
        """The base of the image, not removed meanwhile. `fits` gets its size in bytes and raises Unfit. Raises Busy."""
        name = BASE + written(image.id)
        async with self.locks.hold("base", name):
            found = self.known.get(name) or await self.ceph.find(name)
            if found is None:
                fits(await self.contents.size_bytes(image))
                found = await self._brought(image, name)
            self.known[name] = found
            fits(found.size_bytes)
            yield found

    async def _brought(self, image: ImageSource, name: str) -> Image:
        making = f"{MAKING}{name}"
        await self.contents.put(image, making, START)
        await self.ceph.rbd("snap", "create", "--no-progress", self.ceph.path(making, START))
        try:
            await self.ceph.rbd("rename", self.ceph.path(making), self.ceph.path(name))
        except Present as error:
            raise Busy(f"image {image.id} is being brought by another process") from error
        found = await self.ceph.find(name)
        if found is None:
            raise Busy(f"image {image.id} has just been let go of")
        return found

    async def clone(self, image: str, snapshot: str, name: str) -> None:
        """A new image reads from there what was not written to itself; a left-over one is recreated. Raises Busy."""
        words = ("clone", CLONES, self.ceph.path(image, snapshot), self.ceph.path(name))
        try:
            await anew(self.ceph, name, lambda: self.ceph.rbd(*words))
        except Missing as error:
            # Another process removed it.
            self.known.pop(image, None)
            raise Busy(f"{image} has just been let go of") from error

    async def remove(self, name: str) -> None:
        """No image has this name; what was kept for it alone is gone, too. Raises Busy while somebody has it open."""
        found = await self.ceph.find(name)
        if found is not None:
            await self.ceph.trash(name)
            await self.let_go(found.parent)

    async def tidy(self, *names: str) -> None:
        """Nothing is left of these images, which are gone, nor of what was kept for them alone.

        For a removal that finds no image: an earlier one that was killed may have left it in the trash. Raises Busy
        while somebody has one open.
        """
        trashed = await self.ceph.trashed()
        for name, id in trashed:
            if name in names:
                image = await self.ceph.find_by_id(id)
                if image is not None and await self.ceph.empty(id):
                    await self.let_go(image.parent)
        # Perhaps only the base is left, and nothing tells which one. Checking every base takes time.
        now = self.contents.reactor.seconds()
        if self.swept is None or now - self.swept > SWEEP_SECONDS:
            await self._sweep([id for name, id in trashed if name.startswith(BASE)])
            self.swept = now

    async def _sweep(self, trashed: Iterable[str]) -> None:
        """Remove bases without clones, and these images in the trash, given by id."""
        for id in trashed:
            with suppress(Busy):  # another process is removing it
                await self.ceph.empty(id, START)
        for name in await self.ceph.names():
            if name.startswith(BASE):
                await self._freed(name)

    async def let_go(self, parent: Parent | None) -> None:
        """A clone has gone: remove what was kept for it alone."""
        while parent is not None:
            found = await self.ceph.find_by_id(parent.id)
            if found is None:
                return
            if not parent.in_trash:
                if not parent.image.startswith(BASE) or not await self._freed(parent.image):
                    return
            elif not await self.ceph.empty(parent.id):
                return
            parent = found.parent

    async def _freed(self, name: str) -> bool:
        """Remove the base if it has no clones any more; whether it has gone."""
        async with self.locks.hold("base", name):
            if await self.ceph.has_children(name):
                return False
            # A clone that another process is making now keeps it in the trash.
            self.known.pop(name, None)
            await self.ceph.trash(name, START)
            return True
