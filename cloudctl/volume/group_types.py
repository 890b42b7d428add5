"""Group types: what kind of group one gets. Reference: OpenStack's block storage API, group types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import asdict, field, frozen
from sqlalchemy import ColumnElement, delete, insert, select, update

from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.db.columns import new_id
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, NotFound
from cloudctl.rest.caller import Caller
from cloudctl.volume.tables import Group, GroupType

CONSISTENT, YES = "consistent_group_snapshot_enabled", "<is> True"


RECORDS = ById(GroupType, "Group type {} could not be found.")
get, not_found = RECORDS.get, RECORDS.not_found


def no_spec(type_id: str, key: str) -> NotFound:
    return NotFound(f"Group Type {type_id[:64]} has no specs with key {key[:255]}.")


# Built once: building a statement costs more than running it.


def is_consistent(type_: GroupType) -> bool:
    """Whether snapshots of its groups must be of one moment."""
    return type_.group_specs.get(CONSISTENT) == YES


def seen_by(caller: Caller) -> list[ColumnElement[bool]]:
    """The conditions of every query for group types by this caller."""
    return [] if caller.may("volume:group_types:all") else [GroupType.is_public.is_(True)]


def visible(conn: Connection, caller: Caller, type_id: str, *, for_group: bool = False) -> GroupType:
    """As `get`, if the type is public or the caller sees all. Raises NotFound.

    `for_group`: it gets the type, which nobody removes before this transaction ends.
    """
    found = RECORDS.pinned(conn, type_id) if for_group else get(conn, type_id)
    if not found.is_public and not caller.may("volume:group_types:all"):
        raise not_found(type_id)
    return found


@frozen
class NewGroupType:
    name: str
    description: str | None = None
    is_public: bool = True
    group_specs: Mapping[str, str | None] = field(factory=dict)


def create(conn: Connection, new: NewGroupType, now: datetime) -> GroupType:
    """Raises Conflict if the name is taken."""
    with unique(conn, _taken(new.name)):
        made = insert(GroupType).values(id=new_id(), created_at=now, **asdict(new))
        return conn.execute(made.returning(GroupType)).one()


def change(conn: Connection, type_: GroupType, changes: Mapping[str, Any], now: datetime) -> GroupType:
    """Raises Conflict if the name is another type's."""
    with unique(conn, _taken(changes.get("name", type_.name))):
        conn.execute(update(GroupType).where(GroupType.id == type_.id).values(updated_at=now, **changes))
    return get(conn, type_.id)


def remove(conn: Connection, type_: GroupType) -> None:
    """Raises Conflict while groups have it, NotFound."""
    get(conn, type_.id, lock=True)
    if conn.execute(select(Group.id).where(Group.group_type_id == type_.id).limit(1)).first() is not None:
        raise Conflict(f"Group type {type_.id} is still in use.")
    conn.execute(delete(GroupType).where(GroupType.id == type_.id))


def change_specs(
    conn: Connection, type_id: str, now: datetime, wanted: Mapping[str, str | None], gone: Sequence[str] = ()
) -> None:
    """Merge `wanted` into the specs and drop `gone`. Raises NotFound."""
    specs = get(conn, type_id, lock=True).group_specs
    for key in gone:
        if key not in specs:
            raise no_spec(type_id, key)
    kept = {key: value for key, value in {**specs, **wanted}.items() if key not in gone}
    conn.execute(update(GroupType).where(GroupType.id == type_id).values(group_specs=kept, updated_at=now))


def _taken(name: str) -> Conflict:
    return Conflict(f"Group Type {name} already exists.")
