"""What all records share: who owns them, when they changed, and revisions. Reference: network.md, section 1.5."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, TypeVarTuple, overload

from sqlalchemy import ColumnElement, Insert, Select, Table, Update, bindparam, select, update
from sqlalchemy.sql.selectable import TypedReturnsRows

from cloudctl.db import Connection, Record
from cloudctl.db.columns import new_id
from cloudctl.errors import Forbidden, Invalid
from cloudctl.network.tables import Standard
from cloudctl.rest.caller import Caller

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
R = TypeVar("R", bound=Standard)
Row = TypeVar("Row", bound=Record)

# SQLite takes 32,766 variables in a statement.
BATCH = 500


def new(project_id: str, now: datetime, **columns: Any) -> dict[str, Any]:
    """The standard columns of a new record, and its own: `**asdict(new)` where each has the name of its column."""
    return {
        "id": new_id(),
        "project_id": project_id,
        "description": "",
        "created_at": now,
        "updated_at": now,
        "revision": 0,
        **columns,
    }


def insert(conn: Connection, record: R) -> R:
    """Write a new record and return it: the caller need not read it again."""
    conn.execute(_insert(type(record).table), record._asdict())
    return record


def change(conn: Connection, table: Table, id: str, now: datetime, **values: Any) -> None:
    """Set columns of a record (none: something that belongs to it has changed) and raise its revision."""
    conn.execute(_change(table), {"wanted": id, "updated_at": now, **values})


def change_all(conn: Connection, table: Table, ids: Sequence[str], now: datetime, **values: Any) -> None:
    """As `change`, of several records."""
    for some in batches(ids):
        conn.execute(_change_all(table), {"those": some, "updated_at": now, **values})


def changed(conn: Connection, record: R, now: datetime, **values: Any) -> R:
    """As `change`, for a locked record, which is returned as it is afterwards."""
    change(conn, type(record).table, record.id, now, **values)
    return record._replace(**values, updated_at=now, revision=record.revision + 1)


@cache
def _insert(table: Table) -> Insert:
    # Built once a table, here and below: building a statement costs more than running it.
    return table.insert()


@cache
def _change(table: Table) -> Update:
    return update(table).where(table.c.id == bindparam("wanted")).values(revision=table.c.revision + 1)


@cache
def _change_all(table: Table) -> Update:
    those = table.c.id.in_(bindparam("those", expanding=True))
    return update(table).where(those).values(revision=table.c.revision + 1)


def in_order(record: type[Standard], which: ColumnElement[bool]) -> Select[str]:
    """What `hold` locks: records, always in one order. An UPDATE would take that in which it finds them."""
    return select(record.id).where(which).order_by(record.id).with_for_update(key_share=True)


def hold(conn: Connection, statement: Select[str], **values: Any) -> None:
    """SQLite has one writer, who needs no order."""
    if conn.dialect.name != "sqlite":
        conn.execute(statement, values)


def owner_of_new(caller: Caller, named: str | None) -> str:
    """The project of a record that the caller creates. Raises Invalid for another one, unless they may."""
    owner = named or caller.project_id
    if owner != caller.project_id and not caller.may("network:create_for_others"):
        message = (
            "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin "
            "privileges"
        )
        raise Invalid(message, type="HTTPBadRequest")
    if not owner:
        raise Invalid("Running without keystone AuthN requires that tenant_id is specified", type="HTTPBadRequest")
    return owner


def sees_all(caller: Caller) -> bool:
    """Whether the caller sees the records of all projects."""
    return caller.may("network:all_projects")


def refuse_foreign(caller: Caller, record: Standard, rule: str) -> None:
    """Raises Forbidden unless the caller owns the record or passes `rule`."""
    if record.project_id != caller.project_id and not caller.may(rule):
        raise Forbidden(f"{rule} is disallowed by policy")


@overload
def rows(  # type: ignore[overload-overlap]  # a statement of one record is not one of a value
    conn: Connection, statement: TypedReturnsRows[Row], **ids: Sequence[Any]
) -> Iterator[Row]: ...


@overload
def rows(conn: Connection, statement: TypedReturnsRows[*Ts], **ids: Sequence[Any]) -> Iterator[tuple[*Ts]]: ...


def rows(conn: Connection, statement: Any, **ids: Sequence[Any]) -> Iterator[Any]:
    """The rows of a statement for any number of ids, which its one parameter takes: `rows(conn, _ports, ids=ids)`."""
    ((name, wanted),) = ids.items()
    for some in batches(wanted):
        yield from conn.execute(statement, {name: some})


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Key → its values, in their order. Keys without any are missing."""
    found: dict[K, list[T]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def batches(ids: Sequence[T]) -> Iterator[Sequence[T]]:
    """`ids` in pieces that fit into one statement."""
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]
