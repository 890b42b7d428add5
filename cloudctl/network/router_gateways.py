"""The gateway of a router: its port on an external network. Reference: network.md, section 7; network-rules.md, 6."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen
from sqlalchemy import delete, insert, select

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict
from cloudctl.network import associations, extra_routes, ipam, kinds, networks, ports, router_ports, standard
from cloudctl.network.fixed_ips import FixedIpRequest
from cloudctl.network.ports import NewPort
from cloudctl.network.router_ports import bad
from cloudctl.network.tables import Router, RouterPort, Subnet
from cloudctl.tasks import Origin


@frozen
class Gateway:
    """`fixed_ips` None: what a port gets by itself, or what the present one on that network has."""

    network_id: str
    enable_snat: bool = True
    fixed_ips: tuple[FixedIpRequest, ...] | None = None


def set(conn: Connection, router: Router, wanted: Gateway, now: datetime, by: Origin) -> None:
    """Give a locked router this gateway in place of its present one. Its network is one that the caller may see.

    Raises NotFound, Invalid, Conflict (in use by floating IPs or routes; no address left; an address is taken).
    """
    network = networks.pinned(conn, wanted.network_id)
    if not network.external:
        raise bad(f"Network {network.id} is not an external network")
    present = router_ports.gateways_of(conn, [router.id]).get(router.id)
    if present is not None and present.network_id == network.id:
        _readdress(conn, router, present.port_id, wanted, now, by)
    else:
        if present is not None:
            _remove(conn, router, present, now, by)
        _add(conn, router, wanted, now, by)
    standard.change(conn, Router.table, router.id, now, enable_snat=wanted.enable_snat)
    extra_routes.check_reachable(conn, router)
    tasks.submit_once(conn, kinds.ENSURE_ROUTER, router.id, by)


def clear(conn: Connection, router: Router, now: datetime, by: Origin) -> None:
    """Take the gateway, if there is one, from a locked router. Raises Conflict if floating IPs or routes need it."""
    if not take_away(conn, router, now, by):
        return
    standard.change(conn, Router.table, router.id, now, enable_snat=True)
    extra_routes.check_reachable(conn, router)
    tasks.submit_once(conn, kinds.ENSURE_ROUTER, router.id, by)


def take_away(conn: Connection, router: Router, now: datetime, by: Origin) -> bool:
    """Remove the port that is the gateway; whether there was one. Raises Conflict if floating IPs need it."""
    present = router_ports.gateways_of(conn, [router.id]).get(router.id)
    if present is not None:
        _remove(conn, router, present, now, by)
    return present is not None


def _add(conn: Connection, router: Router, wanted: Gateway, now: datetime, by: Origin) -> None:
    # It belongs to no project: who owns the router sees what `external_gateway_info` tells.
    new = NewPort(
        wanted.network_id,
        fixed_ips=wanted.fixed_ips,
        device_id=router.id,
        device_owner=router_ports.GATEWAY,
        port_security_enabled=False,
    )
    port = ports.create(conn, "", new, now, by)
    _check(conn, router, port.id)
    values = {"port_id": port.id, "router_id": router.id, "network_id": wanted.network_id, "is_gateway": True}
    conn.execute(insert(RouterPort).values(**values))


def _readdress(conn: Connection, router: Router, port_id: str, wanted: Gateway, now: datetime, by: Origin) -> None:
    if wanted.fixed_ips is None:
        return
    port = ports.get(conn, port_id, lock=True)
    ports.change(conn, port, {"fixed_ips": wanted.fixed_ips}, now, by)
    _check(conn, router, port_id)


def _remove(conn: Connection, router: Router, present: RouterPort, now: datetime, by: Origin) -> None:
    if associations.of_router(conn, router.id):
        raise Conflict(
            f"Gateway cannot be updated for router {router.id}, since a gateway to external network "
            f"{present.network_id} is required by one or more floating IPs.",
            type="RouterExternalGatewayInUseByFloatingIp",
        )
    conn.execute(delete(RouterPort).where(RouterPort.port_id == present.port_id))
    ports.delete(conn, present.port_id, now, by)


def _check(conn: Connection, router: Router, port_id: str) -> None:
    """Raises Invalid for addresses that the outside's own router has, or that are inside, too."""
    for address in ipam.of_ports(conn, [port_id]).get(port_id, ()):
        gateway_ip = conn.scalar(select(Subnet.gateway_ip).where(Subnet.id == address.subnet_id))
        if address.ip_address == gateway_ip:
            raise bad(f"External IP {address.ip_address} is the same as the gateway IP")
    router_ports.check_addresses(conn, router.id, port_id, router_ports.subnets_of_port(conn, port_id))


def addresses_of(conn: Connection, gateways: Sequence[RouterPort]) -> dict[str, list[dict[str, str]]]:
    """Id of the port of a gateway → its addresses, as `external_fixed_ips` has them."""
    return ports.fixed_ips_of(conn, [each.port_id for each in gateways])
