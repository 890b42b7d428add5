"""Calls that wait for SQLite's writer share a transaction, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from sqlalchemy import Integer, String, func, insert, select
from sqlalchemy.exc import IntegrityError, OperationalError
from twisted.internet.defer import DeferredList

from cloudctl.db import Connection, Database, Field, Record, notify
from cloudctl.db.columns import column
from cloudctl.db.driver import Held
from cloudctl.db.group import ATTEMPTS, MOST


class Word(Record, table="test_words"):
    name: Field[str] = column(String(20), primary_key=True)
    number: Field[int] = column(Integer, nullable=False, default=0)


class Writer:
    """A database whose writer waits until it is let go, so that calls queue up before it."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.gate = threading.Event()
        self.commands: list[str] = []
        db.transact(False, lambda conn: Word.table.create(conn.alchemy))
        began = threading.Event()
        self.blocked = db.run(self._block, began)
        assert began.wait(60.0), "a transaction of its own, which the others wait for"

    def _block(self, conn: Connection, began: threading.Event) -> None:
        began.set()
        self.gate.wait(60.0)
        conn.driver.set_trace_callback(self.commands.append)

    async def all(self, *calls: Any) -> list[tuple[bool, Any]]:
        """(whether it worked, its result or Failure) of each of these functions, which were waiting together."""
        waiting = DeferredList([self.db.run(call) for call in calls], consumeErrors=True)
        self.gate.set()
        await self.blocked
        return list(await waiting)

    def count(self, command: str) -> int:
        """How often, without the end of the transaction that blocked."""
        return sum(each.startswith(command) for each in self.commands[1:])


@pytest.fixture
def writer(reactor: Any, tmp_path: Path) -> Iterator[Writer]:
    db = Database.open(f"sqlite:///{tmp_path / 'cloud.db'}", reactor)
    db.startService()
    made = Writer(db)
    yield made
    made.gate.set()
    db.stopService()


def add(name: str) -> Any:
    def adding(conn: Connection) -> str:
        conn.execute(insert(Word).values(name=name))
        return name

    return adding


def names(conn: Connection) -> list[str]:
    return list(conn.scalars(select(Word.name).order_by(Word.name)))


async def test_calls_that_wait_share_a_commit(writer: Writer) -> None:
    results = await writer.all(*[add(f"w{n}") for n in range(10)])
    assert results == [(True, f"w{n}") for n in range(10)]
    assert (writer.count("BEGIN"), writer.count("COMMIT"), writer.count("SAVEPOINT")) == (1, 1, 10)
    assert len(await writer.db.read(names)) == 10


async def test_a_call_alone_needs_no_savepoint(writer: Writer) -> None:
    assert await writer.all(add("one")) == [(True, "one")]
    assert (writer.count("COMMIT"), writer.count("SAVEPOINT")) == (1, 0)


async def test_a_group_is_bounded(writer: Writer) -> None:
    await writer.all(*[add(f"w{n}") for n in range(MOST + 1)])
    assert writer.count("COMMIT") == 2


async def test_one_that_fails_is_rolled_back_alone(writer: Writer) -> None:
    heard: list[str] = []
    writer.db.on_commit("told", lambda: heard.append("told"))
    writer.db.on_commit("untold", lambda: heard.append("untold"))

    def tells(conn: Connection) -> None:
        conn.execute(insert(Word).values(name="b"))
        notify(conn, "told")

    def fails(conn: Connection) -> None:
        conn.execute(insert(Word).values(name="c"))
        notify(conn, "untold")
        conn.execute(insert(Word).values(name="a"))

    results = await writer.all(add("a"), fails, tells, add("d"))
    assert [worked for worked, _ in results] == [True, False, True, True]
    assert results[1][1].check(IntegrityError)
    assert await writer.db.read(names) == ["a", "b", "d"]
    assert heard == ["told"]


async def test_savepoints_of_a_call_are_its_own(writer: Writer) -> None:
    def nested(conn: Connection) -> str:
        with pytest.raises(IntegrityError), conn.begin_nested():
            conn.execute(insert(Word).values(name="b"))
            conn.execute(insert(Word).values(name="a"))
        conn.execute(insert(Word).values(name="c"))
        return "nested"

    assert [worked for worked, _ in await writer.all(add("a"), nested)] == [True, True]
    assert await writer.db.read(names) == ["a", "c"]


