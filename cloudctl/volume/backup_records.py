"""Records of backups, to be kept elsewhere and brought back: what is in the archive stays there.

An imported backup may have another id than the one under which the archive has it; both are the same pieces.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import asdict, field, frozen
from sqlalchemy import insert

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.rest.caller import Caller
from cloudctl.volume import backups, kinds, quotas, states
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Backup

# What can read a backup. Clients know a record by how this begins; releases before had another name for the same.
SERVICE, FORMER = "cinder.backup.drivers.cloudctl", "cloudctl.archive"
# What a record tells of a backup, beside its times.
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
    """A record as it comes back."""

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
    """`creating`, until a task has seen that the archive has it.

    Raises Conflict if there is a backup of this id, OverQuota.
    """
    if backups.find(conn, new.id) is not None:
        raise Conflict(f"Invalid backup: Backup {new.id} is there already.")
    quotas.take_backup(conn, options, caller.project_id, new.size)
    made = insert(Backup).values(
        project_id=caller.project_id,
        user_id=caller.user_id,
        status=states.CREATING,
        created_at=caller.now,
        **asdict(new),
    )
    backup = conn.execute(made.returning(Backup)).one()
    tasks.submit(conn, kinds.IMPORT_BACKUP, backup.id, caller)
    return backup
