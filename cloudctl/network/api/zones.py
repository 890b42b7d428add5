"""`/availability_zones` and `/service-providers`. Reference: network.md, section 13."""

from __future__ import annotations

from cloudctl.network.api.attributes import Json
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


class Zones:
    routes = Routes("Availability zones")

    def __init__(self, options: NetworkOptions) -> None:
        self.options = options

    @routes.get("/availability_zones", policy="network:availability_zones:list")
    async def list(self, call: Call) -> Json:
        """List the zones that networks can be in."""
        zone = {"name": self.options.availability_zone, "resource": "network", "state": "available"}
        return {"availability_zones": [zone]}

    @routes.get("/service-providers", policy="network:service_providers:list")
    async def providers(self, call: Call) -> Json:
        """List the providers of services that one can choose among: there is no choice."""
        return {"service_providers": []}
