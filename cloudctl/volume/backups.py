"""Backups: the record, who sees it, and what may be done with it. Reference: volume.md, section 6.

A backup has all that is needed to recreate its volume, and outlives it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen
from sqlalchemy import delete, func, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, Invalid, Unavailable
from cloudctl.object_store import containers
from cloudctl.object_store.names import ACCOUNT, placed
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Listing
from cloudctl.volume import kinds, quotas, services, snapshots, states, volumes
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.owned import BACKUPS
from cloudctl.volume.tables import Backup, Snapshot, Volume

CONTAINER = "volumebackups"
NO_SERVICE = "Service cinder-backup could not be found."

LISTING = Listing(
    Backup.table,
    sort_keys={
        "id": Backup.id,
        "name": func.coalesce(Backup.name, ""),
        "display_name": func.coalesce(Backup.name, ""),
        "status": Backup.status,
        "size": Backup.size,
        "container": Backup.container,
        "volume_id": Backup.volume_id,
        "availability_zone": Backup.availability_zone,
        "data_timestamp": Backup.data_timestamp,
        "created_at": Backup.created_at,
        "updated_at": func.coalesce(Backup.updated_at, Backup.created_at),
    },
)


@frozen
class NewBackup:
    """What the caller asked for. `force`: even if the volume is in use. `snapshot_id`: back up this, not the volume."""

    volume_id: str
    name: str | None = None
    description: str | None = None
    container: str | None = None
    incremental: bool = False
    force: bool = False
    snapshot_id: str | None = None
    metadata: Mapping[str, str] = field(factory=dict)
    availability_zone: str | None = None


# -- queries


find, get, visible, not_found = BACKUPS.find, BACKUPS.get, BACKUPS.visible, BACKUPS.not_found


def having_dependents(conn: Connection, backup_ids: Sequence[str]) -> frozenset[str]:
    """The backups among these that others build on."""
    parents = select(Backup.parent_id).where(Backup.parent_id.in_(backup_ids)).distinct()
    return frozenset(parent for (parent,) in conn.execute(parents) if parent is not None)


def archive_id(backup: Backup) -> str:
    """The id under which the archive has it."""
    return backup.kept_as or backup.id


def ensure_container(conn: Connection, project_id: str, name: str, now: datetime) -> None:
    """Make the container in the project's account unless it exists. Raises Invalid."""
    place = placed(f"{ACCOUNT}{project_id}", name)
    if not name or "/" in name:
        raise Invalid(f"Invalid input received: {name!r} is not a container name.")
    if containers.find(conn, place) is None:
        containers.put(conn, place, {}, now)


def place(backup: Backup, now: datetime) -> str:
    """The `kept_at` of a backup that is stored as objects now."""
    name = f"volume_{backup.volume_id}/{now:%Y%m%d%H%M%S}/az_{backup.availability_zone}_backup_{backup.id}"
    return f"{backup.project_id}/{backup.container}/{name}"


def is_alone(conn: Connection, backup_id: str) -> bool:
    """Whether no other backup that stays shares its data in the archive."""
    mine = find(conn, backup_id)
    if mine is None:
        return True
    kept = archive_id(mine)
    same = (Backup.id == kept) | (Backup.kept_as == kept) if mine.kept_at is None else Backup.kept_at == mine.kept_at
    others = select(Backup.id).where(same, Backup.id != backup_id, Backup.status != states.DELETING)
    return conn.execute(others.limit(1)).first() is None


# -- actions


