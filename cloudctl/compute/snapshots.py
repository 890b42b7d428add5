"""Images of servers. Reference: compute.md, section 7 (createImage); compute-states.md, section 4.11."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import field, frozen

from cloudctl import tasks
from cloudctl.compute import kinds, power, quotas, servers, volume_images
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Invalid, NotFound
from cloudctl.image import images, patching, properties
from cloudctl.image.images import SAVING, NewImage
from cloudctl.image.kinds import DELETE_IMAGE
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Origin
from cloudctl.volume.options import VolumeOptions

# What describes an image's own bytes, or is not passed on to an image of a server that was made from it.
NOT_INHERITED = frozenset(
    {"cache_in_nova", "bittorrent", "block_device_mapping", "bdm_v2", "root_device_name", "backup_type"}
)
NOT_INHERITED_PREFIXES = ("img_signature", "os_glance_", "cinder_encryption_key")


@frozen
class NewBackup:
    """`rotation`: how many of this type are kept."""

    name: str
    type: str
    rotation: int
    metadata: Mapping[str, str] = field(factory=dict)


def create_image(
    conn: Connection,
    caller: Caller,
    server_id: str,
    name: str,
    metadata: Mapping[str, str],
    options: VolumeOptions,
) -> str:
    """The id of a new image, which a task fills. Raises NotFound, Conflict, Invalid, Forbidden, OverQuota."""
    row = power.placed(servers.begin(conn, caller, server_id, "createImage"))
    check_metadata(conn, row, metadata)
    if not row.image_id:
        return volume_images.create(conn, caller, row, new(conn, caller, row, name, metadata), options)
    image_id = images.create(conn, new(conn, caller, row, name, metadata), caller.now, status=SAVING)
    tasks.submit(conn, kinds.CREATE_IMAGE, row.id, caller, args={"image_id": image_id})
    return image_id


def create_backup(conn: Connection, caller: Caller, server_id: str, wanted: NewBackup) -> str:
    """As `create_image`; once it is done, only the newest backups of its type are left, as many as `rotation` says.

    Raises NotFound, Conflict, Invalid, Forbidden, OverQuota.
    """
    row = power.placed(servers.begin(conn, caller, server_id, "createBackup"))
    if not row.image_id:
        raise Invalid("Backup is not supported for volume-backed instances.")
    check_metadata(conn, row, wanted.metadata)
    told = {"image_type": "backup", "backup_type": wanted.type, **wanted.metadata}
    image_id = images.create(conn, new(conn, caller, row, wanted.name, told), caller.now, status=SAVING)
    args = {"image_id": image_id, "backup_type": wanted.type, "rotation": wanted.rotation}
    tasks.submit(conn, kinds.CREATE_BACKUP, row.id, caller, args=args)
    return image_id


def rotate(conn: Connection, server_id: str, type: str, keep: int, by: Origin) -> None:
    """Remove all but the newest `keep` backups of this type of the server; protected ones are left."""
    mine = {"image_type": "backup", "backup_type": type, "instance_uuid": server_id}
    for image in images.with_properties(conn, mine)[keep:]:
        if not image.protected:
            images.remove(conn, images.get(conn, image.id, lock=True), by)


def check_metadata(conn: Connection, row: Server, metadata: Mapping[str, str]) -> None:
    """Raises OverQuota, Forbidden."""
    quotas.check_metadata(conn, row.project_id, len(metadata))
    for key in metadata:
        patching.check_name(key)


def new(conn: Connection, caller: Caller, row: Server, name: str, metadata: Mapping[str, str]) -> NewImage:
    """An image of the server that has no data yet."""
    of_base: Mapping[str, str]
    try:
        base: Any = images.get(conn, row.image_id)
        of_base = properties.of(conn, [row.image_id])[row.image_id]
    except NotFound:
        # The server has outlived its image, and remembers it.
        base, of_base = None, row.scheduling.get("image", {})
    inherited = {
        key: value
        for key, value in of_base.items()
        if key not in NOT_INHERITED and not key.startswith(NOT_INHERITED_PREFIXES)
    }
    return NewImage(
        owner=row.project_id,
        name=name,
        id=new_id(),
        visibility=images.PRIVATE,
        container_format="bare",
        # The final format is known once the disk is copied.
        disk_format=base.disk_format if base is not None else None,
        min_disk=row.flavor["disk"],
        min_ram=base.min_ram if base is not None else 0,
        properties={
            **inherited,
            "image_type": "snapshot",
            "instance_uuid": row.id,
            "user_id": caller.user_id,
            "owner_id": row.project_id,
            "image_location": "snapshot",
            "image_state": "available",
            "base_image_ref": row.image_id,
            "boot_roles": ",".join(sorted(caller.identity.roles)),
            **metadata,
        },
    )


def discard_record(conn: Connection, image_id: str, now: datetime, by: Origin) -> None:
    """As `discard`, if there is a record. May be repeated."""
    if images.exists(conn, image_id):
        discard(conn, image_id, now, by)


def discard(conn: Connection, image_id: str, now: datetime, by: Origin) -> None:
    """The image failed: remove it, and what was written for it. May be repeated."""
    try:
        image = images.get(conn, image_id, lock=True)
    except NotFound:
        # Deleted by its user, perhaps before the file was written.
        tasks.submit_once(conn, DELETE_IMAGE, image_id, by)
        return
    if image.protected:
        # Its user has protected it in the meantime: it stays, as an image without data.
        images.try_move(conn, image_id, "save failed", now)
        return
    images.remove(conn, image, by)
