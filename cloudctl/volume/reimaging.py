"""Reimaging: replace a volume's content with that of an image. Reference: volume-states.md, section 4."""

from __future__ import annotations

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.rest.caller import Caller
from cloudctl.volume import attachments, creation, kinds, states, volumes


def start(conn: Connection, caller: Caller, volume_id: str, image_id: str, reserved: bool = False) -> None:
    """`downloading`, and a task that fills it. `reserved`: even if somebody has reserved it.

    Raises NotFound; Invalid for an image that does not exist or is too large; Conflict.
    """
    volume = volumes.visible(conn, caller, volume_id, lock=True)
    if len(attachments.of_volume(conn, [volume.id]).get(volume.id, [])) > 1:
        raise Conflict(f"Invalid volume: Volume {volume.id} has more than one attachment.")
    source = creation.image_source(conn, caller, image_id)
    if volume.size < source.least:
        raise Invalid(f"Invalid input received: {source.why.format(size=volume.size, least=source.least)}")
    states.move(conn, volume.id, "reimage reserved" if reserved else "reimage", caller.now, states.not_migrating)
    args = {"image_id": source.image_id, "format": source.image_format, "metadata": dict(source.image_metadata)}
    tasks.submit(conn, kinds.REIMAGE_VOLUME, volume.id, caller, args=args)
