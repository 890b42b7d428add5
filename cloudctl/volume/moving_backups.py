"""Moving backups from the directory into the object store, where new ones are kept."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.volume import backups, kinds, states
from cloudctl.volume.tables import Backup


def move_all(conn: Connection, now: datetime) -> int:
    """Submit tasks for all backups in the directory, and make the containers they need. Returns how many.

    An imported one that shares its files with another stays where it is.
    """
    own = Backup.kept_as.is_(None) | (Backup.kept_as == Backup.id)
    inside = select(Backup).where(Backup.kept_at.is_(None), own)
    found = conn.execute(inside.where(Backup.status == states.AVAILABLE).order_by(Backup.created_at, Backup.id)).all()
    shared = set(conn.scalars(select(Backup.kept_as).where(~own)))
    count = 0
    for backup in found:
        if backup.id in shared or tasks.has_open(conn, kinds.BACKUP, backup.id):
            continue
        kept_at = backups.place(backup, now)
        backups.ensure_container(conn, backup.project_id, backup.container, now)
        tasks.submit(conn, kinds.MOVE_BACKUP, backup.id, tasks.Unasked(backup.project_id), args={"kept_at": kept_at})
        count += 1
    return count


def is_on_its_way(conn: Connection, backup_id: str) -> bool:
    """Whether this backup has yet to arrive in the object store, and is to."""
    backup = backups.find(conn, backup_id)
    if backup is None or backup.kept_at is not None:
        return False
    return tasks.has_open(conn, kinds.BACKUP, backup_id, (kinds.MOVE_BACKUP,))


def is_read(conn: Connection, backup_id: str) -> bool:
    """Whether work that began before the move may still be reading files of the backup's chain."""
    volume_id = backups.get(conn, backup_id).volume_id
    reading = Backup.status.in_((states.RESTORING, states.CREATING))
    return conn.scalar(select(Backup.id).where(Backup.volume_id == volume_id, reading).limit(1)) is not None


def left_over(conn: Connection, backup_id: str) -> list[str]:
    """Of this backup and those it builds on, the ones whose files nobody needs any more."""
    found: list[str] = []
    at: str | None = backup_id
    while at is not None:
        backup = backups.find(conn, at)
        if backup is None:
            break  # its record was not imported; its files may be another cloud's
        builds = select(Backup.id).where((Backup.parent_id == at) | (Backup.kept_as == at), Backup.kept_at.is_(None))
        if backup.kept_at is None or conn.scalar(builds.limit(1)) is not None:
            break
        found.append(at)
        at = backup.parent_id
    return found
