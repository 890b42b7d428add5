"""Version documents of the instance-HA API. Reference: discovery.md, section 2."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import Microversions, text

MICROVERSIONS = Microversions("instance-ha", (1, 0), (1, 3))


def document(call: Call) -> dict[str, Any]:
    return {
        "id": "v1.0",
        "status": "CURRENT",
        "version": text(MICROVERSIONS.maximum),
        "min_version": text(MICROVERSIONS.minimum),
        "updated": "2016-07-01T11:33:21Z",
        "links": [{"rel": "self", "href": f"{call.root_url}/v1/"}],
    }


@frozen
class Versions:
    routes = Routes("Versions")

    @routes.get("/", policy=None)
    async def list(self, call: Call) -> dict[str, Any]:
        """The versions of the API."""
        return {"versions": [document(call)]}

    @routes.get("/v1", policy=None)
    async def show(self, call: Call) -> dict[str, Any]:
        """Version 1."""
        media = {"base": "application/json", "type": "application/vnd.openstack.masakari+json;version=1"}
        return {"version": {**document(call), "media-types": [media]}}
