"""Workflows: named steps, each with what it does and how it is undone.

A step's `do(ctx)` is level-triggered: it ensures a state, so running it again after a crash is harmless. It returns a
memo (a JSON object, readable by later steps as `ctx.memo[step]`) or `Wait`, or raises:

* `Transient`: run the step again after a back-off, until its attempts are used up or the deadline has passed;
* `TryElsewhere`: undo everything, then start again, while restarts are left;
* anything else: undo the steps in reverse, then `on_failure`.

A step that only changes the database has a `Transaction` instead of a `do`.

`undo(ctx)` ensures that the effect of `do` is absent, whether or not `do` got that far. If it raises, it is tried
again; an undo that keeps failing leaves the task `held` for an operator.

A task that is asked to cancel lets its present step end (a driver call is not interrupted; a long step may look at
`ctx.cancelled` and raise `Cancelled`), then undoes. At the deadline the present step's Deferred is cancelled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from json import dumps, loads
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from attrs import field, frozen

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.tasks.kind import Kind

P = ParamSpec("P")
T = TypeVar("T")

Memo = Mapping[str, Any] | None


class Transient(Exception):
    """It did not work now; the same step may work later."""


class TryElsewhere(Exception):
    """It cannot work here; the whole workflow may work on another host. The next start finds `task.tried`."""


class Lost(Exception):
    """The lease was taken by another process; this run must stop at once and write nothing."""


class Cancelled(Exception):
    """Someone (a delete) asked this task to stop; its steps are undone."""


class Reason(StrEnum):
    """Why a task turns back."""

    CANCELLED = "cancelled"
    FAILED = "failed"
    ELSEWHERE = "elsewhere"


# What the engine keeps in a task's memo, beside what its steps remember: an undo may outlive the process.
REASON = "_why"  # a Reason
ERROR = "_error"  # the class name of the exception that made it turn back, if one did
TRIED = "_failed"  # what the steps remembered in starts that failed, oldest first


def reason(memo: Mapping[str, Any]) -> Reason | None:
    """Why the task of this memo turns back; None if it goes forward."""
    return Reason(memo[REASON]) if REASON in memo else None


@frozen
class Wait:
    """Give up the slot and run this step again in `poll` seconds, or as soon as a child ends."""

    poll: float = 5.0


@frozen
class Transaction:
    """What a step does that changes the database and nothing else: `change(conn, task, now)`.

    If possible it shares the transaction that brings the task to this step, the one that completes the step before or
    the one that submits the task, and so costs no commit of its own. What it raises there does not count: the change
    is taken back and made again in a transaction of its own, where the rules for steps apply.
    """

    change: Callable[[Connection, Task, datetime], None]


Do = Callable[["Context"], Awaitable[Memo | Wait]]
Undo = Callable[["Context"], Awaitable[Wait | None]]


@frozen
class Step:
    name: str
    do: Do | Transaction
    undo: Undo | None = None
    attempts: int = 10
    aliases: tuple[str, ...] = ()  # former names, kept for one release


def _in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    return tuple(steps)


@frozen
class Workflow:
    """How tasks of one kind are done."""

    kind: Kind
    steps: tuple[Step, ...] = field(converter=_in_order)
    restarts: int = 0
    # Called in the transaction that ends the task, with the time; `on_failure` also with the error's message.
    on_failure: Callable[[Connection, Task, str, datetime], None] | None = None
    on_cancel: Callable[[Connection, Task, datetime], None] | None = None

    @steps.validator
    def _names_are_unique(self, _attribute: object, steps: tuple[Step, ...]) -> None:
        names = [name for step in steps for name in (step.name, *step.aliases)]
        if len(set(names)) < len(names) or any(not name or name.startswith("_") or len(name) > 64 for name in names):
            raise ValueError(
                f"{self.kind}: step names must differ, have 1 to 64 characters and not begin with _: {names}"
            )

    def index(self, name: str | None) -> int | None:
        """Position of the step with this name or former name; 0 for the name None; None if there is no such step."""
        if name is None:
            return 0
        for position, step in enumerate(self.steps):
            if name == step.name or name in step.aliases:
                return position
        return None


@frozen
class Task:
    """A claimed row, as steps and hooks see it. It is an `Origin`: what it submits is done in its user's name."""

    id: int
    kind: str
    resource_type: str
    resource_id: str
    request_id: str
    user_id: str
    project_id: str
    args: Mapping[str, Any]
    memo: Mapping[str, Any]
    state: str
    step: str | None
    attempts: int
    restarts: int
    deadline: float | None
    cancel: bool
    fence: int
    error: str | None
    submitted_at: float
    parent_id: int | None = None
    child_key: str | None = None
    log: Sequence[Mapping[str, Any]] = ()

    def failed_by(self, error: type[Exception]) -> bool:
        """Whether an exception of exactly this class made it turn back: for hooks, which may run in a later process."""
        return bool(self.memo.get(ERROR) == error.__name__)

    @property
    def tried(self) -> Sequence[Mapping[str, Any]]:
        """What the steps remembered, by name, in each start that ended in `TryElsewhere`, oldest first."""
        found: Sequence[Mapping[str, Any]] = self.memo.get(TRIED, ())
        return found


