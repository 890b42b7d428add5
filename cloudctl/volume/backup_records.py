"""Backup records, to be stored elsewhere and imported again: the data stays in the archive.

An imported backup may have a different id from the one in the archive; both refer to the same pieces.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import asdict, field, frozen
from sqlalchemy import insert

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, Invalid
from cloudctl.rest.caller import Caller
from cloudctl.volume import backups, kinds, quotas, states
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Backup

# The service that can read a backup. Clients recognize a record by this prefix; earlier releases used another name.
SERVICE, FORMER = "cinder.backup.drivers.cloudctl", "cloudctl.archive"
# The fields of a backup that its record contains, besides its times.
TOLD = (
    "id", "volume_id", "snapshot_id", "parent_id", "name", "description", "container", "availability_zone", "size",
    "object_count", "bootable", "image_metadata", "metadata", "volume_name", "volume_metadata",
)  # fmt: skip


def export(backup: Backup) -> dict[str, Any]:
    """Raises Conflict unless it is available."""
    if backup.status != states.AVAILABLE:
        raise Conflict(f"Invalid backup: Backup status must be available and not {backup.status}.")
    told = {name: getattr(backup, name) for name in TOLD}
    return {
        **told,
        "data_timestamp": backup.data_timestamp.isoformat(),
        "kept_as": backups.archive_id(backup),
        "kept_at": backup.kept_at,
        "kept_digest": backup.kept_digest,
    }


@frozen
class NewRecord:
    """A record that is being imported."""

    id: str
    kept_as: str
    volume_id: str
    size: int
    data_timestamp: datetime
    container: str
    availability_zone: str
    kept_at: str | None = None
    kept_digest: str | None = None
    snapshot_id: str | None = None
    parent_id: str | None = None
    name: str | None = None
    description: str | None = None
    object_count: int = 0
    bootable: bool = False
    image_metadata: dict[str, str] = field(factory=dict)
    metadata: dict[str, str] = field(factory=dict)
    volume_name: str | None = None
    volume_metadata: dict[str, str] = field(factory=dict)


def create(conn: Connection, caller: Caller, new: NewRecord, options: VolumeOptions) -> Backup:
    """`creating`, until a task has checked that the archive has it.

    Raises Conflict if there is a backup of this id, Invalid if it would build on itself, OverQuota.
    """
    _demand_end(conn, new)
    quotas.take_backup(conn, options, caller.project_id, new.size)
    made = insert(Backup).values(
        project_id=caller.project_id,
        user_id=caller.user_id,
        status=states.CREATING,
        created_at=caller.now,
        **asdict(new),
    )
    with unique(conn, Conflict(f"Invalid backup: Backup {new.id} is there already.")):
        backup = conn.execute(made.returning(Backup)).one()
    tasks.submit(conn, kinds.IMPORT_BACKUP, backup.id, caller)
    return backup


def _demand_end(conn: Connection, new: NewRecord) -> None:
    """Raises Invalid if what it builds on leads back to it: nobody could delete a backup of such a circle."""
    passed: set[str] = set()
    at = new.parent_id
    while at is not None and at not in passed:
        if at == new.id:
            raise Invalid(f"Invalid backup: Backup {new.id} cannot build on itself.")
        passed.add(at)
        found = backups.find(conn, at)
        at = None if found is None else found.parent_id
