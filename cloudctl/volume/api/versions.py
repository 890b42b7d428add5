"""Version documents. Reference: discovery.md, section 2; volume.md, section 1.2."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.rest import versions
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import Microversions

# The catalog's types count, too: a client that found the service by one of them uses that name.
VERSIONS = Microversions("volume", (3, 0), (3, 71), aliases=("block-storage", "volumev3"))


@frozen
class VersionDocuments:
    routes = Routes("Versions")

    @routes.get("/", policy=None, status=300)
    async def all(self, call: Call) -> Any:
        """List the versions of this API."""
        return {"versions": [_v3(call)]}

    @routes.get("/v3", policy=None)
    async def one(self, call: Call) -> Any:
        """Show version 3 of this API."""
        return {"versions": [_v3(call)]}


def _v3(call: Call) -> dict[str, Any]:
    return {
        "id": "v3.0",
        "status": "CURRENT",
        "version": versions.text(VERSIONS.maximum),
        "min_version": versions.text(VERSIONS.minimum),
        "updated": "2023-08-31T00:00:00Z",
        "links": [
            {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
            {"rel": "self", "href": f"{call.root_url}/v3/"},
        ],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}],
    }
