"""Purge: remove what a host that was down has kept of a server that is deleted by now, or on no host."""

from __future__ import annotations

from cloudctl.compute import kinds, servers
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo


async def remove(ctx: Context) -> Memo:
    # Nothing is destroyed on a guess: no other task of the server is at work, and its record says that it is nowhere.
    server = await ctx.read(servers.find, ctx.resource_id)
    if server is not None and (server.deleted_at is not None or server.host is None):
        await ctx.drivers.hypervisor.ensure_absent(ctx.resource_id)
    return None


PURGE = Workflow(kinds.PURGE, (Step("remove", remove),))
