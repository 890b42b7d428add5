"""The deletion of servers. It overrides everything else. Reference: compute-states.md, section 4.2."""

from __future__ import annotations

from datetime import datetime

from cloudctl import tasks
from cloudctl.compute import block_devices, kinds, migrations, networking, quotas, resizing, servers, shelving
from cloudctl.compute.states import DELETING, MOVES, SOFT_DELETING
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.placement import claims
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Kind, Origin, Unasked
from cloudctl.volume import attachments, volumes
from cloudctl.volume.kinds import DELETE_VOLUME, LENT, VOLUME
from cloudctl.volume.states import CREATING

DELETES = (kinds.DELETE, kinds.FORCE_DELETE)
# Cut short, these leave no guest where the server's record says it is: one that can be restored waits for their end.
NOT_CUT_SHORT = (kinds.REVERT_RESIZE, kinds.REBUILD, kinds.EVACUATE)


def remove(conn: Connection, caller: Caller, server_id: str, *, later: bool = False) -> None:
    """Accepted in every state; a deletion that is under way is not begun again. Raises NotFound, Conflict (locked).

    `later`: the server can be restored for a while.
    """
    row = servers.visible(conn, caller, server_id, lock=True)
    servers.check(row, "delete", over_lock=caller.may(servers.OVER_LOCK))
    if _is_under_way(conn, row):
        return
    if later and _can_wait(row):
        if row.task_state == SOFT_DELETING and tasks.has_open(conn, kinds.SERVER, row.id, (kinds.SOFT_DELETE,)):
            return
        servers.move(conn, row.id, "soft delete", caller.now, waiting_since=caller.now)
        tasks.supersede(conn, kinds.SOFT_DELETE, row.id, caller, keep=NOT_CUT_SHORT)
        return
    _begin(conn, row, "delete", kinds.DELETE, caller.now, caller)


def soft_deleted(conn: Connection, server_id: str, now: datetime) -> None:
    """The guest is off, and can be restored for a while; a resize counts as confirmed, as with every deletion."""
    if servers.try_move(conn, server_id, "soft-deleted", now):
        resizing.end_all(conn, server_id, now)


def force(conn: Connection, caller: Caller, server_id: str) -> None:
    """Delete the server so that it cannot be restored. Raises NotFound, Conflict (locked)."""
    row = servers.visible(conn, caller, server_id, lock=True)
    servers.check(row, "forceDelete", over_lock=caller.may(servers.OVER_LOCK))
    if not _is_under_way(conn, row):
        _begin(conn, row, "forceDelete", kinds.FORCE_DELETE, caller.now, caller)


def restore(conn: Connection, caller: Caller, server_id: str) -> None:
    """Make a soft-deleted server run again. Raises NotFound, Conflict, OverQuota."""
    row = servers.begin(conn, caller, server_id, "restore")
    # Soft-deleted servers do not count towards the quota. This one does from now on, as it waits for nothing any more.
    quotas.take_servers(conn, row.project_id, row.user_id, 1, 1, row.vcpus, row.memory_mib)
    servers.change(conn, row, {"waiting_since": None}, caller.now)
    tasks.submit(conn, kinds.RESTORE, row.id, caller)


def overdue(conn: Connection, row: Server, now: datetime) -> None:
    """Delete a server that was soft-deleted long enough ago."""
    if not _is_under_way(conn, row):
        _begin(conn, row, "delete", kinds.DELETE, now, Unasked(row.project_id))


def _can_wait(row: Server) -> bool:
    """Whether there is a guest that could run again."""
    return row.launched_at is not None and row.host is not None and MOVES["soft delete"].wrong(row) is None


def _is_under_way(conn: Connection, row: Server) -> bool:
    """A deletion that an operator must look at (held) does not prevent another attempt."""
    return row.task_state == DELETING and tasks.has_open(conn, kinds.SERVER, row.id, DELETES)


def _begin(conn: Connection, row: Server, name: str, kind: Kind, now: datetime, by: Origin) -> None:
    servers.move(conn, row.id, name, now)
    tasks.supersede(conn, kind, row.id, by, keep=DELETES)


def finish(conn: Connection, server_id: str, now: datetime, by: Origin, *, ports_have_left: bool) -> None:
    """Nothing of the guest is left: release everything and close the record. May be repeated.

    `ports_have_left`: all hosts have released the server's ports, see `network.ports.leaving`.
    """
    server = servers.find(conn, server_id)
    if server is not None:
        quota.turn(conn, quotas.QUOTAS, server.project_id)
    release_devices(conn, server_id, now, by, made_only=False)
    networking.let_all_go(conn, server_id, now, by, have_left=ports_have_left)
    claims.release(conn, server_id)
    if server is not None:
        shelving.forget_image(conn, server, now, by)
    migrations.close_all(conn, server_id, now)
    servers.remove(conn, server_id, now)


def release_devices(conn: Connection, server_id: str, now: datetime, by: Origin, *, made_only: bool) -> None:
    """Release the volumes, and delete those that are to be deleted with the server. May be repeated.

    `made_only`: a boot failed; the user's own volumes are kept even if they were to be deleted with the server.

    One that was to be made and to outlive the server goes, too, if nothing has begun to make it: nothing will.
    """
    for device in block_devices.of_server(conn, server_id):
        if device.attachment_id:
            attachments.finish_detach(conn, device.attachment_id, now)
        made = device.source_type != block_devices.VOLUME
        doomed = device.delete_on_termination and (made or not made_only)
        if doomed or (made and not device.attachment_id and _is_only_promised(conn, device.volume_id)):
            _delete_volume(conn, device.volume_id, by)
        block_devices.remove(conn, device)


def _is_only_promised(conn: Connection, volume_id: str) -> bool:
    # In this order: the work that makes it may be committed between the two.
    if tasks.has_open(conn, VOLUME, volume_id):
        return False
    row = volumes.find(conn, volume_id, lock=True)
    return row is not None and row.status == CREATING


def _delete_volume(conn: Connection, volume_id: str, by: Origin) -> None:
    # Another server may have it too.
    if volumes.find(conn, volume_id) is not None and not volumes.is_held(conn, volume_id):
        tasks.supersede(conn, DELETE_VOLUME, volume_id, by, keep=(DELETE_VOLUME, *LENT))


def failed(conn: Connection, server_id: str, message: str, now: datetime) -> None:
    """The deletion did not finish: the server is in ERROR and can be deleted again."""
    servers.fail(conn, server_id, "delete failed", message, now)
