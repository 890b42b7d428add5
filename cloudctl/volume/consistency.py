"""Consistency groups: the groups of one type, `default_cgsnapshot_type`, whose snapshots are of one moment.

So OpenStack's block storage API keeps its older paths for them. A group of another type is none.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, bindparam, select

from cloudctl.db import Connection
from cloudctl.errors import Conflict, NotFound
from cloudctl.rest.caller import Caller
from cloudctl.volume import group_snapshots, group_types, groups
from cloudctl.volume.group_types import NewGroupType
from cloudctl.volume.tables import Group, GroupSnapshot, GroupType

TYPE = "default_cgsnapshot_type"
NEW_TYPE = NewGroupType(TYPE, "Groups at the old paths", group_specs={group_types.CONSISTENT: group_types.YES})

# Built once: building a statement costs more than running it.
_type_id = select(GroupType.id).where(GroupType.name == TYPE)
_of_type = select(GroupType.id).where(GroupType.name == TYPE, GroupType.id == bindparam("wanted"))

# The conditions of every list of them.
GROUPS: ColumnElement[bool] = Group.group_type_id == _type_id.scalar_subquery()
SNAPSHOTS: ColumnElement[bool] = GroupSnapshot.group_type_id == _type_id.scalar_subquery()


def not_found(group_id: str) -> NotFound:
    return NotFound(f"ConsistencyGroup {group_id[:64]} could not be found.")


def no_snapshot(id: str) -> NotFound:
    return NotFound(f"CgSnapshot {id[:64]} could not be found.")


def visible(conn: Connection, caller: Caller, group_id: str) -> Group:
    """The group, if it is of that type and the caller may see it. Raises NotFound."""
    try:
        found = groups.visible(conn, caller, group_id)
    except NotFound:
        raise not_found(group_id) from None
    if not _is_that(conn, found.group_type_id):
        raise not_found(group_id)
    return found


def visible_snapshot(conn: Connection, caller: Caller, id: str) -> GroupSnapshot:
    """The snapshot of such a group. Raises NotFound."""
    try:
        found = group_snapshots.visible(conn, caller, id)
    except NotFound:
        raise no_snapshot(id) from None
    if not _is_that(conn, found.group_type_id):
        raise no_snapshot(id)
    return found


def _is_that(conn: Connection, type_id: str) -> bool:
    return conn.execute(_of_type, {"wanted": type_id}).first() is not None


def among(conn: Connection, group_ids: Collection[str]) -> frozenset[str]:
    """Those of these groups that are consistency groups."""
    if not group_ids:
        return frozenset()
    return frozenset(conn.scalars(select(Group.id).where(Group.id.in_(group_ids), GROUPS)))


def ensure_type(conn: Connection, now: datetime) -> str:
    """The id of the type, which is made unless it exists: a cloud may be older than it is."""
    found = conn.scalar(_type_id)
    if found is not None:
        return found
    try:
        return group_types.create(conn, NEW_TYPE, now).id
    except Conflict:
        # Another request was first.
        return str(conn.scalar(_type_id))
