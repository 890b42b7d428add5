"""Version documents. Reference: compute.md, section 2; discovery.md, section 2."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import Microversions, text

DOCS = "https://docs.openstack.org/"


@frozen
class Versions:
    routes = Routes("Versions")

    microversions: Microversions

    @routes.get("/", policy=None)
    async def list(self, call: Call) -> dict[str, Any]:
        """List the versions of the compute API."""
        return {"versions": [self._document(call)]}

    @routes.get("/v2.1", policy=None)
    async def show(self, call: Call) -> dict[str, Any]:
        """Show the version of the compute API with its microversions."""
        document = self._document(call)
        document["links"].append({"rel": "describedby", "type": "text/html", "href": DOCS})
        media = {"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}
        return {"version": {**document, "media-types": [media]}}

    def _document(self, call: Call) -> dict[str, Any]:
        return {
            "id": "v2.1",
            "status": "CURRENT",
            "version": text(self.microversions.maximum),
            "min_version": text(self.microversions.minimum),
            "updated": "2013-07-23T11:33:21Z",
            "links": [{"rel": "self", "href": f"{call.root_url}/v2.1/"}],
        }
