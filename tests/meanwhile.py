"""What others do to a database while a transaction of a test runs, where transactions really run at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from attrs import define, field
from sqlalchemy import text
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline

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
        while not (begun.done() or self.threads.submit(self.db.transact, True, _are_waiting).result()):
            """It is under way."""

    @property
    def results(self) -> list[Any]:
        return [each.result() for each in self._begun]


def _are_waiting(conn: Connection) -> bool:
    return bool(conn.execute(WAITING).scalar())


@contextmanager
def others(url: str) -> Iterator[Others]:
    """`url`: of a PostgreSQL with tables."""
    inline: Any = Inline()
    db = Database(create(url), inline, inline, Clock())
    with ThreadPoolExecutor() as threads:
        yield Others(db, threads)
    db.close()
