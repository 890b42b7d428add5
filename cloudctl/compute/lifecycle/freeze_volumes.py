"""The image of a server that boots from volumes is complete once the snapshots of these exist.

`args`: `image_id`, `snapshot_ids`. The snapshots are made by tasks of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cloudctl.compute import kinds, servers, snapshots, volume_images
from cloudctl.db import Connection
from cloudctl.errors import CloudError
from cloudctl.image import images
from cloudctl.image.data import EMPTY
from cloudctl.tasks import Context, Step, Wait, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import snapshots as of_volumes
from cloudctl.volume.states import AVAILABLE, CREATING


async def freeze(ctx: Context) -> Memo | Wait:
    await ctx.write(begin, ctx.resource_id, ctx.now)
    found = await ctx.read(statuses, ctx.args["snapshot_ids"])
    if any(status == CREATING for status in found):
        return Wait(poll=1.0)
    if any(status != AVAILABLE for status in found):
        raise CloudError("A volume of the server could not be frozen.")
    await ctx.commit(frozen, ctx.resource_id, ctx.args["image_id"], ctx.now)
    return None


def begin(conn: Connection, server_id: str, now: datetime) -> None:
    servers.try_move(conn, server_id, "capture", now)


def statuses(conn: Connection, snapshot_ids: Sequence[str]) -> list[str | None]:
    """None for one that is gone."""
    found = (of_volumes.find(conn, snapshot_id) for snapshot_id in snapshot_ids)
    return [None if row is None else row.status for row in found]


def frozen(conn: Connection, server_id: str, image_id: str, now: datetime) -> None:
    """Raises CloudError if the image was deleted."""
    if not images.activate(conn, image_id, "saved", EMPTY, now):
        raise CloudError(f"The image {image_id} was deleted.")
    servers.try_move(conn, server_id, "image ended", now)


async def thaw(ctx: Context) -> None:
    await ctx.commit(give_up, ctx.task, ctx.now)


def give_up(conn: Connection, task: Task, now: datetime) -> None:
    """May be repeated."""
    volume_images.drop(conn, task.args["snapshot_ids"], now, task)
    snapshots.discard(conn, task.args["image_id"], now, task)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """The server stays as it was."""
    servers.fail(conn, task.resource_id, "failed", error, now)


def cancelled(conn: Connection, task: Task, now: datetime) -> None:
    servers.try_move(conn, task.resource_id, "image ended", now)
    # Perhaps no step has run, so that none was undone.
    give_up(conn, task, now)


FREEZE_VOLUMES = Workflow(
    kinds.FREEZE_VOLUMES,
    (Step("freeze", freeze, thaw),),
    on_failure=failed,
    on_cancel=cancelled,
)
