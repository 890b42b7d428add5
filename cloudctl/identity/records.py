"""What identity's records have in common: folded names, the client's own attributes, filters, unique names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Select, bindparam, func, insert, select, true, update
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection, Record
from cloudctl.db.columns import new_hex_id
from cloudctl.db.unique import unique
from cloudctl.errors import CloudError, Forbidden, Invalid, NotFound
from cloudctl.rest import listing
from cloudctl.rest.listing import Condition, Filter, Limits

EXTRA_SIZE = 65_536  # bytes of JSON
EXTRA_DEPTH = 32
# Shown by every view, so never one of the client's own attributes.
RESERVED = ("id", "links")
MOST = 1000  # records of one answer
LIMITS = Limits(most=MOST, default=MOST, zero="most")

R = TypeVar("R", bound=Record)


def folded(name: str) -> str:
    """The form in which names are compared."""
    return name.casefold()


def not_found(kind: str, id: str) -> NotFound:
    return NotFound(f"Could not find {kind}: {id[:64]}.")


def find(conn: Connection, record: type[R], id: str, *, lock: bool = False, stays: bool = False) -> R | None:
    """Until this transaction ends, with `lock` nobody else changes it or adds to it, with `stays` nobody deletes it."""
    query = _by_id(record)
    if lock or stays:
        query = query.with_for_update(read=not lock)
    return conn.execute(query, {"id": id}).first()


def get(conn: Connection, record: type[R], id: str, kind: str, *, lock: bool = False, stays: bool = False) -> R:
    """As `find`. Raises NotFound, whose message names the record by `kind`."""
    found = find(conn, record, id, lock=lock, stays=stays)
    if found is None:
        raise not_found(kind, id)
    return found


@cache
def _by_id(record: type[R]) -> Select[R]:
    return select(record).where(record.table.c.id == bindparam("id"))


def insert_unique(conn: Connection, record: type[Record], values: Mapping[str, Any], conflict: CloudError) -> None:
    """Raises `conflict` if a unique constraint is in the way."""
    with unique(conn, conflict):
        conn.execute(insert(record).values(values))


def update_unique(
    conn: Connection, record: type[Record], id: str, values: Mapping[str, Any], conflict: CloudError
) -> None:
    """Raises `conflict` if a unique constraint is in the way."""
    if not values:
        return
    with unique(conn, conflict):
        conn.execute(update(record).where(record.table.c.id == id).values(values))


def create(conn: Connection, record: type[R], values: Mapping[str, Any], now: datetime) -> R:
    """Makes an id unless the values have one. Raises Invalid (the client's own attributes)."""
    row = {"id": new_hex_id(), **values, "created_at": now}
    if "extra" in record.table.c:
        row["extra"] = own_attributes(values.get("extra", {}))
    conn.execute(insert(record).values(row))
    made: R = conn.execute(_by_id(record), {"id": row["id"]}).one()
    return made


def change(conn: Connection, record: type[R], before: R, changes: Mapping[str, Any]) -> R:
    """The client's own attributes are merged into the existing ones. Raises Invalid."""
    old, values = before._asdict(), dict(changes)
    if "extra" in values:
        values["extra"] = own_attributes(values["extra"], old["extra"])
    update_by_id(conn, record, old["id"], values)
    changed: R = conn.execute(_by_id(record), {"id": old["id"]}).one()
    return changed


def update_by_id(conn: Connection, record: type[Record], id: str, values: Mapping[str, Any]) -> None:
    if values:
        conn.execute(update(record).where(record.table.c.id == id).values(values))


def put(conn: Connection, record: type[Record], **key: Any) -> bool:
    """Insert a row that is all key; returns whether it is new."""
    if conn.execute(select(true()).where(*having(record, key))).first() is not None:
        return False
    try:
        with conn.begin_nested():
            conn.execute(insert(record).values(key))
    except IntegrityError:
        return False
    return True


def having(record: type[Record], key: Mapping[str, Any]) -> list[ColumnElement[bool]]:
    """The conditions that the columns have these values."""
    return [record.table.c[name] == value for name, value in key.items()]


def own_attributes(sent: Mapping[str, Any], kept: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The attributes that a client stores on a record; in an update `kept` are the existing ones. Raises Invalid."""
    merged = {**(kept or {}), **{name: value for name, value in sent.items() if name not in RESERVED}}
    if depth(merged) > EXTRA_DEPTH:
        raise Invalid(f"Additional attributes are nested more than {EXTRA_DEPTH} deep.")
    try:
        size = len(json.dumps(merged, allow_nan=False))
    except ValueError:
        raise Invalid("Additional attributes contain a number that is out of range.") from None
    if size > EXTRA_SIZE:
        raise Invalid(f"Additional attributes take {size} bytes; at most {EXTRA_SIZE} are stored.")
    return merged


def depth(value: Any) -> int:
    """How deep arrays and objects are nested, without recursion."""
    deepest, level = 0, [value]
    while level:
        deepest += 1
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        level = inner
    return deepest - 1


def check_id(sent: Mapping[str, Any], id: str) -> None:
    """An update may repeat the record's id and no other. Raises Invalid."""
    if "id" in sent and sent["id"] != id:
        raise Invalid("The id in the body does not match the one in the path.")


def check_mutable(options: Mapping[str, Any], wanted: Mapping[str, Any] | None, kind: str, id: str) -> None:
    """An immutable record may only be made mutable. Raises Forbidden; `wanted` None: it is to be deleted."""
    if not options.get("immutable"):
        return
    changes = dict(wanted or {})
    new_options = changes.pop("options", None)
    clears = isinstance(new_options, dict) and set(new_options) == {"immutable"} and not new_options["immutable"]
    if wanted is None or changes or not clears:
        raise Forbidden(f"Cannot change or delete the {kind} {id[:64]}: it is immutable.")


def merged_options(kept: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Options after an update: null removes one."""
    return {name: value for name, value in {**kept, **sent}.items() if value is not None}


# -- filters


def text_filters(name: str, column: Column[Any]) -> dict[str, Filter]:
    """`name=x` and the inexact forms `name__contains`, `name__icontains`, …"""
    exact = listing.equals(column)
    # Both sides are folded by Python, or both by the database: SQLite knows the capitals of ASCII only.
    blind: Any = func.lower(column)
    fold: Any = func.lower
    if "name_key" in column.table.c and name == "name":
        exact, blind, fold = _indexed(column), column.table.c.name_key, folded
    return {
        name: exact,
        f"{name}__equals": exact,
        f"{name}__iequals": lambda values: blind == fold(values[-1]),
        f"{name}__contains": lambda values: _case_sensitive(column, values[-1]),
        f"{name}__icontains": lambda values: blind.contains(fold(_literal(values[-1])), escape="/"),
        f"{name}__startswith": lambda values: _case_sensitive(column, values[-1], at_start=True),
        f"{name}__istartswith": lambda values: blind.startswith(fold(_literal(values[-1])), escape="/"),
        f"{name}__endswith": lambda values: _case_sensitive(column, values[-1], at_end=True),
        f"{name}__iendswith": lambda values: blind.endswith(fold(_literal(values[-1])), escape="/"),
    }


def _literal(value: str) -> str:
    """For LIKE, which takes it as it is."""
    return value.replace("/", "//").replace("%", "/%").replace("_", "/_")


def _indexed(column: Column[Any]) -> Filter:
    """Names are found by their folded form, which has an index; the name itself must be the same, too."""
    key = column.table.c.name_key
    return lambda values: (key == folded(values[-1])) & (column == values[-1])


def _case_sensitive(column: Column[Any], value: str, *, at_start: bool = False, at_end: bool = False) -> Condition:
    """LIKE ignores case on SQLite, so the text is cut and compared."""
    if not value:
        return true()
    if at_start:
        return func.substr(column, 1, len(value)) == value
    if at_end:
        return (func.length(column) >= len(value)) & (
            func.substr(column, func.length(column) - len(value) + 1, len(value)) == value
        )
    return func.replace(column, value, "") != column


def flag(column: Column[bool]) -> Filter:
    """A Boolean; a bare `?enabled` is true."""
    test = listing.flag(column)
    return lambda values: test([values[-1] or "true"])
