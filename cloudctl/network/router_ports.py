"""The ports that are a router's own: its interfaces and its gateway. Their rules, and queries about them.

`routers` and its neighbours make and remove them. This does not depend on those, so that ports, subnets and networks
can use it. Reference: network-rules.md, section 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from ipaddress import ip_network
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import kinds, standard
from cloudctl.network.tables import IpAllocation, Port, Router, RouterPort, Subnet
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Origin, Unasked

INTERFACE = "network:router_interface"
GATEWAY = "network:router_gateway"


class RouterAddress(NamedTuple):
    """An address of a router with its port, its network and its subnet."""

    port_id: str
    network_id: str
    is_gateway: bool
    ip_address: str
    subnet_id: str
    ip_version: int
    cidr: str
    gateway_ip: str | None
    is_leaked: bool


# Built once: building a query costs more than running it.
_addresses = (
    select(
        RouterPort.port_id,
        RouterPort.network_id,
        RouterPort.is_gateway,
        IpAllocation.ip_address,
        Subnet.id,
        Subnet.ip_version,
        Subnet.cidr,
        Subnet.gateway_ip,
        Subnet.leak_routes,
    )
    .join_from(RouterPort, IpAllocation, IpAllocation.port_id == RouterPort.port_id)
    .join(Subnet, Subnet.id == IpAllocation.subnet_id)
    .where(RouterPort.router_id == bindparam("router"))
    .order_by(RouterPort.port_id, IpAllocation.position)
)
_gateways = (
    select(RouterPort)
    .where(RouterPort.router_id.in_(bindparam("routers", expanding=True)), RouterPort.is_gateway.is_(True))
    .order_by(RouterPort.router_id, RouterPort.position)
)
_joined = (
    select(IpAllocation.subnet_id)
    .join_from(IpAllocation, RouterPort, RouterPort.port_id == IpAllocation.port_id)
    .where(RouterPort.router_id == bindparam("router"), RouterPort.is_gateway.is_(False))
)
_not_joined = select(Subnet.id).where(
    Subnet.network_id.in_(select(RouterPort.network_id).where(RouterPort.port_id == bindparam("port"))),
    Subnet.id.not_in(_joined),
)
_router_of = select(RouterPort.router_id).where(RouterPort.port_id == bindparam("port"))
_held_of = select(Router.id).where(Router.id.in_(_router_of)).with_for_update()
_ports = (
    select(Port, RouterPort.is_gateway)
    .join_from(RouterPort, Port, Port.id == RouterPort.port_id)
    .where(RouterPort.router_id == bindparam("router"))
    .order_by(RouterPort.position, Port.created_at, Port.id)
)


def router_of(conn: Connection, port_id: str) -> str | None:
    """The id of the router whose own port this is."""
    return conn.scalar(_router_of, {"port": port_id})


def hold_router_of(conn: Connection, port_id: str) -> None:
    """Lock the router whose own port this is, if there is one, before the port."""
    conn.execute(_held_of, {"port": port_id})


def of_router(conn: Connection, router_id: str) -> Sequence[tuple[Port, bool]]:
    """The ports of a router, the oldest first, and whether they are its gateway."""
    return conn.execute(_ports, {"router": router_id}).all()


def addresses_of(conn: Connection, router_id: str) -> list[RouterAddress]:
    """Every address of a router with its port, its network and its subnet."""
    return [RouterAddress(*each) for each in conn.execute(_addresses, {"router": router_id})]


def gateways_of(conn: Connection, router_ids: Sequence[str]) -> dict[str, RouterPort]:
    """Router id → the port that is its gateway, where only one is meant. Routers without one are missing."""
    return {router_id: rows[0] for router_id, rows in all_gateways_of(conn, router_ids).items()}


def all_gateways_of(conn: Connection, router_ids: Sequence[str]) -> dict[str, list[RouterPort]]:
    """Router id → the ports that are its gateways, that of `gateways_of` first. Routers without any are missing."""
    return standard.grouped((row.router_id, row) for row in standard.rows(conn, _gateways, routers=router_ids))


def beside(conn: Connection, router_id: str, port_id: str) -> Sequence[str]:
    """The subnets beside a port of a locked router that the router has no interface on."""
    return conn.scalars(_not_joined, {"router": router_id, "port": port_id}).all()


def is_gateway_anywhere(conn: Connection, network_id: str) -> bool:
    """Whether a router has its gateway on the network."""
    query = select(RouterPort.port_id).where(RouterPort.network_id == network_id, RouterPort.is_gateway.is_(True))
    return conn.execute(query.limit(1)).first() is not None


def holds(conn: Connection, subnet_id: str, address: str) -> bool:
    """Whether an interface of a router has this address of the subnet."""
    query = select(RouterPort.port_id).join_from(RouterPort, IpAllocation, IpAllocation.port_id == RouterPort.port_id)
    here = IpAllocation.subnet_id == subnet_id, IpAllocation.ip_address == address
    return conn.execute(query.where(*here, RouterPort.is_gateway.is_(False)).limit(1)).first() is not None


# -- rules


def check_addresses(
    conn: Connection, router_id: str, port_id: str | None, wanted: Iterable[Subnet], is_gateway: bool = False
) -> None:
    """Check that a port with addresses on these subnets is compatible with the router's other ports.

    `port_id`: the port itself, if it is one of the router's already. Several gateways may be on one network. Raises
    Invalid.
    """
    others = [
        row for row in addresses_of(conn, router_id) if row.port_id != port_id and not (is_gateway and row.is_gateway)
    ]
    on_it: list[Subnet] = []
    for subnet in wanted:
        if any(subnet.id == other.subnet_id for other in others):
            raise bad(f"Router already has a port on subnet {subnet.id}")
        cidr = ip_network(subnet.cidr)
        for other_id, other_cidr in (*((o.subnet_id, o.cidr) for o in others), *((o.id, o.cidr) for o in on_it)):
            if other_id != subnet.id and cidr.overlaps(ip_network(other_cidr)):
                raise bad(
                    f"Cidr {subnet.cidr} of subnet {subnet.id} overlaps with cidr {other_cidr} of subnet {other_id}"
                )
        on_it.append(subnet)


def check_families(conn: Connection, router_id: str, network_id: str, port_id: str, wanted: Sequence[Subnet]) -> None:
    """Check that an interface may have addresses on these subnets: all IPv6 ones of a network are on one port.

    Raises Invalid.
    """
    if not wanted:
        raise bad("Router port must have at least one fixed IP")
    if len({subnet.id for subnet in wanted if subnet.ip_version == 4}) > 1:
        raise bad("Cannot have multiple IPv4 subnets on router port")
    if any(subnet.ip_version == 6 for subnet in wanted) and any(
        row.ip_version == 6 and row.network_id == network_id and row.port_id != port_id
        for row in addresses_of(conn, router_id)
    ):
        raise bad("Cannot have multiple router ports with the same network id if both contain IPv6 subnets")


def subnets_of_port(conn: Connection, port_id: str) -> list[Subnet]:
    """The subnets that a port has addresses on, one entry per address."""
    query = select(Subnet).join_from(Subnet, IpAllocation, IpAllocation.subnet_id == Subnet.id)
    return list(conn.execute(query.where(IpAllocation.port_id == port_id).order_by(IpAllocation.position)))


def check_device(conn: Connection, caller: Caller, device_id: str, device_owner: str) -> None:
    """Raises Conflict if a port is made to look like one of another project's router."""
    if not device_id or not device_owner.startswith("network:router_") or standard.sees_all(caller):
        return
    owner = conn.scalar(select(Router.project_id).where(Router.id == device_id))
    if owner is not None and owner != caller.project_id:
        raise not_owned(device_id)


