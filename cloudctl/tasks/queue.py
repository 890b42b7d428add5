"""Submitting, cancelling and reading tasks, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, func, insert, select, update

from cloudctl import context
from cloudctl.db import notify
from cloudctl.errors import Conflict, NotFound
from cloudctl.tasks.tables import HELD, OPEN, QUEUED, RUNNING, UNDOING, tasks
from cloudctl.tasks.workflow import reason

# Told at each commit after which a task may be due.
CHANNEL = "tasks"
# Told at each commit that asks running tasks to stop.
CANCELS = "tasks.cancel"

# Built once: building a statement costs more than running it.
_new = insert(tasks)
_lock = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("key"), 0)))


def submit(
    conn: Connection,
    kind: str,
    resource_id: str,
    *,
    resource_type: str,
    now: float,
    args: Mapping[str, Any] | None = None,
    request_id: str | None = None,
    user_id: str = "",
    project_id: str = "",
    deadline: float | None = None,
    parent_id: int | None = None,
    child_key: str | None = None,
    queue: str = "any",
) -> int:
    """Insert a task that is due at `now`; it runs after the older open tasks of its resource. Its id.

    `request_id` is that of the request being answered unless it is given. `deadline` is in seconds from `now`.
    """
    lock_resource(conn, resource_type, resource_id)
    result = conn.execute(
        _new,
        {
            "kind": kind,
            "resource_type": resource_type,
            "resource_id": resource_id,
            "args": dict(args or {}),
            "request_id": context.request_id.get() if request_id is None else request_id,
            "user_id": user_id,
            "project_id": project_id,
            "submitted_at": now,
            "not_before": now,
            "deadline": None if deadline is None else now + deadline,
            "parent_id": parent_id,
            "child_key": child_key,
            "queue": queue,
        },
    )
    notify(conn, CHANNEL)
    key = result.inserted_primary_key
    assert key is not None
    return int(key[0])


def submit_once(conn: Connection, kind: str, resource_id: str, *, resource_type: str, **options: Any) -> int | None:
    """As `submit`, unless a task of this kind waits for its first claim already: it will see the newest wish."""
    lock_resource(conn, resource_type, resource_id)
    waiting = conn.execute(
        select(tasks.c.id).where(
            tasks.c.resource_type == resource_type,
            tasks.c.resource_id == resource_id,
            tasks.c.ended_at.is_(None),
            tasks.c.kind == kind,
            tasks.c.state == QUEUED,
            tasks.c.cancel.is_(False),
        )
    ).first()
    if waiting is not None:
        return None
    return submit(conn, kind, resource_id, resource_type=resource_type, **options)


def cancel_open(conn: Connection, resource_type: str, resource_id: str, now: float, keep: Sequence[str] = ()) -> int:
    """Ask every open task of the resource to stop, but those of the kinds in `keep`. How many there are.

    Each is undone by the engine and ends CANCELLED, at once if it waits or never ran, after its present step if it
    runs; one whose last step ends first is DONE. What was submitted later goes after it.
    """
    mine = and_(of_resource(resource_type, resource_id), tasks.c.kind.not_in(keep))
    return _cancel(conn, mine, now)


def cancel(conn: Connection, task_id: int, now: float) -> bool:
    """Ask one task to stop; False if it is not open."""
    return _cancel(conn, and_(tasks.c.id == task_id, tasks.c.state.in_(OPEN)), now) > 0


def _cancel(conn: Connection, which: Any, now: float) -> int:
    result = conn.execute(update(tasks).where(which).values(cancel=True, not_before=now))
    if result.rowcount:
        notify(conn, CHANNEL)
        notify(conn, CANCELS)
    return result.rowcount


def has_open(conn: Connection, resource_type: str, resource_id: str, kinds: Sequence[str] = ()) -> bool:
    query = select(tasks.c.id).where(of_resource(resource_type, resource_id))
    if kinds:
        query = query.where(tasks.c.kind.in_(kinds))
    return conn.execute(query.limit(1)).first() is not None


def of_resource(resource_type: str, resource_id: str) -> Any:
    """The open tasks of one resource, as a condition."""
    return and_(
        tasks.c.resource_type == resource_type,
        tasks.c.resource_id == resource_id,
        tasks.c.ended_at.is_(None),
        tasks.c.state.in_(OPEN),
    )


def lock_resource(conn: Connection, resource_type: str, resource_id: str) -> None:
    """Make submissions for one resource take turns, so that the order of ids is the order of commits.

    SQLite has one writer at a time anyway.
    """
    if conn.dialect.name == "postgresql":
        conn.execute(_lock, {"key": f"{resource_type}/{resource_id}"})


# -- for operators and for action logs


def get(conn: Connection, task_id: int) -> Row[Any] | None:
    return conn.execute(select(tasks).where(tasks.c.id == task_id)).first()


def listing(
    conn: Connection,
    *,
    states: Sequence[str] = (),
    kinds: Sequence[str] = (),
    resource: tuple[str, str] | None = None,
    request_id: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[Row[Any]]:
    """Rows of `tasks`, the newest first; those older than the id `before`. Nothing given: all.

    `resource` is (type, id). With it this is the action log of a resource.
    """
    query = select(tasks).order_by(tasks.c.id.desc()).limit(limit)
    if states:
        query = query.where(tasks.c.state.in_(states))
    if kinds:
        query = query.where(tasks.c.kind.in_(kinds))
    if resource is not None:
        query = query.where(tasks.c.resource_type == resource[0], tasks.c.resource_id == resource[1])
    if request_id is not None:
        query = query.where(tasks.c.request_id == request_id)
    if before is not None:
        query = query.where(tasks.c.id < before)
    return list(conn.execute(query).all())


def retry(conn: Connection, task_id: int, now: float) -> None:
    """Put a held task back to work where it stood, with fresh attempts and as much time as it had at first.

    Raises NotFound if there is no such task, Conflict if it is not held or if newer work of its resource is open: that
    began on the grounds that this one had stopped, so it must end first.
    """
    row = get(conn, task_id)
    if row is None:
        raise NotFound(f"There is no task {task_id}.")
    lock_resource(conn, row.resource_type, row.resource_id)
    if has_open(conn, row.resource_type, row.resource_id):
        raise Conflict(f"{row.resource_type} {row.resource_id} has newer open tasks; wait for their end.")
    retried = conn.execute(
        update(tasks)
        .where(tasks.c.id == task_id, tasks.c.state == HELD)
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
