"""PostgreSQL databases for as long as they are needed, and transactions that meet in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag
from threading import Thread
from typing import Any
from uuid import uuid4

from sqlalchemy import create_engine, make_url, text

from cloudctl.db import Connection, Database


@contextmanager
def a_database(server: str) -> Iterator[str]:
    """The URL of a new database on this server."""
    name = f"cloudctl_{uuid4().hex}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        conn.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as conn:
            conn.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        engine.dispose()


class Meanwhile:
    """A transaction that has done its work and has not committed yet."""

    def __init__(self, db: Database, fn: Any, *args: Any) -> None:
        self.result: Any = None
        self._done, self._go_on = Flag(), Flag()
        self._thread = Thread(target=db.transact, args=(False, self._run, fn, *args))
        self._thread.start()
        assert self._done.wait(60)

    def _run(self, conn: Connection, fn: Any, *args: Any) -> None:
        self.result = fn(conn, *args)
        self._done.set()
        assert self._go_on.wait(60)

    def commit(self) -> None:
        self._go_on.set()
        self._thread.join(60)
