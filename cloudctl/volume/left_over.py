"""What is left of work that has ended elsewhere: the content of volumes, in this process's directory.

A task removes the files through which it moves data. If its process dies, another one goes on with the task, which may
have a directory of its own: nobody else would ever remove these, each as large as a volume.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from sqlalchemy import select
from twisted.logger import Logger

from cloudctl.db import Connection, Database
from cloudctl.tasks.rounds import Rounds
from cloudctl.tasks.tables import TaskRow
from cloudctl.volume.archive import Archive
from cloudctl.volume.archive_threads import ArchiveThreads

log = Logger()

PERIOD = 3600.0
BATCH = 500
# Names begin with the id of the volume or the backup whose task it is.
OWNER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class LeftOver(Rounds):
    """Removes the files of volumes and backups on which no task works any more."""

    def __init__(self, db: Database, directory: ArchiveThreads) -> None:
        super().__init__(db.clock, PERIOD, "what was left of work on volumes could not be removed")
        self.db = db
        self.directory = directory

    async def look(self) -> None:
        """One round. Raises the database's errors, Transient for the file system's."""
        found = await self.directory.run(Archive.at_work)
        owners = {name: owner.group() for name in found if (owner := OWNER.match(name))}
        names = sorted(owners)
        for start in range(0, len(names), BATCH):
            some = names[start : start + BATCH]
            open_ones = await self.db.read(_open, {owners[name] for name in some})
            left = {name: found[name] for name in some if owners[name] not in open_ones}
            removed = await self.directory.run(Archive.remove_unchanged, left)
            if removed:
                log.info("removed {count} files of work on volumes that has ended", count=removed)


def _open(conn: Connection, ids: Collection[str]) -> set[str]:
    """Those of them that have a task that has not ended: one that is held may go on, too."""
    query = select(TaskRow.resource_id).where(TaskRow.resource_id.in_(ids), TaskRow.ended_at.is_(None))
    return set(conn.scalars(query))
