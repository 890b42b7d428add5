"""The security groups of a server, as the compute API has always shown them. Reference: compute.md, section 8.6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from attrs import frozen

from cloudctl.compute import security_groups as of_servers
from cloudctl.compute.api import security_group_views as views
from cloudctl.compute.api.server_actions import PATH
from cloudctl.db import Connection, Database
from cloudctl.network import security_groups
from cloudctl.rest.body import Body, Length
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


@frozen
class Named:
    name: Annotated[str, Length(1, 255)]


@frozen
class ServerSecurityGroups:
    routes = Routes("Server security groups")

    db: Database

    @routes.get("/servers/<server_id>/os-security-groups", policy="compute:servers:show")
    async def list(self, call: Call, server_id: str) -> dict[str, Any]:
        """List the security groups of a server with their rules."""
        return {"security_groups": await self.db.scan(_list, call, server_id)}

    @routes.action(PATH, "addSecurityGroup", policy="compute:servers:security_groups", body=Body(Named))
    async def add(self, call: Call, server_id: str, body: Named) -> None:
        """Add a server to a security group."""
        await self.db.run(of_servers.add, call.caller, server_id, body.name)

    @routes.action(PATH, "removeSecurityGroup", policy="compute:servers:security_groups", body=Body(Named))
    async def remove(self, call: Call, server_id: str, body: Named) -> None:
        """Remove a server from a security group."""
        await self.db.run(of_servers.remove, call.caller, server_id, body.name)


def _list(conn: Connection, call: Call, server_id: str) -> Sequence[dict[str, Any]]:
    found = security_groups.by_ids(conn, of_servers.of_server(conn, call.caller, server_id))
    return views.groups(conn, sorted(found.values(), key=lambda row: (row.name, row.id)))
