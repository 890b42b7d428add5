"""Import: a backup whose record was imported becomes available, if the archive has it whole."""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import backups, kinds, messages, states
from cloudctl.volume.archives import Archives


def importing(archives: Archives) -> Workflow:
    async def look(ctx: Context) -> Memo:
        found = await archives.look(ctx, await ctx.read(backups.get, ctx.resource_id))
        await ctx.commit(finished, ctx.resource_id, found, ctx.now)
        return None

    return Workflow(kinds.IMPORT_BACKUP, (Step("look", look),), on_failure=failed)


def finished(conn: Connection, backup_id: str, pieces: int, now: datetime) -> None:
    """`available`. An administrator may have set another status meanwhile."""
    states.BACKUP.try_move(conn, backup_id, "created", now, object_count=pieces)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    backup = backups.find(conn, task.resource_id)
    if backup is not None and states.BACKUP.try_move(conn, backup.id, "create failed", now, fail_reason=error[:255]):
        messages.record(conn, messages.BACKUP_FAILED, backup.project_id, task.request_id, backup.id, now)