def not_owned(router_id: str) -> Conflict:
    message = f"The following device_id {router_id} is not owned by your tenant or matches another tenants router."
    return Conflict(message, type="DeviceIDNotOwnedByTenant")


def bad(reason: str) -> Invalid:
    return Invalid(f"Bad router request: {reason}.", type="BadRequest")


# -- a router's port, changed through the ports API


def check_change(conn: Connection, row: Port, changes: dict[str, Any]) -> None:
    """Raises Conflict for changes that would take a port away from its router."""
    for name in ("device_id", "device_owner", "host"):
        if name in changes and changes[name] != getattr(row, name):
            raise Conflict(
                f"Unable to complete operation on port {row.id} for network {row.network_id}. Port already has an "
                f"attached device {row.device_id}.",
                type="PortInUse",
            )


def changed(conn: Connection, row: Port, router_id: str, now: datetime, by: Origin) -> None:
    """Update the locked router after a change of its own port. Raises Invalid if the port no longer fits."""
    standard.change(conn, Router.table, router_id, now)
    wanted = subnets_of_port(conn, row.id)
    if row.device_owner == INTERFACE:
        check_families(conn, router_id, row.network_id, row.id, wanted)
    check_addresses(conn, router_id, row.id, wanted, row.device_owner == GATEWAY)
    tasks.submit_once(conn, kinds.ENSURE_ROUTER, router_id, by)


def network_changed(conn: Connection, network_id: str) -> None:
    """Update the routers on a network after a change of it that affects them."""
    query = select(RouterPort.router_id).where(RouterPort.network_id == network_id).distinct()
    for router_id in conn.scalars(query.order_by(RouterPort.router_id)).all():
        tasks.submit_once(conn, kinds.ENSURE_ROUTER, router_id, Unasked())
