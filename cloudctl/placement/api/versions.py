"""The version document."""

from __future__ import annotations

from attrs import frozen

from cloudctl.placement.api import queries
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import Microversions, text


@frozen
class Versions:
    routes = Routes("Versions")

    microversions: Microversions

    @routes.get("/", policy=None)
    async def show(self, call: Call) -> Reply:
        """List the versions of the placement API."""
        version = {
            "id": "v1.0",
            "status": "CURRENT",
            "min_version": text(self.microversions.minimum),
            "max_version": text(self.microversions.maximum),
            "links": [{"rel": "self", "href": call.root_url}],
        }
        return queries.timed(call, {"versions": [version]})
