"""One store, its threads, and `run`: a plain function run in one transaction.

    rows = await db.run(servers.create, call, spec)

The function gets a Connection first. It is run again when the database reports that another transaction was in the way,
so it must touch nothing but the connection. SQLite transactions that write begin IMMEDIATE (with the default, two
claims of one row can both succeed); those that read begin DEFERRED, so readers never wait for a writer.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextvars import copy_context
from threading import Thread
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from twisted.application.service import Service
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from cloudctl.db.connection import Connection
from cloudctl.db.driver import Connections, create, is_transient
from cloudctl.db.group import ATTEMPTS, Follower, Group
from cloudctl.db.line import SAY, Line
from cloudctl.db.threads import Inline, Threads
from cloudctl.service import unhindering

log = Logger()

P = ParamSpec("P")
T = TypeVar("T")

# More would only fight for the interpreter's lock.
SQLITE_READERS = 2


class Database(Service):
    """The store of one cloud. Start it before what uses it, stop it after.

    It does three kinds of work. `run` may write; with SQLite, the calls that queue for its single writer run in one
    transaction, each in its own savepoint, so that they share the wait for the disk. `read` is for a few rows that an
    index finds: with SQLite it runs in the calling thread, as a hop to another costs more than the read. `scan` is for
    pages, counts and searches, and never runs in the reactor's thread.
    """

    def __init__(
        self,
        engine: Engine,
        threads: Threads,
        reactor: IReactorFromThreads,
        clock: IReactorTime,
        writer: Threads | None = None,
        stop_limit: float = 20.0,
    ) -> None:
        """`stop_limit`: how many seconds `stopService` waits for what is under way."""
        self.engine = engine
        self.stop_limit = stop_limit
        self.threads = threads
        self.reactor = reactor
        self.clock = clock
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._reads_here = self.is_sqlite
        self._changes: Counter[str] = Counter()
        self._written = 0
        self._listeners: dict[str, list[Callable[[], object]]] = {}
        self._elsewhere: dict[str, list[Callable[[], object]]] = {}
        self.connections = Connections(engine)
        self.wishes = self.connections.wishes
        # For SQLite in a file: the queue of the one thread that writes.
        self.group: Group | None = None
        if writer is not None:
            self.group = Group(self.connections, writer, reactor, clock, self.count_changes, self.tell)
        # To the other processes of a cloud on PostgreSQL. Without it, notices to them are part of the transaction.
        self.line: Line | None = None
        self.is_told = False  # whether other processes' commits are announced to this one

    @classmethod
    def open(cls, url: str, reactor: Any, threads: int = 8, stop_limit: float = 20.0) -> Database:
        """`url` is an SQLAlchemy URL: `sqlite:///FILE` or `postgresql+psycopg://…`. `threads`: for PostgreSQL only."""
        most = SQLITE_READERS if url.startswith("sqlite") else threads
        pool = unhindering(ThreadPool(1, most, name="database"))
        if url.startswith("sqlite"):
            writer = unhindering(ThreadPool(1, 1, name="database writer"))
            return cls(create(url), pool, reactor, reactor, writer, stop_limit)
        made = cls(create(url), pool, reactor, reactor, stop_limit=stop_limit)
        made.line = Line(made.engine, reactor, reactor, made._hear, made._line_is)
        return made

    @classmethod
    def in_memory(cls, clock: IReactorTime) -> Database:
        inline = Inline()
        return cls(create("sqlite://"), inline, cast(Any, inline), clock)

    def startService(self) -> None:
        super().startService()
        self.threads.start()
        if self.group is not None:
            self.group.start()
        if self.line is not None:
            self.line.start()

    def stopService(self) -> None:
        """Blocks until what is under way has ended, but no longer than `stop_limit`: a statement may hang."""
        super().stopService()
        ending = Thread(target=self._end_threads, name="end of the database", daemon=True)
        ending.start()
        ending.join(self.stop_limit)
        if self.line is not None:
            # After the threads: what they committed last is announced, too.
            self.line.stop()
            self.line = None
        if ending.is_alive():
            # Its connection is in use: as with a kill, nothing of it is lost that was committed.
            log.warn("a statement has not ended within {limit} s; it is left alone", limit=self.stop_limit)
        else:
            self.close()

    def _end_threads(self) -> None:
        self.threads.stop()
        if self.group is not None:
            self.group.stop()

    def close(self) -> None:
        """Close every connection, whichever thread opened it. Later calls open new ones."""
        self.connections.close()
        self.engine.dispose()

    def on_commit(
        self, channel: str, callback: Callable[[], object], *, elsewhere: Callable[[], object] | None = None
    ) -> None:
        """Have `callback()` called in the reactor's thread after each commit that notified `channel`.

        `elsewhere()` is called when another process may have made such a commit, or not: it has to look. Commits may go
        unannounced while the line to the others is down; see `is_told`.
        """
        self._listeners.setdefault(channel, []).append(callback)
        if elsewhere is not None:
            self._elsewhere.setdefault(channel, []).append(elsewhere)

    def follow(self, channel: str, fn: Callable[[Connection], T | None], then: Callable[[T | None], object]) -> None:
        """Have `fn(conn)` called before each commit that notifies `channel`, if there is a single writer (`Group`).

        It runs in the writer's thread. If it returns a value, the listeners of `channel` are not called; instead,
        `then(…)` is called in the reactor's thread: with that value once it is on the disk, with None if it never will
        be. It has its own savepoint and can fail alone; then the listeners are called. A channel has one follower.
        """
        if self.group is not None:
            self.group.followers[channel] = Follower(fn, then)

    def run(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """`fn(conn, …)` in one transaction that may write, in a thread."""
        if self.group is not None:
            return self.group.submit(fn, args, kwargs)
        return self._in_thread(False, fn, args, kwargs)

    def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """`fn(conn, …)` in one transaction that reads a few rows."""
        if self._reads_here:
            try:
                return succeed(copy_context().run(self.transact, True, fn, *args, **kwargs))
            except Exception:
                return fail()
        return self._in_thread(True, fn, args, kwargs)

    def scan(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """`fn(conn, …)` in one transaction that reads, in a thread."""
        return self._in_thread(True, fn, args, kwargs)

    def _in_thread(self, read_only: bool, fn: Any, args: Any, kwargs: Any) -> Deferred[Any]:
        # Contextvars (the request id) do not follow into a thread by themselves.
        run = copy_context().run
        return deferToThreadPool(
            self.reactor, cast(ThreadPool, self.threads), run, self.transact, read_only, fn, *args, **kwargs
        )

    def transact(self, read_only: bool, fn: Any, *args: Any, **kwargs: Any) -> Any:
        """As `run` and `read`, but in the calling thread. For start-up, operator commands and tests."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                result, channels = self._once(read_only, fn, args, kwargs)
            except DBAPIError as error:
                if attempt == ATTEMPTS or not is_transient(error):
                    raise
                time.sleep(random.uniform(0, 0.005 * 2**attempt))
                continue
            if channels:
                if self.line is not None and (shared := channels & self._elsewhere.keys()):
                    self.line.say(shared)
                self.reactor.callFromThread(self.tell, channels)
            return result
        raise AssertionError("unreachable")

    def _once(self, read_only: bool, fn: Any, args: Any, kwargs: Any) -> tuple[Any, set[str]]:
        held = self.connections.get()
        conn = Connection(held, self.clock, read_only, self.wishes)
        try:
            held.begin(read_only)
            result = fn(conn, *args, **kwargs)
            if conn.channels and self.line is None and not self.is_sqlite:
                conn.driver.execute(SAY, (",".join(sorted(conn.channels)),))
            held.commit()
        except BaseException:
            held.rollback()
            raise
        finally:
            # Even if COMMIT failed: it may have taken effect all the same.
            if conn.written:
                self.count_changes(conn.written)
            self.connections.give_back(held)
        return result, conn.channels

    def count_changes(self, tables: Iterable[str]) -> None:
        """A transaction that wrote to these tables has ended."""
        self._written += 1
        for table in tables:
            self._changes[table] += 1

    @property
    def generation(self) -> int | None:
        """A counter that every transaction that wrote increments; None if other processes write, too."""
        return self._written if self.is_sqlite else None

    def changes(self, tables: Iterable[str]) -> tuple[int, ...] | None:
        """Counters that differ after each commit that changed one of the tables. Take them before reading the tables.

        None if other processes write, too: then this process cannot tell.
        """
        return tuple(self._changes[table] for table in tables) if self.is_sqlite else None

    def _hear(self, channels: Iterable[str]) -> None:
        """A transaction of another process has notified them."""
        for channel in channels:
            for callback in self._elsewhere.get(channel, ()):
                callback()

    def _line_is(self, is_open: bool) -> None:
        self.is_told = is_open
        if is_open:
            # What was announced before went unheard here.
            self._hear(self._elsewhere)

    def tell(self, channels: Iterable[str]) -> None:
        """Call the listeners of these channels. In the reactor's thread."""
        for channel in channels:
            for callback in self._listeners.get(channel, ()):
                callback()

    def now(self, conn: Connection) -> float:
        """Seconds since the epoch by the clock that all processes share: PostgreSQL's, or with SQLite our own."""
        return conn.now()


def now(conn: Connection) -> float:
    """`Database.now` of the database that this transaction belongs to, for callers that have only the connection."""
    return conn.now()


def notify(conn: Connection, channel: str) -> None:
    """Call the listeners of `channel` once this transaction has committed."""
    conn.channels.add(channel)
