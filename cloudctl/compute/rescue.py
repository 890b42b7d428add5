"""Rescue: a server runs from another image, with its own root disk beside it; and the admin password of a guest.

Reference: compute.md, section 7; compute-states.md, sections 3 and 4.10.
"""

from __future__ import annotations

from cloudctl import tasks
from cloudctl.compute import kinds, power, root_volumes, servers
from cloudctl.compute.creation import password as new_password
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import Invalid, NotFound
from cloudctl.image import images
from cloudctl.rest.caller import Caller


def rescue(
    conn: Connection,
    caller: Caller,
    server_id: str,
    password: str | None,
    image_id: str | None,
    *,
    knows_volumes: bool,
) -> str:
    """The admin password of the rescued guest. Without `image_id` it runs from the server's own image.

    A server that boots from a volume is only rescued if the client `knows_volumes`. Raises NotFound, Conflict, Invalid.
    """
    row = power.placed(servers.begin(conn, caller, server_id, "rescue"))
    if not row.image_id:
        if not knows_volumes:
            raise Invalid(f"Cannot rescue a volume-backed instance {row.id}")
        image_id = image_id or root_volumes.image_of(conn, row.id)
        if image_id is None:
            raise Invalid(f"Cannot rescue instance {row.id}: an image must be named.")
    if image_id:
        _check_image(conn, caller, image_id)
    chosen = password or new_password()
    _keep(conn, caller, row, chosen)
    tasks.submit(conn, kinds.RESCUE, row.id, caller, args={"image_id": image_id})
    return chosen


def _check_image(conn: Connection, caller: Caller, image_id: str) -> None:
    try:
        image = images.visible(conn, caller, image_id)
    except NotFound:
        raise Invalid("Can not find requested image") from None
    if image.status != images.ACTIVE:
        raise Invalid(f"Image {image_id} is not active.")


def unrescue(conn: Connection, caller: Caller, server_id: str) -> None:
    """Raises NotFound, Conflict."""
    row = power.placed(servers.begin(conn, caller, server_id, "unrescue"))
    tasks.submit(conn, kinds.UNRESCUE, row.id, caller)


def set_password(conn: Connection, caller: Caller, server_id: str, password: str) -> None:
    """Raises NotFound, Conflict."""
    row = power.placed(servers.begin(conn, caller, server_id, "changePassword"))
    _keep(conn, caller, row, password)
    tasks.submit(conn, kinds.SET_PASSWORD, row.id, caller)


def _keep(conn: Connection, caller: Caller, row: Server, password: str) -> None:
    """Keep it in the server's row until the guest has it, not in the task's: those are there for operators to read."""
    servers.change(conn, row, {"admin_password": password}, caller.now)
