"""Move a backup from the directory into the object store: its data, not its record.

`args`: `kept_at`, where it will be. Its parent moves first, if it does. Its files stay while others build on them or
are reading them.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import update

from cloudctl.db import Connection
from cloudctl.tasks import Context, Step, Transaction, Transient, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import backups, kinds, moving_backups
from cloudctl.volume.archives import Archives
from cloudctl.volume.tables import Backup

# With the longest back-off between them: most of a day.
ATTEMPTS = 1000


async def wait(ctx: Context) -> Memo:
    backup = await ctx.read(backups.get, ctx.resource_id)
    # What it builds on may stay, or have no record here: then it is stored whole.
    if backup.parent_id is not None and await ctx.read(moving_backups.is_on_its_way, backup.parent_id):
        raise Transient("what it builds on has not been moved yet")
    return None


def movement(archives: Archives) -> Workflow:
    def work(backup_id: str) -> str:
        return f"{backup_id}.moving"

    async def assemble(ctx: Context) -> Memo:
        backup = await ctx.read(backups.get, ctx.resource_id)
        await archives.assemble(ctx, backup, archives.work(work(backup.id)))
        return None

    async def discard(ctx: Context) -> None:
        await archives.discard(work(ctx.resource_id))

    async def store(ctx: Context) -> Memo:
        backup = await ctx.read(backups.get, ctx.resource_id)
        source = archives.work(work(backup.id))
        return await archives.store_at(ctx, ctx.args["kept_at"], backup, source)

    async def remove(ctx: Context) -> None:
        if (await ctx.read(backups.get, ctx.resource_id)).kept_at is None:
            await archives.remove_at(ctx, ctx.args["kept_at"])

    async def clean(ctx: Context) -> Memo:
        await discard(ctx)
        if await ctx.read(moving_backups.is_read, ctx.resource_id):
            raise Transient("it is being read")
        for id in await ctx.read(moving_backups.left_over, ctx.resource_id):
            await archives.remove_files(id)
        return None

    return Workflow(
        kinds.MOVE_BACKUP,
        (
            Step("wait", wait, attempts=ATTEMPTS),
            Step("assemble", assemble, undo=discard),
            Step("store", store, undo=remove),
            Step("record", Transaction(record)),
            Step("clean", clean, attempts=ATTEMPTS),
        ),
    )


def record(conn: Connection, task: Task, now: datetime) -> None:
    """From here on the backup is at the new place."""
    stored = task.memo["store"]
    kept = {"kept_at": task.args["kept_at"], "kept_digest": stored["digest"], "object_count": stored["pieces"]}
    conn.execute(update(Backup).where(Backup.id == task.resource_id).values(**kept, updated_at=now))
