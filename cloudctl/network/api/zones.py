"""`/availability_zones` and `/service-providers`. Reference: network.md, section 13."""

from __future__ import annotations

from cloudctl.network.api.attributes import Json
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


class Zones:
    routes = Routes("Availability zones")

    def __init__(self, options: NetworkOptions, has_routers: bool) -> None:
        self.options = options
        self.resources = ("network", "router") if has_routers else ("network",)

    @routes.get("/availability_zones", policy="network:availability_zones:list")
    async def list(self, call: Call) -> Json:
        """List the zones that networks and routers can be in."""
        name = self.options.availability_zone
        return {
            "availability_zones": [
                {"name": name, "resource": resource, "state": "available"} for resource in self.resources
            ]
        }

    @routes.get("/service-providers", policy="network:service_providers:list")
    async def providers(self, call: Call) -> Json:
        """List the providers of services that one can choose among: there is no choice."""
        return {"service_providers": []}
