"""Import: fetch the data unless it is staged, check it, put it in its place. Reference: image.md, section 9."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable
from datetime import datetime
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall

from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Invalid
from cloudctl.image import images, imports, kinds, regions
from cloudctl.image.data import HASH
from cloudctl.image.lifecycle.placing import ensure_placed
from cloudctl.image.looking import Looking
from cloudctl.image.options import ImageOptions
from cloudctl.image.store import CHUNK, held
from cloudctl.image.stores import Stores
from cloudctl.rest.outgoing import Unreached
from cloudctl.tasks import Context, Step, Transient, Workflow
from cloudctl.tasks.workflow import Cancelled, Task

# A user waits for the outcome: a name that does not resolve is reported soon.
ATTEMPTS = 3
# Seconds between two looks at whether the image of a download still exists.
LOOK = 2.0


def importing(looking: Looking, options: ImageOptions) -> Workflow:
    data, kept = looking.data, options.import_kept
    store = data.store

    async def ensure_fetched(ctx: Context) -> None:
        await ctx.write(imports.processing, ctx.args["task_id"], ctx.resource_id, ctx.now)
        uri, arriving = ctx.args["uri"], store.incoming(new_id())
        origin = await ctx.read(regions.source, ctx.args)
        try:
            if origin is None and uri is None:
                return
            # To a file of this attempt's own: one that was given up, perhaps in another process, may still write.
            await data.run(arriving.touch)
            with held(arriving):
                if origin is not None:
                    await looking.look(origin.row.id)
                    await data.run(copy, data.stores, origin.row.id, arriving)
                else:
                    await unless_cancelled(ctx, looking.db.clock, looking.fetch(uri, arriving))
                await data.run(store.stage, arriving, ctx.resource_id)
        except (Unreached, OSError) as error:
            raise Transient(str(error)) from error
        finally:
            await data.run(store.remove, arriving)

    async def ensure_kept(ctx: Context) -> None:
        image = await ctx.read(imports.importing, ctx.resource_id)
        origin = await ctx.read(regions.source, ctx.args)
        try:
            source = staged = await data.run(store.fetch_staged, image.id)
            if source is None:
                # An earlier run got this far.
                source = await data.run(placed_already, data.stores, image.id)
            algorithm, expected = ctx.args.get("hash", (HASH, None))
            measured = await data.measure(source, *images.formats(image if origin is None else origin.row), algorithm)
            if expected not in (None, measured.os_hash_value):
                raise Invalid(f"The {algorithm} of the data is {measured.os_hash_value}, not {expected}.")
            placed = await ensure_placed(ctx, data, source, anew=staged is not None)
            await data.run(store.drop_staged, image.id)
        except OSError as error:
            raise Transient(f"the image store does not work: {error}") from error
        await ctx.commit(
            imports.finish, ctx.args["task_id"], image, measured, placed.there, placed.failed, ctx.now, kept, origin
        )

    async def drop(ctx: Context) -> None:
        await data.forget(ctx.resource_id)

    def ended(conn: Connection, task: Task, why: str, now: datetime) -> None:
        imports.fail(conn, task.args["task_id"], task.resource_id, why, now, kept, task)

    def cancelled(conn: Connection, task: Task, now: datetime) -> None:
        ended(conn, task, "The image was deleted.", now)

    steps: tuple[Any, ...] = (
        Step("fetch", ensure_fetched, undo=drop, attempts=ATTEMPTS),
        Step("keep", ensure_kept, undo=drop),
    )
    return Workflow(kinds.IMPORT_IMAGE, steps, on_failure=ended, on_cancel=cancelled)


async def unless_cancelled(ctx: Context, clock: IReactorTime, work: Awaitable[None]) -> None:
    """Wait for the work, and stop it if the task is asked to stop: its source may take hours. Raises Cancelled."""

    async def do() -> None:
        await work

    doing = Deferred.fromCoroutine(do())

    def look() -> None:
        if ctx.cancelled:
            doing.cancel()

    calls = LoopingCall(look)
    calls.clock = clock
    calls.start(LOOK, now=False)
    try:
        await doing
    except Exception as error:
        if ctx.cancelled:
            raise Cancelled("its image was deleted") from error
        raise
    finally:
        calls.stop()


def copy(stores: Stores, image_id: str, target: Path) -> None:
    """Copy, afresh, the data of an image of this cloud."""
    with stores.fetch(image_id).open("rb") as content, target.open("wb") as file:
        shutil.copyfileobj(content, file, CHUNK)


def placed_already(stores: Stores, image_id: str) -> Path:
    """Where the data of an image that is not active yet is, if it is in a store already."""
    there = stores.path(image_id)
    return there if there.parent != stores.default.directory else stores.default.fetch(image_id, settled=False)
