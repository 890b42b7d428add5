"""Defining a guest on its host as its server's row says, and removing it: what boots, rebuilds, resizes, deletions and
shelving have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from attrs import evolve, frozen

from cloudctl.compute import audit, guests, networking, servers
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.drivers.errors import HostDown, UnknownGuest
from cloudctl.drivers.specs import GuestSpec, PortBinding, Power
from cloudctl.errors import Conflict, NotFound
from cloudctl.network import plugging
from cloudctl.network.plugging import Wiring
from cloudctl.placement import hosts
from cloudctl.tasks import Context, Transient

Bindings = Mapping[str, PortBinding]
OFF = (Power.STOPPED, Power.CRASHED)


@frozen
class Plan:
    """All that a guest needs. Its ports lack their bindings, which the driver has yet to report."""

    guest: GuestSpec
    wirings: tuple[Wiring, ...]
    gone: tuple[str, ...]  # ports of the server that their owner has deleted


def plan(conn: Connection, server: Server, image_path: Any, *, is_made: bool = False) -> Plan:
    """`server`: its row, with a host. `is_made`: the guest has its disk, so its image may be gone.

    Raises NotFound for an image that is needed and gone.
    """
    found, gone = [], []
    for row in networking.of_server(conn, server.id):
        wiring = plugging.wiring(conn, row.port_id)
        if wiring is None:
            gone.append(row.port_id)
        else:
            found.append(wiring if row.tag is None else evolve(wiring, port=evolve(wiring.port, tag=row.tag)))
    around = {wiring.network.id: wiring.network for wiring in found}
    ports_of_guest = [wiring.port for wiring in found]
    guest = guests.spec(conn, server, image_path, ports_of_guest, list(around.values()), is_made=is_made)
    return Plan(guest, tuple(found), tuple(gone))


def plan_here(conn: Connection, server: Server, image_path: Any) -> Plan:
    """As `plan` of a guest that is made, without the ports that their owner has bound elsewhere.

    It has the disk that it had before, though it may be shelved: then there is an image of that.
    """
    found = plan(conn, server._replace(shelved_image_id=None), image_path, is_made=True)
    here = tuple(wiring for wiring in found.wirings if wiring.host == server.host)
    ids = {wiring.port.id for wiring in here}
    ports_here = tuple(port for port in found.guest.ports if port.id in ids)
    return evolve(found, guest=evolve(found.guest, ports=ports_here), wirings=here)


async def define(ctx: Context, plan: Plan) -> Bindings:
    """Define the guest and plug its ports. The bindings are to be stored with `plugged`."""
    host = plan.guest.host
    bindings = {wiring.port.id: await plugging.hold(ctx, wiring, host) for wiring in plan.wirings}
    ready = tuple(evolve(port, binding=bindings[port.id]) for port in plan.guest.ports)
    await ctx.drivers.hypervisor.ensure_defined(evolve(plan.guest, ports=ready))
    return bindings


async def undefine(ctx: Context, *, only_if_dead: bool = False) -> bool:
    """Remove the guest. False: its host is down, and keeps what there is of it.

    When that host returns, its driver drops what is elsewhere by then, and the audit has the rest removed.

    `only_if_dead`: for a guest that may be made elsewhere, it raises HostDown unless `may_be_left`.
    """
    try:
        await ctx.drivers.hypervisor.ensure_absent(ctx.resource_id)
    except HostDown as error:
        if only_if_dead and not await may_be_left(ctx):
            raise
        ctx.remember(left_behind=str(error))
        return False
    # As an earlier try of this step may have said.
    ctx.memo.get(ctx.step, {}).pop("left_behind", None)
    return True


async def may_be_left(ctx: Context) -> bool:
    """Whether nothing need be undone on the guest's host, which is down: it is known to be dead.

    One that is only silent may go on with the guest: beside another one it would write to its disks and answer at its
    addresses. A deletion does not wait for that.
    """
    return await ctx.is_void() or await ctx.read(is_on_a_dead_host, ctx.resource_id)


def is_on_a_dead_host(conn: Connection, server_id: str) -> bool:
    """Whether somebody who must know has forced the server's host down: an administrator, or who has fenced it."""
    server = servers.find(conn, server_id)
    host = None if server is None or server.host is None else hosts.find(conn, server.host)
    return host is not None and host.forced_down


async def drop_old(ctx: Context, host: str) -> None:
    """A host that was down when the server left it, and has returned, may have the guest that it had there: off, with
    an old disk, or begun by an earlier start. One that runs on `host` was begun by this one; what no task has left is
    kept, as by the audit.
    """
    try:
        found = await ctx.drivers.hypervisor.observe(ctx.resource_id)
    except (UnknownGuest, HostDown):
        return
    is_old = found.host != host or found.power in OFF
    if is_old and await ctx.read(audit.is_left_behind, ctx.resource_id):
        await ctx.drivers.hypervisor.ensure_absent(ctx.resource_id)


def plugged(conn: Connection, bindings: Bindings, host: str, now: datetime) -> None:
    """Raises Conflict if a port was bound elsewhere, or deleted, in the meantime; then call `look_again`."""
    for port_id, binding in bindings.items():
        if not plugging.plugged(conn, port_id, host, binding, now):
            raise Conflict(f"Port {port_id} is not bound to the server's host.")


async def look_again(ctx: Context, port_ids: Iterable[str], host: str) -> None:
    """Undo the plugging of ports that their owner bound elsewhere or deleted.

    Raises Conflict for the former. If some are gone, Transient: the step plans again what there is then.
    """
    gone = []
    for port_id in port_ids:
        try:
            await plugging.plug(ctx, port_id, host)
        except NotFound:
            await plugging.unplug(ctx, port_id, host)
            gone.append(port_id)
    if gone:
        raise Transient(f"port {gone[0]} was deleted meanwhile")
