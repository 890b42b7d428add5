"""Ports on hosts: what steps do with the driver, for compute's workflows and for our own.

The database cannot roll back a driver call, so each of these checks again after it: if the port was bound elsewhere
meanwhile, or deleted, what the call made is removed; if it or its groups have changed, the driver is to be told again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, frozen
from sqlalchemy import ColumnElement, bindparam, case, func, literal, or_, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.drivers.interfaces import ISecurityGroups
from cloudctl.drivers.specs import NetworkSpec, PortBinding, PortSpec, SecurityGroupSpec
from cloudctl.errors import Conflict
from cloudctl.network import kinds, networks, port_specs, ports, security_groups, trunk_ports
from cloudctl.network.tables import Port, PortSecurityGroup, SecurityGroup
from cloudctl.tasks import Context, Unasked


@frozen
class Wiring:
    """Everything that a driver must hold for one port."""

    host: str
    port: PortSpec
    network: NetworkSpec
    groups: tuple[SecurityGroupSpec, ...]
    seen: tuple[int, int]  # the revision of the port, and those of its groups added up


def wiring(conn: Connection, port_id: str) -> Wiring | None:
    """None if there is no such port."""
    found = port_specs.held(conn, port_id)
    if found is None:
        return None
    row, spec, network, has_absences = found
    groups = [held for group in spec.security_groups if (held := security_groups.held(conn, group)) is not None]
    around = networks.spec_of(conn, network, has_absences)
    seen = row.revision, sum(revision for _, revision in groups)
    return Wiring(row.host, spec, around, tuple(group for group, _ in groups), seen)


_revisions = (
    select(func.coalesce(func.sum(SecurityGroup.revision), 0))
    .join_from(PortSecurityGroup, SecurityGroup, SecurityGroup.id == PortSecurityGroup.security_group_id)
    .where(PortSecurityGroup.port_id == bindparam("port"))
)
# Compared with `Wiring.seen`.
_now = select(Port.revision, _revisions.scalar_subquery()).where(Port.id == bindparam("port"))


async def hold(ctx: Context, wanted: Wiring, host: str) -> PortBinding:
    """Have the driver hold the port on `host`, with its network and its groups. Raises the driver's errors."""
    driver = ctx.drivers.network
    await driver.ensure_network(wanted.network)
    if ISecurityGroups.providedBy(driver):
        for group in wanted.groups:
            await driver.ensure_security_group(group)
    port = wanted.port if wanted.port.binding is None else evolve(wanted.port, binding=None)
    binding: PortBinding = await driver.ensure_port(port, host)
    # The work that a change has requested may have been done before this, with less of it.
    if await ctx.read(_has_changed, wanted):
        await ctx.write(_tell_again, port.id)
    return binding


def _has_changed(conn: Connection, wanted: Wiring) -> bool:
    found = conn.execute(_now, {"port": wanted.port.id}).first()
    return found is not None and tuple(found) != wanted.seen


def _tell_again(conn: Connection, port_id: str) -> None:
    row = ports.find(conn, port_id)
    if row is not None:
        tasks.submit_once(conn, kinds.ENSURE_PORT, port_id, Unasked(row.project_id))


async def plug(ctx: Context, port_id: str, host: str) -> PortSpec:
    """Put the port on the host that it is bound to; returns its specification with the binding there.

    May be repeated. Raises NotFound if it is gone, Conflict if it is bound elsewhere, and the driver's errors.
    """
    wanted = await ctx.read(wiring, port_id)
    if wanted is None:
        raise ports.not_found(port_id)
    binding = await hold(ctx, wanted, host)
    if not await ctx.write(plugged, port_id, host, binding, ctx.now):
        await take_back(ctx, wanted, host)
        raise Conflict(f"Port {port_id} is bound to another host.", type="PortInUse")
    return evolve(wanted.port, binding=binding)


