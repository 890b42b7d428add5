"""The records that belong to projects, and who sees them."""

from __future__ import annotations

from typing import TypeVar

from attrs import frozen

from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.rest.caller import Caller
from cloudctl.volume.tables import Attachment, Backup, Group, GroupSnapshot, Snapshot, Transfer, Volume

R = TypeVar("R", Attachment, Backup, Group, GroupSnapshot, Snapshot, Transfer, Volume)
ALL_PROJECTS = "volume:all_projects"


@frozen(eq=False)
class Owned(ById[R]):
    def visible(self, conn: Connection, caller: Caller, id: str, *, lock: bool = False) -> R:
        """As `get`, if the caller may see it. Raises NotFound for those of other projects, unless the caller sees
        all.
        """
        found = self.get(conn, id, lock=lock)
        if found.project_id != caller.project_id and not caller.may(ALL_PROJECTS):
            raise self.not_found(id)
        return found


ATTACHMENTS = Owned(Attachment, "Volume attachment could not be found with filter: attachment_id = {}.")
BACKUPS = Owned(Backup, "Backup {} could not be found.")
GROUPS = Owned(Group, "Group {} could not be found.")
GROUP_SNAPSHOTS = Owned(GroupSnapshot, "GroupSnapshot {} could not be found.")
SNAPSHOTS = Owned(Snapshot, "Snapshot {} could not be found.")
TRANSFERS = Owned(Transfer, "Transfer {} could not be found.")
VOLUMES = Owned(Volume, "Volume {} could not be found.")
