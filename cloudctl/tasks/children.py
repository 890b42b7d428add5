"""Tasks that a task waits for: each is submitted once under a key of its parent, and wakes the parent when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, select, update

from cloudctl.db import Connection, notify
from cloudctl.tasks import queue
from cloudctl.tasks.kind import Kind
from cloudctl.tasks.tables import OPEN, TaskRow
from cloudctl.tasks.workflow import Task

_wake = (
    update(TaskRow)
    .where(TaskRow.id == bindparam("parent"), TaskRow.state.in_(OPEN))
    .values(not_before=bindparam("now"))
)


def find(conn: Connection, parent: Task, key: str) -> Any | None:
    """A row (id, state, error) of the child."""
    mine = (TaskRow.parent_id == parent.id) & (TaskRow.child_key == _stored(parent, key))
    return conn.execute(select(TaskRow.id, TaskRow.state, TaskRow.error).where(mine)).first()


def submit(conn: Connection, parent: Task, key: str, kind: Kind, resource_id: str, args: Mapping[str, Any]) -> None:
    """Submit a child in the name of the parent's user."""
    child = {"parent_id": parent.id, "child_key": _stored(parent, key)}
    queue.insert_task(conn, kind, resource_id, parent, args, kind.deadline, **child)


def wake_parent(conn: Connection, child: Task, now: float) -> None:
    """The child ended or is held: let its parent look at once."""
    if child.parent_id is None:
        return
    conn.execute(_wake, {"parent": child.parent_id, "now": now})
    notify(conn, queue.CHANNEL)


def _stored(parent: Task, key: str) -> str:
    """A restarted parent starts its children anew: the old ones were undone with it."""
    return key if parent.restarts == 0 else f"{key}#{parent.restarts}"
