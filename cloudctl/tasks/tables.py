"""The `tasks` table: one row per task, kept after its end as the resource's action log.

`not_before` is when the task is due: NULL while it runs and nothing wakes it, and once it has ended or is held.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Float, Index, Integer, String, Text
from sqlalchemy import text as sql

from cloudctl.db.columns import Field, column, flag, json, text
from cloudctl.db.records import Record

QUEUED, RUNNING, WAITING, UNDOING = "queued", "running", "waiting", "undoing"
DONE, FAILED, CANCELLED, HELD = "done", "failed", "cancelled", "held"

OPEN = (QUEUED, RUNNING, WAITING, UNDOING)
ENDED = (DONE, FAILED, CANCELLED)


class TaskRow(Record, table="tasks"):
    # Order of submission within a resource: the older open task goes first.
    id: Field[int] = column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True)
    kind: Field[str] = text(100)
    resource_type: Field[str] = text(40)
    resource_id: Field[str] = text(64)
    request_id: Field[str] = text(64)
    user_id: Field[str] = text(64)
    project_id: Field[str] = text(64)
    queue: Field[str] = text(128, default="any")
    args: Field[dict[str, Any]] = json(dict)
    memo: Field[dict[str, Any]] = json(dict)
    state: Field[str] = text(16, default=QUEUED)
    step: Field[str | None] = column(String(64))  # the step to run or undo, by name; None: the first one
    attempts: Field[int] = column(Integer, default=0)  # of the present step
    restarts: Field[int] = column(Integer, default=0)
    submitted_at: Field[float] = column(Float)
    started_at: Field[float | None] = column(Float)
    ended_at: Field[float | None] = column(Float)
    not_before: Field[float | None] = column(Float)
    deadline: Field[float | None] = column(Float)
    cancel: Field[bool] = flag(False)
    progress: Field[int] = column(Integer, default=0)  # percent
    owner: Field[str | None] = column(String(64))
    fence: Field[int] = column(Integer, default=0)
    lease_until: Field[float | None] = column(Float)
    parent_id: Field[int | None] = column(BigInteger().with_variant(Integer(), "sqlite"))
    child_key: Field[str | None] = column(String(100))
    error: Field[str | None] = column(Text)
    # [{step, started_at, ended_at, result}]: seconds; result is None, "success", "error" or "undone".
    log: Field[list[Any]] = json(list)


# No open task can be forgotten: a process runs it, or it is due at some time.
TaskRow.table.append_constraint(
    CheckConstraint(
        "owner IS NOT NULL OR not_before IS NOT NULL OR ended_at IS NOT NULL OR state = 'held'", name="ck_tasks_wanted"
    )
)
# The conditions are written so that both databases see that a claim's query implies them.
Index(
    "ix_tasks_due",
    TaskRow.not_before,
    TaskRow.id,
    sqlite_where=sql("not_before IS NOT NULL"),
    postgresql_where=sql("not_before IS NOT NULL"),
)
Index(
    "ix_tasks_open",
    TaskRow.resource_type,
    TaskRow.resource_id,
    TaskRow.id,
    sqlite_where=sql("ended_at IS NULL"),
    postgresql_where=sql("ended_at IS NULL"),
)
Index("ix_tasks_resource", TaskRow.resource_type, TaskRow.resource_id, TaskRow.id)
Index(
    "uq_tasks_active",
    TaskRow.resource_type,
    TaskRow.resource_id,
    unique=True,
    sqlite_where=sql("owner IS NOT NULL"),
    postgresql_where=sql("owner IS NOT NULL"),
)
Index(
    "uq_tasks_child",
    TaskRow.parent_id,
    TaskRow.child_key,
    unique=True,
    sqlite_where=sql("parent_id IS NOT NULL"),
    postgresql_where=sql("parent_id IS NOT NULL"),
)
