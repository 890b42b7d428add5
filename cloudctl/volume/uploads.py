"""Uploads: an image made from a volume's content. Reference: volume.md, section 3.

Every backend exports raw data; it reports which other formats may be requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Gone, Invalid, NotFound
from cloudctl.image import images, patching
from cloudctl.image.images import SAVING, NewImage
from cloudctl.image.kinds import DELETE_IMAGE
from cloudctl.rest.caller import Caller
from cloudctl.volume import creation, kinds, states, volumes
from cloudctl.volume.tables import Volume

RAW = "raw"


@frozen
class NewUpload:
    """What the caller asked for. `force`: even if the volume is in use."""

    image_name: str
    disk_format: str = RAW
    container_format: str = "bare"
    visibility: str = images.PRIVATE
    protected: bool = False
    force: bool = False


def start(
    conn: Connection, caller: Caller, volume_id: str, wanted: NewUpload, formats: Sequence[str]
) -> tuple[Volume, str]:
    """The volume, `uploading`, and the id of an image that is `saving`. `formats`: what the backend writes besides raw.

    Raises NotFound, Invalid, Conflict, OverQuota.
    """
    volume = volumes.visible(conn, caller, volume_id, lock=True)
    if wanted.disk_format not in (RAW, *formats):
        offered = ", ".join((RAW, *formats))
        raise Invalid(f"Invalid input received: volumes can be uploaded as {offered}, not as {wanted.disk_format}.")
    in_use = volume.status == states.IN_USE
    if in_use and not wanted.force:
        raise states.refused(conn, volume.id, "upload")
    states.move(conn, volume.id, "upload in use" if wanted.force else "upload", caller.now, states.not_migrating)
    new = NewImage(
        owner=volume.project_id,
        name=wanted.image_name,
        visibility=wanted.visibility,
        protected=wanted.protected,
        container_format=wanted.container_format,
        disk_format=wanted.disk_format,
        properties=properties(volume.image_metadata),
        min_disk=_number(volume.image_metadata.get("min_disk")),
        min_ram=_number(volume.image_metadata.get("min_ram")),
    )
    image_id = images.create(conn, new, caller.now, status=SAVING)
    args = {"image_id": image_id, "in_use": in_use, "disk_format": wanted.disk_format}
    tasks.submit(conn, kinds.UPLOAD_VOLUME, volume.id, caller, args=args)
    return volumes.get(conn, volume.id), image_id


def _number(text: str | None) -> int:
    """The number in a value that users may have set to anything; else 0."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


def properties(image_metadata: dict[str, str]) -> dict[str, str]:
    """What the image that the volume was made from said about guests booted from it."""
    own = {*creation.REMEMBERED, "image_id", "image_name"}
    return {name: value for name, value in image_metadata.items() if name not in own and not patching.is_reserved(name)}


def exported(conn: Connection, image_id: str, disk_format: str, now: datetime) -> None:
    """The data is in the store, in this format. Raises Conflict, Gone."""
    try:
        image = images.get(conn, image_id, lock=True)
    except NotFound:
        raise Gone(f"The image {image_id} was deleted while its data was written.") from None
    if image.status != SAVING:
        raise Conflict(f"The image {image_id} is {image.status}, not {SAVING}.")
    if image.disk_format != disk_format:
        images.change(conn, image, {"disk_format": disk_format}, now)


def give_up(conn: Connection, image_id: str, by: tasks.Origin) -> None:
    """Delete the image and its data, unless it is complete."""
    try:
        image = images.get(conn, image_id, lock=True)
    except NotFound:
        # Its user deleted it; whatever the backend wrote later must go, too.
        tasks.submit(conn, DELETE_IMAGE, image_id, by)
        return
    if image.status == images.ACTIVE:
        return
    if image.protected:
        image = images.change(conn, image, {"protected": False}, image.updated_at)
    images.remove(conn, image, by)
