"""/OS-EP-FILTER: endpoint groups, and which endpoints a project sees. Reference: identity.md, section 9."""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen
from sqlalchemy import select

from cloudctl.db import Connection, Database
from cloudctl.identity import endpoint_filters as domain
from cloudctl.identity import projects, records, services
from cloudctl.identity.api.collection import listed
from cloudctl.identity.api.fields import Description, Id
from cloudctl.identity.api.projects import views as project_views
from cloudctl.identity.api.resource import Declared, linked
from cloudctl.identity.api.services import RegionId
from cloudctl.identity.tables import Endpoint, EndpointGroup, Project, ProjectEndpoint, ProjectEndpointGroup
from cloudctl.rest.body import MISSING, Missing, Name, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import equals
from cloudctl.rest.resource import REQUIRED, Attribute, Json
from cloudctl.rest.route import Routes

GROUPS = "/OS-EP-FILTER/endpoint_groups"
GROUP = f"{GROUPS}/<group_id>"
PROJECT = "/OS-EP-FILTER/projects/<project_id>"


@frozen
class Filters:
    service_id: Id | Missing = MISSING
    region_id: RegionId | Missing = MISSING
    interface: Literal["public", "internal", "admin"] | Missing = MISSING
    enabled: bool | Missing = MISSING


def create(conn: Connection, call: Call, values: Json) -> EndpointGroup:
    return domain.create(conn, {**values, "filters": given(values["filters"])}, call.now)


def change(conn: Connection, call: Call, group_id: str, changes: Json) -> EndpointGroup:
    if "filters" in changes:
        changes["filters"] = given(changes["filters"])
    return domain.change(conn, group_id, changes)


def remove(conn: Connection, call: Call, group_id: str) -> None:
    domain.remove(conn, group_id)


ENDPOINT_GROUPS = Declared(
    name="endpoint_group",
    record=EndpointGroup,
    attributes=(
        Attribute("id", EndpointGroup.id, sort=True),
        Attribute("name", EndpointGroup.name, Name, post=REQUIRED, put=True, filter=equals, sort=True),
        Attribute("description", EndpointGroup.description, Description | None, post=MISSING, put=True),
        Attribute("filters", EndpointGroup.filters, Filters, post=REQUIRED, put=True),
        Attribute("created_at", EndpointGroup.created_at, sort=True, view=None),
        linked("OS-EP-FILTER", "endpoint_groups"),
    ),
    create=create,
    change=change,
    remove=remove,
    extra=False,
    path=GROUPS,
    id="group_id",
)


@frozen
class GroupedEndpoints:
    """The endpoints of endpoint groups, and the projects that see them."""

    db: Database
    grouped: Declared[Endpoint]

    routes = Routes("Endpoint groups")

    @routes.get(f"{GROUP}/endpoints", policy="identity:list_endpoints_associated_with_endpoint_group")
    async def endpoints(self, call: Call, group_id: str) -> dict[str, Any]:
        """List the endpoints that meet the filters of a group"""
        return await self.db.scan(self._endpoints, call, group_id)

    def _endpoints(self, conn: Connection, call: Call, group_id: str) -> Json:
        return self.grouped.page(conn, call, domain.meets(domain.get(conn, group_id).filters))

    # -- projects of a group

    @routes.get(f"{GROUP}/projects", policy="identity:list_projects_associated_with_endpoint_group")
    async def projects(self, call: Call, group_id: str) -> dict[str, Any]:
        """List the projects of an endpoint group"""
        return listed(call, "projects", await self.db.scan(self._projects, call, group_id))

    def _projects(self, conn: Connection, call: Call, group_id: str) -> Any:
        domain.get(conn, group_id)
        return associated_projects(conn, call, domain.with_group(group_id))

    @routes.put(f"{GROUP}/projects/<project_id>", policy="identity:add_endpoint_group_to_project", status=204)
    async def add(self, call: Call, group_id: str, project_id: str) -> None:
        """Let a project see the endpoints of a group"""
        await self.db.run(self._add, group_id, project_id)

    def _add(self, conn: Connection, group_id: str, project_id: str) -> None:
        domain.associate(conn, ProjectEndpointGroup, group_id=group_id, project_id=project_id)

    @routes.get(f"{GROUP}/projects/<project_id>", policy="identity:get_endpoint_group_in_project")
    async def check(self, call: Call, group_id: str, project_id: str) -> dict[str, Any]:
        """Show the endpoint group of a project"""
        return await self.db.read(self._check, call, group_id, project_id)

    def _check(self, conn: Connection, call: Call, group_id: str, project_id: str) -> Json:
        group = self._both(conn, group_id, project_id)
        key = {"group_id": group_id, "project_id": project_id}
        if not domain.is_associated(conn, ProjectEndpointGroup, **key):
            raise records.not_found("endpoint group in project", group_id)
        return {"endpoint_group": ENDPOINT_GROUPS.views(conn, call, [group])[0]}

    @routes.delete(f"{GROUP}/projects/<project_id>", policy="identity:remove_endpoint_group_from_project")
    async def remove(self, call: Call, group_id: str, project_id: str) -> None:
        """Remove an endpoint group from a project"""
        await self.db.run(self._remove, group_id, project_id)

    def _remove(self, conn: Connection, group_id: str, project_id: str) -> None:
        self._both(conn, group_id, project_id)
        if not domain.dissociate(conn, ProjectEndpointGroup, group_id=group_id, project_id=project_id):
            raise records.not_found("endpoint group in project", group_id)

    def _both(self, conn: Connection, group_id: str, project_id: str) -> EndpointGroup:
        projects.get(conn, project_id)
        return domain.get(conn, group_id)

    @routes.get(f"{PROJECT}/endpoint_groups", policy="identity:list_endpoint_groups_for_project")
    async def of_project(self, call: Call, project_id: str) -> dict[str, Any]:
        """List the endpoint groups of a project"""
        return await self.db.scan(self._of_project, call, project_id)

    def _of_project(self, conn: Connection, call: Call, project_id: str) -> Json:
        projects.get(conn, project_id)
        return ENDPOINT_GROUPS.page(conn, call, domain.in_project(project_id))


