"""What is done when services outside report that something about a server has changed.

`args` of an extended volume: `volume_id`. Reference: compute.md, section 17.
"""

from __future__ import annotations

from datetime import datetime

from cloudctl.compute import audit, block_devices, guests, kinds, servers
from cloudctl.db import Connection
from cloudctl.drivers.errors import Unfit, UnknownGuest, UnknownVolume
from cloudctl.drivers.interfaces import IResizeAttached
from cloudctl.errors import NotFound
from cloudctl.network import plugging
from cloudctl.tasks import Context, Step, Workflow
from cloudctl.tasks.workflow import Memo, Task
from cloudctl.volume import volumes


async def refresh(ctx: Context) -> Memo:
    """Give host and guest the server's ports as they are now."""
    server = await ctx.read(servers.find, ctx.resource_id)
    if server is None or server.host is None:
        return None
    for port_id in await ctx.read(guests.plugged, server.id):
        try:
            port = await plugging.plug(ctx, port_id, server.host)
        except NotFound:
            continue  # it was deleted in the meantime
        await ctx.drivers.hypervisor.ensure_port_attached(server.id, port)
    return None


async def extend(ctx: Context) -> Memo:
    """Show the guest the size that its volume has now."""
    volume_id, hypervisor = ctx.args["volume_id"], ctx.drivers.hypervisor
    volume = await ctx.read(volumes.find, volume_id)
    if volume is None or await ctx.read(block_devices.find, ctx.resource_id, volume_id) is None:
        return None
    if not IResizeAttached.providedBy(hypervisor):
        raise Unfit("a guest of this hypervisor sees the new size of a volume once it has been detached")
    try:
        await hypervisor.ensure_volume_size(ctx.resource_id, volume_id, volume.size)
    except (UnknownGuest, UnknownVolume):
        pass  # it is on no host now, or is giving up the volume
    return None


async def compare(ctx: Context) -> Memo:
    """Act if the guest's power state is not what the server's says. Work under way on the server takes precedence."""
    try:
        guest = await ctx.drivers.hypervisor.observe(ctx.resource_id)
    except UnknownGuest:
        return None
    await ctx.commit(audit.compare_these, [guest])
    return None


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    """The server stays as it was."""
    servers.fail(conn, task.resource_id, "fault", error, now)


REFRESH = Workflow(kinds.REFRESH, (Step("refresh", refresh),), on_failure=failed)
EXTEND_VOLUME = Workflow(kinds.EXTEND_VOLUME, (Step("extend", extend),), on_failure=failed)
COMPARE = Workflow(kinds.COMPARE, (Step("compare", compare),))
