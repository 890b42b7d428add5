"""Shelved servers, and soft-deleted ones. Reference: compute.md, section 7."""

from __future__ import annotations

from typing import Annotated

from attrs import field, frozen

from cloudctl.compute import deletion, shelving
from cloudctl.compute.api import gates
from cloudctl.compute.api.server_actions import PATH, able
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.shelving import Destination
from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IHypervisor, ISnapshot
from cloudctl.rest.body import MISSING, Body, BodyError, Length, Missing, Problem, gated
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import Version, since

Zone = Annotated[str, Length(1, 255, blank=False)]


@frozen
class Unshelve:
    """At least one of the two. A zone that is null: any zone from now on."""

    availability_zone: Zone | Missing | None = MISSING
    host: Annotated[str, Length(1, 255)] | Missing = gated(since(2, 91))


def _destination(body: Unshelve | None, version: Version) -> Destination:
    """Raises BodyError."""
    if body is None:
        return Destination()
    if body == Unshelve():
        raise BodyError([Problem("$.unshelve", "'availability_zone' is a required property", "required")])
    if body.availability_zone is None and version not in gates.ANY_ZONE:
        raise BodyError([Problem("$.unshelve.availability_zone", "None is not of type 'string'", "type")])
    return Destination("" if isinstance(body.availability_zone, Missing) else body.availability_zone, body.host or None)


@frozen
class ServerShelving:
    routes = Routes("Server actions")

    db: Database
    hypervisor: IHypervisor
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.action(PATH, "shelve", policy="compute:servers:shelve")
    async def shelve(self, call: Call, server_id: str) -> None:
        """Switch a server off for a longer time, with its root disk kept as an image."""
        await self.db.run(able(self.hypervisor, ISnapshot, shelving.shelve), call.caller, server_id)

    @routes.action(PATH, "shelveOffload", policy="compute:servers:shelve_offload")
    async def offload(self, call: Call, server_id: str) -> None:
        """Remove a shelved server from its host."""
        await self.db.run(shelving.offload, call.caller, server_id)

    @routes.action(PATH, "unshelve", policy="compute:servers:unshelve", body={(2, 77): Body(Unshelve | None)})
    async def unshelve(self, call: Call, server_id: str, body: Unshelve | None = None) -> None:
        """Run a shelved server again."""
        await self.db.run(self._unshelve, call, server_id, _destination(body, call.version))

    def _unshelve(self, conn: Connection, call: Call, server_id: str, wanted: Destination) -> None:
        shelving.unshelve(conn, call.caller, server_id, wanted, cross_az_attach=self.options.cross_az_attach)

    @routes.action(PATH, "restore", policy="compute:servers:restore")
    async def restore(self, call: Call, server_id: str) -> None:
        """Restore a soft-deleted server."""
        await self.db.run(deletion.restore, call.caller, server_id)

    @routes.action(PATH, "forceDelete", policy="compute:servers:force_delete")
    async def force_delete(self, call: Call, server_id: str) -> None:
        """Delete a server at once."""
        await self.db.run(deletion.force, call.caller, server_id)
