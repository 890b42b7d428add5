"""Transactions: what commits, what is retried, who hears of it, where it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select, text, update
from sqlalchemy.exc import DBAPIError, OperationalError
from twisted.internet.defer import gatherResults
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database, notify

things = Table(
    "things", MetaData(), Column("name", String(20), primary_key=True), Column("count", Integer, nullable=False)
)
number: ContextVar[int] = ContextVar("number", default=0)


def add(conn: Connection, name: str, count: int = 0) -> str:
    conn.execute(insert(things).values(name=name, count=count))
    return name


def names(conn: Connection) -> list[str]:
    return list(conn.execute(select(things.c.name).order_by(things.c.name)).scalars())


def increase(conn: Connection, pause: float = 0.0) -> int:
    """Read, then write what was read and one: two of these at once must not both read the same."""
    count = conn.execute(select(things.c.count).where(things.c.name == "a").with_for_update()).scalar_one()
    time.sleep(pause)
    conn.execute(update(things).where(things.c.name == "a").values(count=count + 1))
    return int(count) + 1


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def db(request: pytest.FixtureRequest, reactor: Any, tmp_path: Path) -> Iterator[Database]:
    if request.param == "memory":
        db = Database.in_memory(Clock())
    elif request.param == "sqlite":
        db = Database.open(f"sqlite:///{tmp_path / 'folder' / 'cloud.db'}", reactor)
    else:
        db = Database.open(str(request.getfixturevalue("postgresql_url")), reactor)
    yield from started(db)


@pytest.fixture
def postgresql(postgresql_url: str, reactor: Any) -> Iterator[Database]:
    yield from started(Database.open(postgresql_url, reactor))


def started(db: Database) -> Iterator[Database]:
    """With the tables of these tests."""
    db.startService()
    things.create(db.engine)
    yield db
    db.stopService()


async def test_a_transaction_commits_what_its_function_did_and_gives_its_result(db: Database) -> None:
    assert await db.run(add, "a", count=1) == "a"
    assert await db.read(names) == ["a"]


async def test_a_failing_function_changes_nothing_and_its_error_is_raised(db: Database) -> None:
    def fails(conn: Connection) -> None:
        add(conn, "a")
        raise KeyError("x")

    with pytest.raises(KeyError):
        await db.run(fails)
    assert await db.read(names) == []


async def test_a_result_outlives_its_transaction(db: Database) -> None:
    await db.run(add, "a", count=1)
    rows = await db.read(lambda conn: conn.execute(select(things)))
    assert [tuple(row) for row in rows] == [("a", 1)]


async def test_concurrent_read_and_write_transactions_lose_no_update(db: Database) -> None:
    await db.run(add, "a")
    await gatherResults([db.run(increase, 0.002) for _ in range(20)])
    assert await db.run(increase) == 21


async def test_contextvars_follow_into_the_transaction_and_do_not_come_back(db: Database) -> None:
    def change(_conn: Connection) -> int:
        seen = number.get()
        number.set(99)
        return seen

    token = number.set(7)
    assert await db.run(change) == 7
    assert await db.read(change) == 7
    assert number.get() == 7
    number.reset(token)


async def test_listeners_hear_of_commits_alone_in_the_reactors_thread(db: Database) -> None:
    heard: list[str] = []
    db.on_commit("one", lambda: heard.append(f"one {threading.current_thread() is threading.main_thread()}"))
    db.on_commit("two", lambda: heard.append("two"))

    def tell(conn: Connection, fail: bool) -> None:
        notify(conn, "one")
        notify(conn, "one")
        if fail:
            raise KeyError

    with pytest.raises(KeyError):
        await db.run(tell, True)
    assert heard == []
    await db.run(tell, False)
    assert heard == ["one True"]


def conflict(error: str) -> DBAPIError:
    return OperationalError("UPDATE", {}, Exception(error))


@pytest.mark.parametrize(("failures", "works"), [(7, True), (8, False)])
async def test_a_conflict_with_another_transaction_is_tried_again_some_times(
    db: Database, monkeypatch: pytest.MonkeyPatch, failures: int, works: bool
) -> None:
    monkeypatch.setattr("cloudctl.db.database.time.sleep", lambda _seconds: None)
    calls = []

    def contested(conn: Connection) -> str:
        calls.append(1)
        add(conn, "a")
        if len(calls) <= failures:
            raise conflict("database is locked")
        return "done"

    if works:
        assert await db.run(contested) == "done"
        assert await db.read(names) == ["a"]
    else:
        with pytest.raises(OperationalError):
            await db.run(contested)
        assert await db.read(names) == []
    assert len(calls) == 8


async def test_what_may_have_been_committed_is_not_done_again(
    postgresql: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []

    def adding(conn: Connection) -> None:
        runs.append(len(runs))
        add(conn, f"thing {len(runs)}")
        driver, commit = conn.driver, conn.driver.commit

        def unanswered() -> None:
            commit()
            driver.close()
            raise postgresql.engine.dialect.loaded_dbapi.OperationalError("server closed the connection unexpectedly")

        if len(runs) == 1:
            monkeypatch.setattr(driver, "commit", unanswered)

    with pytest.raises(OperationalError, match="closed the connection"):
        await postgresql.run(adding)
    assert await postgresql.read(names) == ["thing 1"]


async def test_a_connection_that_is_lost_before_the_commit_is_replaced(postgresql: Database) -> None:
    runs: list[int] = []

    def adding(conn: Connection) -> None:
        runs.append(len(runs))
        add(conn, f"thing {len(runs)}")
        if len(runs) == 1:
            conn.driver.close()
            add(conn, "another")

    await postgresql.run(adding)
    assert await postgresql.read(names) == ["thing 2"]


async def test_what_follows_one_another_has_one_connection(postgresql: Database) -> None:
    together = threading.Barrier(3)

    def process(conn: Connection, wait: bool = False) -> int:
        if wait:
            together.wait(60)
        return int(conn.execute(text("SELECT pg_backend_pid()")).scalar_one())

    several = await gatherResults([postgresql.run(process, wait=True) for _ in range(3)])
    assert len(set(several)) == 3
    alone = {await postgresql.run(process) for _ in range(12)}
    assert len(alone) == 1 and alone < set(several)


async def test_other_database_errors_are_raised_at_once(db: Database) -> None:
    calls = []

    def wrong(conn: Connection) -> None:
        calls.append(1)
        conn.execute(text("SELECT nothing FROM nowhere"))

    with pytest.raises(DBAPIError):
        await db.run(wrong)
    assert len(calls) == 1


async def test_foreign_keys_are_enforced(db: Database) -> None:
    def make(conn: Connection) -> None:
        conn.execute(text("CREATE TABLE parts (thing VARCHAR(20) REFERENCES things (name))"))
        conn.execute(text("INSERT INTO parts VALUES ('none')"))

    with pytest.raises(DBAPIError):
        await db.run(make)


async def test_readers_do_not_wait_for_a_writer(db: Database) -> None:
    if db.is_sqlite and db.group is None:
        pytest.skip("in memory there is one connection")
    await db.run(add, "a")
    has_read = threading.Event()

    def write(conn: Connection) -> bool:
        increase(conn)
        return has_read.wait(30)

    writing = db.run(write)
    assert await db.read(names) == ["a"]
    has_read.set()
    assert await writing, "the reader came when the writer had given up"


async def test_a_deadlock_is_resolved_by_trying_again(postgresql_url: str, reactor: Any) -> None:
    db = Database.open(postgresql_url, reactor)
    db.startService()
    things.create(db.engine)
    for name in "ab":
        await db.run(add, name)
    both = threading.Barrier(2, timeout=60)
    tries: list[str] = []
    committed = threading.Event()

    def cross(conn: Connection, first: str, second: str) -> None:
        tries.append(first)
        if len(tries) > 2:
            # Otherwise it might meet the other once more, before that has had its turn.
            assert committed.wait(60)
        for name in (first, second):
            conn.execute(update(things).where(things.c.name == name).values(count=things.c.count + 1))
            if name == first and len(tries) <= 2:
                both.wait()

    both_ways = [db.run(cross, "a", "b"), db.run(cross, "b", "a")]
    await gatherResults([each.addCallback(lambda _: committed.set()) for each in both_ways])
    counts = await db.read(lambda conn: list(conn.execute(select(things.c.count)).scalars()))
    db.stopService()
    assert counts == [2, 2]
    assert len(tries) == 3


def test_a_statement_that_hangs_does_not_keep_the_process_from_stopping(tmp_path: Path, reactor: Any) -> None:
    db = Database.open(f"sqlite:///{tmp_path / 'cloud.db'}", reactor, stop_limit=0.1)
    db.startService()
    has_begun, goes_on, was_waited_for = threading.Event(), threading.Event(), threading.Event()

    def hang(_conn: Connection) -> None:
        has_begun.set()
        goes_on.wait(60.0)
        was_waited_for.set()

    db.scan(hang)
    assert has_begun.wait(60.0)
    db.stopService()
    assert not was_waited_for.is_set()
    threads = [thread for thread in threading.enumerate() if "database" in thread.name]
    assert threads and all(thread.daemon for thread in threads), "the process would not end without them"
    goes_on.set()


def test_files_are_written_ahead_and_synced_at_each_commit(tmp_path: Path, reactor: Any) -> None:
    db = Database.open(f"sqlite:///{tmp_path / 'cloud.db'}", reactor)

    def settings(conn: Connection) -> dict[str, Any]:
        return {name: conn.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "synchronous")}

    assert db.transact(True, settings) == {"journal_mode": "wal", "synchronous": 2}
    db.close()


def test_a_write_transaction_of_sqlite_takes_its_lock_at_the_beginning(tmp_path: Path, reactor: Any) -> None:
    """With the default, two claims could both read a row as free, and the second one to write would fail or win."""
    url = f"sqlite:///{tmp_path / 'cloud.db'}"
    one, two = Database.open(url, reactor), Database.open(url, reactor)
    things.create(one.engine)

    one.transact(False, add, "a")
    results: list[int] = []
    workers = [
        threading.Thread(target=lambda db=db: results.append(db.transact(False, increase, 0.01)))
        for db in (one, two) * 5
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(results) == list(range(1, 11))
    one.close()
    two.close()


async def test_now_is_the_clock_that_all_processes_share(db: Database) -> None:
    now = await db.read(db.now)
    if db.is_sqlite:
        assert now == pytest.approx(db.clock.seconds(), abs=1.0)
    else:
        assert now == pytest.approx(time.time(), abs=60.0)
        await db.run(lambda conn: time.sleep(0.05))
        assert await db.read(db.now) > now


def test_in_memory_everything_happens_at_once() -> None:
    db = Database.in_memory(Clock())
    db.startService()
    things.create(db.engine)
    results: list[str] = []
    db.run(add, "a").addCallback(results.append)
    assert results == ["a"]
    db.stopService()
