"""Where floating IPs lead: to a fixed address of a port, through a router. Reference: network-rules.md, section 7.

This does not depend on how floating IPs are made (`floating_ips`), so that ports can use it. Code that needs several
rows locks them in this order, to avoid deadlocks: router, port, floating IP.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen
from sqlalchemy import bindparam, case, exists, or_, select

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.network import kinds, standard
from cloudctl.network.addresses import parse_address
from cloudctl.network.tables import FloatingIp, IpAllocation, Port, PortForwarding, Router, RouterPort, Subnet
from cloudctl.tasks import Origin

DOWN = "DOWN"

Way = tuple[str, str | None, str | None]
"""A floating IP, and the port and the fixed address that it leads to."""


# Built once: building a statement costs more than running it.
_of_port = select(FloatingIp).where(FloatingIp.port_id == bindparam("port"))
_own_address = select(FloatingIp.floating_ip_address).where(FloatingIp.floating_port_id == bindparam("port"))
_of_router = (
    select(FloatingIp).where(FloatingIp.router_id == bindparam("router")).order_by(FloatingIp.created_at, FloatingIp.id)
)
_ipv4 = (
    select(IpAllocation.ip_address, IpAllocation.subnet_id)
    .join_from(IpAllocation, Subnet, Subnet.id == IpAllocation.subnet_id)
    .where(IpAllocation.port_id == bindparam("port"), Subnet.ip_version == 4)
)
_inside, _outside = RouterPort.table.alias("inside"), RouterPort.table.alias("outside")
_there = IpAllocation.port_id == _inside.c.port_id, IpAllocation.subnet_id == bindparam("inside")
_gateway_ip = select(Subnet.gateway_ip).where(Subnet.id == bindparam("inside")).scalar_subquery()
_is_gateway_ip = IpAllocation.ip_address == _gateway_ip, IpAllocation.network_id == bindparam("through")
# Routers with an interface inside and a gateway outside: first the one that has the subnet's gateway address. Searched
# by network, since few routers are on it; the subnet may have many thousand addresses.
_between = (
    select(Router.id)
    .join_from(_inside, _outside, _outside.c.router_id == _inside.c.router_id)
    .join(Router, Router.id == _inside.c.router_id)
    .where(_inside.c.network_id == bindparam("through"), _inside.c.is_gateway.is_(False))
    .where(_outside.c.network_id == bindparam("outside"), _outside.c.is_gateway.is_(True))
    .where(exists().where(*_there))
    .order_by(case((exists().where(*_there, *_is_gateway_ip), 0), else_=1))
    .order_by(Router.created_at, Router.id)
)
_locked_routers = (
    select(Router.id)
    .where(Router.id.in_(bindparam("routers", expanding=True)))
    .order_by(Router.id)
    .with_for_update(read=True)
)
_held_router = select(Router.id).where(Router.id == bindparam("router")).with_for_update()
_leads_out = select(RouterPort.port_id).where(
    RouterPort.router_id == bindparam("router"),
    RouterPort.network_id == bindparam("outside"),
    RouterPort.is_gateway.is_(True),
)
# A router knows a fixed address by itself: without an interface on its subnet, it may be that of several ports.
_same_way = (
    select(FloatingIp)
    .where(FloatingIp.fixed_ip_address == bindparam("address"), FloatingIp.floating_network_id == bindparam("outside"))
    .where(or_(FloatingIp.port_id == bindparam("port"), FloatingIp.router_id == bindparam("router")))
    .order_by(FloatingIp.id)
)
_otherwise = (
    select(FloatingIp.id, FloatingIp.port_id, FloatingIp.fixed_ip_address)
    .where(FloatingIp.router_id == bindparam("router"), FloatingIp.status != bindparam("not_yet"))
    .order_by(FloatingIp.id)
    .with_for_update()
)


@frozen
class Target:
    """A fixed address that a floating IP may lead to, and the router that it goes through."""

    port_id: str
    fixed_ip_address: str
    router_id: str


def of_port(conn: Connection, port_id: str) -> list[FloatingIp]:
    """The floating IPs that lead to a port."""
    return list(conn.execute(_of_port, {"port": port_id}))


def of_router(conn: Connection, router_id: str) -> list[FloatingIp]:
    """The floating IPs that go through a router, in an order that does not change."""
    return list(conn.execute(_of_router, {"router": router_id}))


def way(row: FloatingIp) -> Way:
    return row.id, row.port_id, row.fixed_ip_address


def into_subnet(conn: Connection, router_id: str, subnet_id: str) -> bool:
    """Whether a floating IP goes through the router into this subnet."""
    f, a = FloatingIp.table.c, IpAllocation.table.c
    here = f.router_id == router_id, a.subnet_id == subnet_id
    whole = select(f.id).join_from(
        FloatingIp, IpAllocation, (a.port_id == f.port_id) & (a.ip_address == f.fixed_ip_address)
    )
    p = PortForwarding.table.c
    in_part = (
        select(f.id)
        .join_from(FloatingIp, PortForwarding, p.floatingip_id == f.id)
        .join(IpAllocation, (a.port_id == p.internal_port_id) & (a.ip_address == p.internal_ip_address))
    )
    return any(conn.execute(query.where(*here).limit(1)).first() is not None for query in (whole, in_part))


def check_interface_unused(conn: Connection, router_id: str, subnet_id: str) -> None:
    """Raises Conflict while a floating IP goes through the router into this subnet."""
    if into_subnet(conn, router_id, subnet_id):
        message = (
            f"Router interface for subnet {subnet_id} on router {router_id} cannot be deleted, as it is required by "
            "one or more floating IPs."
        )
        raise Conflict(message, type="RouterInterfaceInUseByFloatingIP")


# -- the way there


def target(
    conn: Connection,
    port: Port,
    project_id: str,
    floating_network_id: str,
    fixed_ip_address: str | None,
    through: str | None = None,
) -> Target:
    """Where a floating IP of `project_id` on that network would lead if associated with `port`. Locks the router.

    `fixed_ip_address` None: the port's only IPv4 address. `through`: by this router, which need not be on the subnet
    of that address: it has routes. Raises Invalid, NotFound (no router leads there), Conflict (that one does not lead
    out).
    """
    if port.project_id != project_id:
        raise bad(
            f"Cannot process floating IP association with Port {port.id}, since that port is owned by a different "
            "tenant"
        )
    if port.device_owner == "network:dhcp":
        raise bad(f"Cannot process floating IP association with Port {port.id}, since it serves DHCP")
    address, subnet_id = _fixed_address(conn, port, fixed_ip_address)
    if through is not None:
        _check_leads_out(conn, through, floating_network_id)
        return Target(port.id, address, through)
    router_id = _router(conn, port.network_id, subnet_id, floating_network_id)
    if router_id is None:
        raise NotFound(
            f"External network {floating_network_id} is not reachable from subnet {subnet_id}. Therefore, cannot "
            f"associate Port {port.id} with a Floating IP.",
            type="ExternalGatewayForFloatingIPNotFound",
        )
    return Target(port.id, address, router_id)


def _fixed_address(conn: Connection, port: Port, wanted: str | None) -> tuple[str, str]:
    """(address, subnet id)."""
    rows = conn.execute(_ipv4, {"port": port.id}).all()
    if wanted is not None:
        parsed = parse_address(wanted, "fixed_ip_address")
        if parsed.version != 4:
            raise bad(f"Cannot process floating IP association with {parsed}, since that is not an IPv4 address")
        rows = [row for row in rows if row[0] == str(parsed)]
        if not rows:
            raise bad(f"Port {port.id} does not have fixed ip {parsed}")
    if not rows:
        raise bad(f"Cannot add floating IP to port {port.id} that has no fixed IPv4 addresses")
    if len(rows) > 1:
        raise bad(
            f"Port {port.id} has multiple fixed IPv4 addresses. Must provide a specific IPv4 address when assigning a "
            "floating IP"
        )
    return rows[0]


def _router(conn: Connection, network_id: str, subnet_id: str, floating_network_id: str) -> str | None:
    """The router that leads from the external network into the subnet; it cannot change until the commit."""
    between = {"through": network_id, "inside": subnet_id, "outside": floating_network_id}
    found = conn.scalars(_between, between).all()
    conn.execute(_locked_routers, {"routers": list(found)})
    return next((each for each in conn.scalars(_between, between) if each in found), None)


def _check_leads_out(conn: Connection, router_id: str, floating_network_id: str) -> None:
    """Locks the router, of which nobody else may decide meanwhile what it knows. Raises Conflict."""
    conn.execute(_held_router, {"router": router_id})
    if conn.execute(_leads_out, {"router": router_id, "outside": floating_network_id}).first() is None:
        message = f"Router {router_id} has no external gateway on network {floating_network_id}."
        raise Conflict(message, type="RouterNotOnFloatingNetwork")


def check_free(conn: Connection, wanted: Target, floating_network_id: str, but: str | None = None) -> None:
    """Raises Conflict if a floating IP (other than `but`) of that network leads there already. The port is locked."""
    way = {"port": wanted.port_id, "address": wanted.fixed_ip_address, "router": wanted.router_id}
    rows = conn.execute(_same_way, {**way, "outside": floating_network_id}).all()
    row = next((each for each in rows if each.id != but), None)
    if row is not None:
        raise Conflict(
            f"Cannot associate floating IP {row.floating_ip_address} ({row.id}) with port {wanted.port_id} using fixed "
            f"IP {wanted.fixed_ip_address}, as that fixed IP already has a floating IP on external network "
            f"{floating_network_id}.",
            type="FloatingIPPortAlreadyAssociated",
        )


# -- ends


def forget_port(conn: Connection, port_id: str, now: datetime, by: Origin) -> None:
    """The port is about to be deleted: its floating IPs lead nowhere, and keep their addresses."""
    for row in of_port(conn, port_id):
        standard.change(
            conn, FloatingIp.table, row.id, now, port_id=None, fixed_ip_address=None, router_id=None, status=DOWN
        )
        if row.router_id is not None:
            tasks.submit_once(conn, kinds.ENSURE_ROUTER, row.router_id, by)


def check_deletable(conn: Connection, port_id: str, project_id: str) -> None:
    """Raises Conflict if a floating IP of a project other than this one leads to the port."""
    if any(row.project_id != project_id for row in of_port(conn, port_id)):
        message = f"Unable to complete operation on the port {port_id}, because it has an associated floating IP."
        raise Conflict(message, type="FipAssociated")


def check_addresses_kept(conn: Connection, port_id: str, present: Sequence[str]) -> None:
    """Raises Invalid unless all addresses that floating IPs lead to are among those that the port has left."""
    for row in of_port(conn, port_id):
        if row.fixed_ip_address not in present:
            raise Invalid(
                f"Bad port request: Cannot take address {row.fixed_ip_address} from port {port_id}, since floating IP "
                f"{row.floating_ip_address} leads to it.",
                type="BadRequest",
            )


def check_own_address_kept(conn: Connection, port_id: str, present: Sequence[str]) -> None:
    """Raises Invalid unless the hidden port of a floating IP has its address left."""
    address = conn.scalar(_own_address, {"port": port_id})
    if address not in present:
        raise Invalid(
            f"Bad port request: Cannot take address {address} from port {port_id}, since it is a floating IP.",
            type="BadRequest",
        )


def bad(reason: str) -> Invalid:
    return Invalid(f"Bad floatingip request: {reason}.", type="BadRequest")


# -- what the driver made of it


def found_status(conn: Connection, router_id: str, served: Sequence[Way], status: str, now: datetime) -> None:
    """Set the status of those of `served` that still lead where they did, through this router."""
    same = {*served}
    rows = conn.execute(_otherwise, {"router": router_id, "not_yet": status}).all()
    standard.change_all(conn, FloatingIp.table, [row[0] for row in rows if row in same], now, status=status)
