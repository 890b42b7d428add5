"""/auth/projects, /auth/domains, /auth/system, /auth/catalog: what the caller's token may be exchanged for, or holds.

Reference: identity.md, «Other /auth calls».
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden
from cloudctl.identity import catalog, projects, reachable
from cloudctl.identity.api.collection import listed
from cloudctl.identity.api.domains import view as domain_view
from cloudctl.identity.api.projects import views as project_views
from cloudctl.identity.catalog import Viewer
from cloudctl.identity.catalogs import Catalogs
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


@frozen
class AuthScopes:
    db: Database
    catalogs: Catalogs
    instance_ha_url: str

    routes = Routes("Scopes of a token")

    @routes.get("/auth/projects", policy="identity:get_auth_projects")
    async def projects(self, call: Call) -> dict[str, Any]:
        """List the projects in which the caller has a role"""
        return listed(call, "projects", await self.db.scan(self._projects, call))

    def _projects(self, conn: Connection, call: Call) -> Any:
        if call.identity.delegated:
            # It cannot be exchanged for a token of another project.
            return project_views(conn, call, [projects.get(conn, call.project_id)])
        return project_views(conn, call, reachable.projects_of(conn, call.user_id))

    @routes.get("/auth/domains", policy="identity:get_auth_domains")
    async def domains(self, call: Call) -> dict[str, Any]:
        """List the domains on which the caller has a role"""
        return listed(call, "domains", await self.db.scan(self._domains, call))

    def _domains(self, conn: Connection, call: Call) -> Any:
        rows = [] if call.identity.delegated else reachable.domains_of(conn, call.user_id)
        tags = projects.tags(conn, [row.id for row in rows])
        return [domain_view(call, row, tags[row.id]) for row in rows]

    @routes.get("/auth/system", policy="identity:get_auth_system")
    async def system(self, call: Call) -> dict[str, Any]:
        """Show whether the caller has a role on the system"""
        found = not call.identity.delegated and await self.db.read(reachable.has_system, call.user_id)
        return {"system": [{"all": True}] if found else [], "links": {"self": call.url}}

    @routes.get("/auth/catalog", policy="identity:get_auth_catalog")
    async def catalog(self, call: Call) -> dict[str, Any]:
        """Show the catalog of the caller's project"""
        if not call.project_id:
            raise Forbidden("The catalog needs a token that is scoped to a project.")
        ha_url = catalog.instance_ha_url(call.host_url, self.instance_ha_url)
        found = await self.catalogs.json(Viewer(call.user_id, call.project_id, call.host_url, ha_url))
        return {"catalog": found, "links": {"self": call.url}}
