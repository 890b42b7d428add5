"""Cache: a copy of an image's data, and room for it."""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.image import cache, kinds
from cloudctl.image.looking import Looking
from cloudctl.image.options import ImageOptions
from cloudctl.rest.outgoing import Unreached
from cloudctl.tasks import Context, Step, Transient, Workflow
from cloudctl.tasks.workflow import Task

ATTEMPTS = 3


def caching(looking: Looking, options: ImageOptions) -> Workflow:
    data = looking.data

    async def ensure_copied(ctx: Context) -> None:
        near, image_id = data.stores.cache, ctx.resource_id
        if near is None or await ctx.read(cache.is_cached, image_id):
            return
        if not await ctx.read(cache.is_wanted, image_id):
            await drop(ctx)
            return
        try:
            if not await data.run(near.path(image_id).exists):
                await looking.look(image_id)
                source = await data.run(data.stores.fetch, image_id)
                await data.run(near.receive, source, image_id)
        except (Unreached, OSError) as error:
            raise Transient(f"the copy cannot be made: {error}") from error
        if not await ctx.write(cache.keep, image_id, ctx.now):
            await drop(ctx)

    async def drop(ctx: Context) -> None:
        await data.run(data.stores.forget_near, ctx.resource_id)

    async def make_room(ctx: Context) -> None:
        # The files first: rows whose files are gone are found here again.
        gone = await ctx.read(cache.surplus, options.cache_size)
        for image_id in gone:
            await data.run(data.stores.forget_near, image_id)
        await ctx.commit(cache.forget, gone)

    def failed(conn: Connection, task: Task, why: str, now: datetime) -> None:
        cache.forget(conn, [task.resource_id])

    def cancelled(conn: Connection, task: Task, now: datetime) -> None:
        cache.forget(conn, [task.resource_id])

    steps = (Step("copy", ensure_copied, undo=drop, attempts=ATTEMPTS), Step("make room", make_room))
    return Workflow(kinds.CACHE_IMAGE, steps, on_failure=failed, on_cancel=cancelled)
