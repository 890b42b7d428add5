"""NDP proxies: routers that answer outside for IPv6 addresses that are inside. Neutron's extension `l3-ndp-proxy`.

Inside and outside are in one address scope, so that nobody else has the address. This does not depend on how ports and
routers are made, so that they can use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, select

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import address_scopes, ipam, kinds, router_ports, standard
from cloudctl.network.addresses import parse_address
from cloudctl.network.extension_tables import NdpProxy
from cloudctl.network.owned import Owned
from cloudctl.network.tables import IpAllocation, Port, Router, Subnet, SubnetPool
from cloudctl.tasks import Origin

RECORDS = Owned(NdpProxy, "Ndp proxy {} could not be found.", "NDPProxyNotFound")


@frozen
class NewNdpProxy:
    """`ip_address` None: the port's first IPv6 address that the router leads to."""

    name: str = ""
    description: str = ""
    ip_address: str | None = None


# Built once: building a statement costs more than running it.
_of_router = select(NdpProxy.ip_address).where(NdpProxy.router_id == bindparam("router")).order_by(NdpProxy.ip_address)
_of_port = select(NdpProxy).where(NdpProxy.port_id == bindparam("port")).order_by(NdpProxy.id)
_into = (
    select(NdpProxy.id)
    .join_from(
        NdpProxy,
        IpAllocation,
        (IpAllocation.port_id == NdpProxy.port_id) & (IpAllocation.ip_address == NdpProxy.ip_address),
    )
    .where(NdpProxy.router_id == bindparam("router"), IpAllocation.subnet_id == bindparam("subnet"))
    .limit(1)
)
_scope = (
    select(SubnetPool.address_scope_id)
    .join_from(Subnet, SubnetPool, SubnetPool.id == Subnet.subnetpool_id)
    .where(Subnet.id == bindparam("subnet"))
)


def create(
    conn: Connection, project_id: str, new: NewNdpProxy, router: Router, port: Port, now: datetime, by: Origin
) -> NdpProxy:
    """Let the locked router answer for an address of the port. Raises Invalid, Conflict."""
    if not router.enable_ndp_proxy:
        message = f"The enable_ndp_proxy parameter of router {router.id} must be set as True while create ndp proxy."
        raise Conflict(message, type="RouterNDPProxyNotEnable")
    address, subnet_id = _address(conn, router, port, new.ip_address)
    outside = _scope_outside(conn, router)
    if conn.scalar(_scope, {"subnet": subnet_id}) != outside:
        message = f"The IPv6 address scope of {address} is not that of the external network, {outside}."
        raise Conflict(message, type="AddressScopeConflict")
    taken = NdpProxy.port_id == port.id, NdpProxy.ip_address == address
    if conn.execute(select(NdpProxy.id).where(*taken)).first() is not None:
        raise Conflict(f"There is an NDP proxy for {address} of port {port.id}.", type="NDPProxyAlreadyExists")
    made = NdpProxy(
        **standard.new(project_id, now, description=new.description),
        name=new.name,
        router_id=router.id,
        port_id=port.id,
        ip_address=address,
    )
    standard.insert(conn, made)
    tasks.submit_once(conn, kinds.ENSURE_ROUTER, router.id, by)
    return made


def change(conn: Connection, row: NdpProxy, changes: Mapping[str, Any], now: datetime) -> NdpProxy:
    """Set name, description of a locked proxy."""
    return standard.changed(conn, row, now, **changes)


def remove(conn: Connection, row: NdpProxy, by: Origin) -> None:
    """Delete a locked proxy."""
    RECORDS.delete(conn, row)
    tasks.submit_once(conn, kinds.ENSURE_ROUTER, row.router_id, by)


def forget_port(conn: Connection, port_id: str, by: Origin, but: Sequence[str] = ()) -> None:
    """The port is about to be deleted, or has only the addresses `but` left: no router answers for others."""
    for row in conn.execute(_of_port, {"port": port_id}).all():
        if row.ip_address not in but:
            remove(conn, row, by)


