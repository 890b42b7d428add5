"""Which tasks run next, and which process owns them. Times are the database's: several processes may share it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, case, exists, func, or_, select, update

from cloudctl.db import Connection
from cloudctl.tasks.tables import OPEN, RUNNING, UNDOING, TaskRow

# A project may have this many times as many slots as it leaves to others.
PORTION = 3

_older = TaskRow.table.alias("older")
_blocked = exists().where(
    _older.c.resource_type == TaskRow.resource_type,
    _older.c.resource_id == TaskRow.resource_id,
    _older.c.id < TaskRow.id,
    _older.c.ended_at.is_(None),
    _older.c.state.in_(OPEN),
)
# Built once: building costs more than running it.
_next_due = select(func.min(TaskRow.not_before)).where(TaskRow.not_before > bindparam("now"), TaskRow.owner.is_(None))
_due = (
    # Whoever claims wants to know both, and a statement more costs as much as this one.
    select(TaskRow.id, TaskRow.project_id, _next_due.correlate(None).scalar_subquery())
    .where(TaskRow.not_before <= bindparam("now"), TaskRow.owner.is_(None), TaskRow.state.in_(OPEN), ~_blocked)
    .order_by(TaskRow.not_before, TaskRow.id)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_due_of_queues = _due.where(TaskRow.queue.in_(bindparam("queues", expanding=True)))
_of_others = TaskRow.project_id.not_in(bindparam("full", expanding=True))
_due_of_others, _due_of_others_and_queues = _due.where(_of_others), _due_of_queues.where(_of_others)
_take = (
    update(TaskRow)
    .where(TaskRow.id.in_(bindparam("ids", expanding=True)))
    .values(
        owner=bindparam("by"),
        fence=TaskRow.fence + 1,
        lease_until=bindparam("until"),
        state=case((TaskRow.state == UNDOING, UNDOING), else_=RUNNING),
        not_before=None,
        started_at=func.coalesce(TaskRow.started_at, bindparam("now")),
    )
    .returning(TaskRow)
)
_wanted = exists().where(TaskRow.not_before <= bindparam("now"), TaskRow.owner.is_(None))
_forgotten = exists().where(TaskRow.owner.is_not(None), TaskRow.lease_until < bindparam("now"))
_work = select(or_(_wanted, _forgotten))
_oldest_due = (
    select(TaskRow.not_before)
    .where(TaskRow.not_before <= bindparam("now"), TaskRow.owner.is_(None), TaskRow.state.in_(OPEN), ~_blocked)
    .order_by(TaskRow.not_before)
    .limit(1)
)
_renew = (
    update(TaskRow)
    .where(TaskRow.id.in_(bindparam("ids", expanding=True)), TaskRow.owner == bindparam("by"))
    .values(lease_until=bindparam("until"))
    .returning(TaskRow.id, TaskRow.cancel)
)
_release = (
    update(TaskRow)
    .where(TaskRow.owner.is_not(None))
    .values(owner=None, lease_until=None, not_before=func.coalesce(TaskRow.not_before, bindparam("now")))
)
_release_some = _release.where(TaskRow.owner == bindparam("by"), TaskRow.id.in_(bindparam("ids", expanding=True)))
_release_owned = _release.where(TaskRow.owner.in_(bindparam("owners", expanding=True)))
_release_expired = _release.where(
    TaskRow.lease_until < bindparam("now"),
    or_(TaskRow.owner != bindparam("by"), TaskRow.id.not_in(bindparam("busy", expanding=True))),
)


@frozen
class Claimed:
    """What a claim took: the rows of the tasks; whether a due task was passed over because its project has its share
    of the slots; and when the next parked task is due, if there is one."""

    rows: list[TaskRow]
    are_left: bool
    next_due: float | None


def may_have(running: int, free: int) -> int:
    """How many of the `free` slots a project with `running` tasks may take.

    It gets at most PORTION times as many as it leaves free, so however long its tasks take, the next project finds
    some. A project that has none may take at least one, if one is free.
    """
    return max(PORTION * (running + free) // (PORTION + 1) - running, 0 if running else min(free, 1))


def claim(
    conn: Connection,
    owner: str,
    now: float,
    lease: float,
    limit: int,
    queues: Sequence[str] | None = None,
    busy: Collection[int] = (),
    running: Mapping[str, int] = MappingProxyType({}),
) -> Claimed:
    """Take up to `limit` due tasks of these queues (None: of all): increment their fences and lease them.

    A task is due if it is open, its time has come, no process owns it, and its resource has no older open task. The ids
    in `busy` are skipped: this process still runs them under a lease that it lost. `running`: how many tasks of each
    project it runs. Tasks without a project are not limited.
    """
    taken: list[TaskRow] = []
    having, full = Counter(running), set[str]()
    later: float | None = None
    while len(taken) < limit:
        due = _due_tasks(conn, now, limit - len(taken), queues, full)
        later = due[0][2] if due else next_due(conn, now)
        ids, passed_by = list[int](), False
        for id, project, _ in due:
            if id in busy:
                continue
            if project and not may_have(having[project], limit - len(taken) - len(ids)):
                full.add(project)
                passed_by = True
                continue
            having[project] += 1
            ids.append(id)
        if ids:
            rows = conn.execute(_take, {"ids": ids, "by": owner, "until": now + lease, "now": now}).all()
            order = {id: place for place, id in enumerate(ids)}
            taken += sorted(rows, key=lambda row: order[row.id])
        if not passed_by:
            break
    return Claimed(taken, bool(full), later)


def _due_tasks(
    conn: Connection, now: float, most: int, queues: Sequence[str] | None, full: Collection[str]
) -> list[tuple[int, str, float | None]]:
    """Ids and projects of due tasks, except those of the projects in `full`; and when the next parked one is due."""
    values: dict[str, Any] = {"now": now, "most": most}
    if queues is not None:
        values["queues"] = list(queues)
    if full:
        values["full"] = sorted(full)
        query = _due_of_others if queues is None else _due_of_others_and_queues
    else:
        query = _due if queues is None else _due_of_queues
    return [(id, project, later) for id, project, later in conn.execute(query, values)]


def has_work(conn: Connection, now: float) -> bool:
    """Whether `claim` or `release_expired` may find something: a read, which disturbs nobody."""
    return bool(conn.scalar(_work, {"now": now}))


def next_due(conn: Connection, now: float) -> float | None:
    """When the next parked task is due, after `now`; or None."""
    return conn.scalar(_next_due, {"now": now})


def oldest_due(conn: Connection, now: float) -> float | None:
    """Since when the oldest task that could run has been waiting for a slot, or None."""
    return conn.scalar(_oldest_due, {"now": now})


def renew(conn: Connection, owner: str, ids: Collection[int], now: float, lease: float) -> set[int]:
    """Extend the leases of these tasks. Returns the ids of those that were asked to cancel."""
    rows = conn.execute(_renew, {"by": owner, "ids": list(ids), "until": now + lease})
    return {id for id, cancel in rows if cancel}


def release_all(conn: Connection, now: float) -> int:
    """Release every lease: for the start of the only process that uses this database."""
    return conn.execute(_release, {"now": now}).rowcount


def release(conn: Connection, owner: str, ids: Collection[int], now: float) -> int:
    """Release the leases that `owner` has on these tasks."""
    return conn.execute(_release_some, {"by": owner, "ids": list(ids), "now": now}).rowcount


def release_owned(conn: Connection, owners: Collection[str], now: float) -> int:
    """Release the leases of processes that are gone."""
    return conn.execute(_release_owned, {"owners": list(owners), "now": now}).rowcount


def release_expired(conn: Connection, owner: str, now: float, busy: Collection[int]) -> int:
    """Release the leases that were not renewed in time, except those of `owner` on the tasks in `busy`, which it runs.

    It does not run all that it has a lease on: a claim may have been committed and the answer lost.
    """
    return conn.execute(_release_expired, {"by": owner, "now": now, "busy": list(busy)}).rowcount
