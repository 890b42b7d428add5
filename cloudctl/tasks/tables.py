"""The `tasks` table: one row a task, kept after its end as the resource's action log.

`not_before` is when the task wants to run: NULL while it runs and nobody wakes it, and once it has ended or is held.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Float, Index, Integer, String, Table, Text, text

from cloudctl.db.columns import flag, json, metadata
from cloudctl.db.columns import text as text_column

QUEUED, RUNNING, WAITING, UNDOING = "queued", "running", "waiting", "undoing"
DONE, FAILED, CANCELLED, HELD = "done", "failed", "cancelled", "held"

OPEN = (QUEUED, RUNNING, WAITING, UNDOING)
ENDED = (DONE, FAILED, CANCELLED)

tasks = Table(
    "tasks",
    metadata,
    # Order of submission within a resource: the older open task goes first.
    Column("id", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True),
    text_column("kind", 100),
    text_column("resource_type", 40),
    text_column("resource_id", 64),
    text_column("request_id", 64),
    text_column("user_id", 64),
    text_column("project_id", 64),
    text_column("queue", 128, default="any"),
    json("args", dict),
    json("memo", dict),
    text_column("state", 16, default=QUEUED),
    Column("step", String(64), nullable=True),  # the step to run or undo, by name; None: the first one
    Column("attempts", Integer, nullable=False, default=0),  # of the present step
    Column("restarts", Integer, nullable=False, default=0),
    Column("submitted_at", Float, nullable=False),
    Column("started_at", Float, nullable=True),
    Column("ended_at", Float, nullable=True),
    Column("not_before", Float, nullable=True),
    Column("deadline", Float, nullable=True),
    flag("cancel", False),
    Column("progress", Integer, nullable=False, default=0),  # percent
    Column("owner", String(64), nullable=True),
    Column("fence", Integer, nullable=False, default=0),
    Column("lease_until", Float, nullable=True),
    Column("parent_id", BigInteger().with_variant(Integer(), "sqlite"), nullable=True),
    Column("child_key", String(100), nullable=True),
    Column("error", Text, nullable=True),
    # [{step, started_at, ended_at, result}]: seconds; result is None, "success", "error" or "undone".
    json("log", list),
    # No open task can be forgotten: somebody runs it, or it wants to run at some time.
    CheckConstraint(
        "owner IS NOT NULL OR not_before IS NOT NULL OR ended_at IS NOT NULL OR state = 'held'", name="ck_tasks_wanted"
    ),
    # The conditions are such that both databases see that a claim's query implies them.
    Index(
        "ix_tasks_due",
        "not_before",
        "id",
        sqlite_where=text("not_before IS NOT NULL"),
        postgresql_where=text("not_before IS NOT NULL"),
    ),
    Index(
        "ix_tasks_open",
        "resource_type",
        "resource_id",
        "id",
        sqlite_where=text("ended_at IS NULL"),
        postgresql_where=text("ended_at IS NULL"),
    ),
    Index("ix_tasks_resource", "resource_type", "resource_id", "id"),
    Index(
        "uq_tasks_active",
        "resource_type",
        "resource_id",
        unique=True,
        sqlite_where=text("owner IS NOT NULL"),
        postgresql_where=text("owner IS NOT NULL"),
    ),
    Index(
        "uq_tasks_child",
        "parent_id",
        "child_key",
        unique=True,
        sqlite_where=text("parent_id IS NOT NULL"),
        postgresql_where=text("parent_id IS NOT NULL"),
    ),
)
