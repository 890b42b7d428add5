"""What actions do to the record of a volume. Reference: volume.md, section 3; volume-states.md, section 4."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from sqlalchemy import delete, func, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.rest.caller import Caller
from cloudctl.volume import attachments, kinds, quotas, states, types, volumes
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Attachment, Volume


def extend(conn: Connection, caller: Caller, volume_id: str, size: int, options: VolumeOptions, in_use: bool) -> None:
    """Extend to `size` GiB; `in_use`: even while something uses it. Raises NotFound, Invalid, Conflict, OverQuota."""
    volume = volumes.visible(conn, caller, volume_id, lock=True)
    name = "extend in use" if in_use else "extend"
    states.VOLUME.check(volume, name)
    if size <= volume.size:
        raise Invalid(
            "Invalid input received: New size for extend must be greater than current size. "
            f"(current: {volume.size}, extended: {size})."
        )
    type_ = types.get(conn, volume.volume_type_id)
    types.demand_size(type_, size)
    quotas.take(conn, options, volume.project_id, type_.name, {"gigabytes": size - volume.size}, size)
    same = Volume.size == volume.size
    states.move(conn, volume_id, name, caller.now, states.not_migrating, same, reserved_size=size)
    tasks.submit(conn, kinds.EXTEND_VOLUME, volume_id, caller, args={"size": size})


def set_bootable(conn: Connection, caller: Caller, volume_id: str, bootable: bool) -> None:
    volumes.visible(conn, caller, volume_id, lock=True)
    conn.execute(update(Volume).where(Volume.id == volume_id).values(bootable=bootable, updated_at=caller.now))


def set_readonly(conn: Connection, caller: Caller, volume_id: str, readonly: bool) -> None:
    volumes.visible(conn, caller, volume_id, lock=True)
    states.move(conn, volume_id, "make read-only", caller.now, readonly=str(readonly))


@frozen
class Reset:
    """The statuses that an administrator sets; None: unchanged. Nothing is done to the volume itself."""

    status: str | None = None
    attach_status: str | None = None  # attached, or detached: then its attachments are deleted
    migration_status: str | None = None  # "none" clears it


def reset(conn: Connection, caller: Caller, volume_id: str, wanted: Reset) -> None:
    """Raises NotFound, Invalid."""
    volumes.visible(conn, caller, volume_id, lock=True)
    values: dict[str, Any] = {}
    if wanted.attach_status == "detached":
        conn.execute(delete(Attachment).where(Attachment.volume_id == volume_id))
    if wanted.attach_status is not None:
        values["attach_status"] = wanted.attach_status
    if wanted.status is not None:
        if wanted.status == states.IN_USE and not _has_attachments(conn, volume_id):
            raise Invalid("Invalid volume: a volume without attachments cannot be set to in-use.")
        values["status"] = wanted.status
    if wanted.migration_status is not None:
        values["migration_status"] = None if wanted.migration_status == "none" else wanted.migration_status
    conn.execute(update(Volume).where(Volume.id == volume_id).values(updated_at=caller.now, **values))


def _has_attachments(conn: Connection, volume_id: str) -> bool:
    query = select(func.count()).select_from(Attachment).where(Attachment.volume_id == volume_id)
    return int(conn.execute(query).scalar_one()) > 0


# -- the classic way to attach: actions on the volume, in several steps


def reserve(conn: Connection, caller: Caller, volume_id: str) -> None:
    volume = volumes.visible(conn, caller, volume_id, lock=True)
    name = "reserve again" if volume.multiattach else "reserve"
    states.move(conn, volume_id, name, caller.now, states.not_migrating)


def unreserve(conn: Connection, caller: Caller, volume_id: str) -> None:
    """Does nothing in any status other than attaching."""
    volumes.visible(conn, caller, volume_id, lock=True)
    if volumes.get(conn, volume_id, lock=True).status == states.ATTACHING:
        attachments.follow(conn, volume_id, caller.now)


def begin_detaching(conn: Connection, caller: Caller, volume_id: str) -> None:
    volumes.visible(conn, caller, volume_id, lock=True)
    attached = Volume.attach_status == attachments.ATTACHED
    states.move(conn, volume_id, "begin detaching", caller.now, attached, states.not_migrating)


def roll_detaching(conn: Connection, caller: Caller, volume_id: str) -> None:
    """Does nothing in any status other than detaching."""
    volumes.visible(conn, caller, volume_id, lock=True)
    states.try_move(conn, volume_id, "roll detaching", caller.now)


def attach(
    conn: Connection, caller: Caller, volume_id: str, server_id: str | None, host: str | None, device: str, mode: str
) -> None:
    """Record that a server or a host uses the volume. Raises NotFound, Conflict, Invalid."""
    volumes.visible(conn, caller, volume_id, lock=True)
    attachments.check_server(conn, caller, server_id)
    volume = volumes.get(conn, volume_id, lock=True)
    # What is being attached by others has a record; after `reserve` there is none yet.
    begun = volume.status == states.ATTACHING and volumes.is_held(conn, volume_id)
    taken = (begun or volume.status == states.IN_USE) and not volume.multiattach
    if taken or states.is_migrating(volume) or volume.status not in (states.AVAILABLE, states.ATTACHING, states.IN_USE):
        raise Conflict(
            "Error attaching volume - InvalidVolume: volume is already attached and multiple attachments are not "
            "enabled"
            if taken
            else f"Error attaching volume - InvalidVolume: Volume {volume_id} is in status {volume.status}"
        )
    if volumes.forced_mode(volume) not in (None, mode):
        raise Invalid(f"Invalid attaching mode '{mode}' for volume {volume_id}.")
    attachments.insert_attached(conn, volume, server_id, host, device, mode, caller.now)
    conn.execute(update(Volume).where(Volume.id == volume_id).values(attached_mode=mode))


def detach(conn: Connection, caller: Caller, volume_id: str, attachment_id: str | None, *, force: bool = False) -> None:
    """`force`: even in status error, which this clears.

    Raises NotFound, Invalid if it is not clear which attachment ends, Conflict if the compute service has it.
    """
    volume = volumes.visible(conn, caller, volume_id, lock=True)
    if volume.status == states.MAINTENANCE:
        raise Conflict("Invalid volume: Unable to detach volume in maintenance mode.")
    present = attachments.of_volume(conn, [volume_id]).get(volume_id, [])
    if attachment_id is not None:
        present = [row for row in present if row.id == attachment_id]
        if not present:
            other = attachments.visible(conn, caller, attachment_id)
            raise Invalid(f"Mismatched volume: attachment {other.id} is not of volume {volume_id}.")
    elif len(present) > 1:
        raise Invalid(
            "Error detaching volume - InvalidVolume: Detach volume failed: More than one attachment, but no "
            "attachment_id provided."
        )
    if force and volume.status == states.ERROR:
        attachments.follow(conn, volume_id, caller.now, leaving=states.ERROR)
    for row in present:
        attachments.end(conn, caller, row)
    # An attachment that was only begun, and has no record, ends too.
    attachments.follow(conn, volume_id, caller.now)
    conn.execute(update(Volume).where(Volume.id == volume_id).values(attached_mode=None))


# -- image metadata


def set_image_metadata(conn: Connection, caller: Caller, volume_id: str, wanted: dict[str, str]) -> dict[str, str]:
    """Merge `wanted` into it. Returns all of it. Raises NotFound, Conflict, TooLarge."""
    volume = _with_image_metadata(conn, caller, volume_id)
    merged = {**volume.image_metadata, **wanted}
    volumes.check_size(merged)
    volumes.change(conn, volume, {"image_metadata": merged}, caller.now)
    return merged


def unset_image_metadata(conn: Connection, caller: Caller, volume_id: str, key: str) -> None:
    """Raises NotFound, also for an absent key, and Conflict."""
    volume = _with_image_metadata(conn, caller, volume_id)
    if key not in volume.image_metadata:
        raise volumes.no_metadata(volume_id, key)
    kept = {name: value for name, value in volume.image_metadata.items() if name != key}
    volumes.change(conn, volume, {"image_metadata": kept}, caller.now)


def _with_image_metadata(conn: Connection, caller: Caller, volume_id: str) -> Volume:
    """The volume, locked. Raises NotFound, Conflict if its status forbids it."""
    volume = volumes.visible(conn, caller, volume_id, lock=True)
    volumes.check_metadata(volume)
    return volume
