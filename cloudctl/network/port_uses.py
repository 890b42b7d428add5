"""What uses a port, and what becomes of that when the port goes, or an address of it.

Most ports have no such use, so all uses are queried at once before anything looks closer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import BindParameter, bindparam, exists, or_, select

from cloudctl.db import Connection
from cloudctl.network import (
    associations,
    extra_routes,
    local_ip_ports,
    ndp_proxies,
    port_forwardings,
    router_ports,
    trunk_ports,
)
from cloudctl.network.extension_tables import LocalIp, NdpProxy
from cloudctl.network.tables import FloatingIp, PortForwarding, RouterPort, SubPort, Trunk
from cloudctl.tasks import Origin

_port: BindParameter[str] = bindparam("port")
# Built once: building a statement costs more than running it.
_uses = select(
    exists().where(FloatingIp.floating_port_id == _port),
    exists().where(RouterPort.port_id == _port),
    exists().where(FloatingIp.port_id == _port),
    or_(exists().where(Trunk.port_id == _port), exists().where(SubPort.port_id == _port)),
    exists().where(PortForwarding.internal_port_id == _port),
    exists().where(NdpProxy.port_id == _port),
    exists().where(LocalIp.local_port_id == _port),
)


class Uses(NamedTuple):
    """Whether there is any."""

    is_floating: bool  # it is the hidden port of a floating IP
    is_routers: bool
    has_floating_ips: bool
    is_of_trunk: bool  # it carries others, or goes through another one
    has_forwardings: bool
    has_proxies: bool
    has_local_ips: bool  # with addresses of the port


def of(conn: Connection, port_id: str) -> Uses:
    """The uses of a locked port: none is added or removed meanwhile."""
    return Uses(*conn.execute(_uses, {"port": port_id}).one())


def keep(conn: Connection, port_id: str, addresses: Sequence[str], now: datetime, by: Origin) -> None:
    """The port has these addresses left: nothing may lead to others, which somebody else may get.

    Raises Invalid if a floating IP leads there, or one is the address itself, or a local IP; Conflict if it is the way
    to a next hop or into a subnet. What leads there otherwise is deleted.
    """
    uses = of(conn, port_id)
    if uses.is_routers:
        _check_ways(conn, port_id)
    if uses.is_floating:
        associations.check_own_address_kept(conn, port_id, addresses)
    if uses.has_local_ips:
        local_ip_ports.check_addresses_kept(conn, port_id, addresses)
    if uses.has_floating_ips:
        associations.check_addresses_kept(conn, port_id, addresses)
    if uses.has_forwardings:
        port_forwardings.forget_port(conn, port_id, now, by, but=addresses)
    if uses.has_proxies:
        ndp_proxies.forget_port(conn, port_id, by, but=addresses)
    local_ip_ports.forget_port(conn, port_id, but=addresses)


def _check_ways(conn: Connection, port_id: str) -> None:
    """Raises Conflict if what goes through the router of this port needs an interface that it had before."""
    router_id = router_ports.router_of(conn, port_id)
    if router_id is None:
        return
    for subnet_id in router_ports.beside(conn, router_id, port_id):
        ndp_proxies.check_interface_unused(conn, router_id, subnet_id)
        associations.check_interface_unused(conn, router_id, subnet_id)
    extra_routes.check_reachable(conn, router_id)


def end(conn: Connection, port_id: str, uses: Uses, now: datetime, by: Origin) -> None:
    """The port is about to be deleted: nothing uses it."""
    if uses.has_floating_ips:
        associations.forget_port(conn, port_id, now, by)
    if uses.is_of_trunk:
        trunk_ports.forget(conn, port_id, now, by)
    if uses.has_forwardings:
        port_forwardings.forget_port(conn, port_id, now, by)
    if uses.has_proxies:
        ndp_proxies.forget_port(conn, port_id, by)
    if uses.has_local_ips:
        local_ip_ports.forget_own(conn, port_id, by)
