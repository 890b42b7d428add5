"""Submits, failures, cancels and crashes in any order: what must hold, holds after each of them.

A model of a resource is its row (`wanted` by API calls) and one object on the backend; two kinds of tasks make and
remove the object. At the end every task has ended or is held, and the backend has exactly what the rows say.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import Column, Integer, String, Table, insert, select, update
from twisted.internet.task import Clock, deferLater

from cloudctl.db import Connection
from cloudctl.db.columns import metadata
from cloudctl.errors import Conflict
from cloudctl.tasks import Context, Kind, Step, Transient, TryElsewhere, Unasked, Wait, Workflow, queue
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.run import Crash
from cloudctl.tasks.tables import ENDED, HELD, OPEN, TaskRow
from cloudctl.testing.cloud import empty_database

objects = Table(
    "test_objects",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("state", String(64), nullable=False),
    Column("quota", Integer, nullable=False, default=0),
)

RESOURCES = ("a", "b", "c")
FAULTS: dict[str, Any] = {
    "none": None,
    "busy": lambda: Transient("busy"),
    "elsewhere": lambda: TryElsewhere("down"),
    "refused": lambda: Conflict("refused"),
}


class Backend:
    """Objects by id, each call of which takes time and may fail before or after its effect."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.objects: set[str] = set()
        self.faults: list[tuple[str, bool]] = []
        self.at_work: set[str] = set()

    async def ensure(self, id: str) -> None:
        await self._call(id, self.objects.add)

    async def ensure_absent(self, id: str) -> None:
        await self._call(id, self.objects.discard)

    async def _call(self, id: str, effect: Any) -> None:
        assert id not in self.at_work, f"two calls for {id} at once"
        self.at_work.add(id)
        try:
            fault, after = self.faults.pop(0) if self.faults else ("none", False)
            await deferLater(self.clock, 0.5, lambda: None)
            if fault != "none" and not after:
                raise FAULTS[fault]()
            effect(id)
            if fault != "none":
                raise FAULTS[fault]()
        finally:
            self.at_work.discard(id)


def move(conn: Connection, id: str, state: str, quota: int) -> None:
    conn.execute(update(objects).where(objects.c.id == id).values(state=state, quota=quota))


async def claim(ctx: Context) -> None:
    await ctx.commit(move, ctx.resource_id, "building", 1)


async def unclaim(ctx: Context) -> None:
    await ctx.commit(move, ctx.resource_id, "absent", 0)


async def make(ctx: Context) -> None:
    await ctx.drivers.ensure(ctx.resource_id)


async def unmake(ctx: Context) -> None:
    await ctx.drivers.ensure_absent(ctx.resource_id)


async def remove(ctx: Context) -> None:
    """A removal is never given up: a half-removed object has no state."""
    try:
        await ctx.drivers.ensure_absent(ctx.resource_id)
    except (TryElsewhere, Conflict) as error:
        raise Transient(str(error)) from error


async def settle(ctx: Context) -> Any:
    """Waits once, as for a guest to come up, and for a child."""
    if await ctx.child("log", LOG.kind, f"{ctx.resource_id}-{ctx.task.id}") not in ENDED:
        return Wait(2.0)
    return None


async def activate(ctx: Context) -> None:
    await ctx.commit(move, ctx.resource_id, "present", 1)


async def record(ctx: Context) -> None:
    await deferLater(ctx.drivers.clock, 0.1, lambda: None)


MAKE = Workflow(
    Kind("make", "object", 60.0),
    (Step("claim", claim, unclaim), Step("make", make, unmake), Step("settle", settle), Step("activate", activate)),
    restarts=1,
)
REMOVE = Workflow(Kind("remove", "object"), (Step("remove", remove, attempts=50), Step("forget", unclaim)))
LOG = Workflow(Kind("log", "log", 1800.0), (Step("record", record),))


