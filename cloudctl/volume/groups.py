"""Groups: volumes that are frozen and copied together. Reference: OpenStack's block storage API, groups.

Backends have no groups: an action on a group acts on its volumes, each by its own task. Only if the group's type asks
for snapshots of one moment, all its volumes are on one backend, which takes their snapshots by one call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, delete, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, Invalid
from cloudctl.rest.caller import Caller
from cloudctl.volume import group_types, kinds, placing, quotas, states, types, volumes
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.owned import GROUPS
from cloudctl.volume.tables import Group, GroupSnapshot, GroupType, Volume, VolumeType

# The statuses that an administrator may set.
RESETTABLE = frozenset({"creating", "available", "error", "error_deleting", "deleting", "updating"})


get, visible, not_found = GROUPS.get, GROUPS.visible, GROUPS.not_found


# Built once: building a statement costs more than running it.
_members = select(Volume).where(Volume.group_id == bindparam("wanted")).order_by(Volume.created_at, Volume.id)
# All who lock several volumes lock them by their ids, after their group and before they count for a quota.
_locked_members = select(Volume).where(Volume.group_id == bindparam("wanted")).order_by(Volume.id).with_for_update()


def members(conn: Connection, group_id: str, *, lock: bool = False) -> list[Volume]:
    """The oldest first. `lock`: nobody else changes them before this transaction ends."""
    if lock:
        conn.execute(_locked_members, {"wanted": group_id}).all()
    return list(conn.execute(_members, {"wanted": group_id}).all())


def ids_of_members(conn: Connection, group_ids: Sequence[str]) -> dict[str, list[str]]:
    """Group id → the ids of its volumes, the oldest first; groups without any are left out."""
    found: dict[str, list[str]] = defaultdict(list)
    mine = select(Volume.group_id, Volume.id).where(Volume.group_id.in_(group_ids))
    for group_id, id in conn.execute(mine.order_by(Volume.created_at, Volume.id)):
        found[group_id or ""].append(id)
    return dict(found)


@frozen
class NewGroup:
    group_type: str
    volume_types: Sequence[str]  # names or ids
    name: str | None = None
    description: str | None = None
    availability_zone: str | None = None
    group_snapshot_id: str | None = None
    source_group_id: str | None = None
    host: str | None = None  # that of the group or group snapshot that it is made from


def create(
    conn: Connection, caller: Caller, new: NewGroup, options: VolumeOptions, freezing: Sequence[str] = ()
) -> Group:
    """`freezing`: the pools whose backends freeze volumes at one moment. Raises NotFound, Invalid, OverQuota."""
    type_ = group_types.visible(conn, caller, new.group_type, for_group=True)
    zone = new.availability_zone or options.default_zone
    if zone not in options.availability_zones:
        raise Invalid(f"Availability zone '{zone}' is invalid.")
    allowed = [types.by_name_or_id(conn, caller, each) for each in new.volume_types]
    host = _pool(type_, allowed, freezing, new.host, options)
    quotas.take_group(conn, options, caller.project_id)
    made = insert(Group).values(
        id=new_id(),
        project_id=caller.project_id,
        user_id=caller.user_id,
        name=new.name,
        description=new.description,
        status=states.AVAILABLE,
        group_type_id=type_.id,
        volume_types=list(dict.fromkeys(each.id for each in allowed)),
        availability_zone=zone,
        host=host,
        group_snapshot_id=new.group_snapshot_id,
        source_group_id=new.source_group_id,
        created_at=caller.now,
    )
    return conn.execute(made.returning(Group)).one()


def _pool(
    type_: GroupType,
    allowed: Sequence[VolumeType],
    freezing: Sequence[str],
    wanted: str | None,
    options: VolumeOptions,
) -> str | None:
    """The pool of all its volumes, if they are to be frozen at one moment. Raises Invalid if there is none."""
    if not group_types.is_consistent(type_):
        return None
    for host in freezing:
        fitting = all(placing.is_named(host, each.extra_specs) for each in allowed)
        if fitting and (wanted is None or options.is_one(wanted, host)):
            return host
    raise Invalid(
        f"Invalid group type: {type_.id} asks for snapshots of several volumes at one moment, which no backend takes "
        "that all these volume types can be on."
    )


@frozen
class Change:
    """`values`: columns. `add` and `remove`: ids of volumes."""

    values: Mapping[str, Any]
    add: Sequence[str] = ()
    remove: Sequence[str] = ()


def alter(conn: Connection, caller: Caller, group: Group, wanted: Change, options: VolumeOptions) -> Group:
    """Raises Invalid, Conflict."""
    group = get(conn, group.id, lock=True)
    _demand_available(group)
    if has_snapshots(conn, group.id) and (wanted.add or wanted.remove):
        raise Conflict(f"Invalid group: Group {group.id} has snapshots, so its volumes stay.")
    found = {id: volumes.visible(conn, caller, id, lock=True) for id in sorted({*wanted.add, *wanted.remove})}
    for volume_id in wanted.remove:
        if found[volume_id].group_id != group.id:
            raise Invalid(f"Invalid volume: Cannot remove volume {volume_id}: it is not in the group.")
        _join(conn, volume_id, None, caller.now)
    for volume_id in wanted.add:
        volume = found[volume_id]
        if volume.group_id is not None or volume.project_id != group.project_id:
            raise Invalid(f"Invalid volume: Cannot add volume {volume_id}: it is in another group or project.")
        demand_type(group, volume.volume_type_id)
        demand_pool(group, volume.host, options)
        if volume.status not in (states.AVAILABLE, states.IN_USE):
            raise Invalid(f"Invalid volume: Cannot add volume {volume_id}: it is {volume.status}.")
        _join(conn, volume_id, group.id, caller.now)
    conn.execute(update(Group).where(Group.id == group.id).values(updated_at=caller.now, **wanted.values))
    return get(conn, group.id)


def _join(conn: Connection, volume_id: str, group_id: str | None, now: datetime) -> None:
    conn.execute(update(Volume).where(Volume.id == volume_id).values(group_id=group_id, updated_at=now))


def _demand_available(group: Group) -> None:
    if group.status != states.AVAILABLE:
        raise Conflict(f"Invalid group: Group {group.id} is {group.status}; it must be available.")


def demand_type(group: Group, type_id: str) -> None:
    """Raises Invalid unless volumes of the type may be in the group."""
    if type_id not in group.volume_types:
        raise Invalid(f"Invalid volume type: type {type_id} is not one of those of group {group.id}.")


def demand_pool(group: Group, host: str | None, options: VolumeOptions) -> None:
    """Raises Invalid unless volumes of this pool may be in the group."""
    if group.host is not None and (host is None or not options.is_one(group.host, host)):
        raise Invalid(
            f"Invalid volume: all volumes of group {group.id} are on one backend, so that they are frozen at once."
        )


def for_new(conn: Connection, caller: Caller, group_id: str) -> Group:
    """The group of a new volume, locked. Raises NotFound, Conflict."""
    group = visible(conn, caller, group_id, lock=True)
    if group.project_id != caller.project_id:
        raise not_found(group_id)
    _demand_available(group)
    return group


def has_snapshots(conn: Connection, group_id: str) -> bool:
    query = select(GroupSnapshot.id).where(GroupSnapshot.group_id == group_id)
    return conn.execute(query.limit(1)).first() is not None


def remove(conn: Connection, caller: Caller, group: Group, with_volumes: bool) -> None:
    """Set `deleting`, for its volumes too, each of which has a task of its own; the group goes with the last of them.

    `with_volumes`: it may have some. Raises Conflict.
    """
    group = get(conn, group.id, lock=True)
    if has_snapshots(conn, group.id):
        raise Conflict(f"Invalid group: Group {group.id} has group snapshots.")
    if group.status not in (states.AVAILABLE, states.ERROR, states.ERROR_DELETING):
        raise Conflict(f"Invalid group: Group {group.id} is {group.status}; it must be available or in error.")
    present = members(conn, group.id, lock=True)
    if present and not with_volumes:
        raise Conflict(f"Invalid group: Group {group.id} has volumes; delete-volumes must be true to delete them.")
    for volume in present:
        volumes.begin_delete(conn, volume.id, caller.now, with_group=True)
        tasks.supersede(conn, kinds.DELETE_VOLUME, volume.id, caller, keep=kinds.LENT)
    reset(conn, caller, group, states.DELETING)
    follow(conn, group.id, caller.now)


def follow(conn: Connection, group_id: str, now: datetime) -> None:
    """Bring the status of a group that is being deleted in line with its volumes, after one has gone or has to stay.

    The group is locked.
    """
    group = get(conn, group_id)
    if group.status != states.DELETING:
        return
    found = {each.status for each in members(conn, group_id)}
    if not found:
        conn.execute(delete(Group).where(Group.id == group_id))
    elif states.DELETING not in found:
        conn.execute(update(Group).where(Group.id == group_id).values(status=states.ERROR, updated_at=now))


def reset(conn: Connection, caller: Caller, group: Group, status: str) -> None:
    conn.execute(update(Group).where(Group.id == group.id).values(status=status, updated_at=caller.now))
