"""Groups and their members. Reference: identity.md, section 5."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import delete, select

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.errors import Conflict, Invalid
from cloudctl.identity import cascade, domains, epoch, records, users
from cloudctl.identity.records import folded, own_attributes
from cloudctl.identity.tables import Group, Membership
from cloudctl.rest.listing import Condition


def get(conn: Connection, group_id: str, *, lock: bool = False, stays: bool = False) -> Group:
    """As `records.get`. Raises NotFound."""
    return records.get(conn, Group, group_id, "group", lock=lock, stays=stays)


def of_user(user_id: str) -> Condition:
    return Group.id.in_(select(Membership.group_id).where(Membership.user_id == user_id))


def create(conn: Connection, values: dict[str, Any], now: datetime) -> Group:
    """`values`: name, domain_id, description, extra. Raises NotFound (domain), Conflict (name), Invalid."""
    domains.get(conn, values["domain_id"], stays=True)
    row = {
        "id": new_hex_id(),
        "description": "",
        **values,
        "name_key": folded(values["name"]),
        "extra": own_attributes(values.get("extra", {})),
        "created_at": now,
    }
    taken = Conflict(f"It is not permitted to have two groups with the same name in a domain: {values['name']}.")
    records.insert_unique(conn, Group, row, taken)
    return get(conn, row["id"])


def change(conn: Connection, group_id: str, changes: dict[str, Any]) -> Group:
    """Raises NotFound, Conflict, Invalid."""
    before = get(conn, group_id, lock=True)
    values = dict(changes)
    if "domain_id" in values and values.pop("domain_id") != before.domain_id:
        raise Invalid("The domain of a group cannot be changed.")
    if "name" in values:
        values["name_key"] = folded(values["name"])
    if "extra" in values:
        values["extra"] = own_attributes(values["extra"], before.extra)
    taken = Conflict(f"It is not permitted to have two groups with the same name in a domain: {values.get('name')}.")
    records.update_unique(conn, Group, group_id, values, taken)
    return get(conn, group_id)


def remove(conn: Connection, group_id: str) -> None:
    """With its grants; its members lose the roles that they had through it. Raises NotFound."""
    get(conn, group_id, lock=True)
    cascade.of_group(conn, group_id)
    conn.execute(delete(Group).where(Group.id == group_id))
    epoch.changed(conn)


def add(conn: Connection, group_id: str, user_id: str) -> None:
    """Repeating it does nothing. Raises NotFound."""
    get(conn, group_id, stays=True)
    users.get(conn, user_id, stays=True)
    records.put(conn, Membership, group_id=group_id, user_id=user_id)
    epoch.changed(conn)


def has(conn: Connection, group_id: str, user_id: str) -> bool:
    """A user that does not exist is in none. Raises NotFound for a group that does not exist."""
    get(conn, group_id)
    mine = (Membership.group_id == group_id, Membership.user_id == user_id)
    return conn.execute(select(Membership.user_id).where(*mine)).first() is not None


def take_out(conn: Connection, group_id: str, user_id: str) -> None:
    """Raises NotFound if the user is not in it."""
    if not has(conn, group_id, user_id):
        raise records.not_found("user in group", user_id)
    conn.execute(delete(Membership).where(Membership.group_id == group_id, Membership.user_id == user_id))
    cascade.drop_what_lost_its_roles(conn, [user_id])
    epoch.changed(conn)
