"""Version documents. Reference: discovery.md, section 2."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes


def document(call: Call) -> dict[str, Any]:
    return {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": f"{call.host_url}/identity/v3/"}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    }


@frozen
class VersionList:
    """Also served at the root of the cloud."""

    routes = Routes("Versions")

    @routes.get("/", policy=None, status=300)
    async def list(self, call: Call) -> Reply:
        """List the versions of the identity API"""
        body = {"versions": {"values": [document(call)]}}
        return Reply(body, headers=(("Location", f"{call.host_url}/identity/v3/"),))


@frozen
class Version:
    routes = Routes("Versions")

    @routes.get("/", policy=None)
    async def show(self, call: Call) -> dict[str, Any]:
        """Show the version of the identity API"""
        return {"version": document(call)}
