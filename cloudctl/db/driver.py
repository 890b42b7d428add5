"""Driver connections, kept open: SQLAlchemy opens them, transactions are begun and ended here."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

import orjson
from sqlalchemy import Connection as Alchemy
from sqlalchemy import Dialect, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool, StaticPool

from cloudctl.db.plans import Plans
from cloudctl.db.wishes import Wishes

# PostgreSQL: serialization_failure, deadlock_detected, lock_not_available, invalid_sql_statement_name.
RETRYABLE_SQLSTATES = {"40001", "40P01", "55P03", "26000"}
# What `json` refuses is refused, rather than written in orjson's own way.
AS_PYTHONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
COMMIT = "COMMIT"
# To PostgreSQL, unless the URL says otherwise. A machine that is cut off or without power closes no connection, and the
# system would wait for its answer for hours. A server that works on a statement answers these all the while.
PATIENCE = {
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # milliseconds
}
# Statements that a connection keeps prepared.
PREPARED = 1024
# Sets of arguments that cost less one by one than psycopg's preparations to send them together.
FEW = 8


def create(url: str) -> Engine:
    """An Engine with the settings that durability needs."""
    # A page of a thousand records holds thousands of JSON values. A statement's parameters may be secrets.
    options: dict[str, Any] = {"json_deserializer": orjson.loads, "json_serializer": as_json, "hide_parameters": True}
    if not url.startswith("sqlite"):
        said = make_url(url).query
        options["connect_args"] = {name: value for name, value in PATIENCE.items() if name not in said}
        # Positional, as with SQLite: one kind of plan for both.
        return create_engine(url, poolclass=NullPool, paramstyle="format", **options)
    options["connect_args"] = {
        "check_same_thread": False,
        "timeout": 30,
        "isolation_level": None,
        "cached_statements": PREPARED,
    }
    in_memory = url in ("sqlite://", "sqlite:///:memory:")
    if not in_memory:
        Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, poolclass=StaticPool if in_memory else NullPool, **options)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        if not in_memory:
            connection.execute("PRAGMA journal_mode = WAL")
            # An answered 202 must survive a power cut: the log is on the disk before COMMIT returns.
            connection.execute("PRAGMA synchronous = FULL")

    return engine


def as_json(value: Any) -> str:
    """A value of a JSON column as text. Raises TypeError."""
    try:
        return orjson.dumps(value, option=AS_PYTHONS).decode()
    except TypeError:
        # Integers beyond 64 bits, keys that are not text, halves of surrogate pairs; or what is not JSON at all.
        return json.dumps(value)


class Held:
    """An open connection. Its SQLAlchemy half believes that it is in one endless transaction, and never ends it."""

    def __init__(self, engine: Engine) -> None:
        self.alchemy: Alchemy = engine.connect()
        self.driver = cast(Any, self.alchemy.connection.driver_connection)
        self.alchemy.begin()
        self.plans = plans_of(engine.dialect)
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._errors = engine.dialect.loaded_dbapi.Error
        self._has_written = False
        # (text, arguments) → a cursor that has run it.
        self.execute: Callable[[str, Sequence[Any]], Any] = self.driver.execute
        # Whether any thread but the main one may have it, each for one transaction.
        self.is_lent = not self.is_sqlite and threading.current_thread() is not threading.main_thread()
        if self.is_lent:
            from cloudctl.db.libpq import Prepared  # psycopg is an extra

            self.execute = Prepared(self.driver).execute

    def execute_many(self, text: str, arguments: Sequence[Sequence[Any]]) -> int:
        """Run it once for each, and return how many rows that concerned."""
        if self.is_lent and len(arguments) <= FEW:
            return sum(self.execute(text, each).rowcount for each in arguments)
        cursor = self.driver.cursor()
        cursor.executemany(text, arguments)
        return int(cursor.rowcount)

    def begin(self, read_only: bool) -> None:
        if self.is_sqlite:
            if not (read_only or self._has_written):
                # Otherwise SQLite keeps what a savepoint may restore in a file, made and removed in each transaction
                # that changes some pages. Not on a connection that only reads: a large sort would be in memory, too.
                self.command("PRAGMA temp_store = MEMORY")
                self._has_written = True
            # With the default, two claims of one row can both succeed.
            self.command("BEGIN" if read_only else "BEGIN IMMEDIATE")
        elif self.driver.autocommit is not read_only:
            # A statement sees one state either way, and without a transaction a read costs no extra round trips.
            self.driver.autocommit = read_only

    def commit(self) -> None:
        if self.is_sqlite:
            self.command(COMMIT)
            return
        try:
            self.driver.commit()
        except self._errors as error:
            raise self.translated(COMMIT, error) from error

    def rollback(self) -> None:
        """Roll back. Does nothing if the connection is gone, or if SQLite has rolled back by itself."""
        if self.is_sqlite:
            if self.driver.in_transaction:
                self.command("ROLLBACK")
            return
        try:
            self.driver.rollback()
        except self._errors:
            self.driver.close()

    @property
    def is_broken(self) -> bool:
        return not self.is_sqlite and bool(self.driver.closed)

    def command(self, text: str) -> None:
        """Run a text without parameters and without rows, such as SAVEPOINT."""
        try:
            self.driver.execute(text)
        except self._errors as error:
            raise self.translated(text, error) from error

    def translated(self, text: str, error: Exception) -> BaseException:
        """The driver's error as SQLAlchemy's. The parameters stay out of it: they may be secrets."""
        dialect = self.plans.dialect
        gone = dialect.is_disconnect(cast(Any, error), self.driver, None)
        return DBAPIError.instance(
            text, (), error, self._errors, hide_parameters=True, connection_invalidated=gone, dialect=dialect
        )

    def close(self) -> None:
        self.alchemy.invalidate()
        self.alchemy.close()


class Connections:
    """The held connections of one database.

    With SQLite each thread has one, or all have the same if the database lives in memory. With PostgreSQL the threads
    share them, and the one that was used last is used first: its server process has everything at hand, and no more are
    opened than are needed at once. The main thread has its own.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.wishes = Wishes()
        self._is_shared = isinstance(engine.pool, StaticPool)
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._mine = threading.local()
        self._free: list[Held] = []
        self._all: WeakSet[Held] = WeakSet()
        self._shared: Held | None = None

    def get(self) -> Held:
        """The one for this thread's next transaction. `give_back` it.

        Raises what the driver raises if it cannot connect, as SQLAlchemy's OperationalError.
        """
        if not self._is_sqlite and threading.current_thread() is not threading.main_thread():
            try:
                return self._usable(self._free.pop())
            except IndexError:
                return self._usable(None)
        if self._is_shared:
            self._shared = held = self._usable(self._shared)
        else:
            mine, self._mine.held = getattr(self._mine, "held", None), None
            self._mine.held = held = self._usable(mine)
        return held

    def give_back(self, held: Held) -> None:
        """Its transaction has ended."""
        if held.is_lent:
            self._free.append(held)

    def _usable(self, held: Held | None) -> Held:
        if held is not None and held.is_broken:
            # Otherwise SQLAlchemy rolls back on it once it is collected, and logs a traceback of why it cannot.
            self._all.discard(held)
            held.close()
            held = None
        if held is None:
            held = Held(self._engine)
            self._all.add(held)
        return held

    def close(self) -> None:
        for held in tuple(self._all):
            held.close()
        self._all = WeakSet()
        self._mine = threading.local()
        self._free = []
        self._shared = None


def plans_of(dialect: Dialect) -> Plans:
    """The plans shared by all databases of a process that speak this dialect: a plan holds nothing of any of them."""
    return _plans(dialect.name, getattr(dialect, "server_version_info", None), dialect.paramstyle, _Same(dialect))


class _Same:
    """A dialect as an argument that does not count in the cache's key."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same)

    def __hash__(self) -> int:
        return 0


@lru_cache
def _plans(_name: str, _version: object, _style: str, first: _Same) -> Plans:
    return Plans(first.dialect)


def is_transient(error: DBAPIError) -> bool:
    """Whether the same transaction may succeed if it is run again, and has certainly not been committed."""
    if getattr(error.orig, "sqlstate", None) in RETRYABLE_SQLSTATES:
        return True
    if error.connection_invalidated:
        # Whether a COMMIT took effect is not known if its answer is lost.
        return error.statement != COMMIT
    return isinstance(error, OperationalError) and "database is locked" in str(error.orig)
