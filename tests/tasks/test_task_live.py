"""The engine on real databases, with real threads and the real reactor, in several processes' place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest
from sqlalchemy import Column, String, Table, insert, select, text
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from cloudctl.db import Connection, Database
from cloudctl.db.columns import metadata
from cloudctl.tasks import Context, Kind, Step, Transient, Unasked, Wait, Workflow, children, claims, queue, submit
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.tables import OPEN, TaskRow
from cloudctl.testing.cloud import without_rows
from tests.statements import asked

effects = Table(
    "test_effects",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("step", String(64), primary_key=True),
)


def sleep(seconds: float) -> Deferred[None]:
    from twisted.internet import reactor

    return deferLater(reactor, seconds, lambda: None)


async def effect(ctx: Context) -> None:
    await ctx.commit(note, str(ctx.task.id), ctx.step)


def note(conn: Connection, task: str, step: str) -> None:
    conn.execute(insert(effects).values(task=task, step=step))


BUSY = Kind("busy", "thing", 1800.0)
FOUR = Workflow(Kind("four", "thing", 1800.0), [Step(name, effect) for name in ("one", "two", "three", "four")])


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        file = tmp_path / "cloud.db"
        file.write_bytes(without_rows(len(metadata.tables)))
        return f"sqlite:///{file}"
    return str(request.getfixturevalue("postgresql_with_tables"))


@pytest.fixture
def databases(url: str, reactor: Any) -> Iterator[Callable[[], Database]]:
    opened: list[Database] = []

    def another() -> Database:
        db = Database.open(url, reactor)
        db.startService()
        opened.append(db)
        return db

    yield another
    for db in opened:
        db.stopService()


async def ended(db: Database, within: float = 120.0) -> None:
    give_up = time.monotonic() + within
    while await db.read(lambda conn: conn.execute(select(TaskRow.id).where(TaskRow.state.in_(OPEN))).first()):
        assert time.monotonic() < give_up, await db.read(queue.listing)
        await sleep(0.02)


async def until(true: Callable[[], object], within: float = 120.0) -> None:
    give_up = time.monotonic() + within
    while not true():
        assert time.monotonic() < give_up
        await sleep(0.01)


def expire(engine: Engine) -> None:
    """The deadline of its one task comes now."""
    (run,) = engine._running.values()
    run._expire()


def submit_all(conn: Connection, kind: str, count: int) -> None:
    for number in range(count):
        submit(conn, Kind(kind, "thing"), f"thing-{number}", Unasked())


async def states(db: Database) -> set[str]:
    return {row.state for row in await db.read(queue.listing, limit=10_000)}


async def test_tasks_are_done_and_each_step_is_committed_once(databases: Callable[[], Database], reactor: Any) -> None:
    db = databases()
    engine = Engine(db, reactor, None, [FOUR], exclusive=db.is_sqlite)
    engine.startService()
    await db.run(submit_all, "four", 50)
    await ended(db)
    await engine.stopService()
    assert await states(db) == {"done"}
    assert len(await db.read(lambda conn: conn.execute(select(effects)).all())) == 200
    assert engine.counts.ended == {("four", "done"): 50}


async def test_a_committed_task_does_not_wait_for_the_next_poll(
    databases: Callable[[], Database], reactor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Never, as far as this test is concerned.
    monkeypatch.setattr("cloudctl.tasks.engine.POLL", 3600.0)
    db = databases()
    engine = Engine(db, reactor, None, [FOUR])
    engine.startService()
    await sleep(0.2)
    await db.run(submit_all, "four", 1)
    await ended(db)
    await engine.stopService()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_what_is_submitted_is_claimed_by_the_time_it_is_on_the_disk(
    databases: Callable[[], Database], reactor: Any
) -> None:
    db = databases()
    engine = Engine(db, reactor, None, [FOUR])
    engine.startService()
    found = set()
    for _ in range(20):
        # One that comes while the engine looks by itself is left to that look.
        await db.run(submit_all, "four", 1)
        task, *_ = await db.read(queue.listing)
        found.add((task.owner, task.fence))
        await ended(db)
    await engine.stopService()
    assert (engine.owner, 1) in found


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_look_for_which_it_was_not_the_turn_is_made_later(
    databases: Callable[[], Database], reactor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloudctl.tasks.engine.POLL", 0.05)
    monkeypatch.setattr("cloudctl.tasks.engine.TOLD_POLL", 0.05)
    db, elsewhere = databases(), databases()
    engine = Engine(db, reactor, None, [FOUR])
    engine.startService()
    while not engine._turn.acquire(blocking=False):
        await sleep(0.01)
    await sleep(0.3)
    # As a transaction does that failed: nobody is told of anything.
    engine._turn.release()
    await elsewhere.run(submit_all, "four", 1)
    await ended(db)
    await engine.stopService()


async def test_no_more_run_than_there_are_slots_however_fast_they_come(
    databases: Callable[[], Database], reactor: Any
) -> None:
    db = databases()
    most: list[int] = []

    async def look(ctx: Context) -> None:
        most.append(engine.active)
        await sleep(0.001)

    engine = Engine(db, reactor, None, [Workflow(Kind("look", "thing", 1800.0), [Step("look", look)])], slots=2)
    engine.startService()
    await gatherResults([db.run(submit, Kind("look", "thing"), f"{n}", Unasked()) for n in range(40)])
    await ended(db)
    await engine.stopService()
    assert (len(most), max(most)) == (40, 2)


async def test_several_engines_share_the_work_and_nothing_is_done_twice(
    postgresql_with_tables: str, reactor: Any
) -> None:
    dbs = [Database.open(postgresql_with_tables, reactor) for _ in range(3)]
    for db in dbs:
        db.startService()

    async def all_have_begun(_ctx: Context) -> None:
        # However late one of them comes, there is something left for it.
        await until(lambda: all(engine.counts.started["shared"] for engine in engines))

    shared = Workflow(Kind("shared", "thing", 1800.0), [Step("zero", all_have_begun), *FOUR.steps])
    engines = [Engine(db, reactor, None, [shared], slots=8) for db in dbs]
    await dbs[0].run(submit_all, "shared", 120)
    for engine in engines:
        engine.startService()
    await ended(dbs[0])
    shares = [engine.counts.ended["shared", "done"] for engine in engines]
    for engine in engines:
        await engine.stopService()
    for db in dbs:
        db.stopService()
    assert sum(shares) == 120
    assert min(shares) > 0


async def test_a_dead_engine_loses_its_task_to_another_and_cannot_write(
    postgresql_with_tables: str, reactor: Any
) -> None:
    dbs = [Database.open(postgresql_with_tables, reactor) for _ in range(2)]
    for db in dbs:
        db.startService()
    gate: Deferred[None] = Deferred()
    began = []

    async def work(ctx: Context) -> None:
        began.append(ctx.task.fence)
        if len(began) == 1:
            await gate
        await ctx.commit(note, str(ctx.task.id), f"by {ctx.task.fence}")

    workflow = Workflow(Kind("work", "thing", 1800.0), [Step("work", work)])
    frozen, other = (Engine(db, reactor, None, [workflow], lease=1.0) for db in dbs)
    frozen.startService()
    await dbs[0].run(submit_all, "work", 1)
    while not began:
        await sleep(0.01)
    frozen.running = 0
    frozen._stop_clocks()
    other.startService()
    await ended(dbs[1])
    frozen.running = 1
    gate.callback(None)
    while frozen.active:
        await sleep(0.01)
    found = await dbs[0].read(lambda conn: [row.step for row in conn.execute(select(effects))])
    assert (began, found, frozen.counts.lost) == ([1, 2], ["by 2"], 1)
    for engine, db in zip((frozen, other), dbs, strict=True):
        await engine.stopService()
        db.stopService()


async def test_a_transaction_of_an_interrupted_step_does_not_commit(
    databases: Callable[[], Database], reactor: Any
) -> None:
    db = databases()
    threads = []
    go_on = Flag()

    def slow(conn: Connection) -> None:
        threads.append(1)
        assert go_on.wait(60)
        note(conn, "interrupted", "late")

    async def hang(ctx: Context) -> None:
        await ctx.commit(slow)

    async def undo(ctx: Context) -> None:
        await ctx.commit(note, "undone", "one")

    workflow = Workflow(Kind("hang", "thing", 1800.0), [Step("hang", hang, undo), Step("never", effect)])
    engine = Engine(db, reactor, None, [workflow])
    engine.startService()
    await db.run(submit, workflow.kind, "one", Unasked())
    await until(lambda: threads)
    expire(engine)
    if not db.is_sqlite:
        await ended(db)
    written = db._changes[effects.name]
    go_on.set()
    # Whether it was committed or not, it is over then.
    await until(lambda: db._changes[effects.name] > written)
    await ended(db)
    rows = await db.read(lambda conn: [row.task for row in conn.execute(select(effects))])
    (task,) = await db.read(queue.listing)
    await engine.stopService()
    assert (task.state, threads) == ("failed", [1])
    # On SQLite the undo waits for the one writer, so the late commit came first and was undone.
    assert rows == (["interrupted", "undone"] if db.is_sqlite else ["undone"])


async def test_a_stop_does_not_wait_for_a_claim_that_has_failed(
    tmp_path: Path, reactor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cloud.db"
    file.write_bytes(without_rows(len(metadata.tables)))
    db = Database.open(f"sqlite:///{file}", reactor)
    db.startService()
    engine = Engine(db, reactor, None, [FOUR])
    engine.startService()
    while engine._turn.locked() or engine._told:
        await sleep(0.01)
    began, go_on = Flag(), Flag()

    def find(*_args: Any) -> None:
        began.set()
        assert go_on.wait(60)
        raise OSError("the disk is gone")

    monkeypatch.setattr(engine, "_find", find)
    submitting = db.run(submit, FOUR.kind, "one", Unasked())
    assert began.wait(60)
    stopping = engine.stopService()
    go_on.set()
    try:
        await stopping.addTimeout(60.0, reactor)
        await submitting
    finally:
        db.stopService()


async def test_an_interrupted_step_submits_no_child(
    databases: Callable[[], Database], reactor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_child, began, go_on, over = children.submit, Flag(), Flag(), Flag()

    def slow(*args: Any) -> None:
        began.set()
        assert go_on.wait(60)
        try:
            submit_child(*args)
        finally:
            over.set()

    async def wait(ctx: Context) -> Wait:
        await ctx.child("child", FOUR.kind, "two")
        return Wait()

    async def undo(_ctx: Context) -> None:
        go_on.set()
        await until(over.is_set)
        await sleep(0.3)

    monkeypatch.setattr(children, "submit", slow)
    db = databases()
    engine = Engine(db, reactor, None, [FOUR, Workflow(Kind("parent", "thing", 1800.0), [Step("wait", wait, undo)])])
    engine.startService()
    await db.run(submit, Kind("parent", "thing"), "one", Unasked())
    await until(began.is_set)
    expire(engine)
    if db.is_sqlite:
        # Its one writer does not turn the task back meanwhile.
        go_on.set()
    await ended(db)
    await engine.stopService()
    # On SQLite the child came before the task turned back, and its undo finds it.
    found = {row.kind for row in await db.read(queue.listing)}
    assert found == ({"parent", "four"} if db.is_sqlite else {"parent"})


async def test_a_deferred_stop_waits_for_threads(databases: Callable[[], Database], reactor: Any) -> None:
    db = databases()
    out: list[str] = []

    async def in_thread(_ctx: Context) -> None:
        await deferToThread(time.sleep, 0.3)
        out.append("slept")

    engine = Engine(
        db, reactor, None, [Workflow(Kind("t", "thing", 1800.0), [Step("one", in_thread), Step("two", effect)])]
    )
    engine.startService()
    await db.run(submit_all, "t", 1)
    while not engine.active:
        await sleep(0.01)
    await engine.stopService()
    (task,) = await db.read(queue.listing)
    assert (out, task.step, task.owner) == (["slept"], "two", None)


async def test_submissions_for_one_resource_run_in_the_order_of_their_ids(
    databases: Callable[[], Database], reactor: Any
) -> None:
    """A transaction that submitted first and commits last must not be overtaken."""
    db = databases()
    order: list[int] = []

    async def one(ctx: Context) -> None:
        order.append(ctx.task.id)
        await sleep(0.01)

    def slow_submit(conn: Connection, delay: float) -> None:
        submit(conn, Kind("one", "thing"), "same", Unasked())
        time.sleep(delay)

    engine = Engine(db, reactor, None, [Workflow(Kind("one", "thing", 1800.0), [Step("one", one)])])
    engine.startService()
    first = db.run(slow_submit, 0.3)
    await sleep(0.05)
    others = [db.run(slow_submit, 0.0) for _ in range(3)]
    for submitted in (first, *others):
        await submitted
    await ended(db)
    await engine.stopService()
    assert order == sorted(order)
    assert len(order) == 4


async def test_parked_cancelled_and_retried_tasks_end(databases: Callable[[], Database], reactor: Any) -> None:
    db = databases()
    tries: dict[str, int] = {}

    async def waits(ctx: Context) -> Any:
        return Wait(60.0)

    async def busy(ctx: Context) -> None:
        tries[ctx.resource_id] = tries.get(ctx.resource_id, 0) + 1
        if tries[ctx.resource_id] < 3:
            raise Transient("busy")

    parent_step = Step("parent", parents)
    workflows = [
        Workflow(Kind("waits", "thing", 1800.0), [Step("one", waits)]),
        Workflow(BUSY, [Step("one", busy)]),
        Workflow(Kind("parent", "parent", 1800.0), [parent_step]),
    ]
    engine = Engine(db, reactor, None, workflows, chance=lambda: 0.0)
    engine.startService()
    await db.run(submit_all, "waits", 3)
    await db.run(submit, BUSY, "b", Unasked())
    await db.run(submit, Kind("parent", "parent"), "p", Unasked())
    await sleep(0.3)
    for number in range(3):
        await db.run(queue.cancel_open, "thing", f"thing-{number}")
    await ended(db)
    await engine.stopService()
    rows = await db.read(queue.listing)
    assert sorted((row.kind, row.state) for row in rows) == [
        ("busy", "done"),
        ("busy", "done"),
        ("parent", "done"),
        *[("waits", "cancelled")] * 3,
    ]


async def parents(ctx: Context) -> Any:
    return None if await ctx.child("c", BUSY, "child") == "done" else Wait(60.0)


async def test_a_claim_reads_neither_the_history_nor_the_whole_queue(databases: Callable[[], Database]) -> None:
    db = databases()

    def fill(conn: Connection) -> None:
        common = {"resource_type": "thing", "submitted_at": 0.0}
        ended = [{**common, "resource_id": f"r{n % 50}", "state": "done", "ended_at": 1.0} for n in range(20_000)]
        waiting = [{**common, "resource_id": f"r{n}", "not_before": 1.0} for n in range(5_000)]
        conn.execute(insert(TaskRow), ended)
        conn.execute(insert(TaskRow), waiting)
        if not db.is_sqlite:
            conn.execute(text("ANALYZE tasks"))

    def plan(conn: Connection) -> str:
        explain = "EXPLAIN QUERY PLAN " if db.is_sqlite else "EXPLAIN "
        with asked() as seen:
            # As it is done at each poll: the claim itself would leave nothing to claim.
            assert claims.has_work(conn, 2.0)
            assert len(claims.claim(conn, "me", 2.0, 30.0, 8).rows) == 8
        looks = [(text, values) for text, values in seen if text.startswith("SELECT")]
        assert len(looks) == 2
        return str([conn.driver.execute(explain + text, values).fetchall() for text, values in looks])

    await db.run(fill)
    explained = await db.run(plan)
    assert "ix_tasks_due" in explained
    assert "ix_tasks_open" in explained
    # Those that somebody runs, and no others, are in this index.
    assert "SCAN tasks" not in explained.replace("SCAN tasks USING INDEX uq_tasks_active", "")
    assert "TEMP B-TREE" not in explained
    assert "Sort" not in explained