class Cloud(RuleBasedStateMachine):
    @initialize()
    def build(self) -> None:
        self.clock = Clock()
        self.db = empty_database(self.clock)
        self.db.startService()
        self.backend = Backend(self.clock)
        self.fatal: int | None = None

        def insert_all(conn: Connection) -> None:
            conn.execute(insert(objects), [{"id": id, "state": "absent"} for id in RESOURCES])

        self.transact(insert_all)
        self.restart()

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.settle_all()
            self.engine.kill()
            self.db.stopService()

    # -- what happens

    @rule(resource=st.sampled_from(RESOURCES), at_once=st.booleans())
    def wish(self, resource: str, at_once: bool) -> None:
        self.transact(queue.submit, MAKE.kind, resource, Unasked())
        self.pass_time(0.0 if at_once else 0.3)

    @rule(resource=st.sampled_from(RESOURCES))
    def delete(self, resource: str) -> None:
        def delete(conn: Connection) -> None:
            queue.supersede(conn, REMOVE.kind, resource, Unasked(), keep=(REMOVE.kind,))

        self.transact(delete)

    @rule(resource=st.sampled_from(RESOURCES))
    def cancel(self, resource: str) -> None:
        self.transact(queue.cancel_open, "object", resource, (REMOVE.kind,))

    @rule(fault=st.sampled_from(sorted(FAULTS)), after=st.booleans())
    def break_the_next_call(self, fault: str, after: bool) -> None:
        self.backend.faults.append((fault, after))

    @rule(seconds=st.sampled_from((0.1, 0.5, 0.6, 1.0, 3.0, 20.0)))
    def pass_time(self, seconds: float) -> None:
        until = self.clock.seconds() + seconds
        while True:
            calls = [call.getTime() for call in self.clock.getDelayedCalls() if call.getTime() <= until]
            if not calls:
                break
            self.clock.advance(max(0.0, min(calls) - self.clock.seconds()))
            self.check()
            if self.engine.dead:
                self.restart()
        self.clock.advance(max(0.0, until - self.clock.seconds()))

    @rule()
    def kill(self) -> None:
        self.engine.kill()
        self.restart()

    @rule(points=st.integers(1, 12))
    def die_soon(self, points: int) -> None:
        self.fatal = points

    @rule()
    def stop_and_start(self) -> None:
        stopped = self.engine.stopService()
        while not stopped.called and not self.engine.dead:
            self.clock.advance(0.1)
        self.engine.kill()
        self.restart()

    # -- what must hold

    @invariant()
    def check(self) -> None:
        if not hasattr(self, "engine"):
            return
        active = self.transact(lambda conn: [row.resource_id for row in conn.execute(_active)])
        assert len(active) == len(set(active)), f"two active tasks: {active}"

    def settle_all(self) -> None:
        self.backend.faults.clear()
        self.fatal = None
        give_up = self.clock.seconds() + 3600
        while self.transact(self.open_kinds):
            assert self.clock.seconds() < give_up, self.transact(queue.listing)
            self.pass_time(1.0)
        rows = self.transact(lambda conn: list(conn.execute(select(objects))))
        outcomes = self.transact(queue.listing, limit=10_000)
        assert all(row.state in (*ENDED, HELD) for row in outcomes)
        assert all(row.owner is None and row.not_before is None for row in outcomes)
        assert {row.state for row in rows} <= {"absent", "present"}
        assert self.backend.objects == {row.id for row in rows if row.state == "present"}
        assert all(row.quota == (row.state == "present") for row in rows)
        for resource in RESOURCES:
            mine = [row for row in outcomes if (row.resource_type, row.resource_id) == ("object", resource)]
            starts = [row.started_at for row in reversed(mine)]
            ends = [row.ended_at for row in reversed(mine)]
            assert all(end <= start for end, start in zip(ends, starts[1:], strict=False)), "a newer task went first"

    # -- means

    def restart(self) -> None:
        self.engine = Engine(self.db, self.clock, self.backend, (MAKE, REMOVE, LOG), exclusive=True)
        self.engine.probe = self.probe
        self.engine.startService()

    def probe(self, *_point: object) -> None:
        if self.fatal is not None:
            self.fatal -= 1
            if self.fatal <= 0:
                self.fatal = None
                raise Crash

    def open_kinds(self, conn: Connection) -> set[str]:
        return set(conn.scalars(select(TaskRow.kind).where(TaskRow.state.in_(OPEN))))

    def transact(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        return self.db.transact(False, fn, *args, **kwargs)


_active = select(TaskRow.resource_id).where(TaskRow.owner.is_not(None), TaskRow.resource_type == "object")

TestInterleavings = Cloud.TestCase
TestInterleavings.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
