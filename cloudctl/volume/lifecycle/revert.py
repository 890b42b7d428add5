"""Revert: return a volume to the content of its latest snapshot. Reference: volume-states.md, sections 2 and 5.

`args`: `snapshot_id`.
"""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.tasks import Context, Step, Transaction, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import attachments, kinds, messages, states, volumes


async def revert(ctx: Context) -> Memo:
    await ctx.drivers.volume.ensure_reverted(ctx.resource_id, ctx.args["snapshot_id"])
    return None


def finish(conn: Connection, task: Task, now: datetime) -> None:
    attachments.follow(conn, task.resource_id, now, leaving=states.REVERTING)
    states.SNAPSHOT.try_move(conn, task.args["snapshot_id"], "reverted", now)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """Nobody knows what the volume holds."""
    states.SNAPSHOT.try_move(conn, task.args["snapshot_id"], "revert failed", now)
    volume = volumes.find(conn, task.resource_id)
    if volume is not None and states.try_move(conn, volume.id, "revert failed", now):
        messages.record(conn, messages.REVERT_FAILED, volume.project_id, task.request_id, volume.id, now)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    """The volume is being deleted by force."""
    states.SNAPSHOT.try_move(conn, task.args["snapshot_id"], "reverted", now)


REVERT = Workflow(
    kinds.REVERT_VOLUME,
    (
        Step("revert", revert),
        Step("finish", Transaction(finish)),
    ),
    on_failure=failed,
    on_cancel=cancelled,
)
