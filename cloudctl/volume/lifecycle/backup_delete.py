"""Delete a backup: nothing is left of it in the archive, the record is gone. Reference: volume-states.md, section 6."""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.drivers.interfaces import IVolumeSnapshots
from cloudctl.tasks import Context, Step, Transaction, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import backups, kinds, messages, states
from cloudctl.volume.archives import Archives
from cloudctl.volume.lifecycle import frozen_copy, marks


def deletion(archives: Archives) -> Workflow:
    async def remove(ctx: Context) -> Memo:
        if IVolumeSnapshots.providedBy(ctx.drivers.volume):
            await frozen_copy.ensure_absent(ctx, ctx.resource_id)
        await archives.discard(ctx.resource_id)
        backup = await ctx.read(backups.find, ctx.resource_id)
        if backup is not None:
            await marks.ensure_absent(ctx, backup)
        if backup is not None and await ctx.read(backups.is_alone, ctx.resource_id):
            await archives.remove(ctx, backup)
        return None

    steps = (Step("remove", remove), Step("forget", Transaction(forget)))
    return Workflow(kinds.DELETE_BACKUP, steps, on_failure=failed)


def forget(conn: Connection, task: Task, now: datetime) -> None:
    backups.forget(conn, task.resource_id)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    backup = backups.find(conn, task.resource_id)
    if backup is not None and states.BACKUP.try_move(conn, backup.id, "delete failed", now, fail_reason=error[:255]):
        messages.record(conn, messages.BACKUP_DELETE_FAILED, backup.project_id, task.request_id, backup.id, now)
