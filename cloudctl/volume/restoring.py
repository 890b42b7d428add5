"""Restoring a backup: into a new volume, or over an existing one. Reference: volume.md, section 6."""

from __future__ import annotations

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.rest.caller import Caller
from cloudctl.volume import backups, creation, kinds, states, volumes
from cloudctl.volume.creation import NewVolume
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Volume


def provisional_name(backup_id: str) -> str:
    """The name of a volume for which none was chosen: it gets the original's once it is restored."""
    return f"restore_backup_{backup_id}"


def restore(
    conn: Connection, caller: Caller, backup_id: str, volume_id: str | None, name: str | None, options: VolumeOptions
) -> Volume:
    """The volume, `restoring-backup`. `volume_id` None: a new one. Raises NotFound, Conflict, OverQuota."""
    if volume_id is None:
        wanted = NewVolume(name=name or provisional_name(backup_id), backup_id=backup_id)
        made = creation.create(conn, caller, wanted, options)
        states.move(conn, made.id, "restore new", caller.now)
        return volumes.get(conn, made.id)
    volume = volumes.visible(conn, caller, volume_id, lock=True)
    backup = backups.begin_restore(conn, caller, backup_id)
    if volume.size < backup.size:
        raise Conflict(
            f"Invalid volume: volume size {volume.size} is too small to restore backup of size {backup.size}."
        )
    if volumes.is_held(conn, volume.id):
        raise states.refused(conn, volume.id, "restore")
    states.move(conn, volume.id, "restore", caller.now, states.not_migrating)
    args = {"backup_id": backup.id, "new": False}
    tasks.submit(conn, kinds.RESTORE_VOLUME, volume.id, caller, args=args)
    return volumes.get(conn, volume.id)
