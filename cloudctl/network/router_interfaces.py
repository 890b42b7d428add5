"""The interfaces of a router: its ports on the subnets that it joins. Reference: network-rules.md, sections 5 and 6."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from ipaddress import ip_address, ip_network

from attrs import frozen
from sqlalchemy import delete, insert, select

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.network import (
    associations,
    fixed_ips,
    kinds,
    ndp_proxies,
    networks,
    ports,
    router_hosts,
    router_ports,
    shares,
    standard,
    trunk_ports,
)
from cloudctl.network.fixed_ips import FixedIpRequest
from cloudctl.network.ports import NewPort
from cloudctl.network.router_ports import INTERFACE, bad
from cloudctl.network.tables import Port, Router, RouterPort, Subnet
from cloudctl.tasks import Origin


@frozen
class Interface:
    """What was added or removed: a port, and those of its subnets that are meant."""

    port_id: str
    network_id: str
    subnet_ids: tuple[str, ...]


def add_subnet(
    conn: Connection, router: Router, subnet: Subnet, now: datetime, by: Origin, foreign: bool = False
) -> Interface:
    """Give the locked router the gateway address of a subnet that the caller may see, of a pinned network, on a port of
    its own.

    `foreign`: also a subnet of another project that does not share its network with this one. Raises Invalid, Conflict
    (the address is taken), OverQuota.
    """
    if subnet.project_id != router.project_id and not foreign:
        _check_shared(conn, router, subnet)
    if subnet.gateway_ip is None:
        raise bad("Subnet for router interface must have a gateway IP")
    if subnet.ipv6_address_mode is not None and subnet.ipv6_ra_mode is None:
        raise bad(
            f"IPv6 subnet {subnet.id} configured to receive RAs from an external router cannot be added to Neutron "
            "Router"
        )
    router_ports.check_addresses(conn, router.id, None, [subnet])
    wanted = FixedIpRequest(subnet.id, subnet.gateway_ip)
    port_id = _ipv6_port(conn, router.id, subnet.network_id) if subnet.ip_version == 6 else None
    if port_id is not None:
        port = ports.get(conn, port_id, lock=True)
        present = fixed_ips.present_wish(conn, port_id) or []
        ports.change(conn, port, {"fixed_ips": [*present, wanted]}, now, by)
    else:
        new = NewPort(
            networks.pinned(conn, subnet.network_id),
            fixed_ips=(wanted,),
            device_id=router.id,
            device_owner=INTERFACE,
            port_security_enabled=False,
        )
        port_id = str(ports.create(conn, router.project_id, new, now, by).id)
        _join(conn, router.id, port_id, subnet.network_id)
    _changed(conn, router, now, by, **router_hosts.of_connected(conn, router))
    return Interface(port_id, subnet.network_id, (subnet.id,))


def _check_shared(conn: Connection, router: Router, subnet: Subnet) -> None:
    # Pinned, so that what shares it stays, too.
    network = networks.pinned(conn, subnet.network_id)
    # With everybody is not enough: who takes the gateway's address is the way out of all.
    if router.project_id not in shares.with_whom(conn, network.id):
        raise bad(
            f"Cannot add interface to router because subnet {subnet.id} is not owned by project making the request"
        )


def _ipv6_port(conn: Connection, router_id: str, network_id: str) -> str | None:
    """The interface that has the router's IPv6 addresses on a network."""
    for row in router_ports.addresses_of(conn, router_id):
        if row.network_id == network_id and row.ip_version == 6 and not row.is_gateway:
            return str(row.port_id)
    return None


def add_port(conn: Connection, router: Router, port: Port, now: datetime, by: Origin) -> Interface:
    """Make a locked port an interface of a locked router, with the addresses that it has.

    Raises Invalid, Conflict (it is in use).
    """
    if port.device_id:
        raise Conflict(
            f"Unable to complete operation on port {port.id} for network {port.network_id}. Port already has an "
            f"attached device {port.device_id}.",
            type="PortInUse",
        )
    if port.project_id != router.project_id:
        raise router_ports.not_owned(router.id)
    on = router_ports.subnets_of_port(conn, port.id)
    router_ports.check_families(conn, router.id, port.network_id, port.id, on)
    router_ports.check_addresses(conn, router.id, None, on)
    standard.change(conn, Port.table, port.id, now, device_id=router.id, device_owner=INTERFACE)
    _join(conn, router.id, port.id, port.network_id)
    _changed(conn, router, now, by, **router_hosts.of_connected(conn, router))
    return Interface(port.id, port.network_id, tuple(dict.fromkeys(subnet.id for subnet in on)))


