"""Transactions that meet in a database: those of others while a test's own run, and one that has not committed yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Event as Flag
from threading import Thread
from time import monotonic
from typing import Any

from attrs import define, field
from sqlalchemy import text
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.errors import CloudError

# Seconds until a transaction counts as lost, and between two looks at it: looking keeps it from its work.
PATIENCE, PAUSE = 60, 0.002
# Whether anybody waits for a lock in this database, which is the test's alone.
WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


@define
class Others:
    """Each transaction has a thread, as its connection has.

    `results`: what each returned. Asked for once the test's own transactions have ended.
    """

    db: Database
    threads: ThreadPoolExecutor
    _begun: list[Future[Any]] = field(factory=list, init=False)

    def begin(self, fn: Callable[..., Any], *args: Any) -> None:
        """Returns once it has ended, or waits for a lock."""
        begun = self.threads.submit(self.db.transact, False, fn, *args)
        self._begun.append(begun)
        give_up = monotonic() + PATIENCE
        while not (wait([begun], PAUSE).done or self.threads.submit(self.db.transact, True, _are_waiting).result()):
            assert monotonic() < give_up, f"{fn} neither ends nor waits for a lock"

    @property
    def results(self) -> list[Any]:
        return [each.result() for each in self._begun]

    @property
    def errors(self) -> list[BaseException]:
        """What was raised instead."""
        return [error for each in self._begun if (error := each.exception()) is not None]


def _are_waiting(conn: Connection) -> bool:
    return bool(conn.execute(WAITING).scalar())


class Meanwhile:
    """A transaction that has done its work and has not committed yet."""

    def __init__(self, db: Database, fn: Any, *args: Any) -> None:
        self.result: Any = None
        self._done, self._go_on = Flag(), Flag()
        self._thread = Thread(target=db.transact, args=(False, self._run, fn, *args))
        self._thread.start()
        assert self._done.wait(PATIENCE)

    def _run(self, conn: Connection, fn: Any, *args: Any) -> None:
        self.result = fn(conn, *args)
        self._done.set()
        assert self._go_on.wait(PATIENCE)

    def commit(self) -> None:
        self._go_on.set()
        self._thread.join(PATIENCE)


@contextmanager
def opened(url: str) -> Iterator[Database]:
    """A PostgreSQL with tables, in which each transaction runs in the thread that asks for it."""
    inline: Any = Inline()
    db = Database(create(url), inline, inline, Clock())
    yield db
    db.close()


@contextmanager
def others(url: str) -> Iterator[Others]:
    """`url`: of a PostgreSQL with tables."""
    with opened(url) as db, beside(db) as made:
        yield made


@contextmanager
def beside(db: Database) -> Iterator[Others]:
    with ThreadPoolExecutor() as threads:
        yield Others(db, threads)


def crossing(db: Database, first: Callable[[Connection], Any], other: Any, then: Callable[[Connection], Any]) -> None:
    """One transaction runs `first` and `then`; `other` runs in another one that begins in between."""
    with beside(db) as others:

        def run(conn: Connection) -> None:
            first(conn)
            others.begin(other)
            then(conn)

        db.transact(False, run)
        assert len(others.results) == 1


def refused(fn: Callable[..., Any]) -> Callable[..., str]:
    """`fn`, returning the name of the error that refuses it: what it did before that is undone."""

    def run(conn: Connection, *args: Any) -> str:
        try:
            with conn.begin_nested():
                fn(conn, *args)
        except CloudError as error:
            return type(error).__name__
        return ""

    return run


def at_once(other: Others, first: Callable[[Connection], Any], second: Callable[[Connection], Any]) -> str:
    """`second` begins when `first` has done its work and not committed yet; the name of the error that refuses it."""

    def both(conn: Connection) -> None:
        first(conn)
        other.begin(refused(second))

    other.db.transact(False, both)
    (result,) = other.results
    return str(result)
