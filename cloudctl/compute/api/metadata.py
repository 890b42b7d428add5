"""The metadata of a server. Reference: compute.md, section 8.1."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.compute import server_metadata, servers
from cloudctl.compute.api.server_bodies import Metadata
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

ALL = Body(Metadata, key="metadata")
ONE = Body(Metadata, key="meta")


@frozen
class ServerMetadata:
    routes = Routes("Server metadata")

    db: Database

    @routes.get("/servers/<server_id>/metadata", policy="compute:servers:show")
    async def list(self, call: Call, server_id: str) -> dict[str, Any]:
        """List a server's metadata."""
        return {"metadata": await self.db.read(_all, call, server_id)}

    @routes.post("/servers/<server_id>/metadata", policy="compute:servers:metadata", body=ALL)
    async def merge(self, call: Call, server_id: str, body: dict[str, str]) -> dict[str, Any]:
        """Add to a server's metadata."""
        return {"metadata": await self.db.run(server_metadata.merge, call.caller, server_id, body)}

    @routes.put("/servers/<server_id>/metadata", policy="compute:servers:metadata", body=ALL)
    async def replace(self, call: Call, server_id: str, body: dict[str, str]) -> dict[str, Any]:
        """Replace a server's metadata."""
        return {"metadata": await self.db.run(server_metadata.replace, call.caller, server_id, body)}

    @routes.get("/servers/<server_id>/metadata/<key>", policy="compute:servers:show")
    async def show(self, call: Call, server_id: str, key: str) -> dict[str, Any]:
        """Show one item."""
        found = await self.db.read(_all, call, server_id)
        if key not in found:
            raise server_metadata.no_item()
        return {"meta": {key: found[key]}}

    @routes.put("/servers/<server_id>/metadata/<key>", policy="compute:servers:metadata", body=ONE)
    async def set(self, call: Call, server_id: str, key: str, body: dict[str, str]) -> dict[str, Any]:
        """Set one item."""
        if len(body) != 1:
            raise Invalid("Request body contains too many items")
        if key not in body:
            raise Invalid("Request body and URI mismatch")
        await self.db.run(server_metadata.merge, call.caller, server_id, body)
        return {"meta": body}

    @routes.delete("/servers/<server_id>/metadata/<key>", policy="compute:servers:metadata")
    async def delete(self, call: Call, server_id: str, key: str) -> None:
        """Delete one item."""
        await self.db.run(server_metadata.remove, call.caller, server_id, key)


def _all(conn: Connection, call: Call, server_id: str) -> dict[str, str]:
    return dict(servers.visible(conn, call.caller, server_id).metadata)
