"""Stop a process at every point of its work, start another one, and compare the end with that of an undisturbed run.

    def build() -> World: ...          # a database in memory, backends and workflows, all on one Clock

    def test_boot_survives_a_crash_anywhere():
        crash_everywhere(build)

A crash here is like `kill -9`: the engine forgets everything and writes nothing, the database and the backends stay as
they are. It is tried before and after each transaction, before each use of a driver, before each step and undo, and at
each instant at which something happens while a task runs: fakes with delays make more of those. At the end, the value
of `World.state` and how every task ended must be the same.

Of consecutive points that leave the same behind, according to `World.durable`, one is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from attrs import NOTHING, define, field, fields, frozen, has
from sqlalchemy import select
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.run import Crash
from cloudctl.tasks.tables import CANCELLED, DONE, OPEN, TaskRow
from cloudctl.tasks.workflow import Task

# Seconds of the Clock within which every task must end.
LIMIT = 24 * 3600.0
# Differences told of one crash, and characters of a value that differs.
MOST, LONGEST = 10, 300


@frozen
class World:
    """Everything that a run needs. `db` is in memory, on `clock`, and has its tables."""

    clock: Clock
    db: Database
    # A new engine on `db` and the backends, as a process that starts would make it: exclusive, not yet started.
    engine: Callable[[], Engine]
    # Submits the work.
    begin: Callable[[], object]
    # A value that compares equal if the end is the same: rows, backends' inventories.
    state: Callable[[], Any]
    # A value that compares equal if nothing that outlives a process has changed: rows, what backends hold, files.
    durable: Callable[[], Any] | None = None
    # After the end. None: the database is stopped.
    close: Callable[[], object] | None = None


@frozen
class Point:
    """One point where the process may die."""

    number: int  # counted from 1 since the process started
    name: str  # "step", "driver", "before transaction" … or "instant"
    kind: str = ""  # of the task
    step: str = ""
    like_the_last: bool = False  # a process that dies here leaves the same behind as at the point before

    def __str__(self) -> str:
        return f"{self.name} {self.number}" + (f" in {self.step} of {self.kind}" if self.kind else "")


@define
class Prober:
    """Counts the points and the instants of one process, and kills it at the fatal one."""

    fatal: int | None = None
    fatal_instant: int | None = None
    left: Callable[[], Any] | None = None  # what it would leave behind if it died now
    points: list[Point] = field(factory=list)
    instants: int = 0
    busy_instants: list[Point] = field(factory=list)
    _uses: int = 0  # of drivers: what a driver has begun goes on when the process is dead
    _last: Any = None

    def __call__(self, name: str, task: Task, step: str) -> None:
        self.points.append(Point(len(self.points) + 1, name, task.kind, step, self._is_like_the_last()))
        self._uses += name == "driver"
        if len(self.points) == self.fatal:
            raise Crash(str(self.points[-1]))

    def instant(self, engine: Engine) -> None:
        self.instants += 1
        if engine.active:
            self.busy_instants.append(Point(self.instants, "instant", like_the_last=self._is_like_the_last()))
        if self.instants == self.fatal_instant:
            engine.kill()

    def _is_like_the_last(self) -> bool:
        if self.left is None:
            return False
        last, self._last = self._last, (self._uses, self.left())
        return bool(last == self._last)

    @classmethod
    def at(cls, point: Point) -> Prober:
        return cls(fatal_instant=point.number) if point.name == "instant" else cls(fatal=point.number)


def crash_everywhere(build: Callable[[], World], *, again: Sequence[int] = (1,), limit: float = LIMIT) -> list[Point]:
    """Run `build()`'s world once undisturbed, then once for each point at which the process dies. Returns the points.

    `again`: for each of these numbers, every run is repeated with a second crash at that point after the restart.
    Raises AssertionError naming each crash after which the end differs, or some task does not end within `limit`
    seconds of the Clock.
    """
    world = build()
    undisturbed = Prober(left=None if world.durable is None else partial(_left, world.clock, world.durable))
    expected = run(world, [undisturbed], limit)
    assert undisturbed.points, "the world did no work"
    points = [*undisturbed.points, *undisturbed.busy_instants]
    wrong = []
    for point in points:
        if point.like_the_last:
            continue
        for second in (None, *again):
            probers = [Prober.at(point)] if second is None else [Prober.at(point), Prober(second)]
            where = f"crash at {point}" if second is None else f"crash at {point} and at point {second} after it"
            try:
                found = run(build(), probers, limit)
            except AssertionError as error:
                found = str(error)
            if found != expected:
                wrong.append("\n  ".join([where, *islice(_told(expected, found), MOST)]))
    assert not wrong, "\n".join([f"{len(wrong)} crashes change the end", *wrong])
    return points


def _told(expected: tuple[Any, Any], found: tuple[Any, Any] | str) -> Iterator[str]:
    """How an end differs from the expected one; a text says why there is none."""
    if isinstance(found, str):
        yield found
        return
    for name, one, other in zip(("state", "tasks"), expected, found, strict=True):
        yield from _differences(one, other, name)


def _differences(expected: Any, found: Any, where: str) -> Iterator[str]:
    """What differs, and where: an end holds everything that there is, whole disks among it."""
    if expected == found:
        return
    if type(expected) is type(found) and (parts := _parts(expected)) is not None:
        others = _parts(found) or {}
        for name in {**parts, **others}:
            yield from _differences(parts.get(name, NOTHING), others.get(name, NOTHING), f"{where}{name}")
        return
    yield f"{where}: expected {_short(expected)}, found {_short(found)}"


def _parts(value: Any) -> dict[str, Any] | None:
    """Where → what is there; None for what is shown as a whole."""
    if has(type(value)):
        return {f".{each.name}": getattr(value, each.name) for each in fields(type(value))}
    if isinstance(value, Mapping):
        return {f"[{key!r}]": each for key, each in value.items()}
    if isinstance(value, tuple | list):
        return {f"[{number}]": each for number, each in enumerate(value)}
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"


def run(world: World, probers: Sequence[Prober], limit: float = LIMIT) -> Any:
    """Drive `world` to its end, with one process after another; what is to be compared. The last one does not die."""
    world.begin()
    remaining = list(probers)
    engine, prober = _started(world, remaining)
    give_up_at = world.clock.seconds() + limit
    while world.db.transact(True, _open):
        if engine.dead:
            engine, prober = _started(world, remaining)
        assert world.clock.seconds() < give_up_at, f"not ended: {world.db.transact(True, _outline)}"
        advance(world.clock)
        prober.instant(engine)
    end = (world.state(), world.db.transact(True, _outline))
    engine.kill()
    (world.close or world.db.stopService)()
    return end


def _left(clock: Clock, durable: Callable[[], Any]) -> tuple[float, Any]:
    return clock.seconds(), durable()


def advance(clock: Clock) -> None:
    """Let the time pass until something happens."""
    clock.advance(max(0.0, min(call.getTime() for call in clock.getDelayedCalls()) - clock.seconds()))


def _started(world: World, probers: list[Prober]) -> tuple[Engine, Prober]:
    engine = world.engine()
    # The same in every run, so that the points are the same.
    engine.chance = lambda: 0.5
    engine.probe = prober = probers.pop(0) if probers else Prober()
    engine.startService()
    return engine, prober


_any_open = select(TaskRow.id).where(TaskRow.state.in_(OPEN)).limit(1)


def _open(conn: Connection) -> bool:
    return conn.execute(_any_open).first() is not None


def _outline(conn: Connection) -> list[tuple[Any, ...]]:
    """(kind, resource type, resource id, state, error) of every task, in the order of submission.

    A task that was asked to stop has the state "stopped" unless it failed: its last step may have ended first.
    """
    columns = (TaskRow.kind, TaskRow.resource_type, TaskRow.resource_id, TaskRow.state, TaskRow.error, TaskRow.cancel)
    return [
        (kind, type, id, "stopped", None) if cancel and state in (DONE, CANCELLED) else (kind, type, id, state, error)
        for kind, type, id, state, error, cancel in conn.execute(select(*columns).order_by(TaskRow.id))
    ]
