"""Databases in memory that are used again: each begins as if it were new."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.testing.databases import MemoryDatabase


def image(table: str) -> bytes:
    db = Database.in_memory(Clock())
    db.transact(False, lambda conn: conn.execute(text(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)")))
    return bytes(db.connections.get().driver.serialize())


IMAGE = image("things")


def add(db: MemoryDatabase, id: int) -> None:
    db.transact(False, lambda conn: conn.execute(text(f"INSERT INTO things VALUES ({id})")))


def ids(db: MemoryDatabase) -> list[int]:
    found: Any = db.transact(True, lambda conn: conn.execute(text("SELECT id FROM things ORDER BY id")).scalars().all())
    return list(found)


def driver(db: MemoryDatabase) -> Any:
    return db.connections.get().driver


def test_the_next_one_has_nothing_of_an_earlier_one() -> None:
    one = MemoryDatabase(Clock(), IMAGE)
    add(one, 1)
    one.transact(False, lambda conn: conn.execute(text("CREATE TABLE more (id INTEGER)")))
    seen: list[str] = []
    connection = driver(one)
    connection.set_trace_callback(seen.append)
    one.close()
    seen.clear()
    other = MemoryDatabase(Clock(), IMAGE)
    assert driver(other) is connection
    assert ids(other) == [] and seen == []
    with pytest.raises(OperationalError, match="no such table: more"):
        other.transact(True, lambda conn: conn.execute(text("SELECT * FROM more")))
    with pytest.raises(RuntimeError, match="closed"):
        ids(one)


def test_two_at_once_and_two_images_are_apart() -> None:
    one, two = MemoryDatabase(Clock(), IMAGE), MemoryDatabase(Clock(), IMAGE)
    add(one, 1)
    assert (ids(one), ids(two)) == ([1], [])
    one.close()
    other = MemoryDatabase(Clock(), image("other"))
    with pytest.raises(OperationalError, match="no such table: things"):
        ids(other)


def test_one_whose_transactions_somebody_has_ended_is_not_used_again() -> None:
    one = MemoryDatabase(Clock(), IMAGE)
    connection = driver(one)
    add(one, 1)
    connection.execute("COMMIT")
    with pytest.raises(AssertionError, match="ended"):
        ids(one)
    one.close()
    other = MemoryDatabase(Clock(), IMAGE)
    assert driver(other) is not connection and ids(other) == []


def test_it_goes_back_to_any_moment() -> None:
    db = MemoryDatabase(Clock(), IMAGE)
    add(db, 1)
    first = db.moment()
    add(db, 2)
    second = db.moment()
    add(db, 3)
    before = db.generation, db.changes(["things"])
    for _ in range(2):
        db.go_back(second)
        assert ids(db) == [1, 2]
        add(db, 4)
    assert db.generation != before[0]
    db.go_back(first)
    assert ids(db) == [1]


def test_what_was_remembered_of_a_table_is_of_another_time() -> None:
    # Of the cloud's own tables: what is remembered depends on them.
    db = MemoryDatabase(Clock(), IMAGE)
    moment = db.moment()
    before = db.generation, db.changes(["servers"])
    db.go_back(moment)
    assert db.generation != before[0] and db.changes(["servers"]) != before[1]


def test_an_image_holds_what_there_is_now() -> None:
    db = MemoryDatabase(Clock(), IMAGE)
    add(db, 1)
    taken = db.image()
    add(db, 2)
    assert ids(MemoryDatabase(Clock(), taken)) == [1] and ids(db) == [1, 2]
    db.close()
    assert ids(MemoryDatabase(Clock(), taken)) == [1]


def test_a_transaction_that_fails_leaves_nothing() -> None:
    db = MemoryDatabase(Clock(), IMAGE)
    add(db, 1)

    def fail(conn: Connection) -> None:
        conn.execute(text("INSERT INTO things VALUES (2)"))
        with pytest.raises(ZeroDivisionError), conn.begin_nested():
            conn.execute(text("INSERT INTO things VALUES (3)"))
            raise ZeroDivisionError
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.transact(False, fail)
    assert ids(db) == [1]


def test_there_is_no_transaction_within_a_transaction() -> None:
    db = MemoryDatabase(Clock(), IMAGE)
    with pytest.raises(OperationalError, match="a transaction within a transaction"):
        db.transact(False, lambda conn: add(db, 1))
    assert ids(db) == []
