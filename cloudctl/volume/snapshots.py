"""Snapshots: the record, who sees it, and what may be done with it. Reference: volume.md, section 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from attrs import field, frozen
from sqlalchemy import bindparam, delete, func, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Listing
from cloudctl.volume import kinds, quotas, states, types, volumes
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.owned import SNAPSHOTS
from cloudctl.volume.tables import Snapshot

LISTING = Listing(
    Snapshot.table,
    sort_keys={
        "id": Snapshot.id,
        "name": func.coalesce(Snapshot.name, ""),
        "display_name": func.coalesce(Snapshot.name, ""),
        "status": Snapshot.status,
        "volume_id": Snapshot.volume_id,
        "volume_size": Snapshot.size,
        "created_at": Snapshot.created_at,
        "updated_at": func.coalesce(Snapshot.updated_at, Snapshot.created_at),
    },
)


@frozen
class NewSnapshot:
    """What the caller asked for. `force`: even if the volume is in use."""

    volume_id: str
    name: str | None = None
    description: str | None = None
    metadata: Mapping[str, str] = field(factory=dict)
    force: bool = False


# -- queries


find, get, visible, not_found = SNAPSHOTS.find, SNAPSHOTS.get, SNAPSHOTS.visible, SNAPSHOTS.not_found

# Built once: building a statement costs more than running it.
_shared = select(Snapshot).where(Snapshot.id == bindparam("wanted")).with_for_update(read=True)
_of_volume = (
    select(Snapshot)
    .where(Snapshot.volume_id == bindparam("volume"))
    .order_by(Snapshot.created_at.desc(), Snapshot.id.desc())
)


def as_source(conn: Connection, caller: Caller, snapshot_id: str) -> Snapshot:
    """As `visible`; nobody changes it before this transaction ends, but others may make a volume of it, too."""
    visible(conn, caller, snapshot_id)
    found = conn.execute(_shared, {"wanted": snapshot_id}).first()
    if found is None:
        raise not_found(snapshot_id)
    return found


def of_volume(conn: Connection, volume_id: str) -> list[Snapshot]:
    """The newest first."""
    return list(conn.execute(_of_volume, {"volume": volume_id}))


# -- actions


def create(conn: Connection, caller: Caller, new: NewSnapshot, options: VolumeOptions) -> Snapshot:
    """The snapshot, `creating`, and a task that makes it. Raises NotFound, Conflict, OverQuota."""
    made = begin(conn, caller, new, options)
    tasks.submit(conn, kinds.CREATE_SNAPSHOT, made.id, caller)
    return made


def begin(conn: Connection, caller: Caller, wanted: NewSnapshot, options: VolumeOptions) -> Snapshot:
    """The snapshot, `creating`; the caller submits the task that makes it. Raises NotFound, Conflict, OverQuota."""
    volume = volumes.visible(conn, caller, wanted.volume_id, lock=True)
    name = "snapshot in use" if wanted.force else "snapshot"
    if not states.VOLUME.allows(conn, volume.id, name, states.not_migrating):
        raise states.refused(conn, volume.id, name)
    type_ = types.get(conn, volume.volume_type_id)
    quotas.take(conn, options, volume.project_id, type_.name, {"snapshots": 1, "gigabytes": volume.size})
    made = new_id()
    conn.execute(
        insert(Snapshot).values(
            id=made,
            project_id=volume.project_id,
            user_id=caller.user_id,
            volume_id=volume.id,
            name=wanted.name,
            description=wanted.description,
            status=states.CREATING,
            size=volume.size,
            metadata=dict(wanted.metadata),
            created_at=caller.now,
        )
    )
    return get(conn, made)


def begin_remove(conn: Connection, caller: Caller, snapshot_id: str, move: str) -> None:
    """Set `deleting`, unless something forbids it. Raises NotFound, Conflict."""
    if visible(conn, caller, snapshot_id).group_snapshot_id is not None:
        raise Conflict(states.SNAPSHOT_MOVES["delete"].refusal or "")
    states.SNAPSHOT.move(conn, snapshot_id, move, caller.now)


def remove(conn: Connection, caller: Caller, snapshot_id: str, force: bool) -> None:
    """Set `deleting`; any work under way on it stops first. `force`: from any status. Raises NotFound, Conflict."""
    begin_remove(conn, caller, snapshot_id, "force delete" if force else "delete")
    tasks.supersede(conn, kinds.DELETE_SNAPSHOT, snapshot_id, caller, keep=kinds.LENT)


def remove_all(conn: Connection, caller: Caller, volume_id: str, force: bool) -> None:
    """Set `deleting` on all snapshots of a volume that is deleted with them. Raises Conflict unless each may go.

    The volume must be locked; its own task removes them.
    """
    owner = volumes.get(conn, volume_id).project_id
    name = "force delete" if force else "delete with its volume"
    for row in of_volume(conn, volume_id):
        if row.project_id != owner or not states.SNAPSHOT.try_move(conn, row.id, name, caller.now):
            raise states.refused(conn, volume_id, "delete")
        tasks.cancel_open(conn, kinds.SNAPSHOT, row.id, kinds.LENT)


def forget(conn: Connection, snapshot_id: str) -> None:
    """Delete the record. An unknown id is not an error."""
    conn.execute(delete(Snapshot).where(Snapshot.id == snapshot_id))


def change(conn: Connection, snapshot: Snapshot, changes: Mapping[str, Any], now: datetime) -> Snapshot:
    """Raises NotFound."""
    conn.execute(update(Snapshot).where(Snapshot.id == snapshot.id).values(updated_at=now, **changes))
    return get(conn, snapshot.id)


def change_metadata(
    conn: Connection, caller: Caller, snapshot_id: str, edit: Callable[[dict[str, str]], Mapping[str, str]]
) -> dict[str, str]:
    """Replace the metadata with what `edit` makes of it. Raises NotFound."""
    visible(conn, caller, snapshot_id)
    wanted = dict(edit(dict(get(conn, snapshot_id, lock=True).metadata)))
    conn.execute(update(Snapshot).where(Snapshot.id == snapshot_id).values(metadata=wanted, updated_at=caller.now))
    return wanted


def no_metadata(snapshot_id: str, key: str) -> NotFound:
    return NotFound(f"Snapshot {snapshot_id[:64]} has no metadata with key {key[:255]}.")


def reset(conn: Connection, caller: Caller, snapshot_id: str, status: str) -> None:
    """Set the status an administrator gives; nothing is done to the snapshot itself. Raises NotFound."""
    change(conn, visible(conn, caller, snapshot_id), {"status": status}, caller.now)


def report(conn: Connection, caller: Caller, snapshot_id: str, status: str, progress: str | None) -> None:
    """Record what a service that makes snapshots reports. Raises NotFound, Invalid for a status that cannot follow."""
    before = visible(conn, caller, snapshot_id).status
    if status not in states.SNAPSHOT_UPDATES.get(before, ()):
        raise Invalid(f"Provided snapshot status {status} not allowed for snapshot with status {before}.")
    values = {} if progress is None else {"progress": progress}
    conn.execute(
        update(Snapshot)
        .where(Snapshot.id == snapshot_id, Snapshot.status == before)
        .values(status=status, updated_at=caller.now, **values)
    )


def revert(conn: Connection, caller: Caller, volume_id: str, snapshot_id: str) -> None:
    """Revert the volume to its latest snapshot. Raises NotFound, Invalid, Conflict."""
    volume = volumes.visible(conn, caller, volume_id, lock=True)
    visible(conn, caller, snapshot_id)
    # Its deletion, which does not wait for the volume, may end at any moment.
    snapshot = get(conn, snapshot_id, lock=True)
    if snapshot.volume_id != volume.id:
        raise Invalid(f"Specified snapshot {snapshot.id} is None or not found on volume {volume.id}.")
    if of_volume(conn, volume.id)[0].id != snapshot.id:
        raise Invalid(f"Specified snapshot {snapshot.id} is not the latest one of volume {volume.id}.")
    if snapshot.size != volume.size:
        raise Invalid(
            f"Can't revert volume {volume.id} to its latest snapshot {snapshot.id}. The volume size must be equal to "
            "the snapshot size."
        )
    if volumes.is_held(conn, volume.id):
        raise states.refused(conn, volume.id, "revert")
    states.move(conn, volume.id, "revert", caller.now, states.not_migrating)
    states.SNAPSHOT.move(conn, snapshot.id, "revert", caller.now)
    tasks.submit(conn, kinds.REVERT_VOLUME, volume.id, caller, args={"snapshot_id": snapshot.id})
