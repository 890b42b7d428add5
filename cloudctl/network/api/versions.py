"""Version documents. Reference: discovery.md, section 2; network.md, section 1.1."""

from __future__ import annotations

from attrs import frozen

from cloudctl.network.api.attributes import Json
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

# name → collection
RESOURCES = {
    "network": "networks",
    "subnet": "subnets",
    "port": "ports",
    "router": "routers",
    "floatingip": "floatingips",
    "security_group": "security-groups",
    "security_group_rule": "security-group-rules",
    "quota": "quotas",
    "extension": "extensions",
}


WITH_ROUTERS = {"router", "floatingip"}


@frozen
class VersionList:
    routes = Routes("Versions")

    @routes.get("/", policy=None)
    async def list(self, call: Call) -> Json:
        """List the versions of the API."""
        links = [{"rel": "self", "href": f"{call.root_url}/v2.0/"}]
        return {"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]}


@frozen
class Version:
    routes = Routes("Versions")

    has_routers: bool

    @routes.get("/", policy=None)
    async def show(self, call: Call) -> Json:
        """List the core resources."""
        return {
            "resources": [
                {
                    "name": name,
                    "collection": collection,
                    "links": [{"rel": "self", "href": f"{call.root_url}/v2.0/{collection}"}],
                }
                for name, collection in RESOURCES.items()
                if self.has_routers or name not in WITH_ROUTERS
            ]
        }
