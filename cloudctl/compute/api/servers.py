"""Servers: create, list, show, update, delete. Reference: compute.md, sections 5 and 6."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from cloudctl.compute import creation, deletion, pinning, servers
from cloudctl.compute.api import query, server_views
from cloudctl.compute.api.server_bodies import CREATE, UPDATE, CreateRequest, UpdateServer
from cloudctl.compute.api.server_create import checked_hostname, wanted
from cloudctl.compute.api.server_filters import BRIEF, DETAIL, QUERY, check_order, conditions
from cloudctl.compute.api.server_pages import ServerPages
from cloudctl.compute.creation import Created, NewServer
from cloudctl.compute.options import ComputeOptions
from cloudctl.db import Connection, Database
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.body import MISSING, given
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.listing import Listing, Page, paging
from cloudctl.rest.route import Routes
from cloudctl.volume.options import VolumeOptions


@frozen
class Servers:
    routes = Routes("Servers")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)
    volume_options: VolumeOptions = field(factory=VolumeOptions)
    network_options: NetworkOptions = field(factory=NetworkOptions)
    pages: ServerPages = field(factory=ServerPages)

    @routes.get("/servers", policy="compute:servers:list", pure=True, query=QUERY)
    async def list(self, call: Call) -> dict[str, Any]:
        """List servers."""
        page = await self.db.scan(self._page, call, BRIEF)
        shown = [server_views.brief(call, id, name) for id, name in page.rows]
        return {"servers": shown, **_links(call, page)}

    @routes.get("/servers/detail", policy="compute:servers:list", pure=True, query=QUERY)
    async def detail(self, call: Call) -> dict[str, Any]:
        """List servers in full."""
        return await self.db.scan(self._detail, call)

    def _detail(self, conn: Connection, call: Call) -> dict[str, Any]:
        page = self._page(conn, call, DETAIL)
        shown = self.pages.page(conn, call, [servers.Outline(*row) for row in page.rows])
        return {"servers": shown, **_links(call, page)}

    def _page(self, conn: Connection, call: Call, what: Listing) -> Page:
        query.only(call, QUERY)
        asked = paging(call, query.limits(self.options))
        check_order(call, asked.order)
        return query.page(conn, what, asked, *conditions(conn, call))

    @routes.post("/servers", policy="compute:servers:create", body=CREATE, status=202)
    async def create(self, call: Call, body: CreateRequest) -> Reply:
        """Create servers."""
        wish = wanted(body, call.version, self.options)
        made = await self.db.run(self._create, call, wish)
        if body.server.return_reservation_id:
            return Reply({"reservation_id": made.reservation_id})
        links = query.resource_links(call, "servers", made.id)
        shown = {
            "id": made.id,
            "name": made.name,
            "status": "BUILD",
            "links": links,
            "adminPass": made.admin_password,
            "OS-DCF:diskConfig": wish.disk_config,
            "security_groups": [{"name": name} for name in made.security_groups],
        }
        return Reply({"server": shown}, headers=(("Location", links[0]["href"]),))

    @routes.post("/os-volumes_boot", policy="compute:servers:create", body=CREATE, status=202, until=(2, 102))
    async def create_from_volumes(self, call: Call, body: CreateRequest) -> Reply:
        """Create servers: an old path, from before the usual one accepted `block_device_mapping`."""
        return await self.create(call, body)

    def _create(self, conn: Connection, call: Call, wish: NewServer) -> Created:
        return creation.create(conn, call.caller, wish, self.options, self.volume_options, self.network_options)

    @routes.get("/servers/<server_id>", policy="compute:servers:show", pure=True)
    async def show(self, call: Call, server_id: str) -> dict[str, Any]:
        """Show one server."""
        return {"server": await self.db.read(self._alone, call, server_id)}

    def _alone(self, conn: Connection, call: Call, server_id: str) -> Any:
        return self.pages.alone(conn, call, servers.outline(conn, call.caller, server_id))

    @routes.put("/servers/<server_id>", policy="compute:servers:update", body=UPDATE)
    async def update(self, call: Call, server_id: str, body: UpdateServer) -> dict[str, Any]:
        """Change a server's name, description, addresses, disk configuration, host name or zone."""
        if body.hostname is not MISSING:
            checked_hostname(body.hostname, call.version)
        return {"server": await self.db.run(self._update, call, server_id, body)}

    def _update(self, conn: Connection, call: Call, server_id: str, body: UpdateServer) -> server_views.View:
        row = servers.visible(conn, call.caller, server_id, lock=True)
        changes = {COLUMNS.get(name, name): value for name, value in given(body).items() if name != PINNED}
        if body.pinned_availability_zone is not MISSING:
            zone, across = body.pinned_availability_zone or None, self.options.cross_az_attach
            changes |= pinning.pinned(conn, row, zone, cross_az_attach=across)
        if changes:
            row = servers.change(conn, row, changes, call.now)
        return server_views.updated(server_views.gather(conn, call, [row]), row)

    @routes.delete("/servers/<server_id>", policy="compute:servers:delete")
    async def delete(self, call: Call, server_id: str) -> None:
        """Delete a server."""
        later = self.options.reclaim_instance_interval > 0
        await self.db.run(deletion.remove, call.caller, server_id, later=later)


def _links(call: Call, page: Page) -> dict[str, Any]:
    return query.links(call, page, "servers_links", page.rows[-1][0] if page.rows else None)


PINNED = "pinned_availability_zone"
COLUMNS = {"accessIPv4": "access_ip_v4", "accessIPv6": "access_ip_v6"}
