"""Move: copy a volume byte by byte to another backend, maybe changing its type. Reference: volume-states.md, section 2.

`args`: `host`, the pool; None: one that takes a volume of the new type. `type_id`: of the new type; None: the same.

If a server uses the volume, a task of that server copies it and switches the guest to the copy (`swap`).

The copy has the volume's id, on a different backend. The record decides which of the two is the volume, so undo steps
read it first: once the record names the new place, nothing there may be deleted.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import update

from cloudctl.db import Connection
from cloudctl.drivers.backends import Backends
from cloudctl.drivers.errors import InUse
from cloudctl.drivers.specs import VolumeSpec
from cloudctl.errors import CloudError
from cloudctl.tasks import Context, Step, Transaction, Transient, Wait, Workflow
from cloudctl.tasks.tables import DONE, OPEN
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import attachments, kinds, messages, moving, placing, states, types, volumes
from cloudctl.volume.archives import Archives
from cloudctl.volume.lifecycle import place
from cloudctl.volume.lifecycle.copying import Copying
from cloudctl.volume.options import is_same, present
from cloudctl.volume.tables import Volume, VolumeType

PLACE, SWAP = "place", "swap"


async def choose(ctx: Context) -> Memo:
    volume, type_ = await ctx.read(wanted, ctx.task)
    backends = ctx.drivers.volume
    here = present(backends.at, volume.host) if isinstance(backends, Backends) else None
    pools = [pool for pool in await place.enabled(ctx) if pool.host != here]
    asked = ctx.args["host"]
    chosen = placing.choose(
        [pool for pool in pools if asked is None or is_same(asked, pool.host)],
        type_.extra_specs if asked is None else {},
        volume.size,
    )
    if here is None or chosen is None:
        raise place.NoBackend
    return {"from": here, "to": chosen.host, "server": await ctx.read(moving.server_of, volume.id)}


def wanted(conn: Connection, task: Task) -> tuple[Volume, VolumeType]:
    """The volume, and the type that it is to have."""
    volume = volumes.get(conn, task.resource_id)
    return volume, types.get(conn, task.args["type_id"] or volume.volume_type_id)


def backend(ctx: Context, end: str) -> Any:
    """The backend that it leaves (`from`) or goes to (`to`)."""
    return place.backend_at(ctx, ctx.memo[PLACE][end])


async def is_there(ctx: Context) -> bool:
    """Whether the new place is the volume's place now."""
    return bool(await ctx.read(volumes.host_of, ctx.resource_id) == ctx.memo[PLACE]["to"])


async def create(ctx: Context) -> Memo:
    volume, type_ = await ctx.read(wanted, ctx.task)
    specs = {key: value for key, value in type_.extra_specs.items() if value is not None}
    spec = VolumeSpec(
        id=volume.id,
        size_gib=volume.size,
        name=volume.name or "",
        multiattach=types.is_multiattach(type_),
        extra_specs=specs,
    )
    await backend(ctx, "to").ensure_created(spec)
    await ctx.commit(set_status, volume.id, "migrating")
    return None


def set_status(conn: Connection, volume_id: str, status: str) -> None:
    conn.execute(update(Volume).where(Volume.id == volume_id).values(migration_status=status))


async def remove_copy(ctx: Context) -> None:
    if not await is_there(ctx):
        await backend(ctx, "to").ensure_absent(ctx.resource_id)


def server(ctx: Context) -> str | None:
    """The server that used the volume when its place was chosen."""
    found: str | None = ctx.memo[PLACE]["server"]
    return found


async def switch(ctx: Context) -> Memo | Wait:
    if (server_id := server(ctx)) is None:
        await ctx.commit(switched, ctx.task, ctx.memo[PLACE]["to"])
        return None
    places = {end: ctx.memo[PLACE][end] for end in ("from", "to")}
    args = {"volume_id": ctx.resource_id, "type_id": ctx.args["type_id"], **places}
    state = await ctx.child(SWAP, kinds.SWAP_VOLUME, server_id, args)
    if state in OPEN:
        return Wait()
    # Once the guest uses the copy, the copy is the volume, whatever else went wrong.
    if state != DONE and not await is_there(ctx):
        raise CloudError(await ctx.child_error(SWAP) or f"The server does not use the copy: {state}")
    return None


async def stop_switching(ctx: Context) -> Wait | None:
    return Wait(poll=1.0) if await ctx.cancel_child(SWAP) in OPEN else None


def switched(conn: Connection, task: Task, host: str) -> None:
    moving.arrive(conn, task.resource_id, host, task.args["type_id"])


async def clean(ctx: Context) -> Memo:
    try:
        await backend(ctx, "from").ensure_absent(ctx.resource_id)
    except InUse as error:
        raise Transient(str(error)) from error
    return None


def finish(conn: Connection, task: Task, now: datetime) -> None:
    finished(conn, task.resource_id, "success", now)


def finished(conn: Connection, volume_id: str, migration_status: str, now: datetime) -> None:
    set_status(conn, volume_id, migration_status)
    for leaving in (states.RETYPING, states.MAINTENANCE, None):
        attachments.follow(conn, volume_id, now, leaving=leaving)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    volume = volumes.find(conn, task.resource_id)
    if volume is None:
        return
    # If only the original could not be removed, the volume is where it is meant to be.
    moved = volume.host == task.memo.get(PLACE, {}).get("to")
    finished(conn, volume.id, "success" if moved else "error", now)
    if not moved:
        trouble = messages.NO_BACKEND if task.failed_by(place.NoBackend) else messages.MOVE_FAILED
        messages.record(conn, trouble, volume.project_id, task.request_id, volume.id, now)


def movement(archives: Archives) -> Workflow:
    copying = Copying(archives)

    async def export(ctx: Context) -> Memo:
        if server(ctx) is None:
            await copying.export(ctx.resource_id, backend(ctx, "from"))
        return None

    async def discard(ctx: Context) -> None:
        await copying.discard(ctx.resource_id)

    async def fill(ctx: Context) -> Memo:
        if server(ctx) is None:
            await copying.fill(ctx.resource_id, backend(ctx, "to"))
        return None

    async def forget(ctx: Context) -> Memo:
        await discard(ctx)
        return None

    return Workflow(
        kinds.MOVE_VOLUME,
        (
            Step(PLACE, choose),
            Step("create", create, undo=remove_copy),
            Step("export", export, undo=discard),
            Step("fill", fill),
            Step("discard", forget),
            Step("switch", switch, undo=stop_switching),
            Step("clean", clean),
            Step("finish", Transaction(finish)),
        ),
        on_failure=failed,
        on_cancel=lambda conn, task, now: failed(conn, task, "", now),
    )
