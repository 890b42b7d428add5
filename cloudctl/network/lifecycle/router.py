"""A router in the driver, with its interfaces, routes and floating addresses. Statuses: network-rules.md, section 4."""

from __future__ import annotations

from datetime import datetime

from cloudctl.db import Connection
from cloudctl.drivers.errors import DriverError, UnknownNetwork
from cloudctl.drivers.interfaces import IOneServiceHost, IRouters
from cloudctl.network import kinds, routers
from cloudctl.network.lifecycle.patience import ATTEMPTS
from cloudctl.tasks import Context, Step, Transient, Workflow
from cloudctl.tasks.workflow import Task


async def ensure(ctx: Context) -> None:
    """Make the driver hold the router as it is now. A deleted one is left to its own task."""
    driver = ctx.drivers.network
    wanted = await ctx.read(routers.wiring, ctx.resource_id)
    if wanted is not None:
        for network in wanted.networks:
            await driver.ensure_network(network)
        if not IRouters.providedBy(driver):
            raise DriverError("The network driver does not support routers.")
        try:
            await driver.ensure_router(wanted.router)
        except UnknownNetwork as error:
            # The network was deleted after the router was read: the router has left it by now.
            raise Transient(str(error)) from error
    only = driver.service_host() if IOneServiceHost.providedBy(driver) else ""
    await ctx.commit(routers.realised, wanted, only, ctx.now)


async def ensure_absent(ctx: Context) -> None:
    driver = ctx.drivers.network
    if IRouters.providedBy(driver) and await ctx.read(routers.find, ctx.resource_id) is None:
        await driver.ensure_router_absent(ctx.resource_id)


def failed(conn: Connection, task: Task, error: str, now: datetime) -> None:
    routers.failed(conn, task.resource_id, now)


ENSURE_ROUTER = Workflow(kinds.ENSURE_ROUTER, steps=(Step("ensure", do=ensure),), on_failure=failed)
DELETE_ROUTER = Workflow(
    kinds.DELETE_ROUTER,
    steps=(Step("ensure-absent", do=ensure_absent, attempts=ATTEMPTS),),
)
