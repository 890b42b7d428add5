"""/roles. Reference: identity.md, section 6."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden
from cloudctl.identity import records, roles
from cloudctl.identity.api.collection import link
from cloudctl.identity.api.fields import Description, Id, Immutable
from cloudctl.identity.api.resource import Declared, linked
from cloudctl.identity.records import text_filters
from cloudctl.identity.tables import Role
from cloudctl.rest.body import MISSING, Name
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, equals
from cloudctl.rest.resource import REQUIRED, Attribute, Json, of_each
from cloudctl.rest.route import Routes


def create(conn: Connection, call: Call, values: Json) -> Role:
    options = records.merged_options({}, values.get("options", {}))
    return roles.create(conn, {**values, "domain_id": values.get("domain_id") or "", "options": options}, call.now)


def change(conn: Connection, call: Call, role_id: str, changes: Json) -> Role:
    return roles.change(conn, role_id, changes)


def remove(conn: Connection, call: Call, role_id: str) -> None:
    roles.remove(conn, role_id)


def visible(call: Call) -> list[Condition]:
    """The roles of the cloud, unless a domain is named; for a domain's manager those that may be given away."""
    found = [] if "domain_id" in call.query else [Role.domain_id == ""]
    if not call.may("identity:use_all_roles"):
        found += [Role.name.in_(roles.MANAGEABLE), Role.domain_id == ""]
    return found


def check_manageable(call: Call, role: Role | None) -> None:
    """A domain's manager sees and gives away only three roles. None: there is no such role. Raises Forbidden."""
    if call.may("identity:use_all_roles"):
        return
    if role is None or role.domain_id or role.name not in roles.MANAGEABLE:
        raise Forbidden("You are not authorized to use this role.")


ROLES = Declared(
    name="role",
    record=Role,
    attributes=(
        Attribute("id", Role.id, sort=True),
        Attribute("name", Role.name, Name, post=REQUIRED, put=True, sort=True),
        Attribute(
            "domain_id",
            Role.domain_id,
            Id | None,
            post=MISSING,
            put=True,
            filter=equals,
            view=of_each(lambda role: role.domain_id or None),
        ),
        Attribute("description", Role.description, Description | None, post=MISSING, put=True),
        Attribute("options", Role.options, Immutable, post=MISSING, put=True),
        Attribute("created_at", Role.created_at, sort=True, view=None),
        linked("roles"),
    ),
    filters=text_filters("name", Role.name),
    create=create,
    change=change,
    remove=remove,
    visible=visible,
    check_visible=check_manageable,
    says={"list": "List the roles of the cloud, or of a domain"},
)


@frozen
class ImpliedRoles:
    db: Database

    routes = Routes("Implied roles")

    @routes.get("/roles/<prior_id>/implies", policy="identity:list_implied_roles")
    async def list(self, call: Call, prior_id: str) -> dict[str, Any]:
        """List the roles that a role implies"""
        return await self.db.scan(self._list, call, prior_id)

    def _list(self, conn: Connection, call: Call, prior_id: str) -> dict[str, Any]:
        return {
            "role_inference": inference(call, roles.get(conn, prior_id), roles.implies(conn, prior_id)),
            "links": {"self": call.url, "previous": None, "next": None},
        }

    @routes.get("/roles/<prior_id>/implies/<implied_id>", policy="identity:get_implied_role")
    async def show(self, call: Call, prior_id: str, implied_id: str) -> dict[str, Any]:
        """Show that a role implies another"""
        return one(call, *await self.db.read(roles.inference, prior_id, implied_id))

    @routes.head("/roles/<prior_id>/implies/<implied_id>", policy="identity:get_implied_role", status=204)
    async def check(self, call: Call, prior_id: str, implied_id: str) -> None:
        """Check whether a role implies another"""
        await self.db.read(roles.inference, prior_id, implied_id)

    @routes.put("/roles/<prior_id>/implies/<implied_id>", policy="identity:create_implied_role", status=201)
    async def create(self, call: Call, prior_id: str, implied_id: str) -> dict[str, Any]:
        """Make a role imply another"""
        return one(call, *await self.db.run(roles.imply, prior_id, implied_id))

    @routes.delete("/roles/<prior_id>/implies/<implied_id>", policy="identity:delete_implied_role")
    async def delete(self, call: Call, prior_id: str, implied_id: str) -> None:
        """Stop a role from implying another"""
        await self.db.run(roles.no_longer_imply, prior_id, implied_id)

    @routes.get("/role_inferences", policy="identity:list_role_inference_rules")
    async def inferences(self, call: Call) -> dict[str, Any]:
        """List all implications"""
        found = await self.db.scan(roles.inferences)
        return {
            "role_inferences": [inference(call, prior, implied) for prior, implied in found],
            "links": {"self": call.url, "previous": None, "next": None},
        }


def view(call: Call, row: Role) -> dict[str, Any]:
    return {**row.extra, **brief(call, row)}


def brief(call: Call, row: Role) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id or None,
        "description": row.description,
        "options": row.options,
        "links": link(call, "roles", row.id),
    }


def inference(call: Call, prior: Role, implied: Any) -> dict[str, Any]:
    return {"prior_role": brief(call, prior), "implies": [brief(call, role) for role in implied]}


def one(call: Call, prior: Role, implied: Role) -> dict[str, Any]:
    return {
        "role_inference": {"prior_role": brief(call, prior), "implies": brief(call, implied)},
        "links": {"self": call.url},
    }
