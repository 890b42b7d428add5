"""Snapshots of groups: one snapshot of each volume, all of one moment if the group's type asks for that.

Reference: OpenStack's block storage API, group snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve, frozen
from sqlalchemy import bindparam, delete, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, Invalid
from cloudctl.rest.caller import Caller
from cloudctl.volume import creation, group_types, groups, kinds, snapshots, states
from cloudctl.volume.creation import NewVolume
from cloudctl.volume.groups import NewGroup
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.owned import GROUP_SNAPSHOTS
from cloudctl.volume.snapshots import NewSnapshot
from cloudctl.volume.tables import Group, GroupSnapshot, Snapshot, Volume

RESETTABLE = frozenset({"creating", "available", "error", "error_deleting", "deleting", "updating"})


get, visible, not_found = GROUP_SNAPSHOTS.get, GROUP_SNAPSHOTS.visible, GROUP_SNAPSHOTS.not_found


# Built once: building a statement costs more than running it.
_members = select(Snapshot).where(Snapshot.group_snapshot_id == bindparam("wanted"))


def members(conn: Connection, id: str) -> list[Snapshot]:
    """The oldest first."""
    ordered = _members.order_by(Snapshot.created_at, Snapshot.id)
    return list(conn.execute(ordered, {"wanted": id}).all())


def member(conn: Connection, snapshot_id: str) -> Snapshot | None:
    """A snapshot that is about to end or to go. If it is one of several, they are locked, as before all are deleted."""
    found = snapshots.find(conn, snapshot_id)
    if found is not None and found.group_snapshot_id is not None:
        get(conn, found.group_snapshot_id, lock=True)
    return found


@frozen
class NewGroupSnapshot:
    group_id: str
    name: str | None = None
    description: str | None = None


def create(
    conn: Connection, caller: Caller, new: NewGroupSnapshot, options: VolumeOptions, freezing: Sequence[str] = ()
) -> GroupSnapshot:
    """`creating`: each volume of the group gets a snapshot by a task, or all by one if they must be of one moment.

    `freezing`: the pools whose backends can do that. Raises NotFound, Conflict, OverQuota; Invalid for an empty group.
    """
    group = groups.visible(conn, caller, new.group_id, lock=True)
    present = groups.members(conn, group.id, lock=True)
    if not present:
        raise Invalid(f"Invalid group: Group {group.id} is empty, so there is nothing to freeze.")
    at_once = group_types.is_consistent(group_types.get(conn, group.group_type_id))
    if at_once:
        _demand_freezing(group, present, freezing, options)
    made = insert(GroupSnapshot).values(
        id=new_id(),
        project_id=group.project_id,
        user_id=caller.user_id,
        group_id=group.id,
        group_type_id=group.group_type_id,
        name=new.name,
        description=new.description,
        status=states.CREATING,
        created_at=caller.now,
    )
    record = conn.execute(made.returning(GroupSnapshot)).one()
    for volume in present:
        wish = NewSnapshot(volume.id, name=f"snapshot-of-{volume.name or volume.id}"[:255], force=True)
        frozen_one = (snapshots.begin if at_once else snapshots.create)(conn, caller, wish, options)
        snapshots.change(conn, frozen_one, {"group_snapshot_id": record.id}, caller.now)
    if at_once:
        tasks.submit(conn, kinds.CREATE_GROUP_SNAPSHOT, record.id, caller)
    return record


def _demand_freezing(group: Group, present: Sequence[Volume], freezing: Sequence[str], options: VolumeOptions) -> None:
    """Raises Invalid unless these volumes can be frozen at one moment: the type may not always have asked for it."""
    first, *others = [volume.host or "" for volume in present]
    if not all(options.is_one(first, host) for host in others):
        raise Invalid(f"Invalid group: the volumes of group {group.id} are on several backends.")
    if not any(options.is_one(first, host) for host in freezing):
        raise Invalid(f"Invalid group: the backend of group {group.id} cannot freeze several volumes at one moment.")


def remove(conn: Connection, caller: Caller, record: GroupSnapshot) -> None:
    """Set `deleting`, for all its snapshots too; the record goes with the last of them. Raises Conflict."""
    record = get(conn, record.id, lock=True)
    if record.status not in (states.AVAILABLE, states.ERROR, states.ERROR_DELETING):
        raise Conflict(f"Invalid group snapshot: {record.id} is {record.status}; it must be available or in error.")
    if tasks.has_open(conn, kinds.GROUP_SNAPSHOT, record.id):
        raise Conflict(f"Invalid group snapshot: {record.id} is still being made, whatever its status says.")
    for each in members(conn, record.id):
        states.SNAPSHOT.move(conn, each.id, "delete with its group", caller.now)
        tasks.supersede(conn, kinds.DELETE_SNAPSHOT, each.id, caller, keep=kinds.LENT)
    conn.execute(
        update(GroupSnapshot).where(GroupSnapshot.id == record.id).values(status=states.DELETING, updated_at=caller.now)
    )
    follow(conn, record.id, caller.now)


def follow(conn: Connection, id: str | None, now: datetime) -> None:
    """Bring its status in line with its snapshots, after one of them has finished or gone."""
    if id is None:
        return
    record = get(conn, id, lock=True)
    found = {each.status for each in members(conn, id)}
    if record.status == states.DELETING and not found:
        conn.execute(delete(GroupSnapshot).where(GroupSnapshot.id == id))
        return
    status = record.status
    if record.status == states.DELETING and found & {states.ERROR_DELETING, states.AVAILABLE}:
        # One that the backend still needs is available again: then it is not deleted, and no longer whole.
        status = states.ERROR_DELETING
    elif record.status == states.CREATING and not found & {states.CREATING}:
        status = states.AVAILABLE if found <= {states.AVAILABLE} else states.ERROR
    if status != record.status:
        conn.execute(update(GroupSnapshot).where(GroupSnapshot.id == id).values(status=status, updated_at=now))


def reset(conn: Connection, caller: Caller, record: GroupSnapshot, status: str) -> None:
    changed = update(GroupSnapshot).where(GroupSnapshot.id == record.id)
    conn.execute(changed.values(status=status, updated_at=caller.now))


# -- groups made from a group or a group snapshot


@frozen
class Source:
    """One of the two is set."""

    group_snapshot_id: str | None = None
    source_group_id: str | None = None


def create_group(
    conn: Connection,
    caller: Caller,
    source: Source,
    name: str | None,
    description: str | None,
    options: VolumeOptions,
    freezing: Sequence[str] = (),
) -> Group:
    """A group with a copy of each volume. Raises NotFound, Invalid, Conflict, OverQuota."""
    if (source.group_snapshot_id is None) is (source.source_group_id is None):
        raise Invalid("Exactly one of 'group_snapshot_id' and 'source_group_id' is needed.")
    if source.group_snapshot_id is not None:
        record = visible(conn, caller, source.group_snapshot_id)
        if record.status != states.AVAILABLE:
            raise Conflict(f"Invalid group snapshot: {record.id} is {record.status}; it must be available.")
        origin = groups.visible(conn, caller, record.group_id)
        wishes = [NewVolume(snapshot_id=each.id, name=each.name) for each in members(conn, record.id)]
    else:
        origin = groups.visible(conn, caller, source.source_group_id or "")
        wishes = [
            NewVolume(source_volid=each.id, name=each.name) for each in groups.members(conn, origin.id, lock=True)
        ]
    new = NewGroup(
        origin.group_type_id,
        origin.volume_types,
        name,
        description,
        origin.availability_zone,
        source.group_snapshot_id,
        source.source_group_id,
        origin.host,
    )
    made = groups.create(conn, caller, new, options, freezing)
    for wish in wishes:
        creation.create(conn, caller, evolve(wish, group_id=made.id), options)
    return made
