"""Grants of roles to users and groups, on projects, domains and the system. Reference: identity.md, section 6."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.identity import assignments, records
from cloudctl.identity.api.collection import listed
from cloudctl.identity.api.fields import unknown_as_foreign
from cloudctl.identity.api.roles import check_manageable, view
from cloudctl.identity.assignments import SYSTEM, Actor, Target
from cloudctl.identity.tables import Role
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

F = TypeVar("F", bound=Callable[..., Any])

ROUTES = Routes("Grants")
ACTORS = ("users/<user_id>", "groups/<group_id>")
TARGETS = ("projects/<project_id>", "domains/<domain_id>")
INHERITED = "/OS-INHERIT"


def everywhere(method: str, suffix: str, name: str, **options: Any) -> Callable[[F], F]:
    """The same handler for users and groups, on projects, on domains, inherited to their projects, and on the system.

    `name`: the rule's, with a placeholder for «_system».
    """

    def record(handler: F) -> F:
        for actor in ACTORS:
            for target in TARGETS:
                path = f"/{target}/{actor}/roles{suffix}"
                for each in (path, f"{INHERITED}{path}/inherited_to_projects"):
                    ROUTES.route(method, each, policy=f"identity:{name.format('')}", **options)(handler)
            path = f"/system/{actor}/roles{suffix}"
            ROUTES.route(method, path, policy=f"identity:{name.format('_system')}", **options)(handler)
        return handler

    return record


def actor_of(where: dict[str, str]) -> Actor:
    return Actor("user", where["user_id"]) if "user_id" in where else Actor("group", where["group_id"])


def target_of(call: Call, where: dict[str, str]) -> Target:
    inherited = call.path.startswith(f"/v3{INHERITED}/")
    if "project_id" in where:
        return Target("project", where["project_id"], inherited)
    if "domain_id" in where:
        return Target("domain", where["domain_id"], inherited)
    return SYSTEM


@frozen
class Grants:
    db: Database

    routes = ROUTES

    @everywhere("GET", "", "list{}_grants")
    async def list(self, call: Call, **where: str) -> dict[str, Any]:
        """List the roles that were granted directly"""
        return listed(call, "roles", await self.db.scan(self._list, call, where))

    def _list(self, conn: Connection, call: Call, where: dict[str, str]) -> Any:
        actor, target = self._checked(conn, call, where)
        return [view(call, role) for role in assignments.granted(conn, actor, target)]

    @everywhere("GET", "/<role_id>", "check{}_grant", status=204)
    async def check(self, call: Call, role_id: str, **where: str) -> None:
        """Check whether a role was granted"""
        await self.db.read(self._check, call, role_id, where)

    def _check(self, conn: Connection, call: Call, role_id: str, where: dict[str, str]) -> None:
        actor, target = self._checked(conn, call, where)
        if not assignments.is_granted(conn, actor, target, role_id):
            raise records.not_found("role assignment", role_id)

    @everywhere("PUT", "/<role_id>", "create{}_grant", status=204)
    async def create(self, call: Call, role_id: str, **where: str) -> None:
        """Grant a role"""
        await self.db.run(self._change, call, assignments.grant, role_id, where)

    @everywhere("DELETE", "/<role_id>", "revoke{}_grant", status=204)
    async def revoke(self, call: Call, role_id: str, **where: str) -> None:
        """Revoke a role"""
        await self.db.run(self._change, call, assignments.revoke, role_id, where)

    def _change(self, conn: Connection, call: Call, act: Any, role_id: str, where: dict[str, str]) -> None:
        actor, target = self._checked(conn, call, where)
        if target.kind != "system":
            check_manageable(call, records.find(conn, Role, role_id))
        act(conn, actor, target, role_id)

    def _checked(self, conn: Connection, call: Call, where: dict[str, str]) -> tuple[Actor, Target]:
        """For a domain's reader or manager both the actor and the target must be in the domain."""
        actor, target = actor_of(where), target_of(call, where)
        if target.kind == "system":
            assignments.actor_domain(conn, actor)
            return actor, target
        with unknown_as_foreign(call):
            domain_id = assignments.target_domain(conn, target)
        call.require(domain_id=domain_id)
        with unknown_as_foreign(call):
            domain_id = assignments.actor_domain(conn, actor)
        call.require(domain_id=domain_id)
        return actor, target
