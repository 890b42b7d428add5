"""A scene: an engine on a database in memory and a Clock, where workflows are scripted in a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from attrs import define, field, frozen
from sqlalchemy import Row, update
from sqlalchemy.exc import OperationalError
from twisted.internet.defer import fail
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.tasks import Context, Kind, Step, Transaction, Workflow, queue, submit
from cloudctl.tasks.engine import Engine
from cloudctl.tasks.kind import Origin, Unasked
from cloudctl.tasks.tables import TaskRow
from cloudctl.tasks.workflow import Task

ANYBODY = Unasked()


@frozen
class Somebody:
    """An origin."""

    user_id: str
    project_id: str
    request_id: str


@define(eq=False)
class Scene:
    """`did` is what steps, undos and hooks did, in order."""

    clock: Clock
    db: Database
    did: list[str] = field(factory=list)
    engines: list[Engine] = field(factory=list)
    workflows: dict[str, Workflow] = field(factory=dict)
    # What a scripted step does the next times: a value to return or an exception to raise.
    script: dict[str, list[Any]] = field(factory=dict)
    transactions: Counter[str] = field(factory=Counter)
    # Every transaction of the engine fails while this is true.
    database_is_gone: bool = False

    @property
    def engine(self) -> Engine:
        return self.engines[-1]

    def start(self, **options: Any) -> Engine:
        engine = Engine(self.db, self.clock, self, self.workflows.values(), **{"chance": lambda: 1.0, **options})
        self.engines.append(engine)
        engine.startService()
        return engine

    def run(self, run: Callable[..., Any], fn: Any, *args: Any, **kwargs: Any) -> Any:
        """In the place of `Database.run` and `read`: counts."""
        if self.database_is_gone:
            return fail(OperationalError("SELECT 1", {}, Exception("connection refused")))
        self.transactions[getattr(fn, "__name__", str(fn))] += 1
        return run(fn, *args, **kwargs)

    # -- workflows

    def step(self, name: str, *outcomes: Any, undo: list[Any] | None = None, **options: Any) -> Step:
        """A step that notes its name and then does the outcomes one after the other; when they are used up, nothing.

        An outcome is raised if it is an exception, called with the context and awaited if it can be, or returned.
        """
        self.script[name] = list(outcomes)
        self.script[f"undo {name}"] = list(undo or [])
        return Step(name, self._scripted(name), undo=self._scripted(f"undo {name}"), **options)

    def _scripted(self, name: str) -> Callable[[Context], Any]:
        async def do(ctx: Context) -> Any:
            self.did.append(name)
            outcome = self.script[name].pop(0) if self.script[name] else None
            if isinstance(outcome, BaseException):
                raise outcome
            return await outcome(ctx) if callable(outcome) else outcome

        return do

    def change(self, name: str, *outcomes: Any, undo: list[Any] | None = None) -> Step:
        """A step that is a transaction, scripted likewise: an outcome is raised, or called with the connection."""
        self.script[name] = list(outcomes)
        self.script[f"undo {name}"] = list(undo or [])

        def change(conn: Connection, task: Task, now: datetime) -> None:
            self.did.append(name)
            outcome = self.script[name].pop(0) if self.script[name] else None
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is not None:
                outcome(conn)

        return Step(name, Transaction(change), undo=self._scripted(f"undo {name}"))

    def workflow(self, kind: str, *steps: Step, **options: Any) -> Workflow:
        def failed(_conn: Connection, _task: Any, why: str, _now: datetime) -> None:
            self.did.append(f"{kind} failed: {why}")

        def cancelled(_conn: Connection, _task: Any, _now: datetime) -> None:
            self.did.append(f"{kind} cancelled")

        resource, deadline = options.pop("resource", "thing"), options.pop("deadline", 1800.0)
        named = Kind(kind, resource, deadline, voids=options.pop("voids", False))
        hooks = {"on_failure": failed, "on_cancel": cancelled}
        self.workflows[kind] = Workflow(named, steps=steps, **{**hooks, **options})
        if self.engines and kind not in self.engine.workflows:
            self.engine.register([self.workflows[kind]])
        return self.workflows[kind]

    # -- tasks

    def kind(self, name: str) -> Kind:
        return self.workflows[name].kind if name in self.workflows else Kind(name, "thing")

    def submit(self, kind: str, resource_id: str = "one", by: Origin = ANYBODY, **options: Any) -> int:
        return self.transact(submit, self.kind(kind), resource_id, by, **options)

    def submit_for(self, seconds: float, kind: str, resource_id: str = "one") -> int:
        """A task that is due in so many seconds."""

        def later(conn: Connection) -> int:
            task_id = submit(conn, self.kind(kind), resource_id, ANYBODY)
            due = self.clock.seconds() + seconds
            conn.execute(update(TaskRow).where(TaskRow.id == task_id).values(not_before=due))
            return task_id

        return int(self.transact(later))

    def cancel(self, resource_id: str = "one", keep: Sequence[str] = ()) -> int:
        return self.transact(queue.cancel_open, "thing", resource_id, keep=[self.kind(name) for name in keep])

    def transact(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.db.transact(False, fn, *args, **kwargs)

    def row(self, task_id: int) -> Row[Any]:
        row = self.transact(queue.get, task_id)
        assert row is not None
        return row

    def state(self, task_id: int) -> str:
        return str(self.row(task_id).state)

    # -- time

    def pump(self) -> None:
        """Everything that is due at this instant."""
        for _ in range(100):
            due = [call for call in self.clock.getDelayedCalls() if call.getTime() <= self.clock.seconds()]
            if not due:
                return
            self.clock.advance(0)
        raise AssertionError("the engine spins")

    def advance(self, seconds: float) -> None:
        """Let time pass from event to event, as it does."""
        until = self.clock.seconds() + seconds
        self.pump()
        while calls := [call for call in self.clock.getDelayedCalls() if call.getTime() <= until]:
            self.clock.advance(max(0.0, min(call.getTime() for call in calls) - self.clock.seconds()))
        self.clock.advance(max(0.0, until - self.clock.seconds()))
        self.pump()

    def done(self, kind: str, resource_id: str = "one", **options: Any) -> int:
        """Submit and let everything happen that happens at once. The task's id."""
        task_id = self.submit(kind, resource_id, **options)
        self.pump()
        return task_id
