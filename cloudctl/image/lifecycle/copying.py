"""Copy: the data of an active image, into stores that do not have it yet. Reference: image.md, section 9."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cloudctl.db import Connection
from cloudctl.image import imports, kinds
from cloudctl.image.lifecycle.placing import ensure_placed
from cloudctl.image.looking import Looking
from cloudctl.image.options import ImageOptions
from cloudctl.rest.outgoing import Unreached
from cloudctl.tasks import Context, Step, Transient, Workflow
from cloudctl.tasks.workflow import Task

ATTEMPTS = 3


def copying(looking: Looking, options: ImageOptions) -> Workflow:
    data = looking.data
    kept = options.import_kept

    async def ensure_copied(ctx: Context) -> None:
        image = await ctx.write(imports.copying, ctx.args["task_id"], ctx.resource_id, ctx.now)
        try:
            await looking.look(image.id)
        except (Unreached, OSError) as error:
            raise Transient(str(error)) from error
        source = await data.run(data.stores.fetch, image.id)
        if not await data.run(source.exists):
            raise Transient("the data of the image cannot be read")
        placed = await ensure_placed(ctx, data, source)
        stores = data.stores.ordered({*image.stores, *placed.there})
        await ctx.commit(imports.finish_copy, ctx.args["task_id"], image.id, stores, placed.failed, ctx.now, kept)

    async def drop(ctx: Context) -> None:
        # The requested stores had none of the data before.
        await data.run(data.stores.remove_from, ctx.args["stores"], ctx.resource_id)

    def failed(conn: Connection, task: Task, why: str, now: datetime) -> None:
        imports.fail_copy(conn, task.args["task_id"], task.resource_id, task.args["stores"], why, now, kept)

    def cancelled(conn: Connection, task: Task, now: datetime) -> None:
        failed(conn, task, "The image was deleted.", now)

    steps: tuple[Any, ...] = (Step("copy", ensure_copied, undo=drop, attempts=ATTEMPTS),)
    return Workflow(kinds.COPY_IMAGE, steps, on_failure=failed, on_cancel=cancelled)
