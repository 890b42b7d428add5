"""`/availability_zones` and `/service-providers`. Reference: network.md, section 13."""

from __future__ import annotations

from attrs import frozen

from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


@frozen
class Zones:
    routes = Routes("Availability zones")

    options: NetworkOptions
    has_routers: bool

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
        """List the providers of services that one can choose among: there is no choice."""
        return {"service_providers": []}


def _is_asked_for(call: Call, zone: Json) -> bool:
    return all(not call.query.all(name) or value in call.query.all(name) for name, value in zone.items())
