"""The end of servers. It wins over everything else. Reference: compute-states.md, section 4.2."""

from __future__ import annotations

from datetime import datetime

from cloudctl import tasks
from cloudctl.compute import block_devices, kinds, migrations, networking, servers
from cloudctl.compute.states import DELETING
from cloudctl.db import Connection
from cloudctl.placement import claims
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Origin
from cloudctl.volume import attachments, volumes
from cloudctl.volume.kinds import DELETE_VOLUME


def delete(conn: Connection, caller: Caller, server_id: str) -> None:
    """Accepted in every state; one that is under way is not begun again. Raises NotFound, Conflict (locked)."""
    row = servers.visible(conn, caller, server_id, lock=True)
    servers.check(row, "delete", over_lock=caller.may(servers.OVER_LOCK))
    # A delete that an operator must look at (held) does not keep the next one from being tried.
    if row.task_state == DELETING and tasks.has_open(conn, kinds.SERVER, row.id, [kinds.DELETE]):
        return
    servers.move(conn, row.id, "delete", caller.now)
    tasks.supersede(conn, kinds.DELETE, row.id, caller, keep=(kinds.DELETE,))


def finish(conn: Connection, server_id: str, now: datetime, by: Origin, *, ports_have_left: bool) -> None:
    """Nothing of the guest is left: give everything back and close the record. May be repeated.

    `ports_have_left`: all hosts have let go of the server's ports, see `network.ports.leaving`.
    """
    release_devices(conn, server_id, now, by, made_only=False)
    networking.let_all_go(conn, server_id, now, by, have_left=ports_have_left)
    claims.release(conn, server_id)
    migrations.close_all(conn, server_id, now)
    servers.remove(conn, server_id, now)


def release_devices(conn: Connection, server_id: str, now: datetime, by: Origin, *, made_only: bool) -> None:
    """Let go of the volumes, and delete those that shall end with the server.

    `made_only`: a boot failed; what was brought by the user is kept whatever was said of the end. May be repeated.
    """
    for device in block_devices.of_server(conn, server_id):
        if device.attachment_id:
            attachments.finish_detach(conn, device.attachment_id, now)
        made = device.source_type != block_devices.VOLUME
        if device.delete_on_termination and (made or not made_only):
            _delete_volume(conn, device.volume_id, by)
        block_devices.remove(conn, device)


def _delete_volume(conn: Connection, volume_id: str, by: Origin) -> None:
    # Another server may have it too.
    if volumes.find(conn, volume_id) is not None and not volumes.is_held(conn, volume_id):
        tasks.supersede(conn, DELETE_VOLUME, volume_id, by, keep=(DELETE_VOLUME,))


def failed(conn: Connection, server_id: str, message: str, now: datetime) -> None:
    """The delete did not come to its end: the server is in ERROR and can be deleted again."""
    servers.fail(conn, server_id, "delete failed", message, now)
