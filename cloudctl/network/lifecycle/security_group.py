"""A security group in the driver, if the driver filters at all."""

from __future__ import annotations

from cloudctl.drivers.errors import InUse
from cloudctl.drivers.interfaces import ISecurityGroups
from cloudctl.network import kinds, security_groups
from cloudctl.network.lifecycle.patience import ATTEMPTS, IN_USE
from cloudctl.tasks import Context, Step, Wait, Workflow


async def ensure(ctx: Context) -> None:
    """Make the driver's ports in the group obey its current rules."""
    driver = ctx.drivers.network
    spec = await ctx.read(security_groups.driver_spec, ctx.resource_id)
    if spec is not None and ISecurityGroups.providedBy(driver):
        await driver.ensure_security_group(spec)


async def ensure_absent(ctx: Context) -> Wait | None:
    driver = ctx.drivers.network
    if not ISecurityGroups.providedBy(driver):
        return None
    if await ctx.read(security_groups.driver_spec, ctx.resource_id) is not None:
        return None
    try:
        await driver.ensure_security_group_absent(ctx.resource_id)
    except InUse:
        # Ports that were in it are about to be updated.
        return IN_USE
    return None


ENSURE_SECURITY_GROUP = Workflow(
    kinds.ENSURE_SECURITY_GROUP,
    steps=(Step("ensure", do=ensure, attempts=ATTEMPTS),),
)
DELETE_SECURITY_GROUP = Workflow(
    kinds.DELETE_SECURITY_GROUP,
    steps=(Step("ensure-absent", do=ensure_absent, attempts=ATTEMPTS),),
)
