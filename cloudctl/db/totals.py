"""Sums that the database itself keeps: how much of something each project has.

    Total("servers.cores", Server.project_id, Server.vcpus, where=COUNTED)

It is declared beside the table, as an index is. Triggers keep the sum in the transaction that changes a row, whoever
changes it and however, so it is as right as the rows are; reading it costs the same for one row and for a million.
Migrations run between `remove` and `install`: SQLite recreates tables, and PostgreSQL refuses to change what a trigger
names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from attrs import frozen
from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    ColumnElement,
    MetaData,
    String,
    Table,
    and_,
    bindparam,
    case,
    delete,
    event,
    func,
    literal,
    literal_column,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.visitors import replacement_traverse

from cloudctl.db.columns import Field, column, metadata
from cloudctl.db.connection import Connection
from cloudctl.db.records import Record


class Kept(Record, table="totals"):
    name: Field[str] = column(String(64), primary_key=True)
    project_id: Field[str] = column(String(64), primary_key=True)
    amount: Field[int] = column(BigInteger)


OPERATIONS = ("INSERT", "UPDATE", "DELETE")
_TABLES = "totals"  # the key of a table's Totals in its `info`


@frozen(init=False, eq=False)
class Total:
    """For each project the sum of `amount` over its rows that meet `where`. Tables that share a name are added up.

    `owner` is the column of the project; a row without one counts for nobody. Only columns of its table may be used.
    """

    name: str
    owner: Column[Any]
    amount: ColumnElement[int]
    where: ColumnElement[bool]

    def __init__(
        self,
        name: str,
        owner: Column[Any],
        amount: ColumnElement[int] | int = 1,
        where: ColumnElement[bool] | None = None,
    ) -> None:
        amount = literal(amount) if isinstance(amount, int) else amount
        counts = [true() if where is None else where, *([owner.is_not(None)] if owner.nullable else [])]
        self.__attrs_init__(name, owner, amount, and_(*counts))
        self.table.info.setdefault(_TABLES, []).append(self)

    @property
    def table(self) -> Table:
        return self.owner.table

    @property
    def columns(self) -> list[str]:
        """The columns that it depends on."""
        found: dict[str, None] = {self.owner.name: None}

        def see(element: Any, **_: Any) -> None:
            if isinstance(element, Column):
                found[element.name] = None

        for expression in (self.amount, self.where):
            replacement_traverse(expression, {}, see)
        return list(found)


_mine = select(Kept.amount).where(Kept.name == bindparam("total"), Kept.project_id == bindparam("project"))
_all_mine = select(Kept.name, Kept.amount).where(
    Kept.name.in_(bindparam("wanted", expanding=True)), Kept.project_id == bindparam("project")
)


_held = (
    select(Kept.amount)
    .where(Kept.name == bindparam("total"), Kept.project_id.in_(bindparam("projects", expanding=True)))
    .order_by(Kept.project_id)
    .with_for_update()
)


def hold(conn: Connection, names: Sequence[str], project_ids: Sequence[str]) -> None:
    """Lock these sums until the commit, for a transaction that changes them by several tables, or of several projects.

    `names`: in an order in which each of the tables has them; in another it would meet single changes in a circle.
    """
    for name in names if not conn.is_sqlite else ():
        conn.execute(_held, {"total": name, "projects": list(project_ids)}).all()


@frozen
class Sum:
    """Reads one sum of a project."""

    name: str

    def __call__(self, conn: Connection, project_id: str) -> int:
        return conn.scalar(_mine, {"total": self.name, "project": project_id}) or 0


def total(name: str, tables: MetaData = metadata) -> Sum:
    """What reads a declared sum. Raises LookupError if no table declares it."""
    if all(each.name != name for each in _declared(tables.tables.values())):
        raise LookupError(f"there is no Total called {name}")
    return Sum(name)


def totals(conn: Connection, project_id: str, names: Sequence[str]) -> dict[str, int]:
    """These sums of a project, by name."""
    found = dict(conn.execute(_all_mine, {"wanted": list(names), "project": project_id}).all())
    return {name: found.get(name, 0) for name in names}


# -- counted from the rows


def tables(of: MetaData = metadata) -> list[str]:
    """The names of the tables whose rows are summed, and of the table that holds the sums."""
    return [Kept.table.name, *(name for name, table in of.tables.items() if table.info.get(_TABLES))]


def differences(conn: Connection, tables: MetaData = metadata) -> list[tuple[str, str, int, int]]:
    """(name, project, what is kept, what the rows say) wherever the two differ. Reads all rows."""
    counted = _counted(conn, tables)
    kept = {(row.name, row.project_id): row.amount for row in conn.execute(select(Kept))}
    return [
        (*key, kept.get(key, 0), counted.get(key, 0))
        for key in sorted(kept.keys() | counted.keys())
        if kept.get(key, 0) != counted.get(key, 0)
    ]


def mend(conn: Connection) -> list[tuple[str, str, int, int]]:
    """Put right what differs, and return what did. Nobody changes what is counted meanwhile."""
    if not conn.is_sqlite:
        conn.execute(text("LOCK TABLE totals IN EXCLUSIVE MODE"))
    found = differences(conn)
    if found:
        count_anew(conn)
    return found


def count_anew(conn: Connection, tables: MetaData = metadata) -> None:
    conn.execute(delete(Kept))
    rows = [
        {"name": name, "project_id": project, "amount": amount}
        for (name, project), amount in _counted(conn, tables).items()
    ]
    if rows:
        conn.execute(Kept.table.insert(), rows)


def _counted(conn: Connection, tables: MetaData) -> Mapping[tuple[str, str], int]:
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for table in tables.tables.values():
        # Every row is read once, however many sums it counts for.
        for owner, declared in groupby(_declared([table]), lambda each: each.owner):
            those = list(declared)
            amounts = [func.coalesce(func.sum(case((each.where, each.amount))), 0) for each in those]
            any_of_them = or_(*(each.where for each in those))
            for project, *found in conn.execute(select(owner, *amounts).where(any_of_them).group_by(owner)):
                for each, amount in zip(those, found, strict=True):
                    if amount:
                        counted[each.name, project] += int(amount)
    return counted


# -- triggers


_ours = {
    "sqlite": "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'totals_of_%'",
    "postgresql": "SELECT tgname, tgrelid::regclass::text FROM pg_trigger WHERE tgname LIKE 'totals_of_%'",
}


def remove(conn: Connection) -> None:
    """Remove all of our triggers."""
    dialect = conn.dialect.name
    for name, table in conn.execute(text(_ours[dialect])).all():
        conn.execute(text(f"DROP TRIGGER {name}" + (f" ON {table}" if dialect == "postgresql" else "")))


def install(conn: Connection, tables: MetaData = metadata) -> None:
    """Make the triggers of all tables, of which there must be none yet, and count the existing rows."""
    for table in tables.tables.values():
        _install(table, conn.alchemy)
    count_anew(conn, tables)


def _declared(tables: Iterable[Table]) -> list[Total]:
    return [each for table in tables for each in table.info.get(_TABLES, ())]


@event.listens_for(MetaData, "after_create")
def _after_create(target: MetaData, connection: Any, tables: Sequence[Table] | None, **_: Any) -> None:
    for table in tables or ():
        _install(table, connection)


def _install(table: Table, connection: Any) -> None:
    if table.info.get(_TABLES):
        for operation in OPERATIONS:
            for statement in triggers(table, operation, connection.dialect):
                # Not `text`, which reads a colon as a parameter.
                connection.execute(DDL(statement.replace("%", "%%")))


def triggers(table: Table, operation: str, dialect: Dialect) -> list[str]:
    """The statements that create the trigger for an INSERT, UPDATE or DELETE of a row."""
    declared: list[Total] = table.info[_TABLES]
    quote = dialect.identifier_preparer.quote
    name = f"totals_of_{table.name}_{operation.lower()}"
    body = "\n".join(f"{_change(each, operation, dialect)};" for each in declared)
    when = operation
    if operation == "UPDATE":
        # Changes of other columns do not fire it.
        when += " OF " + ", ".join(dict.fromkeys(quote(column) for each in declared for column in each.columns))
    if dialect.name == "sqlite":
        return [f"CREATE TRIGGER {name} AFTER {when} ON {quote(table.name)} BEGIN\n{body}\nEND"]
    return [
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$\nBEGIN\n{body}\n"
        "RETURN NULL;\nEND\n$$",
        f"CREATE TRIGGER {name} AFTER {when} ON {quote(table.name)} FOR EACH ROW EXECUTE FUNCTION {name}()",
    ]


def _change(total: Total, operation: str, dialect: Dialect) -> str:
    """The statement that adds what a row counts for now, and takes away what it counted for."""
    sides = [("old", "-")] if operation == "DELETE" else [("new", "")]
    if operation == "UPDATE":
        sides.append(("old", "-"))
    parts = [
        f"SELECT {_of(total.owner, row, dialect)} AS project, {sign}({_of(total.amount, row, dialect)}) AS amount"
        f" WHERE {_of(total.where, row, dialect)}"
        for row, sign in sides
    ]
    # A change that comes to nothing is not written: in PostgreSQL an UPDATE locks the row until the commit.
    return (
        f"INSERT INTO totals (name, project_id, amount)"
        f" SELECT '{total.name}', changes.project, sum(changes.amount) FROM ({' UNION ALL '.join(parts)}) AS changes"
        " WHERE true GROUP BY changes.project HAVING sum(changes.amount) <> 0"
        " ON CONFLICT (name, project_id) DO UPDATE SET amount = totals.amount + excluded.amount"
    )


def _of(expression: ColumnElement[Any], row: str, dialect: Dialect) -> str:
    """SQL of an expression over the columns of `new` or `old`."""

    def named(element: Any, **_: Any) -> Any:
        if not isinstance(element, Column):
            return None
        return literal_column(f"{row}.{dialect.identifier_preparer.quote(element.name)}", element.type)

    found = replacement_traverse(expression, {}, named)
    return str(found.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