def remove(
    conn: Connection, router: Router, port_id: str | None, subnet_id: str | None, now: datetime, by: Origin
) -> Interface:
    """Remove an interface, named by its port, a subnet of it, or both, from a locked router, and delete its port.

    If only the subnet is named, a port with other subnets keeps those. Raises NotFound, Invalid, Conflict (floating
    IPs, routes or a trunk need it).
    """
    port = _interface(conn, router, port_id, subnet_id)
    on = list(dict.fromkeys(subnet.id for subnet in router_ports.subnets_of_port(conn, port.id)))
    if subnet_id is not None and subnet_id not in on:
        message = f"Subnet on port {port.id} does not match the requested subnet {subnet_id}."
        raise Invalid(message, type="SubnetMismatchForPort")
    leaving = [subnet_id] if subnet_id is not None and port_id is None else on
    _check_unused(conn, router, leaving)
    if len(leaving) < len(on):
        kept = [wish for wish in fixed_ips.present_wish(conn, port.id) or [] if wish.subnet_id not in leaving]
        ports.change(conn, port, {"fixed_ips": kept}, now, by)
    else:
        trunk_ports.check_deletable(conn, port.id)
        conn.execute(delete(RouterPort).where(RouterPort.port_id == port.id))
        ports.discard(conn, port.id, now, by)
    _changed(conn, router, now, by)
    return Interface(port.id, port.network_id, tuple(leaving))


def _interface(conn: Connection, router: Router, port_id: str | None, subnet_id: str | None) -> Port:
    """The port, locked."""
    if port_id is not None:
        mine = select(RouterPort.port_id).where(
            RouterPort.port_id == port_id, RouterPort.router_id == router.id, RouterPort.is_gateway.is_(False)
        )
        if conn.execute(mine).first() is None:
            message = f"Router {router.id} does not have an interface with id {port_id}"
            raise NotFound(message, type="RouterInterfaceNotFound")
        return ports.get(conn, port_id, lock=True)
    for row in router_ports.addresses_of(conn, router.id):
        if row.subnet_id == subnet_id and not row.is_gateway:
            return ports.get(conn, row.port_id, lock=True)
    message = f"Router {router.id} has no interface on subnet {subnet_id}"
    raise NotFound(message, type="RouterInterfaceNotFoundForSubnet")


def _check_unused(conn: Connection, router: Router, leaving: Sequence[str]) -> None:
    for subnet_id in leaving:
        ndp_proxies.check_interface_unused(conn, router.id, subnet_id)
        associations.check_interface_unused(conn, router.id, subnet_id)
        cidrs = [row.cidr for row in router_ports.addresses_of(conn, router.id) if row.subnet_id == subnet_id]
        if any(_leads_into(route, cidr) for route in router.routes for cidr in cidrs):
            message = (
                f"Router interface for subnet {subnet_id} on router {router.id} cannot be deleted, as it is required "
                "by one or more routes."
            )
            raise Conflict(message, type="RouterInterfaceInUseByRoute")


def _leads_into(route: dict[str, str], cidr: str) -> bool:
    return ip_address(route["nexthop"]) in ip_network(cidr)


def _join(conn: Connection, router_id: str, port_id: str, network_id: str) -> None:
    conn.execute(insert(RouterPort).values(port_id=port_id, router_id=router_id, network_id=network_id))


def _changed(conn: Connection, router: Router, now: datetime, by: Origin, **columns: str) -> None:
    standard.change(conn, Router.table, router.id, now, **columns)
    tasks.submit_once(conn, kinds.ENSURE_ROUTER, router.id, by)
