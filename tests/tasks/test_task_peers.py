"""A process that dies is missed by its name, long before its leases end; one that lives keeps its tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import frozen
from sqlalchemy import select
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from cloudctl.db import Connection, Database
from cloudctl.tasks import Context, Kind, Step, Unasked, Workflow, queue, submit
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.peers import Peers, Process
from tests.db.test_line import break_lines, watched

WORK = Kind("work", "thing", 3600.0)
# Nothing here ends because a lease does.
LEASE = 3600.0


def sleep(seconds: float) -> Deferred[None]:
    from twisted.internet import reactor

    return deferLater(reactor, seconds, lambda: None)


async def until(true: Callable[[], object], within: float = 60.0) -> None:
    give_up = time.monotonic() + within
    while not true():
        assert time.monotonic() < give_up
        await sleep(0.01)


@frozen
class Worker:
    """What a process has of this."""

    db: Database
    engine: Engine
    peers: Peers

    def start(self) -> None:
        self.db.startService()
        self.peers.startService()
        self.engine.startService()

    async def stop(self) -> None:
        await self.engine.stopService()
        await self.peers.stopService()
        self.db.stopService()

    def die(self) -> None:
        """What kill -9 leaves of it: no connection, and rows that say that it works."""
        self.engine.kill()
        if self.peers._calls is not None and self.peers._calls.running:
            self.peers._calls.stop()
        self.db.stopService()


class Stage:
    """Workers whose tasks wait for `gate`; `began` has (worker, fence) of each step."""

    def __init__(self, url: str, reactor: Any) -> None:
        self.gate: Deferred[None] = Deferred()
        self.began: list[tuple[int, int]] = []
        self.workers = [self._make(number, url, reactor) for number in range(2)]

    def _make(self, number: int, url: str, reactor: Any) -> Worker:
        async def work(ctx: Context) -> None:
            self.began.append((number, ctx.task.fence))
            if ctx.task.fence == 1:
                await self.gate

        db = Database.open(url, reactor)
        assert db.line is not None
        engine = Engine(db, reactor, None, [Workflow(WORK, [Step("work", work)])], lease=LEASE)
        return Worker(db, engine, Peers(db, db.line, engine.owner))

    async def both_there(self) -> None:
        for worker in self.workers:
            worker.start()
        await until(lambda: all(worker.peers._there for worker in self.workers))


@pytest.fixture
def stage(postgresql_with_tables: str, reactor: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr("cloudctl.tasks.peers.PERIOD", 0.1)
    monkeypatch.setattr("cloudctl.tasks.peers.GRACE", 1.0)
    made = Stage(postgresql_with_tables, reactor)
    yield made
    for worker in made.workers:
        if worker.db.running:
            # The test has failed: the threads of what it left would keep pytest from ending.
            worker.die()


def owners(conn: Connection) -> list[str]:
    return list(conn.scalars(select(Process.owner)))


async def test_the_tasks_of_one_that_died_are_done_by_another(stage: Stage) -> None:
    await stage.both_there()
    one, other = stage.workers
    assert sorted(await one.db.read(owners)) == sorted([one.engine.owner, other.engine.owner])
    # The other one sees that it is there, and does nothing about it.
    other.engine.queues = []
    await one.db.run(submit, WORK, "thing-1", Unasked())
    await until(lambda: stage.began)
    other.engine.queues = None
    await sleep(0.2)
    assert stage.began == [(0, 1)]
    one.die()
    await until(lambda: other.engine.counts.ended)
    assert stage.began == [(0, 1), (1, 2)]
    assert other.engine.counts.ended == {("work", "done"): 1}
    assert await other.db.read(owners) == [other.engine.owner]
    await other.stop()


async def test_one_whose_line_breaks_keeps_its_tasks(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL was started anew: nobody takes the others for dead."""
    # However long this machine takes to make the lines again.
    monkeypatch.setattr("cloudctl.tasks.peers.GRACE", 3600.0)
    await stage.both_there()
    one, other = stage.workers
    other.engine.queues = []
    await one.db.run(submit, WORK, "thing-1", Unasked())
    await until(lambda: stage.began)
    other.engine.queues = None
    seen = watched(one.db), watched(other.db)
    assert await other.db.run(break_lines) == 2
    await until(lambda: all(each == [False, True] for each in seen))
    for worker in stage.workers:
        await worker.peers.look()
        assert worker.peers._there and not worker.peers._missed, "no name stayed nobody's"
    stage.gate.callback(None)
    await until(lambda: one.engine.counts.ended)
    assert stage.began == [(0, 1)]
    assert one.engine.counts.lost == 0
    assert len(await other.db.read(owners)) == 2
    for worker in stage.workers:
        await worker.stop()


async def test_one_is_known_as_soon_as_its_line_is_open(stage: Stage) -> None:
    """It claims tasks from its start: of who is killed in its first second is known, too, whose they were."""
    for worker in stage.workers:
        worker.peers.period = 3600.0
    await stage.both_there()
    assert len(await stage.workers[0].db.read(owners)) == 2
    for worker in stage.workers:
        await worker.stop()


async def test_one_that_stops_leaves_nothing(stage: Stage) -> None:
    await stage.both_there()
    one, other = stage.workers
    await one.stop()
    assert await other.db.read(owners) == [other.engine.owner]
    await other.stop()


async def test_work_that_another_process_accepted_is_begun_when_it_tells(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that only answers calls has no engine."""
    # Never, as far as this test is concerned.
    monkeypatch.setattr("cloudctl.tasks.engine.POLL", 3600.0)
    monkeypatch.setattr("cloudctl.tasks.engine.TOLD_POLL", 3600.0)
    one, other = stage.workers
    stage.gate.callback(None)
    one.db.startService()
    other.start()
    await until(lambda: one.db.is_told and other.db.is_told)
    await sleep(0.2)
    await one.db.run(submit, WORK, "thing-1", Unasked())
    await until(lambda: other.engine.counts.ended)
    (task,) = await one.db.read(queue.listing)
    assert (task.state, stage.began) == ("done", [(1, 1)])
    one.db.stopService()
    await other.stop()
