"""The engine: claims due tasks, runs them in its slots, renews their leases, and loses gracefully to another process.

It looks for due tasks when a commit here or in another process announces some (with SQLite already before that commit),
when a parked task is due, and now and then by itself: once a second where other processes' commits are not announced. A
task runs under a lease. If this process dies, another one (or the next) takes the task over when the lease ends, or as
soon as the process is missed (`peers`), and repeats the step that it finds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any
from uuid import uuid4

import attrs
from attrs import define, evolve, field, frozen
from twisted.application.service import Service
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from cloudctl import context
from cloudctl.db import Connection, Database
from cloudctl.db.absence import Absence, why_away
from cloudctl.db.columns import utc
from cloudctl.errors import CloudError
from cloudctl.tasks import claims, queue
from cloudctl.tasks.claimed import Claimed, Place, place_of
from cloudctl.tasks.kind import Kind, Phase, Told
from cloudctl.tasks.run import Crash, Run, Workplace
from cloudctl.tasks.tables import ENDED, HELD, UNDOING, TaskRow
from cloudctl.tasks.workflow import Lost, Task, Workflow

log = Logger()

LEASE = 30.0
RENEW = 10.0
POLL = 1.0
# Where other processes announce their commits.
TOLD_POLL = 5.0
SLOTS = 32


@define
class Counts:
    """What the engine has done since it was made. `ended` is by (kind, last state), `started` by kind."""

    started: Counter[str] = field(factory=Counter)
    ended: Counter[tuple[str, str]] = field(factory=Counter)
    # Runs that gave a task back before its end: to wait, or to be tried again later or elsewhere.
    parked: Counter[str] = field(factory=Counter)
    lost: int = 0
    # Seconds for which the oldest task that could run has been waiting for a slot, at the last sweep.
    oldest_due: float = 0.0


@frozen
class Found:
    """What one look at the table found."""

    rows: list[TaskRow]
    is_all: bool  # False: there may be more, for which there was no slot
    now: float  # the database's time
    next_due: float | None
    oldest_due: float | None
    begun: Mapping[int, Place] = field(factory=dict)  # by task: where those stand whose first step is done already


class Engine(Service):
    """Drives the tasks of one database in this process. Any number of processes may share the database.

    `exclusive`: no other process drives tasks of this database (SQLite), so any lease found at the start is dead.
    `queues`: the names of the queues to serve, all if None. `expected`: exceptions of steps that are not bugs; they are
    logged without a traceback. `probe(point, task, step)` is called wherever a process may die, and `chance()` returns
    the jitter of back-offs, 0 … 1; both are for tests.
    """

    def __init__(
        self,
        db: Database,
        clock: IReactorTime,
        drivers: Any,
        workflows: Iterable[Workflow] = (),
        *,
        exclusive: bool = False,
        slots: int = SLOTS,
        lease: float = LEASE,
        queues: Sequence[str] | None = None,
        expected: tuple[type[Exception], ...] = (CloudError,),
        probe: Callable[[str, Task, str], object] | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.db = db
        self.clock = clock
        self.drivers = drivers
        self.workflows: dict[str, Workflow] = {}  # by the names of their kinds
        self.register(workflows)
        self.slots = slots
        self.lease = lease
        self.queues = queues
        self.expected = expected
        self.probe = probe
        self.chance = chance
        self.owner = uuid4().hex
        self.counts = Counts()
        self.dead = False
        self._leases_are_dead = exclusive
        self._running: dict[int, Run] = {}
        self._driving: dict[int, Deferred[None]] = {}
        self._dropped: set[int] = set()  # still leased to this process, but no longer run by it
        self._starved = False  # there may be due tasks for which there was no slot
        # The turn to claim: held by the engine, or in another thread by a transaction that announced work.
        self._turn = Lock()
        self._again = False
        self._troubled = False
        self._absence, self._unrenewed = Absence("claiming tasks failed"), Absence("renewing leases failed")
        self._swept_at: float | None = None
        self._told = False
        self._wake: IDelayedCall | None = None
        self._renewing: LoopingCall | None = None
        self._idle: list[Deferred[None]] = []
        db.on_commit(queue.CHANNEL, self.nudge, elsewhere=self.look)
        db.follow(queue.CHANNEL, self._claim_within, self._claimed_within)
        db.on_commit(queue.CANCELS, self._look_for_cancelled, elsewhere=self._look_for_cancelled)

    def register(self, workflows: Iterable[Workflow]) -> None:
        for workflow in workflows:
            if workflow.kind.name in self.workflows:
                raise ValueError(f"two workflows are called {workflow.kind}")
            self.workflows[workflow.kind.name] = workflow

    @property
    def active(self) -> int:
        """How many tasks run in this process now."""
        return len(self._running)

    # -- life

    def startService(self) -> None:
        super().startService()
        self._renewing = LoopingCall(self._renew)
        self._renewing.clock = self.clock
        self._renewing.start(min(RENEW, self.lease / 3), now=False)
        self.nudge()

    def stopService(self) -> Deferred[None]:
        """Claim no more, let the running steps end (the parent service sets a limit), give the tasks back."""
        super().stopService()
        self._stop_looking()
        for run in self._running.values():
            run.stop()
        return ensureDeferred(self._drain())

    async def _drain(self) -> None:
        try:
            if self._running or self._turn.locked():
                waiting: Deferred[None] = Deferred()
                self._idle.append(waiting)
                await waiting
        finally:
            # Until then the leases are renewed: a step that takes longer than one would be begun elsewhere meanwhile.
            if not self.running:
                self._stop_clocks()
        if self._dropped:
            await self.db.run(self._release, frozenset(self._dropped))

    def kill(self) -> None:
        """Forget everything and write nothing, as if the process were killed. For `cloudctl.testing.crash`."""
        self.dead = True
        self.running = 0
        self._stop_clocks()
        for run in self._running.values():
            run.die()
        self._running.clear()
        driving, self._driving = self._driving, {}
        for deferred in driving.values():
            deferred.cancel()

    def _stop_clocks(self) -> None:
        if self._renewing is not None and self._renewing.running:
            self._renewing.stop()
        self._stop_looking()

    def _stop_looking(self) -> None:
        if self._wake is not None and self._wake.active():
            self._wake.cancel()
        self._wake = None

    # -- looking for work

    def nudge(self) -> None:
        """Look for due tasks in the reactor's next iteration. Cheap to call often."""
        self._told = True
        self._look_in(0.0)

    def look(self) -> None:
        """The same, where another process may already have taken the work: it reads before it claims."""
        self._look_in(0.0)

    @property
    def _poll(self) -> float:
        return TOLD_POLL if self.db.is_told else POLL

    def _look_in(self, delay: float) -> None:
        if not self.running:
            return
        if self._wake is not None and self._wake.active():
            if self._wake.getTime() <= self.clock.seconds() + delay:
                return
            self._wake.cancel()
        self._wake = self.clock.callLater(delay, self._look)

    def _look(self) -> None:
        if not self._turn.acquire(blocking=False):
            self._again = True
            # The holder of the turn looks once more, except a transaction that claims nothing: hence the later look.
            self._look_in(self._poll)
            return
        ensureDeferred(self._claim()).addBoth(self._claimed)

    async def _claim(self) -> None:
        self._again = True
        while self._again and self.running:
            self._again = False
            free = self.slots - len(self._running)
            sweep = self._swept_at is None or self.clock.seconds() - self._swept_at >= POLL
            if free <= 0 and not sweep:
                self._starved = True
                break
            dropped = frozenset(self._dropped)
            # If told of work, it claims; otherwise it first reads whether there is any.
            told, self._told = self._told, False
            found = None
            if not (told or dropped or self._leases_are_dead):
                found = await self.db.read(self._rest)
            if found is None:
                found = await self.db.run(self._find, free, frozenset(self._running), dropped, sweep)
            self._dropped -= dropped
            self._leases_are_dead = self._troubled = False
            self._absence.is_over()
            self._settle(found, sweep)

    def _rest(self, conn: Connection) -> Found | None:
        """What `_find` would return if there is nothing to do, else None. Clients poll, and this runs each second."""
        now = conn.now()
        if claims.has_work(conn, now):
            return None
        return Found([], True, now, claims.next_due(conn, now), None)

    def _find(
        self, conn: Connection, free: int, running: Collection[int], dropped: frozenset[int], sweep: bool
    ) -> Found:
        now = self.db.now(conn)
        if self._leases_are_dead:
            claims.release_all(conn, now)
        if dropped:
            self._release(conn, dropped)
        if sweep:
            claims.release_expired(conn, self.owner, now, running)
        if free > 0:
            # A copy: tasks end in the reactor's thread meanwhile.
            of_projects = Counter(run.task.project_id for run in [*self._running.values()])
            claimed = claims.claim(conn, self.owner, now, self.lease, free, self.queues, running, of_projects)
            self._tell_starts(conn, claimed.rows, utc(now))
        else:
            claimed = claims.Claimed([], False, claims.next_due(conn, now))
        is_all = len(claimed.rows) < free and not claimed.are_left
        oldest = claims.oldest_due(conn, now) if sweep and not is_all else None
        return Found(claimed.rows, is_all, now, claimed.next_due, oldest)

    def _claim_within(self, conn: Connection) -> Found | None:
        """Claim in the transaction that announced work, in the writer's thread: what it submits commits as claimed.

        None if there is more to do than that, or if it is not its turn; then the engine claims in its own time.
        """
        if not self.running or self._leases_are_dead or self._dropped or not self._turn.acquire(blocking=False):
            return None
        found = None
        try:
            # Until this turn ends nothing starts a task: at least this many slots stay free.
            free = self.slots - len(self._running)
            if free > 0:
                found = self._find(conn, free, self._running.keys(), frozenset(), False)
                found = evolve(found, begun=self._begin(conn, found.rows))
        finally:
            if found is None:
                self._turn.release()
                if not self.running:  # it may be what a stop waits for
                    self.db.reactor.callFromThread(self._tell_idle)
        return found

    def _begin(self, conn: Connection, rows: Sequence[TaskRow]) -> dict[int, Place]:
        """Do the first step of a task that was claimed alone, if it is a transaction: it is committed with the claim.

        Of several nothing is begun. All who wait for the writer would wait for that; and those tasks' own
        transactions will share their commits.
        """
        if len(rows) != 1:
            return {}
        task = as_task(rows[0])
        workflow = self.workflows.get(task.kind)
        if workflow is None or task.step is not None or task.state == UNDOING:
            return {}
        memo = dict(task.memo)
        claimed = Claimed(self.db, self.clock, self.owner, task, workflow, memo, task.fence, task.cancel)
        place = claimed.share(conn, place_of(task, 0))
        return {} if place is None else {task.id: place}

    def _claimed_within(self, found: Found | None) -> None:
        """Start what was claimed. None: the transaction failed, and nothing was."""
        if found is not None and not self.dead:
            self._settle(found, False)
        self._turn.release()
        if found is None or self._again:
            self.nudge()
        self._tell_idle()

    def _tell_starts(self, conn: Connection, rows: Sequence[TaskRow], now: datetime) -> None:
        for row in rows:
            workflow = self.workflows.get(row.kind)
            if row.fence == 1 and workflow is not None and (tell := workflow.kind.tell) is not None:
                tell(conn, Told(row, row.resource_id, row.args, Phase.START, now))

    def _release(self, conn: Connection, ids: frozenset[int]) -> None:
        claims.release(conn, self.owner, ids, self.db.now(conn))

    def _settle(self, found: Found, sweep: bool) -> None:
        if sweep:
            self._swept_at = self.clock.seconds()
            self.counts.oldest_due = 0.0 if found.oldest_due is None else found.now - found.oldest_due
        self._starved = not found.is_all
        if found.next_due is not None and found.next_due - found.now < self._poll:
            self._look_in(found.next_due - found.now)
        for row in found.rows:
            self._start(row, found.now, found.begun.get(row.id))

    def _claimed(self, result: Any) -> None:
        self._turn.release()
        if isinstance(result, Failure):
            self._tell_trouble(result)
        self._look_in(POLL if self._troubled else self._poll)
        self._tell_idle()

    def _tell_trouble(self, failure: Failure) -> None:
        if self._absence.explains(failure.value):
            pass
        elif self._troubled:
            log.warn("claiming tasks still fails: {why}", why=failure.getErrorMessage())
        else:
            log.failure("claiming tasks failed; retrying every second", failure)
        self._troubled = True

    # -- running

    def _start(self, row: TaskRow, now: float, place: Place | None = None) -> None:
        """`place`: where the task stands, if that is not where its row says."""
        if self.dead:
            return
        task = as_task(row)
        self.counts.started[task.kind] += task.fence == 1
        workflow = self.workflows.get(task.kind)
        position = None if workflow is None else workflow.index(task.step)
        if workflow is None or position is None:
            missing = f"kind {task.kind}" if workflow is None else f"step {task.step} of {task.kind}"
            run = Run(self._workplace(), task, Workflow(Kind(task.kind, task.resource_type), ()), place_of(task, 0))
            work = run.hold(f"this version knows no {missing}")
        else:
            run = Run(self._workplace(), task, workflow, place or place_of(task, position))
            work = run.go(None if task.deadline is None else task.deadline - now)
        if not self.running:
            run.stop()
        self._running[task.id] = run
        driving = ensureDeferred(self._drive(run, work))
        self._driving[task.id] = driving
        driving.addBoth(self._ended, task)

    def _workplace(self) -> Workplace:
        return Workplace(
            self.db,
            self.clock,
            self.drivers,
            self.workflows,
            self.owner,
            self.expected,
            self.probe,
            self.chance,
        )

    async def _drive(self, run: Run, work: Awaitable[None]) -> None:
        context.request_id.set(run.task.request_id)
        await work
        self._count(run.task, run.place.let_go)

    def _count(self, task: Task, let_go: str | None) -> None:
        log.info(
            "{request_id} task {id} {kind} of {type} {resource}: {state}",
            request_id=task.request_id,
            id=task.id,
            kind=task.kind,
            type=task.resource_type,
            resource=task.resource_id,
            state=let_go or "let go",
        )
        if let_go in ENDED or let_go == HELD:
            self.counts.ended[task.kind, let_go] += 1
        else:
            self.counts.parked[task.kind] += 1

    def _ended(self, result: Any, task: Task) -> None:
        if self.dead:
            return
        self._running.pop(task.id, None)
        self._driving.pop(task.id, None)
        if isinstance(result, Failure):
            self._stopped_short(result, task)
        elif self._starved:
            self.nudge()
        self._tell_idle()

    def _stopped_short(self, failure: Failure, task: Task) -> None:
        if failure.check(Crash):
            self.kill()
        elif failure.check(Lost):
            self.counts.lost += 1
            log.info("task {id} ({kind}) was taken over by another process", id=task.id, kind=task.kind)
        else:
            # The database is gone, or the engine has a bug. The next claim that succeeds releases the task.
            text = "task {id} ({kind}) was interrupted; it will be resumed"
            if why := why_away(failure.value):
                log.warn(f"{text}: {{why}}", id=task.id, kind=task.kind, why=why)
            else:
                log.failure(text, failure, id=task.id, kind=task.kind)
            self._dropped.add(task.id)

    def _tell_idle(self) -> None:
        if not self._running and not self._turn.locked():
            waiting, self._idle = self._idle, []
            for deferred in waiting:
                deferred.callback(None)

    # -- leases

    def _renew(self) -> Deferred[None]:
        return ensureDeferred(self._renew_leases())

    def _look_for_cancelled(self) -> None:
        if self.running:
            self._renew()

    async def _renew_leases(self) -> None:
        if not self._running:
            return
        try:
            cancelled = await self.db.run(self._renew_rows, frozenset(self._running))
        except Exception as error:
            # Whatever it is, the next renewal may work; if none does, the fence protects the data.
            if not self._unrenewed.explains(error):
                log.failure("renewing leases failed; tasks whose leases expire will be run again")
            return
        self._unrenewed.is_over()
        for task_id in cancelled & self._running.keys():
            self._running[task_id].cancel()

    def _renew_rows(self, conn: Connection, running: frozenset[int]) -> set[int]:
        return claims.renew(conn, self.owner, running, self.db.now(conn), self.lease)


_FIELDS = tuple(attribute.name for attribute in attrs.fields(Task))


def as_task(row: TaskRow) -> Task:
    return Task(**{name: getattr(row, name) for name in _FIELDS})
