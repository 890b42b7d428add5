"""Connection: how the functions of a transaction talk to the database. Statements are SQLAlchemy's, rows are records.

    conn.execute(select(Server).where(Server.id == id)).first()      # Server | None
    for id, name in conn.execute(select(Server.id, Server.name)):    # str, str

A result holds all of its rows: nothing in it is tied to the transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar, TypeVarTuple, overload

from sqlalchemy import Connection as Alchemy
from sqlalchemy import Dialect, Float, func, select
from sqlalchemy import cast as cast_to
from sqlalchemy.engine.cursor import CursorResult
from sqlalchemy.exc import MultipleResultsFound, NoResultFound
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.selectable import TypedReturnsRows
from twisted.internet.interfaces import IReactorTime

from cloudctl.db.driver import Held
from cloudctl.db.plans import Bound, Unplanned
from cloudctl.db.records import Record
from cloudctl.db.rows import row_type
from cloudctl.db.wishes import Wishes

R = TypeVar("R", bound=Record)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Item = TypeVar("Item")

Parameters = Mapping[str, Any]

CLOCK = select(cast_to(func.extract("epoch", func.clock_timestamp()), Float))


class Rows(Generic[Item]):
    """What a statement returned: records, or tuples of values."""

    __slots__ = ("_rows", "key", "rowcount")

    def __init__(self, rows: Sequence[Item], rowcount: int = -1, key: Any = None) -> None:
        self._rows = rows
        self.rowcount = rowcount
        # The first column of the inserted row's key, where the database chose it.
        self.key = key

    def __iter__(self) -> Iterator[Item]:
        return iter(self._rows)

    def all(self) -> Sequence[Item]:
        return self._rows

    def first(self) -> Item | None:
        return self._rows[0] if self._rows else None

    def one(self) -> Item:
        """Raises NoResultFound, MultipleResultsFound."""
        if len(self._rows) == 1:
            return self._rows[0]
        if self._rows:
            raise MultipleResultsFound("Multiple rows were found when exactly one was required")
        raise NoResultFound("No row was found when one was required")

    def one_or_none(self) -> Item | None:
        """Raises MultipleResultsFound."""
        return self.one() if self._rows else None

    def scalars(self: Rows[tuple[T]]) -> Rows[T]:
        """The values themselves, of a statement that selects one column."""
        return Rows([row[0] for row in self._rows], self.rowcount)

    def scalar(self: Rows[tuple[T]]) -> T | None:
        """The value of the first row; None if there are no rows."""
        return self._rows[0][0] if self._rows else None

    def scalar_one(self: Rows[tuple[T]]) -> T:
        """Raises NoResultFound, MultipleResultsFound."""
        return self.one()[0]


class Savepoint:
    """A part of a transaction that can fail alone."""

    __slots__ = ("_held", "_name")

    def __init__(self, held: Held, name: str) -> None:
        self._held = held
        self._name = name

    def __enter__(self) -> Self:
        self._held.command(f"SAVEPOINT {self._name}")
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is not None:
            self._held.command(f"ROLLBACK TO SAVEPOINT {self._name}")
        self._held.command(f"RELEASE SAVEPOINT {self._name}")


class Connection:
    """The transaction that a function runs in. Only `Database` and its `Group` make them."""

    __slots__ = (
        "_clock",
        "_errors",
        "_held",
        "_plans",
        "_savepoints",
        "channels",
        "driver",
        "read_only",
        "wishes",
        "written",
    )

    def __init__(
        self, held: Held, clock: IReactorTime, read_only: bool = False, wishes: Wishes | frozenset[str] = frozenset()
    ) -> None:
        self.read_only = read_only
        self.wishes = wishes  # the types of events that somebody wants to hear of
        self._clock = clock
        self.driver = held.driver  # the DB-API connection
        self.channels: set[str] = set()
        # Names of the tables that were written.
        self.written: set[str] = set()
        self._held = held
        self._plans = held.plans
        self._savepoints = 0
        self._errors = held.plans.dialect.loaded_dbapi.Error

    @property
    def alchemy(self) -> Alchemy:
        """SQLAlchemy's connection, in the same transaction, for what only it can do."""
        return self._held.alchemy

    @property
    def dialect(self) -> Dialect:
        return self._plans.dialect

    @property
    def is_sqlite(self) -> bool:
        return self._plans.dialect.name == "sqlite"

    @overload
    def execute(  # type: ignore[overload-overlap]  # a statement of one record is not one of a value
        self, statement: TypedReturnsRows[R], parameters: Parameters | None = None
    ) -> Rows[R]: ...

    @overload
    def execute(self, statement: TypedReturnsRows[*Ts], parameters: Parameters | None = None) -> Rows[tuple[*Ts]]: ...

    @overload
    def execute(
        self, statement: Executable, parameters: Parameters | Sequence[Parameters] | None = None
    ) -> Rows[tuple[Any, ...]]: ...

    def execute(self, statement: Any, parameters: Parameters | Sequence[Parameters] | None = None) -> Any:
        """Run a statement; with a list of parameters once for each. Raises SQLAlchemy's errors."""
        try:
            if isinstance(parameters, list):
                return self._execute_many(statement, parameters)
            given: Any = parameters or {}
            bound = self._plans.bind(statement, given, False)
        except Unplanned:
            return self._by_alchemy(statement, parameters)
        return self._run(bound, given)

    def scalars(self, statement: TypedReturnsRows[T], parameters: Parameters | None = None) -> Rows[T]:
        """The values of a statement that selects one column."""
        rows: Rows[Any] = self.execute(statement, parameters)
        return rows.scalars()

    def scalar(self, statement: TypedReturnsRows[T], parameters: Parameters | None = None) -> T | None:
        """The value in the first row of a statement that selects one column; None if there are no rows."""
        rows: Rows[Any] = self.execute(statement, parameters)
        value: T | None = rows.scalar()
        return value

    def now(self) -> float:
        """Seconds since the epoch by the clock that all processes share: PostgreSQL's, or with SQLite our own."""
        return self._clock.seconds() if self.is_sqlite else float(self.execute(CLOCK).scalar_one())

    def begin_nested(self) -> Savepoint:
        """A savepoint: what runs in `with conn.begin_nested():` may fail without failing the transaction."""
        self._savepoints += 1
        return Savepoint(self._held, f"s{self._savepoints}")

    def _run(self, bound: Bound, given: Parameters) -> Rows[Any]:
        plan = bound.plan
        if plan.writes is not None:
            self._writes(plan.writes)
        text, arguments = bound.arguments(given)
        try:
            cursor = self._held.execute(text, arguments)
            if plan.columns is None:
                if plan.returns_key:
                    return Rows((), cursor.rowcount, cursor.fetchone()[0])
                return Rows((), cursor.rowcount, getattr(cursor, "lastrowid", None))
            make = plan.make
            if make is None:
                codes = [column[1] for column in cursor.description]
                make = plan.make = plan.columns.maker(self._plans.dialect, codes)
            return Rows(make(cursor.fetchall()), cursor.rowcount)
        except self._errors as error:
            raise self._held.translated(text, error) from error

    def _execute_many(self, statement: Any, parameters: Sequence[Parameters]) -> Rows[Any]:
        """Raises Unplanned."""
        if not parameters:
            return Rows((), 0)
        bound = self._plans.bind(statement, parameters[0], True)
        if bound.plan.columns is not None or bound.plan.pieces is not None:
            raise Unplanned
        if bound.plan.writes is not None:
            self._writes(bound.plan.writes)
        arguments = [bound.arguments(given)[1] for given in parameters]
        try:
            return Rows((), self._held.execute_many(bound.plan.text, arguments))
        except self._errors as error:
            raise self._held.translated(bound.plan.text, error) from error

    def _writes(self, table: str) -> None:
        if self.read_only:
            raise RuntimeError(f"a transaction that only reads writes to {table}")
        self.written.add(table)

    def _by_alchemy(self, statement: Any, parameters: Any) -> Rows[Any]:
        if getattr(statement, "is_dml", False):
            self._writes(statement.table.name)
        result = self.alchemy.execute(statement, parameters)
        assert isinstance(result, CursorResult)
        if result.returns_rows:
            row = row_type(tuple(result.keys()))
            return Rows([tuple.__new__(row, each) for each in result], result.rowcount)
        if result.context.isinsert and not result.context.executemany:
            key = result.inserted_primary_key
            return Rows((), result.rowcount, key[0] if key else None)
        return Rows((), result.rowcount)
