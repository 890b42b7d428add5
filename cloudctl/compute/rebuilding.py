"""Rebuild: a new root disk from an image, and everything else kept. Reference: compute-states.md, section 4.6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import frozen

from cloudctl import tasks
from cloudctl.compute import injected_files, kinds, power, quotas, root_volumes, servers, shelving
from cloudctl.compute.creation import check_fit, own_public_key
from cloudctl.compute.creation import password as new_password
from cloudctl.compute.injected_files import NewFile
from cloudctl.compute.remembered import remembered
from cloudctl.compute.states import STOPPED
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import Invalid, NotFound
from cloudctl.image import images, properties
from cloudctl.image.tables import Image
from cloudctl.rest.caller import Caller
from cloudctl.volume import creation, volumes
from cloudctl.volume.tables import Volume


@frozen
class Rebuild:
    """`changes`: columns of the server that get a new value with it. `key_name`: "" keeps the key, None drops it."""

    image_id: str
    password: str | None
    key_name: str | None
    metadata: Mapping[str, str] | None
    personality: Sequence[NewFile]
    changes: Mapping[str, Any]


def rebuild(
    conn: Connection, caller: Caller, server_id: str, wanted: Rebuild, *, knows_volumes: bool
) -> tuple[Server, str]:
    """The changed row and its new admin password.

    The volume that a server boots from is filled again if the client `knows_volumes`; otherwise it is left as it is,
    and the image must be the one it was made from. Raises NotFound, Conflict, Invalid, OverQuota.
    """
    row = power.placed(servers.begin(conn, caller, server_id, "rebuild"))
    args: dict[str, Any] = {"stopped": row.vm_state == STOPPED}
    image = _image(conn, caller, wanted.image_id)
    if row.image_id:
        check_fit(image, row.flavor["ram"], row.flavor["disk"])
    elif knows_volumes:
        args["volume_id"] = _root(conn, row, image).id
        args["image_id"] = image.id
    elif root_volumes.image_of(conn, row.id) != image.id:
        raise Invalid("Unable to rebuild with a different image for a volume-backed server.")
    chosen = wanted.password or new_password()
    changes = {**wanted.changes, "admin_password": chosen, "guest_password": None}
    if row.image_id:
        said = properties.of(conn, [image.id])[image.id]
        changes |= {"image_id": image.id, "scheduling": {**row.scheduling, "image": remembered(said)}}
    if wanted.metadata is not None:
        quotas.check_metadata(conn, row.project_id, len(wanted.metadata))
        changes["metadata"] = dict(wanted.metadata)
    if wanted.personality:
        changes["personality"] = injected_files.take(conn, row.project_id, wanted.personality)
    if wanted.key_name != "":
        changes |= {"key_name": wanted.key_name, "public_key": own_public_key(conn, caller, wanted.key_name)}
    # Of a server that was shelved until an administrator reset its state.
    shelving.forget_image(conn, row, caller.now, caller)
    changed = servers.change(conn, row, changes, caller.now)
    tasks.submit(conn, kinds.REBUILD, row.id, caller, args=args)
    return changed, chosen


def _image(conn: Connection, caller: Caller, image_id: str) -> Image:
    """Raises Invalid."""
    try:
        return images.visible(conn, caller, image_id)
    except NotFound:
        raise Invalid("Can not find requested image") from None


def _root(conn: Connection, row: Server, image: Image) -> Volume:
    """The volume that the server boots from. Raises Invalid if the image does not suit it."""
    root = root_volumes.find(conn, row.id)
    if root is None:
        raise Invalid(f"Instance {row.id} has no root volume.")
    check_fit(image, row.flavor["ram"], root.size)
    if root.multiattach:
        raise Invalid("Reimaging a multiattach root volume is not supported.")
    return root


# -- what the workflow writes


def filled(conn: Connection, volume_id: str, image_id: str, now: datetime) -> None:
    """Record that the volume holds the content of the image."""
    image = images.full(conn, [images.get(conn, image_id)])[0]
    told = {"image_id": image_id, "image_format": image.row.disk_format, "image_metadata": creation.remembered(image)}
    volumes.change(conn, volumes.get(conn, volume_id), told, now)
