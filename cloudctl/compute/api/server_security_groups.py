"""The security groups of a server, as the compute API has always shown them. Reference: compute.md, section 8.6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from attrs import frozen

from cloudctl.compute import security_groups as of_servers
from cloudctl.compute.api.server_actions import PATH
from cloudctl.db import Connection, Database
from cloudctl.network import security_groups
from cloudctl.network.tables import SecurityGroup, SecurityGroupRule
from cloudctl.rest.body import Body, Length
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

WITH_EVERY_PORT = ("tcp", "udp")
ANYWHERE = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}


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
        """Take a server out of a security group."""
        await self.db.run(of_servers.remove, call.caller, server_id, body.name)


def _list(conn: Connection, call: Call, server_id: str) -> Sequence[dict[str, Any]]:
    found = security_groups.by_ids(conn, of_servers.of_server(conn, call.caller, server_id))
    return groups(conn, sorted(found.values(), key=lambda row: (row.name, row.id)))


def groups(conn: Connection, rows: Sequence[SecurityGroup]) -> list[dict[str, Any]]:
    """As the compute API shows them: with the rules of what comes in, for it knew no others."""
    rules = security_groups.rules_of(conn, [row.id for row in rows])
    sources = (rule.remote_group_id for of_group in rules.values() for rule in of_group)
    known = security_groups.by_ids(conn, [id for id in sources if id is not None])
    return [
        {
            "id": row.id,
            "name": row.name,
            "description": row.description,
            "tenant_id": row.project_id,
            "rules": [rule_view(rule, known) for rule in rules.get(row.id, ()) if rule.direction == "ingress"],
        }
        for row in rows
    ]


def rule_view(rule: SecurityGroupRule, known: dict[str, SecurityGroup]) -> dict[str, Any]:
    """`known`: the groups that rules name, by their ids."""
    first, last = rule.port_range_min, rule.port_range_max
    if rule.protocol and first is None and last is None:
        first, last = (1, 65535) if rule.protocol in WITH_EVERY_PORT else (-1, -1)
    source: dict[str, Any] = {"group": {}, "ip_range": {}}
    if rule.remote_group_id is not None:
        group = known[rule.remote_group_id]
        source["group"] = {"name": group.name, "tenant_id": group.project_id}
    else:
        source["ip_range"] = {"cidr": rule.remote_ip_prefix or ANYWHERE[rule.ethertype]}
    return {
        "id": rule.id,
        "parent_group_id": rule.security_group_id,
        "ip_protocol": rule.protocol,
        "from_port": first,
        "to_port": last,
        **source,
    }
