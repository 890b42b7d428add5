"""Which errors mean that the database does not answer."""

from __future__ import annotations

import gc

import pytest
from sqlalchemy import literal, select, text
from sqlalchemy.exc import DBAPIError
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database, schema
from cloudctl.db.absence import why_away
from cloudctl.db.driver import Connections, create
from cloudctl.db.wishes import Wishes


def test_a_server_that_refuses_connections() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(DBAPIError) as raised:
        Connections(create("postgresql+psycopg://nobody@127.0.0.1:1/none")).get()
    assert why_away(raised.value).startswith("connection failed")


def test_a_connection_that_breaks(postgresql_url: str) -> None:
    held, other = (Connections(create(postgresql_url)).get() for _ in "ab")
    # It waits for the end of the session.
    other.driver.execute("SELECT pg_terminate_backend(%s, 60000)", (held.driver.info.backend_pid,))
    other.close()
    with pytest.raises(DBAPIError) as raised:
        Connection(held, Clock(), True, Wishes()).execute(text("SELECT 1"))
    held.close()
    assert why_away(raised.value)


def test_a_broken_connection_is_replaced_without_a_word_of_the_pool(
    postgresql_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    connections, other = (Connections(create(postgresql_url)) for _ in "ab")
    held = connections.get()
    other.get().driver.execute("SELECT pg_terminate_backend(%s, 60000)", (held.driver.info.backend_pid,))
    other.close()
    with pytest.raises(DBAPIError):
        Connection(held, Clock(), True, Wishes()).execute(select(literal(1)))
    del held
    connections.get()
    gc.collect()
    connections.close()
    assert caplog.records == []


def test_a_wrong_statement_is_another_matter() -> None:
    with pytest.raises(DBAPIError) as raised:
        Database.in_memory(Clock()).transact(True, lambda conn: conn.execute(text("SELECT nonsense")))
    assert (why_away(raised.value), why_away(ValueError())) == ("", "")


def test_a_disk_that_is_full() -> None:
    db = Database.in_memory(Clock())

    def fill(conn: Connection) -> None:
        conn.execute(text("PRAGMA max_page_count = 4"))
        conn.execute(text("CREATE TABLE pages (bytes BLOB)"))
        conn.execute(text("INSERT INTO pages VALUES (zeroblob(1000000))"))

    with pytest.raises(DBAPIError) as raised:
        db.transact(False, fill)
    assert why_away(raised.value) == "database or disk is full"


def test_a_file_that_is_only_read() -> None:
    db = Database.in_memory(Clock())

    def write(conn: Connection) -> None:
        conn.execute(text("PRAGMA query_only = ON"))
        conn.execute(text("CREATE TABLE pages (bytes BLOB)"))

    with pytest.raises(DBAPIError) as raised:
        db.transact(False, write)
    assert why_away(raised.value) == "attempt to write a readonly database"


def test_a_postgresql_that_takes_no_writes_as_a_standby_does(postgresql_url: str) -> None:
    held = Connections(create(postgresql_url)).get()
    conn = Connection(held, Clock(), False, Wishes())
    conn.execute(text("SET TRANSACTION READ ONLY"))
    with pytest.raises(DBAPIError) as raised:
        conn.execute(text("CREATE TABLE pages (bytes text)"))
    held.rollback()
    held.close()
    assert why_away(raised.value) == "cannot execute CREATE TABLE in a read-only transaction"
    assert schema.is_unusable(raised.value)


def test_a_disk_of_postgresql_that_is_full(postgresql_url: str) -> None:
    held = Connections(create(postgresql_url)).get()
    with pytest.raises(DBAPIError) as raised:
        Connection(held, Clock(), True, Wishes()).execute(
            text("DO $$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full'; END $$")
        )
    held.close()
    assert why_away(raised.value) == "no space left on device"
