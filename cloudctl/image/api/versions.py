"""Version documents of the image API. Reference: discovery.md, section 2."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

# The newest first. Each stands for features we have: 2.17 locations, 2.15 details of stores, 2.12 tasks of images,
# 2.11 copies, 2.10 hashes and so on. 2.14 and 2.16 are of caches.
MINORS = (17, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)


def versions(call: Call) -> dict[str, Any]:
    links = [{"rel": "self", "href": f"{call.root_url}/v2/"}]
    return {
        "versions": [
            {"id": f"v2.{minor}", "status": "CURRENT" if minor == MINORS[0] else "SUPPORTED", "links": links}
            for minor in MINORS
        ]
    }


@frozen
class Versions:
    routes = Routes("Versions")

    @routes.get("/", policy=None, status=300)
    async def choices(self, call: Call) -> dict[str, Any]:
        """List the versions of this API."""
        return versions(call)

    @routes.get("/versions", policy=None)
    async def list(self, call: Call) -> dict[str, Any]:
        """List the versions of this API."""
        return versions(call)

    @routes.get("/v2", policy=None)
    async def show(self, call: Call) -> dict[str, Any]:
        """List the versions of this API."""
        return versions(call)
