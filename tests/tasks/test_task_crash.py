"""The crash tool itself: sound workflows pass, careless ones are caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from attrs import define, evolve, field
from sqlalchemy import Column, Integer, String, Table, insert, select, update
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, deferLater

from cloudctl.db import Connection
from cloudctl.db.columns import metadata
from cloudctl.errors import Conflict
from cloudctl.tasks import Context, Kind, Step, Transient, TryElsewhere, Unasked, Wait, Workflow, queue
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.tables import TaskRow
from cloudctl.testing.cloud import empty_database
from cloudctl.testing.crash import LIMIT, Prober, World, crash_everywhere, run

things = Table(
    "test_things",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("state", String(64), nullable=False),
    Column("used", Integer, nullable=False, default=0),
)


@define
class Backend:
    """Guests with a delay, some hosts of which are down, and a log of how often each was made."""

    clock: Clock
    down: frozenset[str] = frozenset()
    guests: dict[str, str] = field(factory=dict)
    volumes: Counter[str] = field(factory=Counter)

    def delay(self) -> Deferred[None]:
        return deferLater(self.clock, 0.25, lambda: None)

    async def ensure_guest(self, id: str, host: str) -> None:
        await self.delay()
        if host in self.down:
            raise TryElsewhere(f"{host} is down")
        self.guests[id] = host

    async def ensure_no_guest(self, id: str) -> None:
        await self.delay()
        self.guests.pop(id, None)

    async def add_volume(self, name: str) -> None:
        """Not an ensure: each call makes one more."""
        await self.delay()
        self.volumes[name] += 1


def move(conn: Connection, id: str, state: str, used: int = 0) -> None:
    conn.execute(update(things).where(things.c.id == id).values(state=state, used=things.c.used + used))


# -- a sound workflow, with a child, a wait, a commit and undos


async def schedule(ctx: Context) -> Any:
    return {"host": ("h1", "h2", "h3")[len(ctx.task.tried)]}


async def claim(ctx: Context) -> None:
    await ctx.commit(move, ctx.resource_id, "building", 1)


async def release(ctx: Context) -> None:
    """Level-triggered though it counts: what was taken is in the row itself."""

    def free(conn: Connection) -> None:
        conn.execute(update(things).where(things.c.id == ctx.resource_id).values(used=0))

    await ctx.commit(free)


async def volume(ctx: Context) -> Any:
    state = await ctx.child("volume", VOLUME.kind, "volume-of-it")
    if state == "failed":
        raise Conflict(f"no volume: {await ctx.child_error('volume')}")
    return None if state == "done" else Wait(30.0)


async def define_guest(ctx: Context) -> None:
    await ctx.drivers.ensure_guest(ctx.resource_id, ctx.memo["schedule"]["host"])


async def undefine(ctx: Context) -> None:
    await ctx.drivers.ensure_no_guest(ctx.resource_id)


async def finish(ctx: Context) -> None:
    await ctx.commit(move, ctx.resource_id, "active")


def failed(conn: Connection, task: Any, why: str, now: datetime) -> None:
    move(conn, task.resource_id, f"error: {why}")


def cancelled(conn: Connection, task: Any, now: datetime) -> None:
    move(conn, task.resource_id, "cancelled")


def boot(*last: Step, restarts: int = 0) -> Workflow:
    steps = (
        Step("schedule", schedule),
        Step("claim", claim, undo=release),
        Step("volume", volume),
        Step("define", define_guest, undo=undefine),
        *last,
    )
    kind = Kind("sound.boot", "thing", 1800.0)
    return Workflow(kind, steps, restarts=restarts, on_failure=failed, on_cancel=cancelled)


async def make_volume(ctx: Context) -> Any:
    """Chooses before it acts, and looks whether it has acted."""
    if ctx.drivers.volumes["chosen"] == 0:
        await ctx.drivers.add_volume("chosen")
    return None


VOLUME = Workflow(Kind("sound.volume", "volume", 1800.0), [Step("make", make_volume)])


async def refuse(_ctx: Context) -> None:
    raise Conflict("no luck")


def world(
    *workflows: Workflow, down: frozenset[str] = frozenset(), cancel: bool = False, thrifty: bool = False
) -> Callable[[], World]:
    """`thrifty`: points that leave the same behind are tried once."""

    def build() -> World:
        clock = Clock()
        db = empty_database(clock)
        db.startService()
        backend = Backend(clock, down)

        def begin(conn: Connection) -> None:
            conn.execute(insert(things).values(id="one", state="new"))
            kind = workflows[0].kind
            queue.submit(conn, kind, "one", Unasked())
            if cancel:
                clock.callLater(0.3, lambda: db.transact(False, queue.cancel_open, "thing", "one"))

        def state() -> Any:
            rows = db.transact(True, lambda conn: [tuple(row) for row in conn.execute(select(things))])
            return rows, dict(backend.guests), dict(backend.volumes)

        def durable() -> Any:
            return state(), db.transact(True, lambda conn: conn.execute(select(TaskRow)).all())

        return World(
            clock,
            db,
            lambda: Engine(db, clock, backend, workflows, exclusive=True),
            lambda: db.transact(False, begin),
            state,
            durable if thrifty else None,
        )

    return build


def test_a_sound_workflow_ends_alike_wherever_it_crashes() -> None:
    points = crash_everywhere(world(boot(Step("finish", finish)), VOLUME), again=(1, 2, 5))
    seen = {(point.kind, point.step, point.name) for point in points}
    for kind, step, name in (
        ("sound.boot", "schedule", "step"),
        ("sound.boot", "define", "driver"),
        ("sound.boot", "define", "before transaction"),
        ("sound.boot", "define", "after transaction"),
        ("sound.boot", "finish", "after transaction"),
        ("sound.volume", "make", "driver"),
    ):
        assert (kind, step, name) in seen


def test_a_workflow_that_fails_is_undone_alike_wherever_it_crashes() -> None:
    points = crash_everywhere(world(boot(Step("finish", refuse)), VOLUME))
    assert any(point.name == "undo" for point in points)


def test_a_workflow_that_starts_elsewhere_ends_alike_wherever_it_crashes() -> None:
    build = world(boot(Step("finish", finish), restarts=2), VOLUME, down=frozenset({"h1", "h2"}))
    crash_everywhere(build)
    outcome = crash_end(build)
    assert outcome[1] == {"one": "h3"}


def test_a_workflow_that_is_cancelled_ends_alike_wherever_it_crashes() -> None:
    crash_everywhere(world(boot(Step("finish", finish)), VOLUME, cancel=True))


def crash_end(build: Callable[[], World]) -> Any:
    return run(build(), [Prober()])[0]


# -- careless ones


async def add_blindly(ctx: Context) -> None:
    await ctx.drivers.add_volume("extra")


async def add_then_fail_to_look(ctx: Context) -> None:
    await ctx.write(move, ctx.resource_id, "counting", 1)
    await ctx.commit(move, ctx.resource_id, "counted")


async def give_up_if_begun(ctx: Context) -> None:
    begun = await ctx.read(lambda conn: conn.execute(select(things.c.state)).scalar_one())
    if begun == "begun":
        raise Transient("somebody is at it already")
    await ctx.write(move, ctx.resource_id, "begun")
    await ctx.drivers.delay()


async def look_once_and_act_twice(ctx: Context) -> None:
    backend = ctx.drivers
    if backend.volumes["first"] == 0:
        await backend.add_volume("first")
        await backend.add_volume("second")


@pytest.mark.parametrize("thrifty", [False, True])
@pytest.mark.parametrize("careless", [look_once_and_act_twice, add_blindly, add_then_fail_to_look, give_up_if_begun])
def test_a_step_that_does_not_look_before_it_acts_is_caught(careless: Any, thrifty: bool) -> None:
    steps = [Step("first", careless), Step("second", finish)]
    build = world(Workflow(Kind("careless", "thing"), steps), thrifty=thrifty)
    with pytest.raises(AssertionError, match="crashes change the end"):
        crash_everywhere(build, again=())


def test_what_differs_is_told_and_nothing_else() -> None:
    steps = [Step("first", add_blindly), Step("second", finish)]
    build = world(Workflow(Kind("careless", "thing"), steps))

    def with_a_disk() -> World:
        made = build()
        return evolve(made, state=lambda: (made.state(), b"0" * 100_000))

    with pytest.raises(AssertionError) as caught:
        crash_everywhere(with_a_disk, again=())
    told = str(caught.value)
    assert "['extra']: expected 1, found 2" in told
    assert len(told) < 5_000


async def undo_twice_hurts(ctx: Context) -> None:
    ctx.drivers.volumes["undone"] += 1


def test_points_that_leave_the_same_behind_are_tried_once() -> None:
    made = []

    def counted() -> World:
        made.append(build())
        return made[-1]

    build = world(boot(Step("finish", finish)), VOLUME, thrifty=True)
    points = crash_everywhere(counted, again=())
    tried = [point for point in points if not point.like_the_last]
    assert len(made) == 1 + len(tried)
    assert 10 < len(tried) < len(points)


def test_an_undo_that_cannot_be_repeated_is_caught() -> None:
    steps = [Step("first", finish, undo=undo_twice_hurts), Step("second", refuse)]
    with pytest.raises(AssertionError, match=r"crash at .* in first of careless"):
        crash_everywhere(world(Workflow(Kind("careless", "thing"), steps)), again=())


def test_a_task_that_never_ends_is_caught() -> None:
    async def wait(_ctx: Context) -> Wait:
        return Wait(60.0)

    with pytest.raises(AssertionError, match="not ended"):
        crash_everywhere(world(Workflow(Kind("endless", "thing"), [Step("wait", wait)])), limit=600.0)
    assert LIMIT > 600.0


def test_a_world_without_work_is_no_proof() -> None:
    def build() -> World:
        clock = Clock()
        db = empty_database(clock)
        return World(clock, db, lambda: Engine(db, clock, None, exclusive=True), lambda: None, lambda: None)

    with pytest.raises(AssertionError, match="no work"):
        crash_everywhere(build)
