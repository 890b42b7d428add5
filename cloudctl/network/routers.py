"""Routers: who sees them, how they change, and what a driver shall make of one with everything attached to it.

Their ports: `router_interfaces`, `router_gateways`; their static routes: `extra_routes`. Reference: network.md,
section 7; network-rules.md, sections 5 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from ipaddress import ip_network
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, case, insert, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.drivers.specs import FloatingIp, NetworkSpec, Route, RouterInterface, RouterSpec
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import (
    associations,
    conntrack_helpers,
    evpn,
    kinds,
    metering,
    ndp_proxies,
    networks,
    port_forwardings,
    qos_rules,
    quotas,
    router_gateways,
    router_ports,
    standard,
)
from cloudctl.network.options import NetworkOptions
from cloudctl.network.owned import Owned
from cloudctl.network.router_ports import RouterAddress
from cloudctl.network.tables import Port, Router
from cloudctl.rest import quota
from cloudctl.tasks import Origin, Unasked

ACTIVE, ERROR = "ACTIVE", "ERROR"


@frozen
class NewRouter:
    name: str = ""
    description: str = ""
    admin_state_up: bool = True
    availability_zone_hints: Sequence[str] = ()
    flavor_id: str | None = None
    distributed: bool = False
    ha: bool = False
    enable_default_route_ecmp: bool = False
    enable_default_route_bfd: bool = False
    evpn_vni: int | None = None  # 0: any free one


# Built once: building a statement costs more than running it.
_wired = select(Router, conntrack_helpers.any_of_router, metering.any_of_router).where(Router.id == bindparam("wanted"))
_router = update(Router).where(Router.id == bindparam("wanted"))
_is_on = _router.values(host=bindparam("there"))
# The router is written, and so locked, even if it has this status already: its ports and floating IPs follow.
_is_other = Router.status != bindparam("found")
_found = _router.values(
    status=bindparam("found"),
    revision=Router.revision + case((_is_other, 1), else_=0),
    updated_at=case((_is_other, bindparam("now", type_=Router.updated_at.type)), else_=Router.updated_at),
)

RECORDS = Owned(Router, "Router {} could not be found", "RouterNotFound")
# While a router is locked, nobody else changes its ports, or what goes through it, either.
find, get, visible, visible_to, not_found = (
    RECORDS.find,
    RECORDS.get,
    RECORDS.visible,
    RECORDS.visible_to,
    RECORDS.not_found,
)

# -- changes


def create(
    conn: Connection, project_id: str, new: NewRouter, now: datetime, options: NetworkOptions, by: Origin
) -> Router:
    """Create a router without ports. Raises OverQuota, NotFound (a zone), Conflict (its EVPN number is taken)."""
    networks.check_zones(new.availability_zone_hints, options)
    vni = None if new.evpn_vni is None else evpn.take(conn, new.evpn_vni, options)
    quota.take(conn, quotas.QUOTAS, project_id, {"router": 1})
    values = standard.new(project_id, now, description=new.description)
    conn.execute(
        insert(Router).values(
            **values,
            name=new.name,
            status=ACTIVE,
            admin_state_up=new.admin_state_up,
            availability_zone_hints=list(new.availability_zone_hints),
            host="",
            flavor_id=new.flavor_id,
            distributed=new.distributed,
            ha=new.ha,
            enable_default_route_ecmp=new.enable_default_route_ecmp,
            enable_default_route_bfd=new.enable_default_route_bfd,
            evpn_vni=vni,
        )
    )
    tasks.submit_once(conn, kinds.ENSURE_ROUTER, values["id"], by)
    return get(conn, values["id"])


def change(conn: Connection, row: Router, changes: dict[str, Any], now: datetime, by: Origin) -> Router:
    """Set columns of a locked router. Raises Invalid if `distributed` or `ha` would change while it is up."""
    for name in ("distributed", "ha"):
        if changes.get(name, getattr(row, name)) != getattr(row, name) and row.admin_state_up:
            message = f"Cannot change {name} of active router. Please set router admin_state_up to False prior to it."
            raise Invalid(f"Bad router request: {message}", type="BadRequest")
    standard.change(conn, Router.table, row.id, now, **changes)
    tasks.submit_once(conn, kinds.ENSURE_ROUTER, row.id, by)
    return get(conn, row.id)


def remove(conn: Connection, row: Router, now: datetime, by: Origin) -> None:
    """Delete a locked router with its gateway. Raises Conflict while it has interfaces or serves floating IPs."""
    interfaces = [port.id for port, is_gateway in router_ports.of_router(conn, row.id) if not is_gateway]
    if interfaces:
        shown = ",".join(interfaces[: networks.SHOWN_IDS])
        raise Conflict(f"Router {row.id} has ports still attached: {shown}.", type="RouterInUse")
    quotas.gives_back(conn, row.project_id)
    router_gateways.take_away(conn, row, now, by)
    RECORDS.delete(conn, row)
    tasks.supersede(conn, kinds.DELETE_ROUTER, row.id, by)


# -- the driver


@frozen
class Wiring:
    """Everything that a driver must hold for one router."""

    router: RouterSpec
    networks: tuple[NetworkSpec, ...]
    up: tuple[str, ...]  # ids of its ports that are administratively up
    served: tuple[associations.Way, ...]


def wiring(conn: Connection, router_id: str) -> Wiring | None:
    """None if there is no such router. A port that is administratively down is left out."""
    found = conn.execute(_wired, {"wanted": router_id}).first()
    if found is None:
        return None
    row, has_helpers, is_counted = found
    up = [(port, is_gateway) for port, is_gateway in router_ports.of_router(conn, router_id) if port.admin_state_up]
    addresses = router_ports.addresses_of(conn, router_id)
    floating = associations.of_router(conn, router_id)
    gateways = [_interface(conn, port, addresses) for port, is_gateway in up if is_gateway]
    spec = RouterSpec(
        id=row.id,
        name=row.name,
        admin_state_up=row.admin_state_up,
        gateway=gateways[0] if gateways else None,
        more_gateways=tuple(gateways[1:]),
        enable_snat=row.enable_snat,
        port_forwardings=port_forwardings.driver_specs(conn, row.id),
        host=row.host,
        conntrack_helpers=conntrack_helpers.driver_specs(conn, row.id) if has_helpers else (),
        ndp_proxies=ndp_proxies.driver_specs(conn, row.id) if row.enable_ndp_proxy else (),
        meters=metering.driver_specs(conn, row.project_id) if is_counted else (),
        default_route_ecmp=row.enable_default_route_ecmp,
        default_route_bfd=row.enable_default_route_bfd,
        distributed=row.distributed,
        ha=row.ha,
        evpn_vni=row.evpn_vni,
        leaked=tuple(sorted({each.cidr for each in addresses if each.is_leaked and not each.is_gateway})),
        interfaces=tuple(_interface(conn, port, addresses) for port, is_gateway in up if not is_gateway),
        routes=tuple(Route(route["destination"], route["nexthop"]) for route in row.routes),
        floating_ips=tuple(
            FloatingIp(
                each.id,
                each.floating_ip_address,
                each.fixed_ip_address,
                qos_rules.limits_of(conn, each.qos_policy_id),
                each.port_id,
            )
            for each in floating
            if each.fixed_ip_address is not None
        ),
    )
    specs = (networks.driver_spec(conn, id) for id in dict.fromkeys(port.network_id for port, _ in up))
    return Wiring(
        router=spec,
        networks=tuple(network for network in specs if network is not None),
        up=tuple(port.id for port, _ in up),
        served=tuple(associations.way(each) for each in floating),
    )


def _interface(conn: Connection, port: Port, addresses: Sequence[RouterAddress]) -> RouterInterface:
    return RouterInterface(
        limits=qos_rules.limits_of(conn, port.qos_policy_id),
        port_id=port.id,
        network_id=port.network_id,
        mac=port.mac_address,
        addresses=tuple(
            f"{each.ip_address}/{ip_network(each.cidr).prefixlen}" for each in addresses if each.port_id == port.id
        ),
    )


def realised(conn: Connection, wanted: Wiring | None, only_host: str, now: datetime) -> None:
    """A driver holds the router as `wanted` describes it. Anything changed meanwhile has a task of its own.

    `only_host`: the only host that has routers, whichever was chosen for this one; "": any host may.
    """
    if wanted is None:
        return
    router_id = wanted.router.id
    _found_status(conn, router_id, ACTIVE, now)
    if only_host and wanted.router.host not in ("", only_host):
        conn.execute(_is_on, {"wanted": router_id, "there": only_host})
    for port, _ in router_ports.of_router(conn, router_id):
        status = ACTIVE if port.id in wanted.up and port.admin_state_up else "DOWN"
        if port.status != status:
            standard.change(conn, Port.table, port.id, now, status=status)
    working = wanted.router.admin_state_up and wanted.router.gateway is not None
    associations.found_status(conn, router_id, wanted.served, ACTIVE if working else associations.DOWN, now)
    for network in wanted.networks:
        if networks.find(conn, network.id) is None:
            # The driver may have made it again after it was deleted.
            tasks.supersede(conn, kinds.DELETE_NETWORK, network.id, Unasked())


def failed(conn: Connection, router_id: str, now: datetime) -> None:
    """No driver can hold the router as it is."""
    _found_status(conn, router_id, ERROR, now)
    served = [associations.way(row) for row in associations.of_router(conn, router_id)]
    associations.found_status(conn, router_id, served, ERROR, now)


def _found_status(conn: Connection, router_id: str, status: str, now: datetime) -> None:
    conn.execute(_found, {"wanted": router_id, "found": status, "now": now})
