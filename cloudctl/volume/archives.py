"""Where backups are kept: as objects, or in a directory, where all were once. A backup's record says which.

Files on their way in or out of a volume are in the directory in any case.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from attrs import frozen
from twisted.internet.defer import CancelledError

from cloudctl.tasks import Context
from cloudctl.tasks.workflow import Cancelled, Memo
from cloudctl.volume import backups
from cloudctl.volume.archive import Archive, Damaged, Stop, Stopped
from cloudctl.volume.archive_threads import ArchiveThreads
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
        """Nothing is left of the work of this name."""
        await self.directory.run(Archive.discard, name)

    async def store(self, ctx: Context, backup: Backup, source: Path) -> Memo:
        """Take in a file. How many objects, or files, that took, and what they are known by.

        Raises Damaged, Cancelled, Transient.
        """
        if backup.kept_at is None:
            parent = None if backup.parent_id is None else await ctx.read(backups.get, backup.parent_id)
            kept = None if parent is None else backups.archive_id(parent)
            return {"pieces": (await self.directory.work(ctx, Archive.store, backup.id, source, kept)).stored}
        return await self.store_at(ctx, backup.kept_at, backup, source)

    async def store_at(self, ctx: Context, kept_at: str, backup: Backup, source: Path) -> Memo:
        """The same, as objects of this place."""
        parent = None if backup.parent_id is None else await ctx.read(backups.get, backup.parent_id)
        below = None if parent is None or parent.kept_at is None else (parent.kept_at, parent.kept_digest)
        archive = self._objects()
        made = await stoppable(ctx, lambda stop: archive.store(kept_at, source, below, ctx.now, stop))
        return {"pieces": made.objects, "digest": made.digest}

    async def assemble(self, ctx: Context, backup: Backup, target: Path) -> None:
        """The file has the content that was backed up. Raises Damaged, Cancelled, Transient."""
        if backup.kept_at is None:
            await self.directory.work(ctx, Archive.assemble, backups.archive_id(backup), target)
            return
        kept_at, archive = backup.kept_at, self._objects()
        await self.prepare()
        await stoppable(ctx, lambda stop: archive.assemble(kept_at, backup.kept_digest, target, ctx.now, stop))

    async def look(self, ctx: Context, backup: Backup) -> int:
        """How many objects, or files, it has. Raises Damaged for one that is not there as it was."""
        if backup.kept_at is None:
            return (await self.directory.run(Archive.manifest, backups.archive_id(backup))).stored
        return (await self._objects().contents(backup.kept_at, backup.kept_digest, ctx.now)).objects

    async def remove(self, ctx: Context, backup: Backup) -> None:
        """Nothing is left of it, nor of files that it had before it was moved."""
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
    """It ends early if the task is asked to, or is interrupted. Raises Cancelled."""
    interrupted = False
    try:
        return await work(lambda: interrupted or ctx.cancelled)
    except CancelledError:
        interrupted = True
        raise
    except Stopped as error:
        raise Cancelled(str(error)) from None
