"""Statements by libpq do what psycopg's cursors do, and keep no more prepared than they may."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

import pytest
from sqlalchemy import Integer, bindparam, literal, make_url, select, text

psycopg = pytest.importorskip("psycopg")

from cloudctl.db import Connection, Database  # noqa: E402 - psycopg is an extra
from cloudctl.db.driver import create  # noqa: E402 - psycopg is an extra
from cloudctl.db.libpq import Prepared, numbered  # noqa: E402 - psycopg is an extra

NOW = datetime(2026, 11, 22, 15, 30)
VALUES: list[Any] = ["text 'quoted' %", "", None, 0, -(2**40), True, 1.5, NOW, b"\x00\xff", ["a", "b"]]
OFTEN = 8  # enough to be prepared
COUNT = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'p%%'"


@pytest.fixture
def driver(postgresql_url: str) -> Iterator[Any]:
    url = make_url(postgresql_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url) as made:
        yield made


def test_a_server_that_is_gone_without_a_word_is_missed_as_soon_as_the_url_says(postgresql_url: str) -> None:
    own = make_url(postgresql_url).update_query_dict({"tcp_user_timeout": "9000"})
    for url, most in ((postgresql_url, "25000"), (own.render_as_string(hide_password=False), "9000")):
        with create(url).connect() as made:
            used = cast(Any, made.connection.driver_connection).info.get_parameters()
        assert used.pop("tcp_user_timeout") == most
        assert used["connect_timeout"] == used["keepalives_idle"] == "10"
        assert (used["keepalives_interval"], used["keepalives_count"]) == ("5", "3")


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_as_from_a_cursor(driver: Any, value: Any) -> None:
    asked = "SELECT %s AS given, '100 %%' AS percent"
    answer = Prepared(driver).execute(asked, [value])
    cursor = driver.execute(asked, [value])
    assert answer.description == [(each.name, each.type_code) for each in cursor.description]
    assert answer.rowcount == cursor.rowcount
    assert answer.fetchall() == cursor.fetchall()


def test_what_is_written_is_counted_and_may_return_its_key(driver: Any) -> None:
    prepared = Prepared(driver)
    assert prepared.execute("CREATE TEMP TABLE t (id serial, name text)", []).rowcount == 0
    answer = prepared.execute("INSERT INTO t (name) VALUES (%s) RETURNING id", ["a"])
    assert (answer.rowcount, answer.fetchone()) == (1, (1,))
    assert prepared.execute("UPDATE t SET name = %s WHERE name <> %s", ["b", ""]).rowcount == 1


def test_the_first_statement_begins_a_transaction_unless_in_autocommit(driver: Any) -> None:
    prepared = Prepared(driver)
    prepared.execute("CREATE TABLE t (id int)", [])
    driver.rollback()
    with pytest.raises(psycopg.errors.UndefinedTable):
        prepared.execute("SELECT * FROM t", [])
    driver.rollback()
    driver.autocommit = True
    prepared.execute("CREATE TABLE t (id int)", [])
    assert prepared.execute("SELECT * FROM t", []).fetchall() == []
    assert driver.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_what_comes_again_is_prepared_and_the_least_used_is_forgotten(driver: Any) -> None:
    driver.prepared_max = 2
    prepared = Prepared(driver)
    for asked in ("SELECT %s + 1", "SELECT %s + 2", "SELECT %s + 3"):
        for _ in range(OFTEN):
            assert prepared.execute(asked, [1]).fetchall()
        # The same text with a value of another type is another statement.
        assert prepared.execute(asked, [2**40]).fetchall()
    names = driver.execute("SELECT statement FROM pg_prepared_statements WHERE name LIKE 'p%%' ORDER BY 1").fetchall()
    assert names == [("SELECT $1 + 2",), ("SELECT $1 + 3",)]
    assert prepared.execute("SELECT %s + 1", [1]).fetchall() == [(2,)]


def test_what_psycopg_forgets_is_its_own(driver: Any) -> None:
    """A rollback makes it forget what its cursors have prepared, with all that the server knows of the connection."""
    prepared = Prepared(driver)
    for _ in range(OFTEN):
        assert prepared.execute("SELECT %s + 1", [1]).fetchall() == driver.execute("SELECT %s + 1", [1]).fetchall()
    with pytest.raises(psycopg.errors.UndefinedTable):
        driver.execute("SELECT * FROM nowhere")
    driver.rollback()
    driver.execute("SELECT 1")
    assert prepared.execute("SELECT %s + 1", [1]).fetchall() == [(2,)]
    assert driver.execute(COUNT).fetchone() == (1,)


async def test_statements_that_the_server_has_forgotten_are_prepared_again(postgresql_url: str, reactor: Any) -> None:
    db = Database.open(postgresql_url, reactor, threads=1)
    db.startService()

    def ask(conn: Connection) -> int:
        return int(conn.execute(select(literal(41) + bindparam("more", type_=Integer)), {"more": 1}).scalar_one())

    for _ in range(OFTEN):
        assert await db.run(ask) == 42
    await db.run(lambda conn: conn.execute(text("DEALLOCATE ALL")) and None)
    assert await db.run(ask) == 42
    db.stopService()


def test_where_a_pooler_forbids_it_nothing_is_prepared(driver: Any) -> None:
    driver.prepare_threshold = None
    prepared = Prepared(driver)
    for _ in range(10):
        prepared.execute("SELECT %s", [1])
    assert driver.execute(COUNT).fetchone() == (0,)


def test_statements_that_come_once_are_not_remembered_for_ever(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloudctl.db.libpq.MOST_SEEN", 3)
    prepared = Prepared(driver)
    for number in range(10):
        prepared.execute(f"SELECT {number}", [])
        assert len(prepared._seen) <= 3


def test_errors_are_psycopgs_and_the_connection_lives_on(driver: Any) -> None:
    prepared = Prepared(driver)
    with pytest.raises(psycopg.errors.DivisionByZero):
        prepared.execute("SELECT 1 / %s", [0])
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        prepared.execute("SELECT 1", [])
    driver.rollback()
    assert prepared.execute("SELECT 1", []).fetchall() == [(1,)]


def test_a_lost_connection_is_seen_as_one(driver: Any, postgresql_url: str) -> None:
    prepared = Prepared(driver)
    (pid,) = prepared.execute("SELECT pg_backend_pid()", []).fetchone() or ()
    with psycopg.connect(driver.info.dsn, password=driver.info.password, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [pid])
    with pytest.raises(psycopg.OperationalError):
        prepared.execute("SELECT 1", [])
    assert driver.closed


def test_placeholders_are_numbered() -> None:
    assert numbered("a = %s AND b LIKE '%%x' AND c = %s") == b"a = $1 AND b LIKE '%x' AND c = $2"
