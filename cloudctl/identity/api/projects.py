"""/projects and their tags. Reference: identity.md, section 4."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.identity import domains, projects, reachable, records
from cloudctl.identity.api.collection import link, page, paged
from cloudctl.identity.api.fields import (
    Description,
    Id,
    Immutable,
    ProjectTitle,
    changes,
    domain_of,
    unknown_as_foreign,
)
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.records import check_id
from cloudctl.identity.tables import Project
from cloudctl.rest.body import MISSING, Body, Items, Length, Missing, Pattern, extra
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

Tag = Annotated[str, Length(1, 255), Pattern(r"[^,/]*", "a tag without ',' or '/'")]
Tags = Annotated[list[Tag], Items(0, projects.MOST_TAGS)]


@frozen
class CreateProject:
    name: ProjectTitle
    domain_id: Id | Missing | None = MISSING
    parent_id: Id | Missing | None = MISSING
    is_domain: bool | Missing = MISSING
    enabled: bool | Missing = MISSING
    description: Description | Missing | None = MISSING
    tags: Tags | Missing = MISSING
    options: Immutable | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class UpdateProject:
    name: ProjectTitle | Missing = MISSING
    domain_id: Id | Missing | None = MISSING
    parent_id: Id | Missing | None = MISSING
    is_domain: bool | Missing = MISSING
    enabled: bool | Missing = MISSING
    description: Description | Missing | None = MISSING
    tags: Tags | Missing = MISSING
    options: Immutable | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class Projects:
    db: Database
    options: IdentityOptions

    routes = Routes("Projects")

    @routes.get("/projects", policy="identity:list_projects", query=tuple(projects.FILTERS))
    async def list(self, call: Call) -> dict[str, Any]:
        """List projects"""
        return await self.db.scan(self._list, call)

    def _list(self, conn: Connection, call: Call) -> dict[str, Any]:
        where: Any = [] if "is_domain" in call.query else [Project.is_domain.is_(False)]
        if call.identity.domain_id:
            where.append(Project.domain_id == call.identity.domain_id)
        found = page(conn, call, projects.LISTING, *where)
        shown = {one["id"]: one for one in views(conn, call, found.rows)}
        return paged(call, "projects", found, lambda _, row: shown[row.id])

    @routes.post("/projects", policy="identity:create_project", status=201, body=Body(CreateProject, key="project"))
    async def create(self, call: Call, body: CreateProject) -> dict[str, Any]:
        """Create a project"""
        if body.is_domain:
            call.require()
            call.require("identity:create_domain")
            return {"project": await self.db.run(self._create_domain, call, body)}
        return {"project": await self.db.run(self._create, call, body)}

    def _create_domain(self, conn: Connection, call: Call, body: CreateProject) -> dict[str, Any]:
        if body.domain_id or body.parent_id:
            raise Invalid("A domain cannot have a domain_id or a parent_id.")
        names = ("name", "enabled", "options", "extra")
        values = {name: value for name, value in changes(body).items() if name in names}
        values["description"] = body.description or ""
        values["options"] = records.merged_options({}, values.get("options", {}))
        row = domains.create(conn, values, call.now)
        projects.set_tags(conn, row.id, body.tags or [])
        return one_view(conn, call, row)

    def _create(self, conn: Connection, call: Call, body: CreateProject) -> dict[str, Any]:
        values = changes(body)
        values.pop("is_domain", None)
        domain_id = body.domain_id or None
        if body.parent_id and domain_id is None:
            with unknown_as_foreign(call):
                parent = projects.get(conn, body.parent_id)
            domain_id = parent.domain_id or parent.id
        values["domain_id"] = domain_of(call, domain_id)
        values["parent_id"] = body.parent_id or ""
        values["description"] = body.description or ""
        values["options"] = records.merged_options({}, values.get("options", {}))
        call.require(domain_id=values["domain_id"])
        if body.parent_id:
            required(conn, call, body.parent_id)
        row = projects.create(conn, values, call.now, most_depth=self.options.maximum_project_depth)
        return one_view(conn, call, row)

    @routes.get(
        "/projects/<project_id>",
        policy="identity:get_project",
        query=("parents_as_list", "subtree_as_list", "parents_as_ids", "subtree_as_ids"),
    )
    async def show(self, call: Call, project_id: str) -> dict[str, Any]:
        """Show a project"""
        return {"project": await self.db.read(self._show, call, project_id)}

    def _show(self, conn: Connection, call: Call, project_id: str) -> dict[str, Any]:
        shown = one_view(conn, call, self._required(conn, call, project_id))
        wanted = {name for name in RELATIVES if call.query.flag(name)}
        for kind in ("parents", "subtree"):
            if {f"{kind}_as_list", f"{kind}_as_ids"} <= wanted:
                raise Invalid(f"Specify either {kind}_as_list or {kind}_as_ids, not both.")
        above = projects.parents(conn, project_id)
        below = projects.children(conn, project_id) if wanted & {"subtree_as_list", "subtree_as_ids"} else {}
        if "parents_as_ids" in wanted:
            shown["parents"] = chain(above)
        if "subtree_as_ids" in wanted:
            shown["subtree"] = none_if_empty(below)
        if "parents_as_list" in wanted:
            shown["parents"] = self._own(conn, call, above)
        if "subtree_as_list" in wanted:
            shown["subtree"] = self._own(conn, call, flat(below))
        return shown

    def _own(self, conn: Connection, call: Call, ids: Iterable[str]) -> Any:
        """Those in which the caller has a role, in the same order."""
        mine = {row.id: row for row in reachable.projects_of(conn, call.user_id)}
        rows = [mine[id] for id in ids if id in mine]
        return [{"project": one} for one in views(conn, call, rows)]

    @routes.patch("/projects/<project_id>", policy="identity:update_project", body=Body(UpdateProject, key="project"))
    async def update(self, call: Call, project_id: str, body: UpdateProject) -> dict[str, Any]:
        """Change a project"""
        check_id(body.extra, project_id)
        return {"project": await self.db.run(self._update, call, project_id, changes(body))}

    def _update(self, conn: Connection, call: Call, project_id: str, values: dict[str, Any]) -> dict[str, Any]:
        if self._required(conn, call, project_id).is_domain:
            call.require("identity:update_domain")
        return one_view(conn, call, projects.change(conn, project_id, values, call.now))

    @routes.delete("/projects/<project_id>", policy="identity:delete_project")
    async def delete(self, call: Call, project_id: str) -> None:
        """Delete a project"""
        await self.db.run(self._delete, call, project_id)

    def _delete(self, conn: Connection, call: Call, project_id: str) -> None:
        if self._required(conn, call, project_id).is_domain:
            call.require("identity:delete_domain")
            domains.remove(conn, project_id)
        else:
            projects.remove(conn, project_id)

    def _required(self, conn: Connection, call: Call, project_id: str) -> Project:
        return required(conn, call, project_id)


RELATIVES = ("parents_as_list", "subtree_as_list", "parents_as_ids", "subtree_as_ids")


def required(conn: Connection, call: Call, project_id: str) -> Project:
    """The project, if the Operation's rule allows it for the project's domain."""
    with unknown_as_foreign(call):
        row = projects.get(conn, project_id)
    call.require(domain_id=row.domain_id or row.id, project_id=row.id)
    return row


def chain(ids: Iterable[str]) -> dict[str, Any] | None:
    """Nearest first: `{parent: {grandparent: null}}`."""
    found: dict[str, Any] | None = None
    for id in reversed(list(ids)):
        found = {id: found}
    return found


def none_if_empty(tree: dict[str, Any]) -> dict[str, Any] | None:
    return {id: none_if_empty(below) for id, below in tree.items()} or None


def flat(tree: dict[str, Any]) -> Iterable[str]:
    for id, below in tree.items():
        yield id
        yield from flat(below)


def views(conn: Connection, call: Call, rows: Iterable[Project]) -> Any:
    """In the order of `rows`."""
    rows = list(rows)
    tags = projects.tags(conn, [row.id for row in rows])
    return [view(call, row, tags[row.id]) for row in rows]


def one_view(conn: Connection, call: Call, row: Project) -> dict[str, Any]:
    return view(call, row, projects.tags(conn, [row.id])[row.id])


def view(call: Call, row: Project, tags: Any) -> dict[str, Any]:
    return {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id or None,
        "parent_id": row.parent_id or None,
        "is_domain": row.is_domain,
        "enabled": row.enabled,
        "description": row.description,
        "tags": tags,
        "options": row.options,
        "links": link(call, "projects", row.id),
    }
