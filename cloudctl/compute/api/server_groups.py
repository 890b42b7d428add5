"""Server groups. Reference: compute.md, section 12."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import field, frozen

from cloudctl.compute import groups, servers
from cloudctl.compute.api import gates, query
from cloudctl.compute.api.server_bodies import ServerName
from cloudctl.compute.groups import NewGroup
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.tables import ServerGroup
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.placement.wishes import ANTI_AFFINITY, SOFT_AFFINITY, SOFT_ANTI_AFFINITY
from cloudctl.rest.body import Body, BodyError, Items, LooseInt, Missing, Problem, Range, gated
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.standing import shown
from cloudctl.rest.versions import since, until
from cloudctl.rest.views import Fields

Policy = Literal["anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"]
SOFT = (SOFT_AFFINITY, SOFT_ANTI_AFFINITY)
QUERY = ("all_projects", "limit", "offset")


@frozen
class Rules:
    max_server_per_host: Annotated[LooseInt, Range(1)] | Missing = gated(since(2, 64))


@frozen
class CreateGroup:
    """Until 2.63 a list of one policy, then the policy with its rules."""

    name: ServerName
    policies: Annotated[list[Policy], Items(1, 1)] | Missing = gated(until(2, 63))
    policy: Policy | Missing = gated(since(2, 64))
    rules: Rules | Missing = gated(since(2, 64))


LATER = Fields[[ServerGroup]](
    "a server group",
    {
        "policies": (until(2, 63), lambda group: [group.policy]),
        "metadata": (until(2, 63), lambda group: {}),
        "policy": (since(2, 64), lambda group: group.policy),
        "rules": (since(2, 64), lambda group: group.rules),
        "project_id": (since(2, 13), lambda group: group.project_id),
        "user_id": (since(2, 13), lambda group: group.user_id),
    },
)


def view(call: Call, row: ServerGroup, members: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"id": row.id, "name": row.name, "members": members}
    return found | LATER.of(call.version, row)


@frozen
class ServerGroups:
    routes = Routes("Server groups")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get("/os-server-groups", policy="compute:groups:list", query=QUERY)
    async def list(self, call: Call) -> dict[str, Any]:
        """List server groups."""
        query.only(call, QUERY)
        limit, offset = query.offset_page(call, self.options)
        return {"server_groups": await self.db.scan(_page, call, limit, offset)}

    @routes.post("/os-server-groups", policy="compute:groups:create", body=Body(CreateGroup, key="server_group"))
    async def create(self, call: Call, body: CreateGroup) -> dict[str, Any]:
        """Create a server group."""
        policy, rules = _policy(call, body)
        row = await self.db.run(groups.create, call.caller, NewGroup(body.name, policy, rules))
        return {"server_group": view(call, row, [])}

    @routes.get("/os-server-groups/<group_id>", policy="compute:groups:show")
    async def show(self, call: Call, group_id: str) -> dict[str, Any]:
        """Show one server group with its servers."""
        row, members = await self.db.scan(_one, call, group_id)
        return {"server_group": view(call, row, members)}

    @routes.delete("/os-server-groups/<group_id>", policy="compute:groups:delete")
    async def delete(self, call: Call, group_id: str) -> None:
        """Delete a server group; its servers stay."""
        await self.db.run(groups.remove, call.caller, group_id)


def _policy(call: Call, body: CreateGroup) -> tuple[str, dict[str, int]]:
    """Raises BodyError, Invalid."""
    new = call.version in gates.GROUP_POLICY
    policy = body.policy if new else body.policies[0] if body.policies else None
    if not policy:
        name = "policy" if new else "policies"
        raise BodyError([Problem("$.server_group", f"'{name}' is a required property", "required")])
    if policy in SOFT and call.version not in gates.SOFT_POLICIES:
        raise BodyError([Problem("$.server_group.policies", f"{shown(policy)} is not one of the policies")])
    most = body.rules.max_server_per_host if body.rules else None
    if body.rules and most and policy != ANTI_AFFINITY:
        raise Invalid("Only anti-affinity policy supports rules.")
    return policy, {"max_server_per_host": most} if most else {}


def _page(conn: Connection, call: Call, limit: int, offset: int) -> list[dict[str, Any]]:
    everyone = "all_projects" in call.query and call.may(servers.ALL_PROJECTS)
    rows = groups.page(conn, call.caller, everyone, limit, offset)
    members = servers.members(conn, [row.id for row in rows])
    return [view(call, row, members[row.id]) for row in rows]


def _one(conn: Connection, call: Call, group_id: str) -> tuple[ServerGroup, list[str]]:
    row = groups.visible(conn, call.caller, group_id)
    return row, servers.members(conn, [row.id])[row.id]
