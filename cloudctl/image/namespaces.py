"""Namespaces of metadata definitions: who sees them, making, changing and removing them with all that they hold.

The keys that images, flavors and volumes may have, for programs that offer these keys to people. Nothing here looks at
the keys that a resource has: the definitions are documentation that a program can read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen
from sqlalchemy import ColumnElement, delete, insert, or_, select, true, update

from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, Forbidden, NotFound
from cloudctl.image import definitions
from cloudctl.image.definitions import KINDS, NewDefinitions
from cloudctl.image.tables import Namespace
from cloudctl.rest.caller import Caller

PUBLIC, PRIVATE = "public", "private"


@frozen
class NewNamespace:
    """`owner`: a project id. `holds`: what is in it from the beginning."""

    namespace: str
    owner: str | None
    display_name: str | None = None
    description: str | None = None
    visibility: str = PRIVATE
    protected: bool = False
    holds: NewDefinitions = field(factory=NewDefinitions)


def seen_by(caller: Caller) -> ColumnElement[bool]:
    if caller.may("image:namespaces:all"):
        return true()
    own = [Namespace.owner == caller.project_id] if caller.project_id else []
    return or_(Namespace.visibility == PUBLIC, *own)


def not_found(name: str) -> NotFound:
    return NotFound(f"Metadata definition namespace {name[:80]!r} was not found.")


def visible(conn: Connection, caller: Caller, name: str, *, lock: bool = False) -> Namespace:
    """One that the caller may see. `lock`: it, or what it holds, will be changed. Raises NotFound."""
    query = select(Namespace).where(Namespace.namespace == name, seen_by(caller))
    found = conn.execute(query.with_for_update() if lock else query).first()
    if found is None:
        raise not_found(name)
    return found


def check_open(namespace: Namespace) -> None:
    """Raises Forbidden unless it, and anything in it, may be removed."""
    if namespace.protected:
        raise Forbidden(f"Metadata definition namespace {namespace.namespace!r} is protected: nothing can be deleted.")


def names(conn: Connection, ids: Sequence[str]) -> dict[str, str]:
    """Id → name."""
    return dict(iter(conn.execute(select(Namespace.id, Namespace.namespace).where(Namespace.id.in_(ids)))))


def create(conn: Connection, new: NewNamespace, now: datetime) -> Namespace:
    """Raises Conflict if the name is taken, or two things in it have the same name."""
    row = Namespace(
        id=new_id(),
        namespace=new.namespace,
        owner=new.owner,
        display_name=new.display_name,
        description=new.description,
        visibility=new.visibility,
        protected=new.protected,
        created_at=now,
        updated_at=now,
    )
    with unique(conn, _taken(new.namespace)):
        conn.execute(insert(Namespace).values(**row._asdict()))
    for record, values in new.holds.each():
        definitions.create(conn, record, row, values, now)
    return row


def change(conn: Connection, row: Namespace, changes: Mapping[str, Any], now: datetime) -> Namespace:
    """Raises Conflict if the new name is another's."""
    with unique(conn, _taken(changes.get("namespace", row.namespace))):
        conn.execute(update(Namespace).where(Namespace.id == row.id).values(updated_at=now, **changes))
    return row._replace(updated_at=now, **changes)


def remove(conn: Connection, row: Namespace) -> None:
    """With all that it holds. Raises Forbidden."""
    check_open(row)
    for record in KINDS:
        definitions.remove_all(conn, record, row)
    conn.execute(delete(Namespace).where(Namespace.id == row.id))


def _taken(name: str) -> Conflict:
    return Conflict(f"Metadata definition namespace {name!r} exists already.")