def create(conn: Connection, caller: Caller, new: NewBackup, options: VolumeOptions) -> Backup:
    """The backup, `creating`, and a task that makes it.

    Raises NotFound, Invalid, Conflict, OverQuota; Unavailable while backups are switched off.
    """
    volume = volumes.visible(conn, caller, new.volume_id, lock=True)
    if not services.takes_backups(conn, options):
        raise Unavailable(NO_SERVICE)
    zone = new.availability_zone or volume.availability_zone
    if zone not in options.availability_zones:
        raise Invalid(f"Availability zone '{zone}' is invalid.")
    taken_at, size, frozen_copy = caller.now, volume.size, False
    if new.snapshot_id is not None:
        snapshot = _take_snapshot(conn, caller, new.snapshot_id, volume.id)
        taken_at, size = snapshot.created_at, snapshot.size
    else:
        frozen_copy = _take_volume(conn, caller, volume.id, new.force)
    # A backup of another project's volume belongs to the caller's project; a caller with system scope has none.
    owner = caller.project_id or volume.project_id
    # After the volume is locked, the order in which others take both; and for the size that is recorded.
    quotas.take_backup(conn, options, owner, size)
    before = taken_at if new.snapshot_id else None
    parent = _parent(conn, volume, owner, before) if new.incremental else None
    # An incremental backup is kept where its parent is.
    as_objects = options.backup_store == "objects" if parent is None else get(conn, parent).kept_at is not None
    made = Backup(
        id=new_id(),
        project_id=owner,
        user_id=caller.user_id,
        volume_id=volume.id,
        snapshot_id=new.snapshot_id,
        parent_id=parent,
        name=new.name,
        description=new.description,
        container=new.container or CONTAINER,
        availability_zone=zone,
        status=states.CREATING,
        size=size,
        volume_name=volume.name,
        volume_metadata=volume.metadata,
        bootable=volume.bootable,
        image_metadata=volume.image_metadata,
        metadata=dict(new.metadata),
        data_timestamp=taken_at,
        created_at=caller.now,
    )
    if as_objects:
        made = made._replace(kept_at=place(made, caller.now))
        ensure_container(conn, owner, made.container, caller.now)
    conn.execute(insert(Backup), made._asdict())
    tasks.submit(conn, kinds.CREATE_BACKUP, made.id, caller, args={"in_use": frozen_copy})
    return made


def _take_snapshot(conn: Connection, caller: Caller, snapshot_id: str, volume_id: str) -> Snapshot:
    snapshot = snapshots.visible(conn, caller, snapshot_id)
    if snapshot.volume_id != volume_id:
        raise Invalid(f"Invalid snapshot: Snapshot {snapshot.id} does not belong to volume {volume_id}.")
    states.SNAPSHOT.move(conn, snapshot.id, "back up", caller.now)
    return snapshot


def _take_volume(conn: Connection, caller: Caller, volume_id: str, force: bool) -> bool:
    """Set `backing-up`. Returns whether the volume was in use and has to be frozen first."""
    in_use: bool = volumes.get(conn, volume_id, lock=True).status == states.IN_USE
    if in_use and not force:
        raise Conflict("Invalid volume: Backing up an in-use volume must use the force flag.")
    states.move(conn, volume_id, "back up in use" if force else "back up", caller.now, states.not_migrating)
    return in_use


def _parent(conn: Connection, volume: Volume, owner: str, before: datetime | None) -> str:
    """The project's newest backup that an incremental one can build on; older than `before`, if given.

    Raises Conflict.
    """
    query = select(Backup.id).where(
        Backup.volume_id == volume.id, Backup.project_id == owner, Backup.status == states.AVAILABLE
    )
    if before is not None:
        query = query.where(Backup.data_timestamp < before)
    newest = query.order_by(Backup.data_timestamp.desc(), Backup.created_at.desc()).limit(1).with_for_update()
    found = conn.scalar(newest)
    if found is None:
        raise Conflict("Invalid backup: No backups available to do an incremental backup.")
    return found


def begin_restore(conn: Connection, caller: Caller, backup_id: str) -> Backup:
    """Set `restoring`, so that nobody deletes it or restores it a second time. Raises NotFound, Conflict."""
    visible(conn, caller, backup_id, lock=True)
    states.BACKUP.move(conn, backup_id, "restore", caller.now)
    return get(conn, backup_id)


def end_restore(conn: Connection, backup_id: str, now: datetime) -> None:
    """`available`, unless an administrator has set another status meanwhile."""
    states.BACKUP.try_move(conn, backup_id, "restored", now)


def remove(conn: Connection, caller: Caller, backup_id: str, force: bool) -> None:
    """Set `deleting`; any work under way on it stops first. `force`: from any status.

    Raises NotFound; Conflict if its status forbids it or others build on it.
    """
    visible(conn, caller, backup_id, lock=True)
    if having_dependents(conn, [backup_id]):
        raise Conflict("Invalid backup: Incremental backups exist for this backup.")
    states.BACKUP.move(conn, backup_id, "force delete" if force else "delete", caller.now)
    tasks.supersede(conn, kinds.DELETE_BACKUP, backup_id, caller)


def forget(conn: Connection, backup_id: str) -> None:
    """Delete the record. An unknown id is not an error."""
    conn.execute(delete(Backup).where(Backup.id == backup_id))


def change(conn: Connection, backup: Backup, changes: Mapping[str, Any], now: datetime) -> Backup:
    """Raises NotFound."""
    conn.execute(update(Backup).where(Backup.id == backup.id).values(updated_at=now, **changes))
    return get(conn, backup.id)
