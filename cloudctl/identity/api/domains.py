"""/domains. Reference: identity.md, section 4."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.identity import domains, projects, records
from cloudctl.identity.api.collection import link, page, paged
from cloudctl.identity.api.fields import Description, Immutable, ProjectTitle, changes
from cloudctl.identity.api.projects import Tags
from cloudctl.identity.records import check_id
from cloudctl.identity.tables import Project
from cloudctl.rest.body import MISSING, Body, Missing, Pattern, extra
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, Page
from cloudctl.rest.route import Routes

ExplicitId = Annotated[str, Pattern("[0-9a-fA-F]{32}", "32 hexadecimal digits")]


@frozen
class CreateDomain:
    name: ProjectTitle
    description: Description | Missing | None = MISSING
    enabled: bool | Missing = MISSING
    tags: Tags | Missing = MISSING
    options: Immutable | Missing = MISSING
    explicit_domain_id: ExplicitId | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class UpdateDomain:
    name: ProjectTitle | Missing = MISSING
    description: Description | Missing | None = MISSING
    enabled: bool | Missing = MISSING
    tags: Tags | Missing = MISSING
    options: Immutable | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class Domains:
    db: Database

    routes = Routes("Domains")

    @routes.get("/domains", policy="identity:list_domains", query=tuple(domains.LISTING.filters))
    async def list(self, call: Call) -> dict[str, Any]:
        """List domains"""
        return await self.db.scan(self._list, call)

    def _list(self, conn: Connection, call: Call) -> dict[str, Any]:
        where: list[Condition] = [Project.is_domain.is_(True)]
        if call.identity.domain_id:
            where.append(Project.id == call.identity.domain_id)
        found: Page = page(conn, call, domains.LISTING, *where)
        tags = projects.tags(conn, [row.id for row in found.rows])
        return paged(call, "domains", found, lambda call, row: view(call, row, tags[row.id]))

    @routes.post("/domains", policy="identity:create_domain", status=201, body=Body(CreateDomain, key="domain"))
    async def create(self, call: Call, body: CreateDomain) -> dict[str, Any]:
        """Create a domain"""
        return {"domain": await self.db.run(self._create, call, body)}

    def _create(self, conn: Connection, call: Call, body: CreateDomain) -> dict[str, Any]:
        values = changes(body)
        values["description"] = body.description or ""
        values["options"] = records.merged_options({}, values.get("options", {}))
        tags = values.pop("tags", [])
        explicit = values.pop("explicit_domain_id", None)
        if explicit is not None:
            values["id"] = explicit
        row = domains.create(conn, values, call.now)
        projects.set_tags(conn, row.id, tags)
        return self._shown(conn, call, row)

    @routes.get("/domains/<domain_id>", policy="identity:get_domain")
    async def show(self, call: Call, domain_id: str) -> dict[str, Any]:
        """Show a domain"""
        own = (call.identity.domain_id, call.identity.project_domain_id, call.identity.user_domain_id)
        if domain_id not in own:
            call.require("identity:get_foreign_domain")
        return {"domain": await self.db.read(self._show, call, domain_id)}

    def _show(self, conn: Connection, call: Call, domain_id: str) -> dict[str, Any]:
        return self._shown(conn, call, domains.get(conn, domain_id))

    @routes.patch("/domains/<domain_id>", policy="identity:update_domain", body=Body(UpdateDomain, key="domain"))
    async def update(self, call: Call, domain_id: str, body: UpdateDomain) -> dict[str, Any]:
        """Change a domain"""
        check_id(body.extra, domain_id)
        return {"domain": await self.db.run(self._update, call, domain_id, changes(body))}

    def _update(self, conn: Connection, call: Call, domain_id: str, values: dict[str, Any]) -> dict[str, Any]:
        tags = values.get("tags")
        row = domains.change(conn, domain_id, {name: values[name] for name in values if name != "tags"}, call.now)
        if tags is not None:
            projects.set_tags(conn, domain_id, tags)
        return self._shown(conn, call, row)

    @routes.delete("/domains/<domain_id>", policy="identity:delete_domain")
    async def delete(self, call: Call, domain_id: str) -> None:
        """Delete a domain and everything in it"""
        await self.db.run(domains.remove, domain_id)

    def _shown(self, conn: Connection, call: Call, row: Project) -> dict[str, Any]:
        return view(call, row, projects.tags(conn, [row.id])[row.id])


def view(call: Call, row: Project, tags: Any) -> dict[str, Any]:
    return {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "enabled": row.enabled,
        "tags": tags,
        "options": row.options,
        "links": link(call, "domains", row.id),
    }
