"""`/availability_zones` and `/service-providers`. Reference: network.md, section 13."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from cloudctl.drivers.interfaces import IRouterKinds, IRouters
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

SINGLE = "single_node"
PROVIDER = ("service_type", "name", "default")


@frozen
class Zones:
    routes = Routes("Availability zones")

    options: NetworkOptions
    has_routers: bool
    kinds: Sequence[str]  # of routers

    @routes.get("/availability_zones", policy="network:availability_zones:list")
    async def list(self, call: Call) -> Json:
        """List the zones that networks and routers can be in."""
        zone = {"name": self.options.availability_zone, "state": "available"}
        resources = ("network", "router") if self.has_routers else ("network",)
        unknown = [name[:64] for name in call.query if name not in {"name", "resource", "state"} | lists.RESERVED]
        if unknown:
            raise lists.bad(f"{unknown} is invalid attribute for filtering")
        zones = [{**zone, "resource": resource} for resource in resources]
        return {"availability_zones": [lists.narrowed(call, each) for each in zones if _is_asked_for(call, each)]}

    @routes.get("/service-providers", policy="network:service_providers:list")
    async def providers(self, call: Call) -> Json:
        """List the kinds of routers that can be chosen."""
        unknown = [name[:64] for name in call.query if name not in {*PROVIDER, *lists.RESERVED}]
        if unknown:
            raise lists.bad(f"{unknown} is invalid attribute for filtering")
        found = [dict(zip(PROVIDER, ("L3_ROUTER_NAT", name, name == SINGLE), strict=True)) for name in self.kinds]
        return {"service_providers": [lists.narrowed(call, each) for each in found if _is_asked_for(call, each)]}


def kinds_of(driver: Any) -> tuple[str, ...]:
    """The kinds of routers that a driver supports."""
    if not IRouters.providedBy(driver):
        return ()
    return ("dvr", "dvrha", "ha", SINGLE) if IRouterKinds.providedBy(driver) else (SINGLE,)


def _is_asked_for(call: Call, item: Json) -> bool:
    return all(
        not call.query.all(name) or str(value).lower() in {asked.lower() for asked in call.query.all(name)}
        for name, value in item.items()
    )
