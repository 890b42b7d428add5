"""Swap: a volume goes to another backend while its server uses it. Reference: volume-states.md, section 2.

A child of the move, and a task of the server, so nothing else is done to the server meanwhile. The move makes the copy
and removes what is left; this fills the copy and switches the guest to it. `args`: `volume_id`; `from` and `to`, the
pools; `type_id`, as for the move.

A volume that a guest is using may be one that its backend cannot read. Then the hypervisor alone fills the copy.
"""

from __future__ import annotations

from typing import Any

from cloudctl.db import Connection
from cloudctl.drivers.errors import InUse, UnknownGuest, UnknownVolume
from cloudctl.drivers.specs import Power
from cloudctl.errors import CloudError
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo
from cloudctl.volume import attachments, kinds, moving, volumes
from cloudctl.volume.archives import Archives
from cloudctl.volume.lifecycle import place
from cloudctl.volume.lifecycle.copying import Copying
from cloudctl.volume.tables import Attachment

EXPORT, CONNECT = "export", "connect"
# Of guests that write nothing before a task starts them.
OFF = (Power.STOPPED, Power.CRASHED, Power.SUSPENDED)


def backend(ctx: Context, end: str) -> Any:
    return place.backend_at(ctx, ctx.args[end])


async def is_there(ctx: Context) -> bool:
    """Whether the new place is the volume's place now: if so, the guest uses it, whatever happens next."""
    return bool(await ctx.read(volumes.host_of, ctx.args["volume_id"]) == ctx.args["to"])


def used(conn: Connection, server_id: str, volume_id: str) -> Attachment | None:
    """The server's attachment of the volume; None if it has none, or is about to get or lose it."""
    found = attachments.of_volume(conn, [volume_id]).get(volume_id, [])
    mine = (each for each in found if (each.server_id, each.status) == (server_id, attachments.ATTACHED))
    return next(mine, None)


async def connect(ctx: Context) -> Memo:
    volume_id = ctx.args["volume_id"]
    attachment = await ctx.read(used, ctx.resource_id, volume_id)
    if attachment is None or attachment.host is None:
        raise CloudError(f"Volume {volume_id} is not attached to server {ctx.resource_id} any more.")
    # The host first, because undo needs it.
    ctx.remember(host=attachment.host, before=attachment.connection, attachment_id=attachment.id)
    await ctx.write(lambda _conn: None)
    return {"info": dict(await backend(ctx, "to").connect(volume_id, attachment.host))}


async def disconnect(ctx: Context) -> None:
    """Disconnect the host from whichever of the two places is not used."""
    host = ctx.memo.get(CONNECT, {}).get("host")
    if host is not None:
        left = "from" if await is_there(ctx) else "to"
        await backend(ctx, left).disconnect(ctx.args["volume_id"], host)


def made(ctx: Context) -> dict[str, bool]:
    """Whether the copy was `copied` here, and is `exact`. A task of an earlier release copied, and knows no more."""
    return ctx.memo.get(EXPORT) or {"copied": True, "exact": False}


async def lead(ctx: Context, info: dict[str, Any]) -> None:
    exact = made(ctx)["exact"]
    await ctx.drivers.hypervisor.ensure_volume_swapped(ctx.resource_id, ctx.args["volume_id"], info, exact)


async def swap(ctx: Context) -> Memo:
    found = ctx.memo[CONNECT]
    await lead(ctx, found["info"])
    await ctx.commit(swapped, ctx.args, found["attachment_id"], found["info"])
    return None


def swapped(conn: Connection, args: Any, attachment_id: str, info: dict[str, Any]) -> None:
    moving.arrive(conn, args["volume_id"], args["to"], args["type_id"])
    attachments.connected(conn, attachment_id, info)


async def swap_back(ctx: Context) -> None:
    if await is_there(ctx):
        return
    try:
        before = ctx.memo[CONNECT]["before"]
        await lead(ctx, before)
    except (UnknownGuest, UnknownVolume):
        pass  # nobody uses the copy


async def leave(ctx: Context) -> Memo:
    await backend(ctx, "from").disconnect(ctx.args["volume_id"], ctx.memo[CONNECT]["host"])
    return None


def swapping(archives: Archives) -> Workflow:
    copying = Copying(archives)

    async def export(ctx: Context) -> Memo:
        is_off = (await ctx.drivers.hypervisor.observe(ctx.resource_id)).power in OFF
        try:
            await copying.export(ctx.args["volume_id"], backend(ctx, "from"))
        except InUse:
            return {"copied": False, "exact": False}
        return {"copied": True, "exact": is_off}

    async def discard(ctx: Context) -> None:
        await copying.discard(ctx.args["volume_id"])

    async def fill(ctx: Context) -> Memo:
        if made(ctx)["copied"]:
            await copying.fill(ctx.args["volume_id"], backend(ctx, "to"))
        return None

    async def forget(ctx: Context) -> Memo:
        await discard(ctx)
        return None

    return Workflow(
        kinds.SWAP_VOLUME,
        (
            Step(EXPORT, export, undo=discard),
            Step("fill", fill),
            Step("discard", forget),
            Step(CONNECT, connect, undo=disconnect),
            Step("swap", swap, undo=swap_back),
            Step("leave", leave),
        ),
    )