async def test_a_commit_that_fails_fails_all_of_them(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Held.commit

    def fails(self: Held) -> None:
        # The call that blocks has a transaction of its own, before.
        if not any(each.startswith("INSERT") for each in writer.commands):
            return commit(self)
        raise OperationalError("COMMIT", (), Exception("disk I/O error"))

    before = writer.db.changes(["test_words"])
    monkeypatch.setattr(Held, "commit", fails)
    results = await writer.all(add("a"), add("b"))
    assert [worked for worked, _ in results] == [False, False]
    monkeypatch.undo()
    assert await writer.db.read(names) == []
    assert writer.db.changes(["test_words"]) != before, "it may have been done all the same"


async def test_where_sqlite_gives_up_the_transaction_the_others_are_run_again(writer: Writer) -> None:
    runs: list[str] = []

    def counted(name: str) -> Any:
        def adding(conn: Connection) -> str:
            runs.append(name)
            conn.execute(insert(Word).values(name=name))
            return name

        return adding

    def gives_up(conn: Connection) -> None:
        # As it does when the disk is full: nothing of the transaction is left.
        conn.driver.execute("ROLLBACK")
        raise OperationalError("INSERT", (), Exception("database or disk is full"))

    results = await writer.all(counted("a"), gives_up, counted("b"))
    assert [worked for worked, _ in results] == [True, False, True]
    assert runs == ["a", "a", "b"]
    assert await writer.db.read(names) == ["a", "b"]


async def test_where_no_transaction_begins_after_that_each_call_is_answered_once(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Held.begin
    is_full: list[bool] = []

    def begins(self: Held, read_only: bool) -> None:
        if is_full and is_full.pop():
            raise OperationalError("BEGIN", (), Exception("disk I/O error"))
        begin(self, read_only)

    def gives_up(conn: Connection) -> None:
        conn.driver.execute("ROLLBACK")
        is_full.append(True)
        raise OperationalError("INSERT", (), Exception("database or disk is full"))

    monkeypatch.setattr(Held, "begin", begins)
    results = await writer.all(add("a"), gives_up, add("b"))
    assert [worked for worked, _ in results] == [False, False, True]
    assert await writer.db.read(names) == ["b"], "whose failure was told was not run later"


async def test_one_in_the_way_of_another_is_tried_again_and_holds_up_nobody(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloudctl.db.group.time.sleep", lambda _seconds: None)
    tries: list[int] = []

    def contested(conn: Connection) -> int:
        tries.append(1)
        conn.execute(insert(Word).values(name="contested"))
        if len(tries) < 3:
            raise OperationalError("INSERT", (), Exception("database is locked"))
        return len(tries)

    def hopeless(conn: Connection) -> None:
        raise OperationalError("INSERT", (), Exception("database is locked"))

    results = await writer.all(contested, add("a"), hopeless)
    assert results[:2] == [(True, 3), (True, "a")]
    assert not results[2][0]
    assert await writer.db.read(names) == ["a", "contested"]
    assert len(tries) <= ATTEMPTS


async def test_a_call_whose_client_has_gone_is_done_all_the_same(writer: Writer) -> None:
    gone = writer.db.run(add("gone"))
    gone.addErrback(lambda _failure: None)
    gone.cancel()
    assert await writer.all(add("a")) == [(True, "a")]
    assert await writer.db.read(lambda conn: conn.scalar(select(func.count()).select_from(Word))) == 2


@define
class Following:
    """What follows "work" notes the words that it finds; `fails` is raised after that."""

    heard: list[Any] = field(factory=list)
    fails: Exception | None = None
    leaves: bool = False

    def on(self, db: Database) -> None:
        db.on_commit("work", lambda: self.heard.append("listener"))
        db.on_commit("noted", lambda: self.heard.append("noted"))
        db.follow("work", self.note, self.heard.append)

    def note(self, conn: Connection) -> list[str] | None:
        found = names(conn)
        conn.execute(insert(Word).values(name="note"))
        notify(conn, "noted")
        if self.fails is not None:
            raise self.fails
        return None if self.leaves else found


def asks(name: str) -> Any:
    def asking(conn: Connection) -> None:
        conn.execute(insert(Word).values(name=name))
        notify(conn, "work")

    return asking


async def test_what_is_told_of_is_followed_up_once_before_the_commit(writer: Writer) -> None:
    following = Following()
    following.on(writer.db)
    await writer.all(add("a"), asks("b"), asks("c"))
    assert writer.count("COMMIT") == 1
    assert await writer.db.run(names) == ["a", "b", "c", "note"]
    assert following.heard == ["noted", ["a", "b", "c"]]


async def test_nothing_follows_what_tells_of_nothing_or_fails(writer: Writer) -> None:
    following = Following()
    following.on(writer.db)

    def fails(conn: Connection) -> None:
        asks("b")(conn)
        raise ValueError

    await writer.all(add("a"), fails)
    assert following.heard == []


async def test_a_follower_that_fails_is_rolled_back_alone_and_the_listeners_do_it(writer: Writer) -> None:
    following = Following(fails=ValueError("odd"))
    following.on(writer.db)
    assert await writer.all(asks("a")) == [(True, None)]
    assert following.heard == ["listener"]
    assert await writer.db.read(names) == ["a"]


async def test_a_follower_may_leave_it_to_the_listeners(writer: Writer) -> None:
    following = Following(leaves=True)
    following.on(writer.db)
    await writer.all(asks("a"))
    assert following.heard == ["listener"]


async def test_a_follower_hears_that_the_commit_failed(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    following = Following()
    following.on(writer.db)
    commit = Held.commit

    def fails(self: Held) -> None:
        if not any(each.startswith("INSERT") for each in writer.commands):
            return commit(self)
        raise OperationalError("COMMIT", (), Exception("disk I/O error"))

    monkeypatch.setattr(Held, "commit", fails)
    assert [worked for worked, _ in await writer.all(asks("a"))] == [False]
    monkeypatch.undo()
    assert await writer.db.run(names) == []
    assert following.heard[-1:] == [None]