@frozen
class ProjectEndpoints:
    db: Database
    endpoints: Declared[Endpoint]

    routes = Routes("Endpoints of projects")

    @routes.get(f"{PROJECT}/endpoints", policy="identity:list_endpoints_for_project")
    async def list(self, call: Call, project_id: str) -> dict[str, Any]:
        """List the endpoints that a project sees"""
        return await self.db.scan(self._list, call, project_id)

    def _list(self, conn: Connection, call: Call, project_id: str) -> Json:
        projects.get(conn, project_id)
        chosen = domain.of_project(conn, project_id)
        return self.endpoints.page(conn, call, *([] if chosen is None else [chosen]))

    @routes.get("/OS-EP-FILTER/endpoints/<endpoint_id>/projects", policy="identity:list_projects_for_endpoint")
    async def projects(self, call: Call, endpoint_id: str) -> dict[str, Any]:
        """List the projects with which an endpoint is associated"""
        return listed(call, "projects", await self.db.scan(self._projects, call, endpoint_id))

    def _projects(self, conn: Connection, call: Call, endpoint_id: str) -> Any:
        services.get_endpoint(conn, endpoint_id)
        return associated_projects(conn, call, domain.with_endpoint(endpoint_id))

    @routes.put(f"{PROJECT}/endpoints/<endpoint_id>", policy="identity:add_endpoint_to_project", status=204)
    async def add(self, call: Call, project_id: str, endpoint_id: str) -> None:
        """Let a project see an endpoint"""
        await self.db.run(self._add, project_id, endpoint_id)

    def _add(self, conn: Connection, project_id: str, endpoint_id: str) -> None:
        domain.associate(conn, ProjectEndpoint, project_id=project_id, endpoint_id=endpoint_id)

    @routes.get(f"{PROJECT}/endpoints/<endpoint_id>", policy="identity:check_endpoint_in_project", status=204)
    async def check(self, call: Call, project_id: str, endpoint_id: str) -> None:
        """Check whether an endpoint is associated with a project"""
        await self.db.read(self._check, project_id, endpoint_id)

    def _check(self, conn: Connection, project_id: str, endpoint_id: str) -> None:
        self._both(conn, project_id, endpoint_id)
        key = {"project_id": project_id, "endpoint_id": endpoint_id}
        if not domain.is_associated(conn, ProjectEndpoint, **key):
            raise records.not_found("endpoint in project", endpoint_id)

    @routes.delete(f"{PROJECT}/endpoints/<endpoint_id>", policy="identity:remove_endpoint_from_project")
    async def remove(self, call: Call, project_id: str, endpoint_id: str) -> None:
        """Remove an endpoint from a project"""
        await self.db.run(self._remove, project_id, endpoint_id)

    def _remove(self, conn: Connection, project_id: str, endpoint_id: str) -> None:
        self._both(conn, project_id, endpoint_id)
        if not domain.dissociate(conn, ProjectEndpoint, project_id=project_id, endpoint_id=endpoint_id):
            raise records.not_found("endpoint in project", endpoint_id)

    def _both(self, conn: Connection, project_id: str, endpoint_id: str) -> None:
        projects.get(conn, project_id)
        services.get_endpoint(conn, endpoint_id)


def associated_projects(conn: Connection, call: Call, where: Any) -> Any:
    table = Project.table
    return project_views(conn, call, conn.execute(select(table).where(where).order_by(table.c.name, table.c.id)))
