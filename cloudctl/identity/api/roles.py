"""/roles. Reference: identity.md, section 6."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden
from cloudctl.identity import records, roles
from cloudctl.identity.api.collection import link, page, paged
from cloudctl.identity.api.fields import Description, Id, Immutable, changes
from cloudctl.identity.records import check_id
from cloudctl.identity.tables import Role
from cloudctl.rest.body import MISSING, Body, Missing, Name, extra
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Page
from cloudctl.rest.route import Routes


@frozen
class CreateRole:
    name: Name
    domain_id: Id | Missing | None = MISSING
    description: Description | Missing | None = MISSING
    options: Immutable | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class UpdateRole:
    name: Name | Missing = MISSING
    domain_id: Id | Missing | None = MISSING
    description: Description | Missing | None = MISSING
    options: Immutable | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class Roles:
    db: Database

    routes = Routes("Roles")

    @routes.get("/roles", policy="identity:list_roles", query=(*roles.LISTING.filters, "domain_id"))
    async def list(self, call: Call) -> dict[str, Any]:
        """List the roles of the cloud, or of a domain"""
        return paged(call, "roles", await self.db.scan(self._list, call), view)

    def _list(self, conn: Connection, call: Call) -> Page:
        where: Any = [Role.domain_id == (call.query.get("domain_id") or "")]
        if not call.may("identity:use_all_roles"):
            where.append(Role.name.in_(roles.MANAGEABLE))
        return page(conn, call, roles.LISTING, *where)

    @routes.post("/roles", policy="identity:create_role", status=201, body=Body(CreateRole, key="role"))
    async def create(self, call: Call, body: CreateRole) -> dict[str, Any]:
        """Create a role"""
        values = {**changes(body), "domain_id": body.domain_id or ""}
        values["options"] = records.merged_options({}, values.get("options", {}))
        return {"role": view(call, await self.db.run(roles.create, values, call.now))}

    @routes.get("/roles/<role_id>", policy="identity:get_role")
    async def show(self, call: Call, role_id: str) -> dict[str, Any]:
        """Show a role"""
        row = await self.db.read(roles.get, role_id)
        check_manageable(call, row)
        return {"role": view(call, row)}

    @routes.patch("/roles/<role_id>", policy="identity:update_role", body=Body(UpdateRole, key="role"))
    async def update(self, call: Call, role_id: str, body: UpdateRole) -> dict[str, Any]:
        """Change a role"""
        check_id(body.extra, role_id)
        return {"role": view(call, await self.db.run(roles.change, role_id, changes(body)))}

    @routes.delete("/roles/<role_id>", policy="identity:delete_role")
    async def delete(self, call: Call, role_id: str) -> None:
        """Delete a role"""
        await self.db.run(roles.remove, role_id)


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
        """Let a role imply another"""
        return one(call, *await self.db.run(roles.imply, prior_id, implied_id))

    @routes.delete("/roles/<prior_id>/implies/<implied_id>", policy="identity:delete_implied_role")
    async def delete(self, call: Call, prior_id: str, implied_id: str) -> None:
        """Let a role no longer imply another"""
        await self.db.run(roles.no_longer_imply, prior_id, implied_id)

    @routes.get("/role_inferences", policy="identity:list_role_inference_rules")
    async def inferences(self, call: Call) -> dict[str, Any]:
        """List all implications"""
        found = await self.db.scan(roles.inferences)
        return {
            "role_inferences": [inference(call, prior, implied) for prior, implied in found],
            "links": {"self": call.url, "previous": None, "next": None},
        }


def check_manageable(call: Call, role: Role) -> None:
    """A domain's manager sees and gives away three roles only. Raises Forbidden."""
    if call.may("identity:use_all_roles"):
        return
    if role.domain_id or role.name not in roles.MANAGEABLE:
        raise Forbidden("You are not authorized to use this role.")


def view(call: Call, row: Role) -> dict[str, Any]:
    return {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id or None,
        "description": row.description,
        "options": row.options,
        "links": link(call, "roles", row.id),
    }


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
