"""Transfers: a volume moves to another project that knows the key. Reference: volume.md, section 11."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from attrs import frozen
from sqlalchemy import delete, insert, update

from cloudctl.db import Connection, totals
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, Invalid
from cloudctl.rest.caller import Caller
from cloudctl.volume import quotas, snapshots, states, types, volumes
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.owned import TRANSFERS
from cloudctl.volume.tables import Attachment, Snapshot, Transfer, Volume

get, visible, not_found = TRANSFERS.get, TRANSFERS.visible, TRANSFERS.not_found


@frozen
class NewTransfer:
    volume_id: str
    name: str | None = None
    no_snapshots: bool = False  # they stay where they are


def create(conn: Connection, caller: Caller, new: NewTransfer) -> tuple[Transfer, str]:
    """The transfer and its key, which is not stored; the volume is `awaiting-transfer`. Raises NotFound, Conflict."""
    volume = volumes.visible(conn, caller, new.volume_id, lock=True)
    if volume.group_id is not None:
        raise Conflict(f"Invalid volume: Volume {volume.id} is in group {volume.group_id}.")
    if not new.no_snapshots:
        for snapshot in _owned(conn, volume):
            if snapshot.status != states.AVAILABLE:
                raise Conflict(f"Invalid snapshot: Snapshot {snapshot.id} must be available to transfer it.")
    states.move(conn, volume.id, "offer", caller.now, states.not_migrating)
    # Left over from an offer that an administrator ended by setting another status.
    conn.execute(delete(Transfer).where(Transfer.volume_id == volume.id))
    key, salt = secrets.token_hex(8), secrets.token_hex(16)
    made = insert(Transfer).values(
        id=new_id(),
        volume_id=volume.id,
        project_id=volume.project_id,
        name=new.name,
        salt=salt,
        digest=_digest(salt, key),
        no_snapshots=new.no_snapshots,
        created_at=caller.now,
    )
    return conn.execute(made.returning(Transfer)).one(), key


def _owned(conn: Connection, volume: Volume) -> list[Snapshot]:
    """The snapshots that may go with the volume. Those that a former owner kept stay where they are."""
    return [each for each in snapshots.of_volume(conn, volume.id) if each.project_id == volume.project_id]


def _digest(salt: str, key: str) -> str:
    # The key is random, with too many possible values to try: it needs no slow hash.
    return hmac.new(bytes.fromhex(salt), key.encode(), hashlib.sha256).hexdigest()


def offered(conn: Connection, transfer_id: str, key: str) -> Transfer:
    """As `get`, for who knows the key. Raises NotFound, Invalid for a wrong one."""
    transfer = get(conn, transfer_id)
    if not hmac.compare_digest(transfer.digest, _digest(transfer.salt, key)):
        raise Invalid(f"Invalid auth key: Attempt to transfer {transfer_id} with invalid auth key.")
    return transfer


def accept(conn: Connection, caller: Caller, transfer_id: str, key: str, options: VolumeOptions) -> Transfer:
    """Give the volume to the caller's project. Raises NotFound, Invalid for a wrong key, Conflict, OverQuota.

    Call it after the backend has disconnected the hosts to which it is not attached.
    """
    transfer = offered(conn, transfer_id, key)
    volume = volumes.get(conn, transfer.volume_id, lock=True)
    _end(conn, transfer)
    frozen = [] if transfer.no_snapshots else _owned(conn, volume)
    if caller.project_id != volume.project_id:
        type_ = types.get(conn, volume.volume_type_id)
        gigabytes = volume.size + sum(each.size for each in frozen)
        more = {"volumes": 1, "snapshots": len(frozen), "gigabytes": gigabytes}
        quotas.take(conn, options, caller.project_id, type_.name, more, size=volume.size)
    totals.hold(conn, ("volumes", "snapshots", "gigabytes"), (volume.project_id, caller.project_id))
    states.move(conn, volume.id, "accept", caller.now, project_id=caller.project_id, user_id=caller.user_id)
    conn.execute(update(Attachment).where(Attachment.volume_id == volume.id).values(project_id=caller.project_id))
    mine = {"project_id": caller.project_id, "user_id": caller.user_id, "updated_at": caller.now}
    conn.execute(update(Snapshot).where(Snapshot.id.in_([each.id for each in frozen])).values(**mine))
    return transfer


def _end(conn: Connection, transfer: Transfer) -> None:
    """Delete it. Raises NotFound if somebody else was faster. The volume must be locked."""
    if conn.execute(delete(Transfer).where(Transfer.id == transfer.id)).rowcount == 0:
        raise not_found(transfer.id)


def remove(conn: Connection, caller: Caller, transfer: Transfer) -> None:
    """Withdraw the offer: the volume stays where it is, and is `available`. Raises NotFound."""
    volumes.find(conn, transfer.volume_id, lock=True)
    _end(conn, transfer)
    states.try_move(conn, transfer.volume_id, "withdraw", caller.now)
