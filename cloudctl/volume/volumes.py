"""Volumes: the record, who sees it, and what the backend is to make of it. Reference: volume.md, section 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, bindparam, delete, exists, or_, select, update

from cloudctl.db import Connection
from cloudctl.drivers.specs import ImageSource, VolumeSpec
from cloudctl.errors import Conflict, NotFound, TooLarge
from cloudctl.rest.caller import Caller
from cloudctl.tasks.tables import TaskRow
from cloudctl.volume import states
from cloudctl.volume.kinds import VOLUME
from cloudctl.volume.owned import VOLUMES
from cloudctl.volume.tables import Attachment, Snapshot, Transfer, Volume, VolumeType

# Built once: building a statement costs more than running it.
_host = select(Volume.host).where(Volume.id == bindparam("wanted"))
_spec = select(Volume, VolumeType.extra_specs).join(VolumeType).where(Volume.id == bindparam("wanted"))

# Attachments that hold nothing: the remains of failed ones.
BROKEN = ("error_attaching", "error_detaching")
_holding = (
    select(Attachment.id).where(Attachment.volume_id == bindparam("volume"), Attachment.status.not_in(BROKEN)).limit(1)
)
_snapshots = select(Snapshot.id).where(Snapshot.volume_id == bindparam("volume")).limit(1)
_forget = (
    delete(Transfer).where(Transfer.volume_id == bindparam("volume")),
    delete(Attachment).where(Attachment.volume_id == bindparam("volume")),
    delete(Volume).where(Volume.id == bindparam("volume")),
)
# Characters of keys and values: as much as one request may carry (`rest.pipeline.JSON_LIMIT`).
MOST_METADATA = 114_688


find, get, visible, not_found = VOLUMES.find, VOLUMES.get, VOLUMES.visible, VOLUMES.not_found


def driver_spec(conn: Connection, volume_id: str, image_path: Callable[[str], Path]) -> VolumeSpec:
    """What the backend is to make. `image_path`: the drivers' function for the file of an image. Raises NotFound."""
    found = conn.execute(_spec, {"wanted": volume_id}).first()
    if found is None:
        raise not_found(volume_id)
    volume, extra_specs = found
    image = None
    if volume.image_id is not None:
        image = ImageSource(volume.image_id, str(image_path(volume.image_id)), volume.image_format or "raw")
    return VolumeSpec(
        id=volume.id,
        size_gib=volume.reserved_size or volume.size,
        name=volume.name or "",
        image=image,
        snapshot_id=volume.snapshot_id,
        volume_id=volume.source_volid,
        multiattach=volume.multiattach,
        extra_specs={key: value for key, value in extra_specs.items() if value is not None},
    )


def host_of(conn: Connection, volume_id: str) -> str | None:
    """The pool that it is in, or will be in; None if there is no such volume, or none has been chosen yet."""
    return conn.scalar(_host, {"wanted": volume_id})


def place(conn: Connection, volume_id: str, host: str | None) -> None:
    """Record the pool that it is in, or will be in; None: none."""
    conn.execute(update(Volume).where(Volume.id == volume_id).values(host=host))


def of_type(type_id: str | ScalarSelect[str]) -> ColumnElement[bool]:
    """Of this type, or being moved to get it."""
    moving = (TaskRow.resource_type == VOLUME, TaskRow.resource_id == Volume.id, TaskRow.ended_at.is_(None))
    coming = exists(select(TaskRow.id).where(*moving, TaskRow.args["type_id"].as_string() == type_id))
    return or_(Volume.volume_type_id == type_id, (Volume.status == states.RETYPING) & coming)


def is_held(conn: Connection, volume_id: str) -> bool:
    """Whether somebody is attached to it, or about to be."""
    return conn.execute(_holding, {"volume": volume_id}).first() is not None


def has_snapshots(conn: Connection, volume_id: str) -> bool:
    return conn.execute(_snapshots, {"volume": volume_id}).first() is not None


def begin_delete(
    conn: Connection,
    volume_id: str,
    now: datetime,
    force: bool = False,
    *,
    with_snapshots: bool = False,
    with_group: bool = False,
) -> Volume:
    """Set `deleting`, unless something forbids it. Returns the volume as it was. `force`: from any status.

    Raises Conflict, NotFound.
    """
    name = "delete with its group" if with_group else "force delete" if force else "delete"
    volume = get(conn, volume_id, lock=True)
    if (
        (volume.group_id is not None and not with_group)
        or is_held(conn, volume_id)
        or (not with_snapshots and has_snapshots(conn, volume_id))
    ):
        raise states.refused(conn, volume_id, name)
    states.move(conn, volume_id, name, now, states.not_migrating)
    return volume


def is_nowhere(volume: Volume) -> bool:
    """Whether no backend has anything of it: none took it, and no other will be asked."""
    return volume.host is None and volume.status == states.ERROR


def forget(conn: Connection, volume_id: str) -> None:
    """Delete the record, its attachments and any offer of it. An unknown id is not an error."""
    for statement in _forget:
        conn.execute(statement, {"volume": volume_id})


def change(conn: Connection, volume: Volume, changes: Mapping[str, Any], now: datetime) -> Volume:
    """Set columns that no state depends on. Raises NotFound; Conflict while the volume is in maintenance."""
    changed = update(Volume).where(Volume.id == volume.id, Volume.status != states.MAINTENANCE)
    done = conn.execute(changed.values(updated_at=now, **changes)).rowcount
    after = get(conn, volume.id)
    if not done:
        raise Conflict("Invalid volume: The volume cannot be updated during maintenance.")
    return after


def change_metadata(
    conn: Connection, caller: Caller, volume_id: str, edit: Callable[[dict[str, str]], Mapping[str, str]]
) -> dict[str, str]:
    """Replace the metadata with what `edit` makes of it. Raises NotFound, Conflict if the status forbids it."""
    volume = visible(conn, caller, volume_id, lock=True)
    check_metadata(volume)
    wanted = dict(edit(dict(volume.metadata)))
    conn.execute(update(Volume).where(Volume.id == volume_id).values(metadata=wanted, updated_at=caller.now))
    return wanted


def check_size(metadata: Mapping[str, str]) -> None:
    """Raises TooLarge for more than one request could carry: every list contains all of it."""
    if sum(len(key) + len(value) for key, value in metadata.items()) > MOST_METADATA:
        raise TooLarge(f"Metadata has at most {MOST_METADATA} characters.")


def check_metadata(volume: Volume) -> None:
    """Raises Conflict in a status in which its metadata must not change."""
    if volume.status in (states.MAINTENANCE, states.UPLOADING):
        raise Conflict(
            f"Invalid volume: Updating volume metadata is not allowed for volumes in {volume.status} status."
        )


def shown_metadata(volume: Volume) -> dict[str, str]:
    """Its metadata with the entries that only actions set and everyone sees."""
    said = {"readonly": volume.readonly, "attached_mode": volume.attached_mode}
    return {**volume.metadata, **{key: value for key, value in said.items() if value is not None}}


def forced_mode(volume: Volume) -> str | None:
    """How a volume that is read-only must be attached; None: as one likes."""
    return "ro" if volume.readonly == "True" else None


def no_metadata(volume_id: str, key: str) -> NotFound:
    return NotFound(f"Volume {volume_id[:64]} has no metadata with key {key[:255]}.")
