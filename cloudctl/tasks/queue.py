"""Submitting, cancelling and reading tasks, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Float, Update, and_, bindparam, extract, func, insert, select, update

from cloudctl import db
from cloudctl.db import Connection, notify
from cloudctl.db.turns import take_turn
from cloudctl.errors import Conflict, NotFound
from cloudctl.tasks.kind import Kind, Origin
from cloudctl.tasks.tables import HELD, OPEN, QUEUED, RUNNING, UNDOING, TaskRow
from cloudctl.tasks.workflow import reason

# Notified by each commit after which a task may be due.
CHANNEL = "tasks"
# Notified by each commit that asks running tasks to stop.
CANCELS = "tasks.cancel"

# PostgreSQL's own time, written without querying it first. The same throughout a statement.
_its_now = extract("epoch", func.statement_timestamp()).cast(Float)
# Built once: building a statement costs more than running it.
_new = insert(TaskRow)
_new_by_its_clock = insert(TaskRow).values(
    submitted_at=_its_now, not_before=_its_now, deadline=_its_now + bindparam("within", type_=Float())
)
# One that is being claimed at this moment may read what is older than the wish, so it is passed over.
_waiting = (
    select(TaskRow.id)
    .where(
        TaskRow.resource_type == bindparam("resource"),
        TaskRow.resource_id == bindparam("of"),
        TaskRow.ended_at.is_(None),
        TaskRow.kind == bindparam("wanted"),
        TaskRow.state == QUEUED,
        TaskRow.cancel.is_(False),
    )
    .with_for_update(skip_locked=True)
)
_open = and_(
    TaskRow.resource_type == bindparam("resource"),
    TaskRow.resource_id == bindparam("of"),
    TaskRow.ended_at.is_(None),
    TaskRow.state.in_(OPEN),
)
_cancelled = update(TaskRow).values(cancel=True)
_cancel_all = _cancelled.where(_open)
_cancel_others = _cancel_all.where(TaskRow.kind.not_in(bindparam("kept", expanding=True)))
_cancel_one = _cancelled.where(TaskRow.id == bindparam("task"), TaskRow.state.in_(OPEN))


def submit(
    conn: Connection,
    kind: Kind,
    resource_id: str,
    by: Origin,
    *,
    args: Mapping[str, Any] | None = None,
    deadline: float | None = None,
    queue: str = "any",
) -> int:
    """Insert a task that is due at once; it runs after the older open tasks of its resource. Returns its id.

    `deadline`: seconds, in place of the kind's.
    """
    within = kind.deadline if deadline is None else deadline
    return insert_task(conn, kind, resource_id, by, args or {}, within, queue=queue)


def insert_task(
    conn: Connection,
    kind: Kind,
    resource_id: str,
    by: Origin,
    args: Mapping[str, Any],
    deadline: float | None,
    **columns: Any,
) -> int:
    """As `submit`; for this package."""
    lock_resource(conn, kind.resource, resource_id)
    values = {
        "kind": kind.name,
        "resource_type": kind.resource,
        "resource_id": resource_id,
        "args": dict(args),
        "request_id": by.request_id,
        "user_id": by.user_id,
        "project_id": by.project_id,
        **columns,
    }
    if conn.dialect.name == "postgresql":
        result = conn.execute(_new_by_its_clock, {**values, "within": deadline})
    else:
        now = db.now(conn)
        ends = None if deadline is None else now + deadline
        result = conn.execute(_new, {**values, "submitted_at": now, "not_before": now, "deadline": ends})
    notify(conn, CHANNEL)
    return int(result.key)


def submit_once(
    conn: Connection, kind: Kind, resource_id: str, by: Origin, *, args: Mapping[str, Any] | None = None
) -> int | None:
    """As `submit`, unless a task of this kind already waits for its first claim: that one will see the newest wish."""
    lock_resource(conn, kind.resource, resource_id)
    if conn.execute(_waiting, {"resource": kind.resource, "of": resource_id, "wanted": kind.name}).first() is not None:
        if conn.dialect.name == "postgresql":
            # Until the commit nobody claims it: whoever looks meanwhile must look again.
            notify(conn, CHANNEL)
        return None
    return submit(conn, kind, resource_id, by, args=args)


def supersede(conn: Connection, kind: Kind, resource_id: str, by: Origin, *, keep: Sequence[Kind] = ()) -> int:
    """As `submit`, after asking every open task of the resource to stop, except the kinds in `keep`. It runs last."""
    cancel_open(conn, kind.resource, resource_id, keep)
    return submit(conn, kind, resource_id, by)


def cancel_open(conn: Connection, resource: str, resource_id: str, keep: Sequence[Kind] = ()) -> int:
    """Ask every open task of the resource to stop, except those of the kinds in `keep`. Returns how many there are.

    The engine undoes each one and ends it CANCELLED: at once if it waits or never ran, after its present step if it
    runs; one whose last step ends first is DONE. Tasks submitted later run after it.
    """
    values: dict[str, Any] = {"resource": resource, "of": resource_id}
    if keep:
        return _cancel(conn, _cancel_others, {**values, "kept": _names(keep)})
    return _cancel(conn, _cancel_all, values)


def cancel(conn: Connection, task_id: int) -> bool:
    """Ask one task to stop; False if it is not open."""
    return _cancel(conn, _cancel_one, {"task": task_id}) > 0


def _cancel(conn: Connection, which: Update, values: Mapping[str, Any]) -> int:
    if conn.dialect.name == "postgresql":
        result = conn.execute(which.values(not_before=_its_now), values)
    else:
        result = conn.execute(which, {**values, "not_before": db.now(conn)})
    if result.rowcount:
        notify(conn, CHANNEL)
        notify(conn, CANCELS)
    return result.rowcount


def wake(conn: Connection, resource: str, resource_id: str) -> None:
    """Have the waiting tasks of the resource look again at once: what they wait for may have come."""
    conn.execute(update(TaskRow).where(of_resource(resource, resource_id)).values(not_before=_now(conn)))
    notify(conn, CHANNEL)


def has_open(conn: Connection, resource: str, resource_id: str, kinds: Sequence[Kind] = (), *, after: int = 0) -> bool:
    """Whether a task of the resource is open: of one of these kinds, or of any if none are given.

    `after`: the id of a task; only of those that were requested later.
    """
    query = select(TaskRow.id).where(of_resource(resource, resource_id))
    if after:
        query = query.where(TaskRow.id > after)
    if kinds:
        query = query.where(TaskRow.kind.in_(_names(kinds)))
    return conn.execute(query.limit(1)).first() is not None


def _names(kinds: Collection[Kind]) -> list[str]:
    return [kind.name for kind in kinds]


def _now(conn: Connection) -> float | ColumnElement[float]:
    """The database's time, as a value to be written."""
    return _its_now if conn.dialect.name == "postgresql" else db.now(conn)