async def take_back(ctx: Context, wanted: Wiring, host: str) -> None:
    """Undo `hold` for a port that is no longer bound to `host`, as `plugged` reports. May be repeated."""
    await ctx.drivers.network.ensure_port_absent(wanted.port.id, host)
    await ctx.write(_forget_what_is_gone, wanted)


async def unplug(ctx: Context, port_id: str, host: str | None = None) -> None:
    """Take the port away from one host, or from all. Its binding stays: see `ports.unbind`. May be repeated."""
    await ctx.drivers.network.ensure_port_absent(port_id, host)
    await ctx.write(_unplugged, port_id, host, ctx.now)


def _unplugged(conn: Connection, port_id: str, host: str | None, now: datetime) -> None:
    row = ports.find(conn, port_id)
    if row is not None and host in (None, row.host):
        unplugged(conn, port_id, row.host, now)


def _forget_what_is_gone(conn: Connection, wanted: Wiring) -> None:
    """Delete objects that `hold` may have made again after they were deleted."""
    if networks.find(conn, wanted.network.id) is None:
        tasks.supersede(conn, kinds.DELETE_NETWORK, wanted.network.id, Unasked())
    left = security_groups.names(conn, [group.id for group in wanted.groups])
    for group in wanted.groups:
        if group.id not in left:
            tasks.supersede(conn, kinds.DELETE_SECURITY_GROUP, group.id, Unasked())


# -- what a driver made of it


def _dated(status: ColumnElement[str]) -> dict[str, ColumnElement[Any]]:
    """The revision and the time of a port whose status and `vif` become these: they stay if the port has them.

    What is done again to a port, as after each change of its groups, is no change of it.
    """
    other = or_(Port.status != status, Port.vif_type != bindparam("vif"))
    return {
        "revision": Port.revision + case((other, 1), else_=0),
        "updated_at": case((other, bindparam("now", type_=Port.updated_at.type)), else_=Port.updated_at),
    }


# Built once: building a statement costs more than running it.
_up = case((Port.admin_state_up.is_(True), "ACTIVE"), else_="DOWN")
_vif: dict[str, Any] = {"vif_type": bindparam("vif"), "vif_details": bindparam("details")}
_leaving = (
    update(Port)
    .where(Port.id.in_(bindparam("ports", expanding=True)))
    .values(realised=False, status="DOWN", **_vif, **_dated(literal("DOWN")))
)
_left = (
    update(Port)
    .where(Port.id == bindparam("wanted"), Port.host == bindparam("on"))
    .values(realised=False, status="DOWN", **_vif, **_dated(literal("DOWN")))
)
_arrived = (
    update(Port)
    .where(Port.id == bindparam("wanted"), Port.host == bindparam("on"))
    .values(realised=True, status=_up, **_vif, **_dated(_up))
    .returning(trunk_ports.any_of_wanted)
)


def plugged(conn: Connection, port_id: str, host: str, binding: PortBinding, now: datetime) -> bool:
    """A driver holds the port on this host. False if the port is not, or no longer, bound to that host."""
    vif = {"vif": binding["vif_type"], "details": dict(binding.get("vif_details") or {})}
    carries_others = conn.scalar(_arrived, {"wanted": port_id, "on": host, "now": now, **vif})
    if carries_others:
        trunk_ports.follow(conn, port_id, host, now)
    return carries_others is not None


def leaving(conn: Connection, port_ids: Sequence[str], now: datetime) -> None:
    """Call this before the driver is asked to release the ports everywhere: a later plugging marks its port again."""
    conn.execute(_leaving, {"ports": list(port_ids), "now": now, "vif": ports.UNBOUND, "details": {}})


def unplugged(conn: Connection, port_id: str, host: str, now: datetime, vif_type: str = ports.UNBOUND) -> bool:
    """No driver holds the port, which is bound to `host` ("": to none). False if it is bound to another one."""
    vif = {"vif": vif_type, "details": {}}
    return conn.execute(_left, {"wanted": port_id, "on": host, "now": now, **vif}).rowcount == 1
