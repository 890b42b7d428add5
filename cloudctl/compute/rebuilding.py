"""Rebuild: a new root disk from an image, and everything else kept. Reference: compute-states.md, section 4.6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from cloudctl import tasks
from cloudctl.compute import injected_files, kinds, power, quotas, servers
from cloudctl.compute.creation import check_fit, own_public_key
from cloudctl.compute.creation import password as new_password
from cloudctl.compute.injected_files import NewFile
from cloudctl.compute.states import STOPPED
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import Invalid, NotFound
from cloudctl.image import images
from cloudctl.rest.caller import Caller


@frozen
class Rebuild:
    """`changes`: columns of the server that get a new value with it. `key_name`: "" keeps the key, None drops it."""

    image_id: str
    password: str | None
    key_name: str | None
    metadata: Mapping[str, str] | None
    personality: Sequence[NewFile]
    changes: Mapping[str, Any]


def rebuild(conn: Connection, caller: Caller, server_id: str, wanted: Rebuild) -> tuple[Server, str]:
    """The changed row and its new admin password. Raises NotFound, Conflict, Invalid, OverQuota."""
    row = power.placed(servers.begin(conn, caller, server_id, "rebuild"))
    if not row.image_id:
        raise Invalid("Unable to rebuild with a different image for a volume-backed server.")
    _check_image(conn, caller, wanted.image_id, row)
    chosen = wanted.password or new_password()
    changes = {**wanted.changes, "image_id": wanted.image_id, "admin_password": chosen, "guest_password": None}
    if wanted.metadata is not None:
        quotas.check_metadata(conn, row.project_id, len(wanted.metadata))
        changes["metadata"] = dict(wanted.metadata)
    if wanted.personality:
        changes["personality"] = injected_files.take(conn, row.project_id, wanted.personality)
    if wanted.key_name != "":
        changes |= {"key_name": wanted.key_name, "public_key": own_public_key(conn, caller, wanted.key_name)}
    changed = servers.change(conn, row, changes, caller.now)
    tasks.submit(conn, kinds.REBUILD, row.id, caller, args={"stopped": row.vm_state == STOPPED})
    return changed, chosen


def _check_image(conn: Connection, caller: Caller, image_id: str, row: Server) -> None:
    try:
        image = images.visible(conn, caller, image_id)
    except NotFound:
        raise Invalid("Can not find requested image") from None
    check_fit(image, row.flavor["ram"], row.flavor["disk"])