class Runner(Protocol):
    """What a Context needs from the engine."""

    @property
    def drivers(self) -> Any: ...

    @property
    def now(self) -> float: ...

    @property
    def is_cancelled(self) -> bool: ...

    @property
    def step_name(self) -> str: ...

    async def read(self, fn: Any, args: Any, kwargs: Any) -> Any: ...

    async def write(self, fn: Any, args: Any, kwargs: Any) -> Any: ...

    async def commit(self, fn: Any, args: Any, kwargs: Any) -> Any: ...

    async def child(self, key: str, kind: Kind, resource_id: str, args: Mapping[str, Any]) -> str: ...

    async def child_error(self, key: str) -> str | None: ...

    async def cancel_child(self, key: str) -> str | None: ...

    async def is_void(self) -> bool: ...


class Context:
    """What a step may use: its task, the drivers, and transactions that a stale process cannot commit."""

    def __init__(self, task: Task, runner: Runner) -> None:
        self.task = task
        self.args = task.args
        self.memo: dict[str, Any] = dict(task.memo)
        self.resource_id = task.resource_id
        self._runner = runner

    @property
    def drivers(self) -> Any:
        return self._runner.drivers

    @property
    def now(self) -> datetime:
        """The time of a change, naive UTC."""
        return utc(self._runner.now)

    @property
    def step(self) -> str:
        """The name of the step that is being done or undone."""
        return self._runner.step_name

    @property
    def reason(self) -> Reason | None:
        """Why the task turns back; None on its way forward."""
        return reason(self.memo)

    @property
    def cancelled(self) -> bool:
        """Someone asked this task to stop. A long step may look, and raise `Cancelled`."""
        return self._runner.is_cancelled

    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self._runner.read(fn, args, kwargs)
        return result

    async def write(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """One transaction that checks the fence and stores the memo. Raises Lost if another process has the task."""
        result: T = await self._runner.write(fn, args, kwargs)
        return result

    async def commit(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `write`, but the same transaction also completes the step (or its undo): it will not run again.

        Once per step, as its last act: what comes after it is lost in a crash, so the step returns None. Use `remember`
        before it. The commit of the last step ends the task.
        """
        result: T = await self._runner.commit(fn, args, kwargs)
        return result

    def remember(self, **values: Any) -> None:
        """Add to this step's memo, which the next `write`, `commit` or the end of the step stores.

        The values must be JSON, and are read back as JSON gives them: tuples as lists. Raises TypeError for others.
        """
        if values:
            step = self._runner.step_name
            self.memo[step] = {**self.memo.get(step, {}), **loads(dumps(values))}

    async def child(self, key: str, kind: Kind, resource_id: str, args: Mapping[str, Any] | None = None) -> str:
        """Submit a task of another resource, once for each `key` of this task. Returns the child's present state.

        The parent returns `Wait()` while that state is open; it is woken when the child ends or is held. After a
        restart (`TryElsewhere`) the same key is a new child.
        """
        return await self._runner.child(key, kind, resource_id, dict(args or {}))

    async def child_error(self, key: str) -> str | None:
        """Why the child failed or is held; None if it did not, or if there is none."""
        return await self._runner.child_error(key)

    async def cancel_child(self, key: str) -> str | None:
        """Ask the child to stop if it is open. Its state now, None if there is none. For `undo`, which may `Wait`."""
        return await self._runner.cancel_child(key)

    async def is_void(self) -> bool:
        """Whether a task waits for the end of this one that removes the resource or makes it anew (`Kind.voids`).

        For `undo`: what cannot be reached need not be undone then.
        """
        return await self._runner.is_void()
