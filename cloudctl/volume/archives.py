"""Where backups are kept: as objects, or in a directory, as all once were. A backup's record says which.

Files on their way in or out of a volume are in the directory in any case.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import orjson
from attrs import asdict, frozen
from twisted.internet.defer import CancelledError

from cloudctl.tasks import Context
from cloudctl.tasks.workflow import Cancelled, Memo
from cloudctl.volume import backups
from cloudctl.volume.archive import Archive, Damaged, Stop, Stopped
from cloudctl.volume.archive_threads import ArchiveThreads
from cloudctl.volume.changes import Changes, Extent
from cloudctl.volume.object_archive import ObjectArchive
from cloudctl.volume.tables import Backup

T = TypeVar("T")


@frozen
class Archives:
    """`objects`: None in a cloud that has no object store."""

    directory: ArchiveThreads
    objects: ObjectArchive | None = None

    def work(self, name: str) -> Path:
        """Where a driver, or `assemble`, puts the content of a volume."""
        return self.directory.archive.work(name)

    async def prepare(self) -> None:
        await self.directory.run(Archive.prepare)

    async def discard(self, name: str) -> None:
        """Remove the work of this name."""
        await self.directory.run(Archive.discard, name)

    # -- what came out of a volume

    def whole(self, backup: Backup) -> Path:
        """The file for the whole content of the volume."""
        return self.work(backup.id)

    def changed(self, backup: Backup) -> Path:
        """The file for changes only. Not the same as `whole`, so that neither is ever taken for the other."""
        return self.work(f"{backup.id}.changed")

    async def note(self, backup: Backup, extents: Sequence[Extent]) -> None:
        """Record that the file, which exists and is as large as the volume, holds all changes."""
        await self.directory.run(_note, self.changed(backup), self._extents(backup), extents)

    async def exported(self, backup: Backup) -> tuple[Path, Changes | None] | None:
        """The file, and the changes it holds (None: the whole volume); None if this machine has no such file."""
        if self.whole(backup).exists():
            return self.whole(backup), None
        if not self.changed(backup).exists() or not self._extents(backup).exists():
            return None
        return self.changed(backup), await self.directory.run(_noted, self._extents(backup))

    def _extents(self, backup: Backup) -> Path:
        return self.work(f"{backup.id}.extents")

    # -- in and out

    async def store(self, ctx: Context, backup: Backup, source: Path, changes: Changes | None = None) -> Memo:
        """Store a file. Returns how many objects or files that took, and the digest that identifies objects.

        `changes`: what has changed since the parent backup, if the file holds only that. Raises Damaged, Cancelled,
        Transient.
        """
        if backup.kept_at is None:
            parent = None if backup.parent_id is None else await ctx.read(backups.get, backup.parent_id)
            kept = None if parent is None else backups.archive_id(parent)
            stored = partial(Archive.store, changes=changes)
            return {"pieces": (await self.directory.work(ctx, stored, backup.id, source, kept)).stored}
        return await self.store_at(ctx, backup.kept_at, backup, source, changes)

    async def store_at(
        self, ctx: Context, kept_at: str, backup: Backup, source: Path, changes: Changes | None = None
    ) -> Memo:
        """The same, as objects at this place. A parent without a record does not help to store the whole volume."""
        find = backups.find if changes is None else backups.get
        parent = None if backup.parent_id is None else await ctx.read(find, backup.parent_id)
        below = None if parent is None or parent.kept_at is None else (parent.kept_at, parent.kept_digest)
        archive = self._objects()
        made = await stoppable(ctx, lambda stop: archive.store(kept_at, source, below, changes, ctx.now, stop))
        return {"pieces": made.objects, "digest": made.digest}

    async def assemble(self, ctx: Context, backup: Backup, target: Path) -> None:
        """Write the backed-up content to the file. Raises Damaged, Cancelled, Transient."""
        if backup.kept_at is None:
            await self.directory.work(ctx, Archive.assemble, backups.archive_id(backup), target)
            return
        kept_at, archive = backup.kept_at, self._objects()
        await self.prepare()
        await stoppable(ctx, lambda stop: archive.assemble(kept_at, backup.kept_digest, target, ctx.now, stop))

    async def look(self, ctx: Context, backup: Backup) -> int:
        """How many objects or files it has. Raises Damaged if it is missing or has changed."""
        if backup.kept_at is None:
            return (await self.directory.run(Archive.manifest, backups.archive_id(backup))).stored
        return (await self._objects().contents(backup.kept_at, backup.kept_digest, ctx.now)).objects

    async def remove(self, ctx: Context, backup: Backup) -> None:
        """Remove all of it, including files it had before it was moved."""
        if backup.kept_at is not None:
            await self.remove_at(ctx, backup.kept_at)
        await self.remove_files(backups.archive_id(backup))

    async def remove_at(self, ctx: Context, kept_at: str) -> None:
        await self._objects().remove(kept_at, ctx.now)

    async def remove_files(self, archive_id: str) -> None:
        await self.directory.run(Archive.remove, archive_id)

    def _objects(self) -> ObjectArchive:
        if self.objects is None:
            raise Damaged("The backup is in an object store, which this cloud does not have.")
        return self.objects


async def stoppable(ctx: Context, work: Callable[[Stop], Awaitable[T]]) -> T:
    """Run work that ends early if the task is cancelled or interrupted. Raises Cancelled."""
    interrupted = False
    try:
        return await work(lambda: interrupted or ctx.cancelled)
    except CancelledError:
        interrupted = True
        raise
    except Stopped as error:
        raise Cancelled(str(error)) from None


# -- in threads


def _note(_archive: Archive, source: Path, target: Path, extents: Sequence[Extent]) -> None:
    """The target appears whole or not at all."""
    beside = target.with_name(f"{target.name}.new")
    beside.write_bytes(orjson.dumps(asdict(Changes(source.stat().st_size, tuple(extents)))))
    beside.replace(target)


def _noted(_archive: Archive, source: Path) -> Changes:
    told = orjson.loads(source.read_bytes())
    return Changes(told["length"], tuple((offset, length) for offset, length in told["extents"]))
