"""What processes on one PostgreSQL tell each other, and what becomes of it when the connection breaks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, cast

import pytest
from sqlalchemy import text
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, deferLater

from cloudctl.db import Connection, Database, notify
from cloudctl.db.line import FIRST_PAUSE, HOLD, LONGEST_PAUSE, Line
from cloudctl.db.threads import Inline

Open = Callable[[], Database]


def sleep(seconds: float) -> Deferred[None]:
    from twisted.internet import reactor

    return deferLater(reactor, seconds, lambda: None)


async def until(true: Callable[[], object], within: float = 60.0) -> None:
    give_up = time.monotonic() + within
    while not true():
        assert time.monotonic() < give_up
        await sleep(0.01)


@pytest.fixture
def another(postgresql_url: str, reactor: Any) -> Iterator[Open]:
    """Each is a process of its own, as far as PostgreSQL can tell; it is not started yet."""
    made: list[Database] = []

    def open_() -> Database:
        made.append(Database.open(postgresql_url, reactor))
        return made[-1]

    yield open_
    for db in made:
        if db.running:
            db.stopService()


class Ears:
    def __init__(self, db: Database) -> None:
        self.here = self.elsewhere = 0
        db.on_commit("news", self.of_ours, elsewhere=self.of_others)
        db.on_commit("gossip", self.of_ours)

    def of_ours(self) -> None:
        self.here += 1

    def of_others(self) -> None:
        self.elsewhere += 1


def tell(conn: Connection, channel: str = "news") -> None:
    notify(conn, channel)


def break_lines(conn: Connection) -> int:
    """PostgreSQL ends the sessions that listen, as if it were started anew. How many."""
    lines = "datname = current_database() AND application_name = 'cloudctl line'"
    ended = conn.alchemy.execute(text(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {lines}"))
    return int(ended.scalar_one())


def watched(db: Database) -> list[bool]:
    """Whether its line is open, each time that this changes."""
    assert db.line is not None
    seen: list[bool] = []
    changed = db._line_is

    def note(is_open: bool) -> None:
        changed(is_open)
        seen.append(is_open)

    db.line._changed = note
    return seen


async def both(another: Open) -> tuple[Database, Database, Ears, Ears]:
    dbs = another(), another()
    ears = Ears(dbs[0]), Ears(dbs[1])
    for db in dbs:
        db.startService()
    await until(lambda: all(db.is_told for db in dbs))
    for each in ears:
        each.elsewhere = 0  # at its start it looks
    return *dbs, *ears


async def test_a_commit_is_told_to_the_others_and_not_to_oneself(another: Open) -> None:
    one, _, ours, theirs = await both(another)
    await one.run(tell)
    await until(lambda: theirs.elsewhere)
    # What is not for others stays here.
    await one.run(tell, "gossip")
    await one.run(tell)
    await until(lambda: theirs.elsewhere == 2)
    assert (ours.here, ours.elsewhere, theirs.here) == (3, 0, 0)


async def test_many_commits_cost_few_words(another: Open) -> None:
    one, _, ours, theirs = await both(another)
    for telling in [one.run(tell) for _ in range(200)]:
        await telling
    await until(lambda: theirs.elsewhere)
    await one.run(tell)
    await sleep(0.2)
    assert ours.here == 201
    assert 1 <= theirs.elsewhere < 100


async def test_who_has_no_line_tells_with_the_commit(another: Open, postgresql_url: str) -> None:
    """As `cloudctl keys rotate` does."""
    _, other, _, theirs = await both(another)
    inline: Any = Inline()
    command = Database(other.engine, inline, inline, other.clock)
    command.transact(False, tell)
    command.connections.close()
    await until(lambda: theirs.elsewhere)


async def test_what_is_committed_while_the_database_stops_is_told_to_the_others(another: Open) -> None:
    one, _, _, theirs = await both(another)
    began = threading.Event()

    def slow(conn: Connection) -> None:
        began.set()
        time.sleep(0.3)
        tell(conn)

    telling = one.run(slow)
    assert began.wait(60)
    one.stopService()
    await telling
    await until(lambda: theirs.elsewhere)


async def test_a_line_that_breaks_is_made_again_and_whoever_listens_looks(another: Open) -> None:
    one, other, _, theirs = await both(another)
    seen = watched(one), watched(other)
    assert await one.run(break_lines) == 2
    await until(lambda: all(each == [False, True] for each in seen))
    # Something may have been said meanwhile.
    assert theirs.elsewhere == 1
    await one.run(tell)
    await until(lambda: theirs.elsewhere == 2)


async def test_a_name_is_held_as_long_as_the_process_is_there(another: Open) -> None:
    one, other = another(), another()
    assert one.line is not None
    one.line.hold("me")
    for db in (one, other):
        db.startService()
    await until(lambda: one.is_told)

    def is_held(conn: Connection) -> bool:
        (got,) = conn.driver.execute(HOLD.replace("advisory_lock", "advisory_xact_lock"), ("me",)).fetchone()
        return not got

    assert await other.run(is_held)
    seen = watched(one)
    assert await other.run(break_lines)
    await until(lambda: seen == [False, True])
    assert await other.run(is_held)
    one.stopService()
    # The server takes a moment to see it.
    while await other.run(is_held):
        await sleep(0.01)


class Unlucky:
    """An engine whose connections open, and break as soon as anybody listens on them. When each was asked for."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.opened: list[float] = []
        self.driver_connection = self.info = self
        self.backend_pid = 1

    def raw_connection(self) -> Unlucky:
        self.opened.append(self.clock.seconds())
        return self

    def detach(self) -> None: ...

    def close(self) -> None: ...

    def add_notify_handler(self, handler: object) -> None: ...

    def execute(self, text: str) -> None: ...

    def fileno(self) -> int:
        raise OSError("the server has closed the connection")


def test_a_line_that_breaks_at_once_again_and_again_is_made_less_and_less_often() -> None:
    clock = Clock()
    engine: Any = Unlucky(clock)
    line = Line(engine, cast(Any, Inline()), clock, lambda channels: None, lambda is_open: None)
    line.start()
    give_up = time.monotonic() + 60
    while len(engine.opened) < 8:
        assert time.monotonic() < give_up
        clock.advance(0.01)
        line._ring()
        time.sleep(0.001)
    line.stop()
    pauses = [after - before for before, after in pairwise(engine.opened)]
    expected = [FIRST_PAUSE * 2**number for number in range(6)] + [LONGEST_PAUSE]
    assert all(pause >= least - 1e-6 for pause, least in zip(pauses, expected, strict=False)), pauses
