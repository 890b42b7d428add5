"""A network in the driver. Statuses: network-rules.md, section 4."""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.drivers.errors import InUse
from cloudctl.network import kinds, networks
from cloudctl.network.lifecycle.patience import ATTEMPTS, IN_USE
from cloudctl.tasks import Context, Step, Wait, Workflow
from cloudctl.tasks.workflow import Task


async def ensure(ctx: Context) -> None:
    """The driver holds the network as it is now. One that is gone is left to its own task."""
    spec = await ctx.read(networks.driver_spec, ctx.resource_id)
    if spec is not None:
        await ctx.drivers.network.ensure_network(spec)
    await ctx.commit(networks.found_status, ctx.resource_id, "ACTIVE")


async def ensure_absent(ctx: Context) -> Wait | None:
    if await ctx.read(networks.find, ctx.resource_id) is not None:
        return None
    try:
        await ctx.drivers.network.ensure_network_absent(ctx.resource_id)
    except InUse:
        # The tasks of its deleted ports are on their way.
        return IN_USE
    return None


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    networks.found_status(conn, task.resource_id, "ERROR")


ENSURE_NETWORK = Workflow(kinds.ENSURE_NETWORK, steps=(Step("ensure", do=ensure),), on_failure=failed)
DELETE_NETWORK = Workflow(
    kinds.DELETE_NETWORK,
    steps=(Step("ensure-absent", do=ensure_absent, attempts=ATTEMPTS),),
)
