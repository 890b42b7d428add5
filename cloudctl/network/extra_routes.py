"""Static routes of routers. Reference: network.md, section 7; network-rules.md, section 6, «routes»."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from ipaddress import ip_address, ip_network

from sqlalchemy import select

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import kinds, router_ports, standard
from cloudctl.network.addresses import parse_address, parse_cidr
from cloudctl.network.router_ports import RouterAddress
from cloudctl.network.tables import Router
from cloudctl.tasks import Origin

MOST = 30

Route = dict[str, str]  # {"destination", "nexthop"}


def parsed(wanted: Iterable[tuple[str, str]]) -> list[Route]:
    """(destination, nexthop) pairs as the record has them, each once. Raises Invalid."""
    found: list[Route] = []
    for destination, nexthop in wanted:
        there, through = parse_cidr(destination, "routes"), parse_address(nexthop, "routes")
        if there.version != through.version:
            raise _invalid({"destination": str(there), "nexthop": str(through)}, "the families differ")
        route = {"destination": str(there), "nexthop": str(through)}
        if route not in found:
            found.append(route)
    return found


def set(conn: Connection, router: Router, wanted: Sequence[Route], now: datetime, by: Origin) -> None:
    """Replace the routes of a locked router. Raises Invalid: too many, or a next hop that it does not reach."""
    if len(wanted) > MOST:
        message = f"Unable to complete operation for {router.id}. The number of routes exceeds the maximum {MOST}."
        raise Invalid(message, type="RoutesExhausted")
    connected = router_ports.addresses_of(conn, router.id)
    for route in wanted:
        _check(route, connected)
    standard.change(conn, Router.table, router.id, now, routes=list(wanted))
    tasks.submit_once(conn, kinds.ENSURE_ROUTER, router.id, by)


def merged(present: Sequence[Route], more: Sequence[Route]) -> list[Route]:
    return [*present, *(route for route in more if route not in present)]


def without(present: Sequence[Route], fewer: Sequence[Route]) -> list[Route]:
    return [route for route in present if route not in fewer]


def _check(route: Route, connected: Sequence[RouterAddress]) -> None:
    nexthop = ip_address(route["nexthop"])
    if not any(nexthop in ip_network(each.cidr) for each in connected):
        raise _invalid(route, "the nexthop is not connected with router")
    if any(each.ip_address == route["nexthop"] for each in connected):
        raise _invalid(route, "the nexthop is used by router")


def _invalid(route: Route, reason: str) -> Invalid:
    return Invalid(f"Invalid format for routes: {route}, {reason}.", type="InvalidRoutes")


def check_reachable(conn: Connection, router_id: str) -> None:
    """Raises Conflict if a route's next hop is on none of the subnets that the router has now."""
    routes = conn.scalar(select(Router.routes).where(Router.id == router_id)) or []
    connected = [ip_network(each.cidr) for each in router_ports.addresses_of(conn, router_id)]
    if any(not any(ip_address(route["nexthop"]) in cidr for cidr in connected) for route in routes):
        raise Conflict(
            f"The ports of router {router_id} cannot be changed so, as its routes need the subnets of before.",
            type="RouterInterfaceInUseByRoute",
        )
