"""One claimed task being driven: forward step by step, or backward undo by undo, until this process lets go of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from attrs import evolve, frozen
from sqlalchemy.exc import InterfaceError, OperationalError
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from cloudctl.db import Connection, Database
from cloudctl.tasks import children, queue
from cloudctl.tasks.claimed import Claimed, Place, opened
from cloudctl.tasks.kind import Kind
from cloudctl.tasks.tables import DONE, QUEUED, RUNNING, UNDOING, WAITING
from cloudctl.tasks.workflow import (
    Cancelled,
    Context,
    Lost,
    Reason,
    Step,
    Task,
    Transaction,
    Transient,
    TryElsewhere,
    Wait,
    Workflow,
)

log = Logger()

T = TypeVar("T")

UNDO_ATTEMPTS = 20
# Seconds after which an undo that hangs is interrupted and tried again; deadlines are for the way forward.
UNDO_LIMIT = 1800.0
BACKOFF_FIRST, BACKOFF_MOST = 0.5, 60.0


def backoff(attempt: int, chance: float) -> float:
    """Seconds before attempt `attempt + 1`: exponential, with half of it left to `chance` (0 … 1)."""
    full = min(BACKOFF_MOST, BACKOFF_FIRST * 2.0 ** (attempt - 1))
    return float(full * (0.5 + chance / 2))


class Crash(BaseException):
    """Raised by `cloudctl.testing.crash` in place of a `kill -9`: the engine forgets everything and writes nothing."""


@frozen
class Workplace:
    """What all runs of a process have in common; `Engine` documents each."""

    db: Database
    clock: IReactorTime
    drivers: Any
    workflows: Mapping[str, Workflow]
    owner: str
    expected: tuple[type[Exception], ...]
    probe: Callable[[str, Task, str], object] | None
    chance: Callable[[], float]


class Run:
    """Drives one claimed task; the `Runner` behind its Context. `stop`, `cancel`, `die` may be called at any time."""

    def __init__(self, at: Workplace, task: Task, workflow: Workflow, place: Place) -> None:
        self.at = at
        self.task = task
        self.workflow = workflow
        self.context = Context(task, self)
        self.claimed = Claimed(at.db, at.clock, at.owner, task, workflow, self.context.memo, task.fence, task.cancel)
        self.place = place
        self.expired = False
        self.step_name = ""
        self._stopping = False
        self._cancelled = False
        self._dead = False
        self._committed = False
        self._doing: Deferred[Any] | None = None

    # -- what the engine may call

    def stop(self) -> None:
        """Give the task back when its present step has ended."""
        self._stopping = True

    def cancel(self) -> None:
        """Somebody asked the task to stop."""
        self._cancelled = True

    def die(self) -> None:
        """Write nothing from now on, as if the process were killed."""
        self._dead = True

    # -- driving

    async def go(self, remaining: float | None) -> None:
        """Drive the task until this process has let go of it. `remaining`: seconds until its deadline."""
        alarm = None
        if remaining is not None and not self.place.undoing:
            self.expired = remaining <= 0
            alarm = self.at.clock.callLater(max(0.0, remaining), self._expire)
        try:
            while self.place.let_go is None:
                if self._stopping:
                    await self._park(0.0, UNDOING if self.place.undoing else RUNNING)
                elif self.place.undoing:
                    await self._backward()
                else:
                    await self._forward()
        finally:
            if alarm is not None and alarm.active():
                alarm.cancel()

    def _expire(self) -> None:
        """The deadline has come: a step that hangs would keep its resource for ever."""
        self.expired = True
        if not self.place.undoing:
            self._interrupt()

    def _interrupt(self) -> None:
        if self._doing is not None:
            self._doing.cancel()

    # -- forward

    async def _forward(self) -> None:
        position = self.place.position
        # A task that is claimed for the first time has done nothing that could be undone.
        done = position if self.task.fence > 1 or position > 0 else -1
        if self.is_cancelled:
            await self._turn_back(done, Reason.CANCELLED, "cancelled")
        elif self.expired:
            await self._turn_back(done, Reason.FAILED, "the deadline has passed")
        elif position >= len(self.workflow.steps):
            self.place = await self._transaction(self.claimed.end, self.place, DONE)
        else:
            await self._do(position, self.workflow.steps[position])

    async def _do(self, position: int, step: Step) -> None:
        self._begin(step)
        try:
            self.probe("step")
            if isinstance(step.do, Transaction):
                self.place = await self._transaction(self.claimed.change, self.place, step.do)
                return
            outcome = await self._interruptible(step.do)
            if self._committed:
                if outcome is not None:
                    raise RuntimeError(f"step {step.name} returned {outcome!r} after its commit")
            elif isinstance(outcome, Wait):
                self.place = self.place._replace(attempts=0)
                await self._park(outcome.poll, WAITING)
            else:
                self.context.remember(**(outcome or {}))
                self.place = await self._transaction(self.claimed.step_over, self.place)
        except Lost:
            raise
        except Exception as error:
            # A step may raise anything; whatever it is, the task goes on by the rules in `workflow`.
            await self._failed(position, step, error)

    def _begin(self, step: Step) -> None:
        self.step_name = step.name
        self._committed = False
        self.place = self.place._replace(log=opened(self.place.log, step.name, self.now))

    async def _interruptible(self, do: Callable[[Context], Awaitable[T]]) -> T:
        async def doing() -> T:
            return await do(self.context)

        self._doing = ensureDeferred(doing())
        try:
            result: T = await self._doing
            return result
        finally:
            self._doing = None

    async def _failed(self, position: int, step: Step, error: Exception) -> None:
        self.probe("failure")
        message = str(error) or type(error).__name__
        if self.place.let_go is not None:
            # Its last commit was the task's end; there is nothing that this task could still undo.
            log.failure("task {id}: step {step} failed after its commit", id=self.task.id, step=step.name)
        elif self.expired:
            why = "" if isinstance(error, CancelledError) else f": {message}"
            await self._turn_back(position, Reason.FAILED, f"{step.name}: the deadline has passed{why}", error)
        elif isinstance(error, Cancelled):
            await self._turn_back(position, Reason.CANCELLED, "cancelled")
        elif isinstance(error, Transient) or is_database_trouble(error):
            if not await self._later(step.attempts, RUNNING, message):
                await self._turn_back(position, Reason.FAILED, f"{step.name}: {message}", error)
        elif isinstance(error, TryElsewhere):
            if self.claimed.may_restart:
                log.info(
                    "task {id}: {step} will be tried elsewhere: {why}", id=self.task.id, step=step.name, why=message
                )
            else:
                self._tell(error, "task {id}: step {step} failed: {why}", step.name)
            await self._turn_back(position, Reason.ELSEWHERE, message, error)
        else:
            self._tell(error, "task {id}: step {step} failed: {why}", step.name)
            await self._turn_back(position, Reason.FAILED, message, error)

    async def _turn_back(self, position: int, why: Reason, message: str, error: Exception | None = None) -> None:
        place = self.place._replace(position=position)
        self.place = await self._transaction(self.claimed.turn_back, place, why, message, error)
        # A transaction that an interrupted step left in a thread holds the old fence, and can no longer commit.
        self.claimed = evolve(self.claimed, fence=self.claimed.fence + 1)

    # -- backward

    async def _backward(self) -> None:
        """Undo the step at the present position, or the nearest one before it that can be undone."""
        position = self.claimed.undoable(self.place.position)
        self.place = self.place._replace(position=position)
        name = self.workflow.steps[position].name if position >= 0 else "the end"
        try:
            if position < 0:
                self.place = await self._transaction(self.claimed.undone, self.place)
            else:
                await self._undo(self.workflow.steps[position])
        except Lost:
            raise
        except Exception as error:
            # As forward: an undo or a hook may raise anything, and the task must not be forgotten.
            await self._undo_failed(name, error)

    async def _undo(self, step: Step) -> None:
        assert step.undo is not None
        self._begin(step)
        self.probe("undo")
        alarm = self.at.clock.callLater(UNDO_LIMIT, self._interrupt)
        try:
            outcome = await self._interruptible(step.undo)
        finally:
            if alarm.active():
                alarm.cancel()
        if self._committed:
            return
        if isinstance(outcome, Wait):
            self.place = self.place._replace(attempts=0)
            await self._park(outcome.poll, UNDOING)
        else:
            self.place = await self._transaction(self.claimed.step_over, self.place)

    async def _undo_failed(self, name: str, error: Exception) -> None:
        self.probe("failure")
        if self.place.let_go is not None:
            log.failure("task {id}: undo of {step} failed after its commit", id=self.task.id, step=name)
            return
        if not isinstance(error, Transient) and not is_database_trouble(error):
            self._tell(error, "task {id}: undo of {step} failed: {why}", name)
        if not await self._later(UNDO_ATTEMPTS, UNDOING, self.place.error):
            await self.hold(f"undo of {name} failed: {error}; the task failed first because: {self.place.error}")

    # -- letting go

    async def hold(self, why: str) -> None:
        """Stop trying; an operator sees it (`cloudctl tasks`) and can retry it."""
        log.error("task {id} ({kind}) is held: {why}", id=self.task.id, kind=self.task.kind, why=why)
        self.place = await self._transaction(self.claimed.hold, self.place, why)

    async def _later(self, most: int, state: str, message: str | None) -> bool:
        """Park, to do the same again after a back-off; False if the attempts are used up."""
        attempts = self.place.attempts + 1
        if attempts >= most:
            return False
        self.place = self.place._replace(attempts=attempts, error=message)
        await self._park(backoff(attempts, self.at.chance()), state)
        return True

    async def _park(self, delay: float, state: str) -> None:
        self.place = await self._transaction(self.claimed.park, self.place, delay, state)

    def _tell(self, error: Exception, text: str, step: str) -> None:
        """Log it. A refusal is in the task's row and its resource's fault; anything unforeseen needs its traceback."""
        why = str(error) or type(error).__name__
        if isinstance(error, (TryElsewhere, *self.at.expected)):
            log.warn(text, id=self.task.id, step=step, why=why)
        else:
            log.failure(text, id=self.task.id, step=step, why=why)

    # -- what a Context calls

    @property
    def drivers(self) -> Any:
        self.probe("driver")
        return self.at.drivers

    @property
    def now(self) -> float:
        return float(self.at.clock.seconds())

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled or self.claimed.cancelled

    def probe(self, point: str) -> None:
        """A point where the process may die. Raises Crash if it has died for the purposes of a test."""
        if self._dead:
            raise Crash(point)
        if self.at.probe is not None:
            self.at.probe(point, self.task, self.step_name)

    async def _transaction(self, fn: Callable[..., T], *args: Any) -> T:
        self.probe("before transaction")
        result: T = await self.at.db.run(fn, *args)
        self.probe("after transaction")
        return result

    async def read(self, fn: Any, args: Any, kwargs: Any) -> Any:
        self.probe("read")
        return await self.at.db.read(fn, *args, **kwargs)

    async def write(self, fn: Any, args: Any, kwargs: Any) -> Any:
        claimed = self.claimed

        def writing(conn: Connection) -> Any:
            result = fn(conn, *args, **kwargs)
            claimed.write(conn)
            return result

        return await self._transaction(writing)

    async def commit(self, fn: Any, args: Any, kwargs: Any) -> Any:
        if self._committed:
            raise RuntimeError(f"step {self.step_name} commits twice")
        claimed, place = self.claimed, self.place

        def committing(conn: Connection) -> Any:
            result = fn(conn, *args, **kwargs)
            return result, claimed.step_over(conn, place)

        result, self.place = await self._transaction(committing)
        self._committed = True
        return result

    async def child(self, key: str, kind: Kind, resource_id: str, args: Mapping[str, Any]) -> str:
        if kind.name not in self.at.workflows:
            raise ValueError(f"no workflow is called {kind}")
        if (kind.resource, resource_id) == (self.task.resource_type, self.task.resource_id):
            raise ValueError("a child of the same resource would wait for its parent for ever")
        claimed = self.claimed

        def submitting(conn: Connection) -> str:
            child = children.find(conn, self.task, key)
            if child is not None:
                return str(child.state)
            children.submit(conn, self.task, key, kind, resource_id, args)
            claimed.write(conn)
            return QUEUED

        return await self._transaction(submitting)

    async def child_error(self, key: str) -> str | None:
        child = await self.read(children.find, (self.task, key), {})
        return None if child is None or child.state == DONE else child.error

    async def cancel_child(self, key: str) -> str | None:
        claimed = self.claimed

        def cancelling(conn: Connection) -> str | None:
            child = children.find(conn, self.task, key)
            if child is None:
                return None
            if queue.cancel(conn, child.id):
                claimed.write(conn)
            return str(child.state)

        return await self._transaction(cancelling)

    async def is_void(self) -> bool:
        voiding = [each.kind for each in self.at.workflows.values() if each.kind.voids]
        of_mine = self.task.resource_type, self.task.resource_id
        return bool(voiding and await self.read(queue.has_open, (*of_mine, voiding), {"after": self.task.id}))


def is_database_trouble(error: Exception) -> bool:
    """The database could not be reached or is overloaded; nothing is wrong with the step."""
    return isinstance(error, OperationalError | InterfaceError)
