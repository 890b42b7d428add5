"""Purge: remove what a host kept of a server that was deleted while the host was down."""

from __future__ import annotations

from cloudctl.compute import kinds, servers
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo


async def remove(ctx: Context) -> Memo:
    # The id cannot be alive again: ids are never reused. Still, nothing is destroyed on a guess.
    if (server := await ctx.read(servers.find, ctx.resource_id)) is not None and server.deleted_at is not None:
        await ctx.drivers.hypervisor.ensure_absent(ctx.resource_id)
    return None


PURGE = Workflow(kinds.PURGE, (Step("remove", remove),))
