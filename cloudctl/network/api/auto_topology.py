"""`/auto-allocated-topology`. Reference: network.md, section 14."""

from __future__ import annotations

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import NotFound
from cloudctl.network import auto_topology, standard
from cloudctl.network.api.attributes import Json
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

ONE = "/auto-allocated-topology/<project_id>"
# How clients denote their own project.
OWN = ("null", "None", "")
MOST = 64  # characters of a project's id


@frozen
class AutoTopologies:
    routes = Routes("Auto-allocated topology")

    db: Database
    options: NetworkOptions

    @routes.get(ONE, policy="network:auto_topology:show")
    async def show(self, call: Call, project_id: str) -> Json:
        """Show the network that is made for a project automatically, on the first request.

        `fields=dry-run`: only report whether it could be made.
        """
        project = _project(call, project_id)
        if "dry-run" in call.query.all("fields"):
            await self.db.read(auto_topology.check, call.caller)
            id = "dry-run=pass"
        else:
            id = await self.db.run(self._ensure, call, project)
        return {"auto_allocated_topology": {"id": id, "project_id": project, "tenant_id": project}}

    def _ensure(self, conn: Connection, call: Call, project: str) -> str:
        return auto_topology.ensure(conn, call.caller, project, self.options)

    @routes.delete(ONE, policy="network:auto_topology:delete")
    async def delete(self, call: Call, project_id: str) -> None:
        """Delete the automatically made network with its router."""
        await self.db.run(self._delete, call, _project(call, project_id))

    def _delete(self, conn: Connection, call: Call, project: str) -> None:
        auto_topology.remove(conn, call.caller, project)


def _project(call: Call, named: str) -> str:
    """Raises NotFound for a project other than the caller's own, unless the caller sees all, and for no project."""
    project = call.project_id if named in OWN else named
    if not 1 <= len(project) <= MOST or (project != call.project_id and not standard.sees_all(call.caller)):
        raise NotFound("The resource could not be found.")
    return project
