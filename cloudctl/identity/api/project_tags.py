"""/projects/{id}/tags. Reference: identity.md, section 4."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.identity import projects, records
from cloudctl.identity.api.collection import listed
from cloudctl.identity.api.projects import Tags, required
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


@frozen
class NewTags:
    tags: Tags


@frozen
class ProjectTags:
    db: Database

    routes = Routes("Project tags")

    @routes.get("/projects/<project_id>/tags", policy="identity:list_project_tags")
    async def list(self, call: Call, project_id: str) -> dict[str, Any]:
        """List the tags of a project"""
        return listed(call, "tags", await self.db.read(self._tags, call, project_id))

    def _tags(self, conn: Connection, call: Call, project_id: str) -> Any:
        required(conn, call, project_id)
        return projects.tags(conn, [project_id])[project_id]

    @routes.put("/projects/<project_id>/tags", policy="identity:update_project_tags", body=Body(NewTags))
    async def replace(self, call: Call, project_id: str, body: NewTags) -> dict[str, Any]:
        """Replace the tags of a project"""
        return listed(call, "tags", await self.db.run(self._replace, call, project_id, body.tags))

    def _replace(self, conn: Connection, call: Call, project_id: str, names: Any) -> Any:
        self._hold(conn, call, project_id)
        projects.set_tags(conn, project_id, names)
        return projects.tags(conn, [project_id])[project_id]

    @routes.delete("/projects/<project_id>/tags", policy="identity:delete_project_tags")
    async def clear(self, call: Call, project_id: str) -> None:
        """Remove all tags from a project"""
        await self.db.run(self._replace, call, project_id, [])

    @routes.get("/projects/<project_id>/tags/<tag>", policy="identity:get_project_tag", status=204)
    async def check(self, call: Call, project_id: str, tag: str) -> None:
        """Check whether a project has a tag"""
        if tag not in await self.db.read(self._tags, call, project_id):
            raise records.not_found("project tag", tag)

    @routes.put("/projects/<project_id>/tags/<tag>", policy="identity:create_project_tag", status=201)
    async def add(self, call: Call, project_id: str, tag: str) -> None:
        """Add a tag to a project"""
        if len(tag) > 255 or "," in tag:
            raise Invalid("A tag must be at most 255 characters long and must not contain a comma.")
        await self.db.run(self._add, call, project_id, tag)

    def _add(self, conn: Connection, call: Call, project_id: str, tag: str) -> None:
        self._hold(conn, call, project_id)
        projects.add_tag(conn, project_id, tag)

    @routes.delete("/projects/<project_id>/tags/<tag>", policy="identity:delete_project_tag")
    async def remove(self, call: Call, project_id: str, tag: str) -> None:
        """Remove a tag from a project"""
        await self.db.run(self._remove, call, project_id, tag)

    def _remove(self, conn: Connection, call: Call, project_id: str, tag: str) -> None:
        self._hold(conn, call, project_id)
        if not projects.remove_tag(conn, project_id, tag):
            raise records.not_found("project tag", tag)

    def _hold(self, conn: Connection, call: Call, project_id: str) -> None:
        """Lock what the caller may change."""
        if required(conn, call, project_id).is_domain:
            call.require("identity:update_domain")
        projects.hold(conn, project_id)
