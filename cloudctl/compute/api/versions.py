"""Version documents. Reference: compute.md, section 2; discovery.md, section 2."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import Microversions, text

DOCS = "https://docs.openstack.org/"
# Its paths lead to those of v2.1, at the first microversion whatever the request says; unknown fields are let through.
OLD = "v2"


@frozen
class Versions:
    routes = Routes("Versions")

    microversions: Microversions

    @routes.get("/", policy=None)
    async def list(self, call: Call) -> dict[str, Any]:
        """List the versions of the compute API."""
        return {"versions": [_old(call), self._document(call)]}

    @routes.get(f"/{OLD}", policy=None)
    async def show_old(self, call: Call) -> dict[str, Any]:
        """Show the version of the compute API that came before microversions."""
        return {"version": _described(_old(call), "2")}

    @routes.get("/v2.1", policy=None)
    async def show(self, call: Call) -> dict[str, Any]:
        """Show the version of the compute API with its microversions."""
        return {"version": _described(self._document(call), "2.1")}

    def _document(self, call: Call) -> dict[str, Any]:
        return {
            "id": "v2.1",
            "status": "CURRENT",
            "version": text(self.microversions.maximum),
            "min_version": text(self.microversions.minimum),
            "updated": "2013-07-23T11:33:21Z",
            "links": [{"rel": "self", "href": f"{call.root_url}/v2.1/"}],
        }


def _old(call: Call) -> dict[str, Any]:
    return {
        "id": "v2.0",
        "status": "SUPPORTED",
        "version": "",
        "min_version": "",
        "updated": "2011-01-21T11:33:21Z",
        "links": [{"rel": "self", "href": f"{call.root_url}/{OLD}/"}],
    }


def _described(document: dict[str, Any], version: str) -> dict[str, Any]:
    media = {"base": "application/json", "type": f"application/vnd.openstack.compute+json;version={version}"}
    links = [*document["links"], {"rel": "describedby", "type": "text/html", "href": DOCS}]
    return {**document, "links": links, "media-types": [media]}
