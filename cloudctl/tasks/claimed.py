"""The row of a claimed task, written only while its claim holds.

Each function here is part of a transaction. `write` changes the row if this claim is still the last one and raises Lost
(and so rolls everything back) if not. A transaction touches the resource's rows first and the task's row last, as API
calls do, so that they do not deadlock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attrs import define, evolve
from sqlalchemy import bindparam, exists, func, update
from sqlalchemy.sql.dml import ReturningUpdate
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from cloudctl.db import Connection, Database, notify
from cloudctl.db.columns import utc
from cloudctl.tasks import children, queue
from cloudctl.tasks.kind import Phase, Told
from cloudctl.tasks.tables import CANCELLED, DONE, FAILED, HELD, OPEN, RUNNING, UNDOING, TaskRow
from cloudctl.tasks.workflow import (
    ERROR,
    REASON,
    TRIED,
    Cancelled,
    Lost,
    Reason,
    Task,
    Transaction,
    Workflow,
    reason,
)

log = Logger()

# Results in the log of steps.
SUCCESS, FAILURE, UNDONE = "success", "error", "undone"

# The values of a task that this process lets go of.
NOBODYS: Mapping[str, Any] = {"owner": None, "lease_until": None}

Log = tuple[Mapping[str, Any], ...]

# Built once, and given its values as parameters: building it costs more than running it.
_write = (
    update(TaskRow)
    .where(TaskRow.id == bindparam("of_task"), TaskRow.owner == bindparam("by"), TaskRow.fence == bindparam("at_fence"))
    .returning(TaskRow.cancel)
)
_next = TaskRow.table.alias("next")
_has_successor = exists().where(
    _next.c.resource_type == bindparam("of_type"),
    _next.c.resource_id == bindparam("of"),
    _next.c.ended_at.is_(None),
    _next.c.state.in_(OPEN),
    # Whether this sees the row before or after its end is the database's choice.
    _next.c.id != bindparam("of_task"),
)
_end = _write.returning(_has_successor)
_park = _write.values(not_before=func.coalesce(TaskRow.not_before, bindparam("wake")))


class Place(NamedTuple):
    """Where the task stands once a transaction has committed."""

    position: int  # of the step to do or undo; -1: nothing is left to undo, only the end
    undoing: bool
    log: Log
    attempts: int = 0
    error: str | None = None
    let_go: str | None = None  # "parked", "restarted", or the task's last state: this claim is over


def place_of(task: Task, position: int) -> Place:
    """Where a task stands that was just claimed."""
    return Place(position, task.state == UNDOING, tuple(task.log), task.attempts, task.error)


@define(eq=False)
class Claimed:
    """A task and this process's claim on it. `memo` is the one that its Context holds."""

    db: Database
    clock: IReactorTime
    owner: str
    task: Task
    workflow: Workflow
    memo: dict[str, Any]
    fence: int
    cancelled: bool  # seen in the row; never reset

    def write(self, conn: Connection, **values: Any) -> None:
        """Change the row and store the memo. Raises Lost."""
        self._execute(conn, _write, values)

    def _execute(self, conn: Connection, statement: ReturningUpdate[Any], values: Mapping[str, Any]) -> Sequence[Any]:
        """What the statement returns besides whether to cancel. Raises Lost."""
        mine = {"of_task": self.task.id, "by": self.owner, "at_fence": self.fence}
        row = conn.execute(statement, {"memo": self.memo, **mine, **values}).first()
        if row is None:
            raise Lost(f"task {self.task.id}")
        self.cancelled = self.cancelled or row[0]
        more: Sequence[Any] = row[1:]
        return more

    # -- borders between steps

    def step_over(self, conn: Connection, place: Place) -> Place:
        """The step, or its undo, at `place` is over: go on to the next, or to the end."""
        steps = self.workflow.steps
        if place.undoing:
            log = closed(place.log, self.clock.seconds(), UNDONE)
            position = self.undoable(place.position - 1)
            if position < 0:
                return self.undone(conn, place._replace(log=log))
            self.write(conn, step=steps[position].name, attempts=0, log=log)
            return place._replace(position=position, log=log, attempts=0)
        log = closed(place.log, self.clock.seconds(), SUCCESS)
        position = place.position + 1
        place = place._replace(position=position, log=log, attempts=0)
        if position >= len(steps):
            return self.end(conn, place, DONE)
        if (after := self.share(conn, place)) is not None:
            return after
        self.write(conn, step=steps[position].name, attempts=0, log=log, progress=100 * position // len(steps))
        return place

    def change(self, conn: Connection, place: Place, do: Transaction) -> Place:
        """Do the step at `place`, and go on."""
        do.change(conn, self._as_it_is(), utc(self.clock.seconds()))
        return self.step_over(conn, place)

    def share(self, conn: Connection, place: Place) -> Place | None:
        """Do the step at `place` in this transaction, which has not written the task's row yet. None: it must be done
        by itself, because it is no `Transaction`, somebody has asked the task to cancel, or something went wrong.
        """
        step = self.workflow.steps[place.position]
        if self.cancelled or not isinstance(step.do, Transaction):
            return None
        place = place._replace(log=opened(place.log, step.name, self.clock.seconds()))
        try:
            with conn.begin_nested():
                after = self.change(conn, place, step.do)
                if self.cancelled:
                    raise Cancelled
                return after
        except Lost:
            raise
        except Exception as error:
            # Done by itself it raises this again, and then the rules for steps apply. If it does not, only this tells.
            why = str(error) or type(error).__name__
            log.debug("task {id}: step {step} is done by itself: {why}", id=self.task.id, step=step.name, why=why)
            return None

    def undoable(self, position: int) -> int:
        """`position`, or the nearest one before it, whose step can be undone; -1 if there is none."""
        while position >= 0 and self.workflow.steps[position].undo is None:
            position -= 1
        return position

    def turn_back(
        self, conn: Connection, place: Place, why: Reason, message: str, error: Exception | None = None
    ) -> Place:
        """Begin to undo at `place`, under a new fence: an interrupted step's transaction may still be in a thread."""
        log = closed(place.log, self.clock.seconds(), FAILURE)
        self.memo[REASON] = why.value
        if error is not None:
            self.memo[ERROR] = type(error).__name__
        step = self.workflow.steps[place.position].name if place.position >= 0 else None
        self.write(conn, state=UNDOING, step=step, attempts=0, error=message, log=log, fence=self.fence + 1)
        return Place(place.position, True, log, error=message)

    @property
    def may_restart(self) -> bool:
        """Whether it is tried elsewhere once all is undone: never, for most kinds."""
        return self.task.restarts < self.workflow.restarts

    def undone(self, conn: Connection, place: Place) -> Place:
        """Nothing is left to undo."""
        why = reason(self.memo)
        if why is Reason.CANCELLED or (why is Reason.ELSEWHERE and self.cancelled):
            return self.end(conn, place, CANCELLED)
        if why is Reason.ELSEWHERE and self.may_restart:
            return self._restart(conn, place)
        return self.end(conn, place, FAILED)

    def _restart(self, conn: Connection, place: Place) -> Place:
        tried = {name: value for name, value in self.memo.items() if not name.startswith("_")}
        self._give_up(
            conn,
            memo={TRIED: [*self.memo.get(TRIED, []), tried]},
            not_before=self.db.now(conn),
            state=RUNNING,
            step=None,
            attempts=0,
            progress=0,
            restarts=self.task.restarts + 1,
            error=place.error,
            log=place.log,
        )
        notify(conn, queue.CHANNEL)
        return place._replace(let_go="restarted")

    # -- ends

    def end(self, conn: Connection, place: Place, state: str) -> Place:
        now = self.db.now(conn)
        if state == FAILED and self.workflow.on_failure is not None:
            self.workflow.on_failure(conn, self._as_it_is(), place.error or "", utc(now))
        if state == CANCELLED and self.workflow.on_cancel is not None:
            self.workflow.on_cancel(conn, self._as_it_is(), utc(now))
        values: dict[str, Any] = {"error": place.error}
        phase = Phase.ERROR
        if state == DONE:
            values, phase = {"error": None, "progress": 100}, Phase.END
        if (tell := self.workflow.kind.tell) is not None:
            tell(conn, Told(self.task, self.task.resource_id, self.task.args, phase, utc(now), values["error"]))
        resource = {"of_type": self.task.resource_type, "of": self.task.resource_id}
        ended = {"not_before": None, "state": state, "ended_at": now, "log": place.log}
        (has_successor,) = self._execute(conn, _end, {**NOBODYS, **resource, **ended, **values})
        children.wake_parent(conn, self.task, now)
        if has_successor:
            notify(conn, queue.CHANNEL)
        return place._replace(let_go=state)

    def _as_it_is(self) -> Task:
        """The task with the memo that it has by now."""
        return evolve(self.task, memo=dict(self.memo))

    def hold(self, conn: Connection, place: Place, why: str) -> Place:
        """Stop trying; an operator sees it and can retry it."""
        log = closed(place.log, self.clock.seconds(), FAILURE)
        self._give_up(conn, not_before=None, state=HELD, error=why, log=log)
        children.wake_parent(conn, self.task, self.db.now(conn))
        return place._replace(log=log, let_go=HELD)

    def park(self, conn: Connection, place: Place, delay: float, state: str) -> Place:
        """Give up the slot for `delay` seconds, not past the deadline; a wake-up that came meanwhile counts."""
        wake = self.db.now(conn) + delay
        if not place.undoing and self.task.deadline is not None:
            wake = min(wake, self.task.deadline)
        self._execute(
            conn,
            _park,
            {
                "wake": wake,
                "state": state,
                "attempts": place.attempts,
                "error": place.error,
                "log": place.log,
                **NOBODYS,
            },
        )
        notify(conn, queue.CHANNEL)
        return place._replace(let_go="parked")

    def _give_up(self, conn: Connection, **values: Any) -> None:
        self.write(conn, **NOBODYS, **values)


def opened(log: Log, step: str, now: float) -> Log:
    """The log with an open entry for `step`: the last one, if that is already open for it."""
    if log and log[-1]["step"] == step and log[-1]["ended_at"] is None:
        return log
    return (*log, {"step": step, "started_at": now, "ended_at": None, "result": None})


def closed(log: Sequence[Mapping[str, Any]], now: float, result: str) -> Log:
    """The log with its last entry ended, if that is open."""
    if not log or log[-1]["ended_at"] is not None:
        return tuple(log)
    return (*log[:-1], {**log[-1], "ended_at": now, "result": result})
