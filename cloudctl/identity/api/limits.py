"""/registered_limits and /limits. Reference: identity.md, section 10."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.identity import limits, records
from cloudctl.identity.api.collection import link, listed, page, paged
from cloudctl.identity.api.fields import Description, Id, changes, unknown_as_foreign
from cloudctl.identity.tables import ProjectLimit, RegisteredLimit
from cloudctl.rest.body import MISSING, Body, Items, Length, Missing, Name, Range
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Page
from cloudctl.rest.route import Routes

Amount = Annotated[int, Range(-1)]
RegionId = Annotated[str, Length(1, 255)]


@frozen
class CreateRegistered:
    service_id: Id
    resource_name: Name
    default_limit: Amount
    region_id: RegionId | Missing | None = MISSING
    description: Description | Missing | None = MISSING


@frozen
class UpdateRegistered:
    service_id: Id | Missing = MISSING
    resource_name: Name | Missing = MISSING
    default_limit: Amount | Missing = MISSING
    region_id: RegionId | Missing | None = MISSING
    description: Description | Missing | None = MISSING


NewRegistered = Annotated[list[CreateRegistered], Items(1, 1000)]


@frozen
class RegisteredLimits:
    db: Database

    routes = Routes("Registered limits")

    @routes.get("/registered_limits", policy="identity:list_registered_limits", query=limits.KEY)
    async def list(self, call: Call) -> dict[str, Any]:
        """List registered limits"""
        return paged(call, "registered_limits", await self.db.scan(self._list, call), registered_view)

    def _list(self, conn: Connection, call: Call) -> Page:
        return page(conn, call, limits.REGISTERED)

    @routes.post(
        "/registered_limits",
        policy="identity:create_registered_limits",
        status=201,
        body=Body(NewRegistered, key="registered_limits"),
    )
    async def create(self, call: Call, body: Any) -> dict[str, Any]:
        """Register limits, all of them or none"""
        return listed(call, "registered_limits", await self.db.run(self._create, call, body))

    def _create(self, conn: Connection, call: Call, body: Any) -> Any:
        values = [{**changes(one), "region_id": one.region_id or ""} for one in body]
        made = limits.create_all(conn, limits.create_registered, values, call.now)
        return [registered_view(call, each) for each in made]

    @routes.get("/registered_limits/<limit_id>", policy="identity:get_registered_limit")
    async def show(self, call: Call, limit_id: str) -> dict[str, Any]:
        """Show a registered limit"""
        return {"registered_limit": registered_view(call, await self.db.read(limits.get_registered, limit_id))}

    @routes.patch(
        "/registered_limits/<limit_id>",
        policy="identity:update_registered_limit",
        body=Body(UpdateRegistered, key="registered_limit"),
    )
    async def update(self, call: Call, limit_id: str, body: UpdateRegistered) -> dict[str, Any]:
        """Change a registered limit"""
        values = changes(body)
        if "region_id" in values:
            values["region_id"] = values["region_id"] or ""
        row = await self.db.run(limits.change_registered, limit_id, values)
        return {"registered_limit": registered_view(call, row)}

    @routes.delete("/registered_limits/<limit_id>", policy="identity:delete_registered_limit")
    async def delete(self, call: Call, limit_id: str) -> None:
        """Delete a registered limit"""
        await self.db.run(limits.remove_registered, limit_id)


def registered_view(call: Call, row: RegisteredLimit) -> dict[str, Any]:
    return {
        "id": row.id,
        "service_id": row.service_id,
        "region_id": row.region_id or None,
        "resource_name": row.resource_name,
        "default_limit": row.default_limit,
        "description": row.description,
        "links": link(call, "registered_limits", row.id),
    }


@frozen
class CreateLimit:
    service_id: Id
    resource_name: Name
    resource_limit: Amount
    project_id: Id | Missing | None = MISSING
    domain_id: Id | Missing | None = MISSING
    region_id: RegionId | Missing | None = MISSING
    description: Description | Missing | None = MISSING


@frozen
class UpdateLimit:
    resource_limit: Amount | Missing = MISSING
    description: Description | Missing | None = MISSING


NewLimits = Annotated[list[CreateLimit], Items(1, 1000)]


@frozen
class Limits:
    db: Database

    routes = Routes("Limits")

    @routes.get("/limits/model", policy="identity:get_limit_model")
    async def model(self, call: Call) -> dict[str, Any]:
        """Show how the limits of nested projects relate"""
        return {"model": limits.MODEL}

    @routes.get("/limits", policy="identity:list_limits", query=tuple(limits.LIMITS.filters))
    async def list(self, call: Call) -> dict[str, Any]:
        """List the limits of the caller's project, or of the caller's domain and its projects, or all"""
        return await self.db.scan(self._list, call)

    def _list(self, conn: Connection, call: Call) -> dict[str, Any]:
        limit, identity, own = ProjectLimit, call.identity, []
        if not call.may("identity:list_all_limits"):
            mine = (limit.project_id == identity.project_id) & (limit.project_id != "")
            own = [mine | limits.are_of_domain(identity.domain_id)] if identity.domain_id else [mine]
        found = page(conn, call, limits.LIMITS, *own)
        registered = limits.registered_of(conn, found.rows)
        # One that is deleted between these two reads, with what it was registered by, is not there.
        left = [row for row in found.rows if row.registered_limit_id in registered]
        found = Page(left, found.more and bool(left))
        return paged(call, "limits", found, lambda call, row: view(call, row, registered[row.registered_limit_id]))

    @routes.post(
        "/limits",
        policy="identity:create_limits",
        status=201,
        body=Body(NewLimits, key="limits"),
    )
    async def create(self, call: Call, body: Any) -> dict[str, Any]:
        """Set limits of projects or domains, all of them or none"""
        return listed(call, "limits", await self.db.run(self._create, call, body))

    def _create(self, conn: Connection, call: Call, body: Any) -> Any:
        wanted = []
        for one in body:
            if bool(one.project_id) is bool(one.domain_id):
                raise Invalid("A limit has either 'project_id' or 'domain_id'.")
            empty = {name: getattr(one, name) or "" for name in ("project_id", "domain_id", "region_id")}
            wanted.append({**changes(one), **empty})
        rows = limits.create_all(conn, limits.create, wanted, call.now)
        registered = limits.registered_of(conn, rows)
        return [view(call, row, registered[row.registered_limit_id]) for row in rows]

    @routes.get("/limits/<limit_id>", policy="identity:get_limit")
    async def show(self, call: Call, limit_id: str) -> dict[str, Any]:
        """Show a limit"""
        return {"limit": await self.db.read(self._show, call, limit_id)}

    def _show(self, conn: Connection, call: Call, limit_id: str) -> dict[str, Any]:
        with unknown_as_foreign(call):
            row = limits.get(conn, limit_id)
        call.require(project_id=row.project_id, domain_id=row.domain_id or limits.domain_of(conn, row))
        return self._view(conn, call, row)

    @routes.patch("/limits/<limit_id>", policy="identity:update_limit", body=Body(UpdateLimit, key="limit"))
    async def update(self, call: Call, limit_id: str, body: UpdateLimit) -> dict[str, Any]:
        """Change a limit"""
        return {"limit": await self.db.run(self._update, call, limit_id, changes(body))}

    def _update(self, conn: Connection, call: Call, limit_id: str, values: dict[str, Any]) -> dict[str, Any]:
        return self._view(conn, call, limits.change(conn, limit_id, values))

    @routes.delete("/limits/<limit_id>", policy="identity:delete_limit")
    async def delete(self, call: Call, limit_id: str) -> None:
        """Delete a limit"""
        await self.db.run(limits.remove, limit_id)

    def _view(self, conn: Connection, call: Call, row: ProjectLimit) -> dict[str, Any]:
        registered = limits.registered_of(conn, [row]).get(row.registered_limit_id)
        if registered is None:
            # It was deleted, too, since the limit was read.
            raise records.not_found("limit", row.id)
        return view(call, row, registered)


def view(call: Call, row: ProjectLimit, registered: RegisteredLimit) -> dict[str, Any]:
    return {
        "id": row.id,
        "service_id": registered.service_id,
        "region_id": registered.region_id or None,
        "resource_name": registered.resource_name,
        "project_id": row.project_id or None,
        "domain_id": row.domain_id or None,
        "resource_limit": row.resource_limit,
        "description": row.description,
        "links": link(call, "limits", row.id),
    }
