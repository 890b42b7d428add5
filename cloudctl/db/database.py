"""One engine, one pool of threads, and `run`: a plain function in one transaction.

    rows = await db.run(servers.create, call, spec)

The function gets a Connection first. It is retried when the database says that another transaction was in the way, so
it may touch nothing but the connection. SQLite transactions that write begin IMMEDIATE (with the default two claims of
one row can both succeed); `read` begins DEFERRED, so readers never wait for a writer.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import orjson
from sqlalchemy import Connection, CursorResult, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import StaticPool
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

log = Logger()

P = ParamSpec("P")
T = TypeVar("T")

ATTEMPTS = 8
# PostgreSQL: serialization_failure, deadlock_detected, lock_not_available.
RETRYABLE_SQLSTATES = {"40001", "40P01", "55P03"}


class Threads(Protocol):
    """The part of `twisted.python.threadpool.ThreadPool` that is used here."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def callInThreadWithCallback(self, onResult: Any, func: Any, *args: Any, **kw: Any) -> None: ...


class Inline:
    """Threads and reactor of a test: everything happens at once, in the calling thread."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def callInThreadWithCallback(self, onResult: Any, func: Any, *args: Any, **kw: Any) -> None:
        from twisted.python.failure import Failure

        try:
            result = func(*args, **kw)
        except BaseException:  # as a ThreadPool has it
            onResult(False, Failure())
        else:
            onResult(True, result)

    def callFromThread(self, callable: Any, *args: Any, **kwargs: Any) -> None:
        callable(*args, **kwargs)


class Database(Service):
    """The store of one cloud. Start it before what uses it, stop it after."""

    def __init__(
        self,
        engine: Engine,
        threads: Threads,
        reactor: IReactorFromThreads,
        clock: IReactorTime,
        writer: Threads | None = None,
    ) -> None:
        self.engine = engine
        self.threads = threads
        # Threads that wait for SQLite's one write lock sleep between tries, and keep the readers out of the pool.
        self.writer = writer or threads
        self.reactor = reactor
        self.clock = clock
        self.is_sqlite = engine.dialect.name == "sqlite"
        # Raised by every transaction that may have written; None if other processes write, too.
        self.generation: int | None = 0 if self.is_sqlite else None
        self._listeners: dict[str, list[Callable[[], object]]] = {}

    @classmethod
    def open(cls, url: str, reactor: Any, threads: int = 8) -> Database:
        """`url` is an SQLAlchemy URL: `sqlite:///FILE` or `postgresql+psycopg://…`."""
        pool = ThreadPool(1, threads, name="database")
        writer = ThreadPool(1, 1, name="database writer") if url.startswith("sqlite") else None
        return cls(create(url, threads + 1), pool, reactor, reactor, writer)

    @classmethod
    def in_memory(cls, clock: IReactorTime) -> Database:
        inline = Inline()
        return cls(create("sqlite://", 1), inline, cast(Any, inline), clock)

    def startService(self) -> None:
        super().startService()
        for threads in {self.threads, self.writer}:
            threads.start()

    def stopService(self) -> None:
        super().stopService()
        for threads in {self.threads, self.writer}:
            threads.stop()
        self.engine.dispose()

    def on_commit(self, channel: str, callback: Callable[[], object]) -> None:
        """Call `callback` in the reactor after each commit in which `notify(conn, channel)` was called here.

        A hint, not a promise: a process that dies after the commit calls nobody, other processes hear nothing.
        """
        self._listeners.setdefault(channel, []).append(callback)

    def run(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """`fn(conn, …)` in one transaction that may write, in a thread of the pool."""
        return self._defer(False, fn, args, kwargs)

    def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """`fn(conn, …)` in one transaction that only reads."""
        return self._defer(True, fn, args, kwargs)

    def _defer(self, read_only: bool, fn: Any, args: Any, kwargs: Any) -> Deferred[Any]:
        # Contextvars (the request id) do not follow into a thread by themselves.
        threads = cast(ThreadPool, self.threads if read_only else self.writer)
        return deferToThreadPool(
            self.reactor, threads, copy_context().run, self.transact, read_only, fn, *args, **kwargs
        )

    def transact(self, read_only: bool, fn: Any, *args: Any, **kwargs: Any) -> Any:
        """The same, in the calling thread. For start-up, operator commands and tests."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                result, channels = self._once(read_only, fn, args, kwargs)
            except DBAPIError as error:
                if attempt == ATTEMPTS or not is_transient(error):
                    raise
                time.sleep(random.uniform(0, 0.005 * 2**attempt))
                continue
            for channel in channels:
                for callback in self._listeners.get(channel, ()):
                    self.reactor.callFromThread(callback)
            return result
        raise AssertionError("unreachable")

    def _once(self, read_only: bool, fn: Any, args: Any, kwargs: Any) -> tuple[Any, set[str]]:
        with self.engine.connect() as conn:
            channels: set[str] = set()
            conn = conn.execution_options(
                cloudctl_read_only=read_only, cloudctl_channels=channels, cloudctl_database=self
            )
            try:
                with conn.begin():
                    result = plain(fn, fn(conn, *args, **kwargs))
            finally:
                # Also when COMMIT failed: it may have been done all the same.
                if not read_only and self.generation is not None:
                    self.generation += 1
        return result, channels

    def now(self, conn: Connection) -> float:
        """Seconds since the epoch by the clock that all processes share: PostgreSQL's, or ours alone with SQLite."""
        if self.is_sqlite:
            return self.clock.seconds()
        return float(conn.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())


def now(conn: Connection) -> float:
    """`Database.now` of the database that this transaction belongs to, for those who have the connection alone."""
    database: Database = conn.get_execution_options()["cloudctl_database"]
    return database.now(conn)


def notify(conn: Connection, channel: str) -> None:
    """Tell the listeners of `channel` in this process once this transaction has committed."""
    channels = conn.get_execution_options().get("cloudctl_channels")
    if channels is not None:
        channels.add(channel)


def plain(fn: object, result: T) -> T:
    """`result`, unless it is a cursor, which would outlive its transaction: then TypeError."""
    if isinstance(result, CursorResult):
        raise TypeError(f"{fn!r} returned a live result; return rows or values")
    return result


def is_transient(error: DBAPIError) -> bool:
    if getattr(error.orig, "sqlstate", None) in RETRYABLE_SQLSTATES or error.connection_invalidated:
        return True
    return isinstance(error, OperationalError) and "database is locked" in str(error.orig)


def create(url: str, threads: int) -> Engine:
    """An Engine with the settings that durability needs."""
    # A page of a thousand records holds thousands of JSON values.
    options: dict[str, Any] = {"json_deserializer": orjson.loads}
    if not url.startswith("sqlite"):
        return create_engine(url, pool_size=threads, max_overflow=0, pool_pre_ping=True, **options)
    options["connect_args"] = {"check_same_thread": False, "timeout": 30, "isolation_level": None}
    in_memory = url in ("sqlite://", "sqlite:///:memory:")
    if in_memory:
        options["poolclass"] = StaticPool
    else:
        Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        options |= {"pool_size": threads, "max_overflow": 0}
    engine = create_engine(url, **options)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        if not in_memory:
            connection.execute("PRAGMA journal_mode = WAL")
            # An answered 202 must survive a power cut: the log is on the disk before COMMIT returns.
            connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(conn: Connection) -> None:
        read_only = conn.get_execution_options().get("cloudctl_read_only", False)
        conn.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine
