"""Creating a volume: what may be requested, and the resulting record. Reference: volume.md, section 2."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen
from sqlalchemy import insert

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.image import images
from cloudctl.image.images import Image
from cloudctl.rest.body import INTEGER_MOST, BodyError
from cloudctl.rest.caller import Caller
from cloudctl.rest.decoding import parse
from cloudctl.volume import backups, encryption, groups, kinds, quotas, snapshots, states, types, volumes
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Volume, VolumeType

GIB = 1024**3
INVALID_IMAGE = "Invalid image identifier or unable to access requested image."
DEVICES = "block_device_mapping"  # the property of an image of a server that boots from a volume
TYPE_OF_IMAGE = "cinder_img_volume_type"  # the property of an image that names the type of volumes made from it
# What a volume remembers of its image, besides the image's own properties.
REMEMBERED = ("container_format", "disk_format", "checksum", "min_disk", "min_ram", "size")

# Built once: building a statement of all columns costs more than running it.
_new = insert(Volume).returning(Volume)


@frozen
class NewVolume:
    """What the caller asked for. `volume_type` is a name or an id, `size` is in GiB."""

    size: int | None = None
    name: str | None = None
    description: str | None = None
    volume_type: str | None = None
    availability_zone: str | None = None
    image_id: str | None = None  # or a name
    snapshot_id: str | None = None
    source_volid: str | None = None
    backup_id: str | None = None
    group_id: str | None = None
    metadata: Mapping[str, str] = field(factory=dict)


@frozen
class Source:
    """What a new volume is made from. `least` is the smallest size in GiB that holds it."""

    least: int = 1
    why: str = ""  # the refusal of a smaller size; may use {size} and {least}
    type_id: str | None = None
    availability_zone: str | None = None
    host: str | None = None  # the pool it is in; volumes made from it go there, too
    bootable: bool = False
    snapshot_id: str | None = None
    image_id: str | None = None
    image_format: str | None = None
    image_metadata: Mapping[str, str] = field(factory=dict)

    @property
    def exists(self) -> bool:
        return bool(self.why)


def create(
    conn: Connection,
    caller: Caller,
    new: NewVolume,
    options: VolumeOptions | None = None,
    *,
    volume_id: str | None = None,
    submit: bool = True,
) -> Volume:
    """The volume, `creating`: its row, as from `volumes.get`. A task submitted now makes it; if `submit` is false, the
    caller submits that task, as a child of its own.

    Repeating it with the same `volume_id` changes nothing. Raises Invalid, NotFound, Conflict, OverQuota.
    """
    options = options or VolumeOptions()
    if volume_id is not None and (found := volumes.find(conn, volume_id)) is not None:
        return found
    # Before a volume of it that is to be copied.
    group = None if new.group_id is None else groups.for_new(conn, caller, new.group_id)
    source = _source(conn, caller, new)
    size = _size(new, source)
    type_ = _type(conn, caller, new, source, options)
    encryption.demand_plain(conn, type_.id)
    host = source.host or (options.pool if len(options.pools) == 1 else None)
    if group is not None:
        groups.demand_type(group, type_.id)
        host = host or group.host
        groups.demand_pool(group, host, options)
    types.demand_size(type_, size)
    zone = _zone(new, source, options)
    types.demand_zone(type_, zone)
    quotas.take(conn, options, caller.project_id, type_.name, {"volumes": 1, "gigabytes": size}, size)
    values = {
        "id": volume_id or new_id(),
        "project_id": caller.project_id,
        "user_id": caller.user_id,
        "name": new.name,
        "description": new.description,
        "status": states.CREATING,
        "attach_status": "detached",
        "size": size,
        "host": host,  # None: the task chooses one
        "volume_type_id": type_.id,
        "availability_zone": zone,
        "snapshot_id": source.snapshot_id,
        "source_volid": new.source_volid,
        "backup_id": new.backup_id,
        "group_id": new.group_id,
        "image_id": source.image_id,
        "image_format": source.image_format,
        "bootable": source.bootable,
        "multiattach": types.is_multiattach(type_),
        "metadata": dict(new.metadata),
        "image_metadata": dict(source.image_metadata),
        "created_at": caller.now,
    }
    made = conn.execute(_new, values).one()
    _borrow(conn, caller, made)
    if new.backup_id is not None:
        backups.begin_restore(conn, caller, new.backup_id)
        args = {"backup_id": new.backup_id, "new": True}
        tasks.submit(conn, kinds.RESTORE_VOLUME, made.id, caller, args=args)
    elif submit:
        tasks.submit(conn, kinds.CREATE_VOLUME, made.id, caller)
    return made


def _borrow(conn: Connection, caller: Caller, made: Volume) -> None:
    """Whatever is done to its source from now on, a deletion included, comes after it is made."""
    args = {"to": made.id}
    if made.source_volid is not None:
        tasks.submit(conn, kinds.LEND_VOLUME, made.source_volid, caller, args=args)
    if made.snapshot_id is not None:
        tasks.submit(conn, kinds.LEND_SNAPSHOT, made.snapshot_id, caller, args=args)


# -- what it is made from


def _source(conn: Connection, caller: Caller, wanted: NewVolume) -> Source:
    named = [
        text
        for text in (wanted.image_id, wanted.snapshot_id, wanted.source_volid, wanted.backup_id)
        if text is not None
    ]
    if len(named) > 1:
        raise Invalid(
            "Invalid input received: a volume can be created from at most one image, snapshot, volume or backup."
        )
    if wanted.source_volid is not None:
        return _volume_source(conn, caller, wanted.source_volid)
    if wanted.snapshot_id is not None:
        return _snapshot_source(conn, caller, wanted.snapshot_id)
    if wanted.backup_id is not None:
        return _backup_source(conn, caller, wanted.backup_id)
    if wanted.image_id is not None:
        image = _image(conn, caller, wanted.image_id)
        snapshot_id = boot_snapshot(image.properties)
        return _image_source(image) if snapshot_id is None else _snapshot_source(conn, caller, snapshot_id)
    return Source()


def _image(conn: Connection, caller: Caller, name_or_id: str) -> Image:
    """Raises Invalid if there is none, Conflict if there are two of this name."""
    try:
        found = [images.visible(conn, caller, name_or_id)]
    except NotFound:
        found = images.named(conn, caller, name_or_id)
    if not found:
        raise Invalid(INVALID_IMAGE)
    if len(found) > 1:
        raise Conflict(f"Multiple resources with name {name_or_id[:255]} found.")
    return images.full(conn, found)[0]


def _volume_source(conn: Connection, caller: Caller, volume_id: str) -> Source:
    origin = volumes.visible(conn, caller, volume_id, lock=True)
    if origin.status not in (states.AVAILABLE, states.IN_USE):
        raise Conflict("Invalid volume: Originating source volume status must be one of 'available, in-use' values")
    return Source(
        least=origin.size,
        why="Volume size '{size}'GB cannot be smaller than original volume size  {least}GB. "
        "They must be >= original volume size.",
        type_id=origin.volume_type_id,
        availability_zone=origin.availability_zone,
        host=origin.host,
        bootable=origin.bootable,
        image_metadata=origin.image_metadata,
    )


def _snapshot_source(conn: Connection, caller: Caller, snapshot_id: str) -> Source:
    snapshot = snapshots.as_source(conn, caller, snapshot_id)
    if snapshot.status != states.AVAILABLE:
        raise Conflict("Invalid snapshot: Originating snapshot status must be one of 'available' values")
    origin = volumes.get(conn, snapshot.volume_id)
    return Source(
        least=snapshot.size,
        why="Volume size '{size}'GB cannot be smaller than the snapshot size {least}GB. They must be >= original "
        "snapshot size.",
        snapshot_id=snapshot.id,
        type_id=origin.volume_type_id,
        availability_zone=origin.availability_zone,
        host=origin.host,
        bootable=origin.bootable,
        image_metadata=origin.image_metadata,
    )


def _backup_source(conn: Connection, caller: Caller, backup_id: str) -> Source:
    backup = backups.visible(conn, caller, backup_id)
    if backup.status != states.AVAILABLE:
        raise Conflict("Invalid backup: Originating backup status must be one of 'available' values")
    return Source(
        least=backup.size,
        why="Volume size {size}GB cannot be smaller than the backup size {least}GB. They must be >= original backup "
        "size.",
        bootable=backup.bootable,
        image_metadata=backup.image_metadata,
    )


def image_source(conn: Connection, caller: Caller, name_or_id: str) -> Source:
    """Raises Invalid if there is no such active image, Conflict if there are two of this name."""
    return _image_source(_image(conn, caller, name_or_id))


def boot_snapshot(properties: Mapping[str, str]) -> str | None:
    """The snapshot of a server's boot volume, named in the properties of an image that has no data of its own.

    The image's owner may write anything there: what cannot be read is ignored.
    """
    try:
        described = parse(properties.get(DEVICES, "[]").encode())
    except BodyError:
        return None
    for each in described if isinstance(described, list) else ():
        if isinstance(each, dict) and each.get("source_type") == "snapshot" and each.get("boot_index") == 0:
            return str(each.get("snapshot_id"))[:64]
    return None


def _image_source(found: Image) -> Source:
    image = found.row
    if image.status != "active":
        raise Invalid(f"Invalid image metadata. Image {image.id} is not active.")
    bytes_ = max(image.size or 0, image.virtual_size or 0)
    return Source(
        least=max(1, image.min_disk, -(-bytes_ // GIB)),
        why="Volume size {size}GB cannot be smaller than the image's size or min_disk, which is {least}GB.",
        bootable=True,
        image_id=image.id,
        image_format=image.disk_format,
        image_metadata=remembered(found),
    )


def remembered(found: Image) -> dict[str, str]:
    """What a volume remembers of the image that it was made from: text to text."""
    image = found.row
    known = {name: getattr(image, name) for name in REMEMBERED}
    return {
        **found.properties,
        "image_id": image.id,
        "image_name": image.name or "",
        **{name: str(value) for name, value in known.items() if value is not None},
    }


# -- what it is


def _size(wanted: NewVolume, source: Source) -> int:
    if wanted.size is None and not source.exists:
        raise Invalid("Invalid input received: Volume size 'None' must be an integer and greater than 0")
    size = source.least if wanted.size is None else wanted.size
    if size < source.least:
        raise Invalid(f"Invalid input received: {source.why.format(size=size, least=source.least)}")
    # The disk of an image, or what its properties say of disks, may have any size.
    if size > INTEGER_MOST:
        raise Invalid(f"Invalid input received: Volume size '{size}' is greater than the maximum of {INTEGER_MOST}")
    return size


def _type(conn: Connection, caller: Caller, wanted: NewVolume, source: Source, options: VolumeOptions) -> VolumeType:
    if wanted.volume_type:
        return types.by_name_or_id(conn, caller, wanted.volume_type, for_volume=True)
    if source.type_id is not None:
        return types.pinned(conn, source.type_id)
    named = source.image_metadata.get(TYPE_OF_IMAGE) if source.image_id is not None else None
    # An image may have been made for another cloud: a type that does not exist here is ignored.
    of_image = types.find_by_name_or_id(conn, caller, named, for_volume=True) if named else None
    return of_image or types.default(conn, caller.project_id, options.default_type, for_volume=True)


def _zone(wanted: NewVolume, source: Source, options: VolumeOptions) -> str:
    zone = wanted.availability_zone or source.availability_zone or options.default_zone
    if zone not in options.availability_zones:
        raise Invalid(f"Availability zone '{zone}' is invalid.")
    if source.availability_zone not in (None, zone):
        raise Invalid("Invalid volume: Volume must be in the same availability zone as its source")
    return zone