# -- what needs them


def check_possible(conn: Connection, router: Router) -> None:
    """Raises Conflict unless the router has a gateway in an IPv6 address scope."""
    _scope_outside(conn, router)


def is_possible(conn: Connection, router_id: str) -> bool:
    """Whether the router's gateway has an IPv6 address, in an address scope."""
    gateway = router_ports.gateways_of(conn, [router_id]).get(router_id)
    if gateway is None or (gateway.network_id, 6) not in address_scopes.of_networks(conn, [gateway.network_id]):
        return False
    outside = [row for row in router_ports.addresses_of(conn, router_id) if row.port_id == gateway.port_id]
    return any(row.ip_version == 6 for row in outside)


def check_still_possible(conn: Connection, router: Router) -> None:
    """Raises Conflict if the router's gateway has lost its IPv6 addresses while the router may answer there."""
    if router.enable_ndp_proxy and not is_possible(conn, router.id):
        message = (
            f"Can't remove the IPv6 subnet from external gateway of router {router.id}, the IPv6 subnet in use by the "
            "router's ndp proxy."
        )
        raise Conflict(message, type="RouterIPv6GatewayInUse")


def check_gateway_unused(conn: Connection, router_id: str) -> None:
    """Raises Conflict while the router answers for addresses."""
    if driver_specs(conn, router_id):
        message = (
            f"Unable to unset external gateway of router {router_id}, There are one or more ndp proxies still in use."
        )
        raise Conflict(message, type="RouterGatewayInUseByNDPProxy")


def check_interface_unused(conn: Connection, router_id: str, subnet_id: str) -> None:
    """Raises Conflict while the router answers for addresses of the subnet."""
    if conn.scalar(_into, {"router": router_id, "subnet": subnet_id}) is not None:
        message = (
            f"Unable to remove subnet {subnet_id} from router {router_id}, There are one or more ndp proxies in use."
        )
        raise Conflict(message, type="RouterInterfaceInUseByNDPProxy")


def _scope_outside(conn: Connection, router: Router) -> str:
    gateway = router_ports.gateways_of(conn, [router.id]).get(router.id)
    if gateway is None:
        reason = "it has no external gateway"
    else:
        scope = address_scopes.of_networks(conn, [gateway.network_id]).get((gateway.network_id, 6))
        if scope is not None:
            return scope
        reason = f"network {gateway.network_id} is in no IPv6 address scope"
    raise Conflict(f"Can not enable ndp proxy on router {router.id}: {reason}.", type="RouterGatewayNotValid")


def _address(conn: Connection, router: Router, port: Port, wanted: str | None) -> tuple[str, str]:
    """(address, subnet id): the requested one of the port, or the first one that the router leads to."""
    found = [
        (row.ip_address, row.subnet_id)
        for row in ipam.of_ports(conn, [port.id]).get(port.id, ())
        if ":" in row.ip_address
    ]
    if not found:
        raise Invalid(f"Requested port {port.id} must allocate one IPv6 address at least.", type="BadRequest")
    inside = {row.subnet_id for row in router_ports.addresses_of(conn, router.id) if not row.is_gateway}
    reached = [each for each in found if each[1] in inside]
    if wanted is None:
        if not reached:
            message = f"The port {port.id} cannot reach the router {router.id} by IPv6 subnet."
            raise Conflict(message, type="PortUnreachableRouter")
        return reached[0]
    address = str(parse_address(wanted, "ip_address"))
    for each in reached:
        if each[0] == address:
            return each
    there = any(each[0] == address for each in found)
    reason = f"it cannot reach the router {router.id}" if there else f"it does not belong to the port {port.id}"
    raise Invalid(f"The address {address} is invalid, reason: {reason}.", type="InvalidAddress")


# -- the driver


def driver_specs(conn: Connection, router_id: str) -> tuple[str, ...]:
    """The addresses that a router answers for."""
    return tuple(conn.scalars(_of_router, {"router": router_id}))
