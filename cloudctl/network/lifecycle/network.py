"""A network in the driver. Statuses: network-rules.md, section 4."""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.drivers.errors import InUse
from cloudctl.drivers.interfaces import IDhcpPorts
from cloudctl.drivers.specs import NetworkSpec
from cloudctl.network import dhcp_ports, kinds, networks
from cloudctl.network.lifecycle.patience import ATTEMPTS, IN_USE
from cloudctl.tasks import Context, Step, Wait, Workflow
from cloudctl.tasks.workflow import Task


async def ensure(ctx: Context) -> None:
    """Make the driver hold the network as it is now. A deleted one is left to its own task."""
    driver = ctx.drivers.network
    spec, is_due = await ctx.read(_wanted, ctx.resource_id, IDhcpPorts.providedBy(driver))
    if is_due:
        spec = await ctx.write(_followed, ctx.resource_id, ctx.now)
    if spec is not None:
        await driver.ensure_network(spec)
    await ctx.commit(_ensured, ctx.resource_id, spec is not None and spec.dhcp_port is not None, ctx.now)


def _wanted(conn: Connection, network_id: str, gives_out: bool) -> tuple[NetworkSpec | None, bool]:
    """The network, and whether the port that gives out its addresses has to follow it first."""
    return networks.driver_spec(conn, network_id), gives_out and dhcp_ports.is_due(conn, network_id)


def _followed(conn: Connection, network_id: str, now: datetime) -> NetworkSpec | None:
    dhcp_ports.follow(conn, network_id, now)
    return networks.driver_spec(conn, network_id)


def _ensured(conn: Connection, network_id: str, gives_out: bool, now: datetime) -> None:
    networks.found_status(conn, network_id, "ACTIVE", now)
    if gives_out:
        dhcp_ports.wired(conn, network_id, now)


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
    networks.found_status(conn, task.resource_id, "ERROR", now)


ENSURE_NETWORK = Workflow(kinds.ENSURE_NETWORK, steps=(Step("ensure", do=ensure),), on_failure=failed)
DELETE_NETWORK = Workflow(
    kinds.DELETE_NETWORK,
    steps=(Step("ensure-absent", do=ensure_absent, attempts=ATTEMPTS),),
)