def of_resource(resource: str, resource_id: str) -> ColumnElement[bool]:
    """The open tasks of one resource, as a condition."""
    return and_(
        TaskRow.resource_type == resource,
        TaskRow.resource_id == resource_id,
        TaskRow.ended_at.is_(None),
        TaskRow.state.in_(OPEN),
    )


def lock_resource(conn: Connection, resource: str, resource_id: str) -> None:
    """Make submissions for one resource take turns, so that the order of ids is the order of commits."""
    take_turn(conn, f"{resource}/{resource_id}")


# -- for operators and for action logs


def get(conn: Connection, task_id: int) -> TaskRow | None:
    return conn.execute(select(TaskRow).where(TaskRow.id == task_id)).first()


def listing(
    conn: Connection,
    *,
    states: Sequence[str] = (),
    kinds: Collection[Kind] = (),
    resource: tuple[str, *tuple[str, ...]] | None = None,
    request_id: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[TaskRow]:
    """Rows of `tasks` that meet every condition given, newest first. `before`: only those older than this id.

    `resource` is (type, id, …). With it this is the action log of a resource, or of several of a type.
    """
    query = select(TaskRow).order_by(TaskRow.id.desc()).limit(limit)
    if states:
        query = query.where(TaskRow.state.in_(states))
    if kinds:
        query = query.where(TaskRow.kind.in_(_names(kinds)))
    if resource is not None:
        query = query.where(TaskRow.resource_type == resource[0], TaskRow.resource_id.in_(resource[1:]))
    if request_id is not None:
        query = query.where(TaskRow.request_id == request_id)
    if before is not None:
        query = query.where(TaskRow.id < before)
    return list(conn.execute(query).all())


def retry(conn: Connection, task_id: int) -> None:
    """Put a held task back to work where it stood, with fresh attempts and as much time as it had at first.

    Raises NotFound if there is no such task, Conflict if it is not held or if newer work of its resource is open: that
    work began because this task had stopped, so it must end first.
    """
    row = get(conn, task_id)
    if row is None:
        raise NotFound(f"There is no task {task_id}.")
    lock_resource(conn, row.resource_type, row.resource_id)
    if has_open(conn, row.resource_type, row.resource_id):
        raise Conflict(f"{row.resource_type} {row.resource_id} has newer open tasks; wait for their end.")
    now = _now(conn)
    retried = conn.execute(
        update(TaskRow)
        .where(TaskRow.id == task_id, TaskRow.state == HELD)
        .values(
            state=RUNNING if reason(row.memo) is None else UNDOING,
            attempts=0,
            not_before=now,
            deadline=None if row.deadline is None else now + (row.deadline - row.submitted_at),
        )
    )
    if not retried.rowcount:
        raise Conflict(f"Task {task_id} is {row.state}, not held.")
    notify(conn, CHANNEL)
