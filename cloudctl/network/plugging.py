"""Ports on hosts: what steps do with the driver, for compute's workflows and for our own.

The database cannot roll back a driver call, so each of these checks again after it: if the port was bound elsewhere
meanwhile, or deleted, what the call made is removed.
"""

from __future__ import annotations

from attrs import evolve, frozen

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.drivers.interfaces import ISecurityGroups
from cloudctl.drivers.specs import NetworkSpec, PortBinding, PortSpec, SecurityGroupSpec
from cloudctl.errors import Conflict
from cloudctl.network import kinds, networks, port_specs, ports, security_groups
from cloudctl.tasks import Context, Unasked


@frozen
class Wiring:
    """Everything that a driver must hold for one port."""

    host: str
    port: PortSpec
    network: NetworkSpec
    groups: tuple[SecurityGroupSpec, ...]


def wiring(conn: Connection, port_id: str) -> Wiring | None:
    """None if there is no such port."""
    found = port_specs.held(conn, port_id)
    if found is None:
        return None
    row, spec, network, has_absences = found
    groups = (security_groups.driver_spec(conn, group) for group in spec.security_groups)
    around = networks.spec_of(conn, network, has_absences)
    return Wiring(row.host, spec, around, tuple(group for group in groups if group is not None))


async def hold(ctx: Context, wanted: Wiring, host: str) -> PortBinding:
    """Have the driver hold the port on `host`, with its network and its groups. Raises the driver's errors."""
    driver = ctx.drivers.network
    await driver.ensure_network(wanted.network)
    if ISecurityGroups.providedBy(driver):
        for group in wanted.groups:
            await driver.ensure_security_group(group)
    port = wanted.port if wanted.port.binding is None else evolve(wanted.port, binding=None)
    binding: PortBinding = await driver.ensure_port(port, host)
    return binding


async def plug(ctx: Context, port_id: str, host: str) -> PortSpec:
    """Put the port on the host that it is bound to; returns its specification with the binding there.

    May be repeated. Raises NotFound if it is gone, Conflict if it is bound elsewhere, and the driver's errors.
    """
    wanted = await ctx.read(wiring, port_id)
    if wanted is None:
        raise ports.not_found(port_id)
    binding = await hold(ctx, wanted, host)
    if not await ctx.write(ports.plugged, port_id, host, binding):
        await take_back(ctx, wanted, host)
        raise Conflict(f"Port {port_id} is bound to another host.", type="PortInUse")
    return evolve(wanted.port, binding=binding)


async def take_back(ctx: Context, wanted: Wiring, host: str) -> None:
    """Undo `hold` for a port that is no longer bound to `host`, as `ports.plugged` reports. May be repeated."""
    await ctx.drivers.network.ensure_port_absent(wanted.port.id, host)
    await ctx.write(_forget_what_is_gone, wanted)


async def unplug(ctx: Context, port_id: str, host: str | None = None) -> None:
    """Take the port away from one host, or from all. Its binding stays: see `ports.unbind`. May be repeated."""
    await ctx.drivers.network.ensure_port_absent(port_id, host)
    await ctx.write(_unplugged, port_id, host)


def _unplugged(conn: Connection, port_id: str, host: str | None) -> None:
    row = ports.find(conn, port_id)
    if row is not None and host in (None, row.host):
        ports.unplugged(conn, port_id, row.host)


def _forget_what_is_gone(conn: Connection, wanted: Wiring) -> None:
    """Delete objects that `hold` may have made again after they were deleted."""
    if networks.find(conn, wanted.network.id) is None:
        tasks.supersede(conn, kinds.DELETE_NETWORK, wanted.network.id, Unasked())
    left = security_groups.names(conn, [group.id for group in wanted.groups])
    for group in wanted.groups:
        if group.id not in left:
            tasks.supersede(conn, kinds.DELETE_SECURITY_GROUP, group.id, Unasked())
