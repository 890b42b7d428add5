"""A port in the driver: on the host that it is bound to, with the addresses and groups that it has now."""

from __future__ import annotations

from cloudctl.drivers.errors import HostDown, UnknownHost
from cloudctl.network import kinds, plugging, port_bindings, ports
from cloudctl.network.lifecycle.patience import ATTEMPTS
from cloudctl.tasks import Context, Step, Transient, Workflow


async def ensure(ctx: Context) -> None:
    """Make the driver hold the port where it is bound, and nowhere if it is unbound or deleted."""
    wanted = await ctx.read(plugging.wiring, ctx.resource_id)
    host = "" if wanted is None else wanted.host
    left = ctx.args.get("left")
    if left and left != host:
        await ctx.drivers.network.ensure_port_absent(ctx.resource_id, left)
    if wanted is None or not host:
        await ctx.drivers.network.ensure_port_absent(ctx.resource_id)
        done = wanted is None or await ctx.write(plugging.unplugged, ctx.resource_id, "", ctx.now)
    else:
        done = await _ensure_bound(ctx, wanted)
    if not done:
        raise Transient(f"port {ctx.resource_id} was bound elsewhere meanwhile")
    if wanted is not None and host:
        await _ensure_elsewhere(ctx, wanted)


async def _ensure_bound(ctx: Context, wanted: plugging.Wiring) -> bool:
    try:
        binding = await plugging.hold(ctx, wanted, wanted.host)
    except (HostDown, UnknownHost):
        return await ctx.write(plugging.unplugged, ctx.resource_id, wanted.host, ctx.now, ports.BINDING_FAILED)
    if await ctx.write(plugging.plugged, ctx.resource_id, wanted.host, binding, ctx.now):
        return True
    await plugging.take_back(ctx, wanted, wanted.host)
    return False


async def _ensure_elsewhere(ctx: Context, wanted: plugging.Wiring) -> None:
    """Make the driver hold the port on the other hosts that have a binding of it, too."""
    for host in await ctx.read(port_bindings.hosts_of, ctx.resource_id):
        try:
            binding = await plugging.hold(ctx, wanted, host)
        except (HostDown, UnknownHost):
            await ctx.write(port_bindings.failed, ctx.resource_id, host)
            continue
        if not await ctx.write(port_bindings.plugged, ctx.resource_id, host, binding):
            # The binding was removed, or is the port's own by now: a following task takes care of it.
            await plugging.take_back(ctx, wanted, host)


async def ensure_absent(ctx: Context) -> None:
    if await ctx.read(ports.find, ctx.resource_id) is None:
        await ctx.drivers.network.ensure_port_absent(ctx.resource_id)


ENSURE_PORT = Workflow(kinds.ENSURE_PORT, steps=(Step("ensure", do=ensure, attempts=ATTEMPTS),))
DELETE_PORT = Workflow(kinds.DELETE_PORT, steps=(Step("ensure-absent", do=ensure_absent, attempts=ATTEMPTS),))
