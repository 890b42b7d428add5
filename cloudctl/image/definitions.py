"""What namespaces of metadata definitions hold: properties, objects, tags, and the resource types they are for.

All four are named things in a namespace, and are read, made, changed and removed alike; `record` says which is meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from attrs import frozen
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, NotFound
from cloudctl.image.tables import (
    Association,
    Definition,
    Namespace,
    ObjectDefinition,
    PropertyDefinition,
    ResourceType,
    TagDefinition,
)

D = TypeVar("D", bound=Definition)
Values = Mapping[str, Any]

KINDS: Mapping[type[Definition], str] = {
    Association: "resource type association",
    PropertyDefinition: "property",
    ObjectDefinition: "object",
    TagDefinition: "tag",
}


@frozen
class NewDefinitions:
    """Columns of what a namespace is to hold, without the common ones."""

    associations: Sequence[Values] = ()
    properties: Sequence[Values] = ()
    objects: Sequence[Values] = ()
    tags: Sequence[Values] = ()

    def each(self) -> Iterator[tuple[type[Definition], Values]]:
        for record, wanted in zip(KINDS, (self.associations, self.properties, self.objects, self.tags), strict=True):
            yield from ((record, values) for values in wanted)


def not_found(record: type[Definition], namespace: Namespace, name: str) -> NotFound:
    return NotFound(f"The {KINDS[record]} {name[:80]!r} was not found in the namespace {namespace.namespace!r}.")


def get(conn: Connection, record: type[D], namespace: Namespace, name: str) -> D:
    """Raises NotFound."""
    query = select(record).where(record.namespace_id == namespace.id, record.name == name)
    found = conn.execute(query).first()
    if found is None:
        raise not_found(record, namespace, name)
    return found


def of(conn: Connection, record: type[D], namespace_ids: Sequence[str]) -> dict[str, list[D]]:
    """Namespace id → what is in it, by name; every id is a key."""
    found: dict[str, list[D]] = defaultdict(list)
    for each in conn.execute(select(record).where(record.namespace_id.in_(namespace_ids)).order_by(record.name)):
        found[each.namespace_id].append(each)
    return {namespace_id: found[namespace_id] for namespace_id in namespace_ids}


def create(conn: Connection, record: type[D], namespace: Namespace, values: Values, now: datetime) -> D:
    """Raises Conflict for an existing name."""
    if record is Association:
        know(conn, values["name"], now)
    made = record(namespace_id=namespace.id, created_at=now, updated_at=now, **values)
    with unique(conn, _taken(record, values["name"])):
        conn.execute(insert(record).values(**made._asdict()))
    return made


def change(conn: Connection, row: D, changes: Mapping[str, Any], now: datetime) -> D:
    """Raises Conflict if the new name is another's."""
    record = _record(row)
    mine = (record.namespace_id == row.namespace_id, record.name == row.name)
    with unique(conn, _taken(record, changes.get("name", row.name))):
        conn.execute(update(record).where(*mine).values(updated_at=now, **changes))
    return row._replace(updated_at=now, **changes)


def remove(conn: Connection, row: Definition) -> None:
    record = _record(row)
    conn.execute(delete(record).where(record.namespace_id == row.namespace_id, record.name == row.name))


def remove_all(conn: Connection, record: type[Definition], namespace: Namespace) -> None:
    conn.execute(delete(record).where(record.namespace_id == namespace.id))


def _record(row: D) -> type[D]:
    made: type[D] = type(row).table.info["record"]
    return made


def _taken(record: type[Definition], name: str) -> Conflict:
    return Conflict(f"The {KINDS[record]} {name!r} exists already in this namespace.")


# -- resource types


def resource_types(conn: Connection) -> list[ResourceType]:
    return list(conn.execute(select(ResourceType).order_by(ResourceType.name)))


def know(conn: Connection, name: str, now: datetime) -> None:
    """A resource type exists from its first association on."""
    if conn.execute(select(ResourceType).where(ResourceType.name == name)).first() is not None:
        return
    try:
        with conn.begin_nested():
            conn.execute(insert(ResourceType).values(name=name, created_at=now, updated_at=now))
    except IntegrityError:
        return  # another transaction has just added it


def prefix(conn: Connection, namespace: Namespace, resource_type: str) -> str:
    """What properties' names begin with on resources of this type; empty if the namespace has no prefix for it."""
    mine = (Association.namespace_id == namespace.id, Association.name == resource_type)
    found = conn.execute(select(Association).where(*mine)).first()
    return "" if found is None else found.prefix or ""
