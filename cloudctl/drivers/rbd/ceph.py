"""Ceph's own programs, run on the images of one pool.

librados starts threads and waits in them for monitors that may never answer; a program can be killed. Each program gets
its key as the path of a file, and only our settings. Sources: the manual pages rbd(8), rados(8), ceph(8).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from typing import Any, Protocol

import orjson
from attrs import frozen

from cloudctl.drivers.errors import Busy, DriverError, NoCapacity, Unreachable
from cloudctl.drivers.programs import ProgramFailed, Programs
from cloudctl.drivers.rbd.options import Cluster, Pool

GIB = 1 << 30
# Our object beside the images; the keys of its omap are notes, which any number of processes write.
NOTES = "cloudctl"
NOWHERE = re.compile(r"error opening pool|namespace '.*' does not exist")


class Missing(DriverError):
    """No such image or snapshot."""


class Present(DriverError):
    """There already is one of this name."""


class Needed(DriverError):
    """Snapshots or clones depend on it."""


ERRORS: Mapping[int, type[DriverError]] = {
    errno.ENOENT: Missing,
    errno.EEXIST: Present,
    errno.ENOTEMPTY: Needed,
    errno.EBUSY: Busy,
    errno.ENOSPC: NoCapacity,
    errno.EDQUOT: NoCapacity,
    errno.ETIMEDOUT: Unreachable,
    errno.ENOTCONN: Unreachable,
    errno.ESHUTDOWN: Unreachable,
}
"""What `rbd` exits with."""


@frozen
class Parent:
    """What a clone reads where it has not been written itself. `id` also finds it in the trash."""

    image: str
    id: str
    in_trash: bool


@frozen
class Image:
    name: str
    size_bytes: int
    parent: Parent | None = None


@frozen
class Snapshot:
    """`name`: of the snapshot in `image`."""

    image: str
    name: str
    size_bytes: int


@frozen
class Room:
    """The room in the pool, in bytes that guests can write, not counting replicas."""

    used: int
    free: int


class Runs(Protocol):
    """What is needed of Programs."""

    async def change(self, name: str, /, *arguments: str, timeout: float) -> bytes: ...


@frozen
class Ceph:
    config: Pool
    programs: Programs

    # -- reading

    async def listed(self) -> tuple[list[Image], list[Snapshot]]:
        """Every image, without parents, and every snapshot."""
        images, snapshots = [], []
        for each in await self._rbd_json("ls", "--long", self._pool()):
            if "snapshot" in each:
                snapshots.append(Snapshot(each["image"], each["snapshot"], each["size"]))
            else:
                images.append(Image(each["image"], each["size"]))
        return images, snapshots

    async def names(self) -> list[str]:
        """The names of all images."""
        found: list[str] = await self._rbd_json("ls", self._pool())
        return found

    async def trashed(self) -> list[tuple[str, str]]:
        """Name and id of each image in the trash."""
        return [(each["name"], each["id"]) for each in await self._rbd_json("trash", "ls", self._pool())]

    async def find(self, image: str) -> Image | None:
        try:
            return await self._image("--image", image)
        except Missing:
            return None

    async def find_by_id(self, id: str) -> Image | None:
        """Also in the trash."""
        try:
            return await self._image("--image-id", id)
        except Missing:
            return None

    async def _image(self, *which: str) -> Image:
        found = await self._rbd_json("info", *self._place(), *which)
        above = found.get("parent")
        parent = None if above is None else Parent(above["image"], above["id"], above["trash"])
        return Image(found["name"], found["size"], parent)

    async def snapshots(self, image: str) -> list[Snapshot]:
        """Raises Missing."""
        found = await self._rbd_json("snap", "ls", self.path(image))
        return [Snapshot(image, each["name"], each["size"]) for each in found]

    async def has_children(self, image: str) -> bool:
        return bool(await self._rbd_json("children", "--all", self.path(image)))

    async def room(self) -> Room:
        """As limited by the pool's quota and by the fullest of its disks. Raises DriverError if there is no pool."""
        told = await self._run("ceph", "df", "detail", "--format=json")
        for each in orjson.loads(told)["pools"]:
            if each["name"] == self.config.pool:
                found = each["stats"]
                used, free = int(found["stored"]), int(found["max_avail"])
                quota = int(found.get("quota_bytes", 0))
                return Room(used, max(0, min(free, quota - used)) if quota else free)
        await self.listed()  # raises if there is no such pool
        raise Unreachable(f"the cluster does not tell yet how full pool {self.config.pool} is")

    # -- changing

    async def rbd(self, *words: str, timeout: float | None = None) -> None:
        """Raises as in `ERRORS`."""
        await self._run("rbd", *words, timeout=timeout)

    async def rbd_long(self, *words: str) -> None:
        """As `rbd`, for commands that copy or delete data."""
        await self._run("rbd", *words, "--no-progress", timeout=self.config.copy_timeout)

    async def trash(self, image: str, *snapshots: str) -> None:
        """No image has this name; its data go when nothing depends on it. Raises Busy while somebody has it open.

        `snapshots`: those it may have.
        """
        found = await self._rbd_json("info", self.path(image))
        await self.rbd("trash", "mv", self.path(image))
        await self.empty(found["id"], *snapshots)

    async def drop(self, snapshot: str, *image: str) -> None:
        """No snapshot has this name; its data go when nothing depends on it."""
        try:
            await self.rbd_long("snap", "rm", *image, f"--snap={snapshot}")
        except Missing:
            return

    async def freeze(self, image: str, snapshot: str) -> None:
        """Take a snapshot now, replacing a left-over one of that name. Raises Missing."""
        words = ("snap", "create", "--no-progress", self.path(image, snapshot))
        try:
            await self.rbd(*words)
        except Present:
            await self.drop(snapshot, self.path(image))
            await self.rbd(*words)

    async def empty(self, id: str, *snapshots: str) -> bool:
        """Remove this image from the trash; whether nothing of it is left. It stays while clones depend on it.

        `snapshots`: those it may have. Raises Busy while somebody has it open or is removing it: the removal may have
        been started by a process that was killed.
        """
        for name in snapshots:
            await self.drop(name, *self._place(), f"--image-id={id}")
        try:
            await self.rbd_long("trash", "rm", self.path(id))
        except Missing:
            return True
        except Needed:
            return False
        return True

    def path(self, image: str, snapshot: str | None = None) -> str:
        path = f"{self._pool()}/{image}"
        return path if snapshot is None else f"{path}@{snapshot}"

    def _pool(self) -> str:
        return "/".join(filter(None, (self.config.pool, self.config.namespace)))

    def _place(self) -> list[str]:
        named = [f"--namespace={self.config.namespace}"] if self.config.namespace else []
        return [f"--pool={self.config.pool}", *named]

    # -- notes: words without spaces

    async def notes(self) -> list[tuple[str, ...]]:
        try:
            told = await self._rados("listomapkeys", NOTES)
        except Missing:
            return []
        return [tuple(line.split(" ")) for line in told.decode().splitlines()]

    async def note(self, *words: str) -> None:
        await self._rados("setomapval", NOTES, " ".join(words), "")

    async def forget(self, *words: str) -> None:
        try:
            await self._rados("rmomapkey", NOTES, " ".join(words))
        except Missing:
            return

    async def _rados(self, *words: str) -> bytes:
        try:
            return await self._run("rados", *self._place(), *words)
        except ProgramFailed as error:
            if "(2) No such file" in error.complaint:
                raise Missing(error.complaint) from error
            raise

    # -- running

    async def _rbd_json(self, *words: str) -> Any:
        return orjson.loads(await self._run("rbd", *words, "--format=json"))

    async def _run(self, program: str, *words: str, timeout: float | None = None) -> bytes:
        try:
            return await run(self.programs, self.config, program, *words, timeout=timeout)
        except ProgramFailed as error:
            if NOWHERE.search(error.complaint):
                raise DriverError(f"the cluster has no pool or namespace {self._pool()}") from error
            if program == "rbd" and (why := ERRORS.get(error.code or 0)) is not None:
                raise why(error.complaint) from error
            raise


async def run(programs: Runs, cluster: Cluster, program: str, *words: str, timeout: float | None = None) -> bytes:
    """The output of one of Ceph's programs. Raises ProgramFailed, ProgramTimedOut."""
    limit = cluster.answer_timeout
    # With a key that the cluster does not know it would retry for minutes.
    who = ("--id", cluster.user, "--keyring", str(cluster.keyring), f"--client-mount-timeout={int(limit) + 1}")
    where = ("--conf", "/dev/null", "-m", ",".join(cluster.monitors))
    return await programs.change(program, *where, *who, *words, timeout=timeout or limit)
