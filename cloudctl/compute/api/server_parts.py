"""The addresses, tags and password of a server. Reference: compute.md, section 8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from attrs import frozen

from cloudctl.compute import networking, server_metadata, servers
from cloudctl.compute.api import query
from cloudctl.compute.api.server_bodies import Tags, tag
from cloudctl.compute.states import BUILDING
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

Addresses = dict[str, list[dict[str, Any]]]


@frozen
class ServerAddresses:
    routes = Routes("Server addresses")

    db: Database

    @routes.get("/servers/<server_id>/ips", policy="compute:servers:show")
    async def list(self, call: Call, server_id: str) -> dict[str, Any]:
        """List a server's addresses by network."""
        return {"addresses": await self.db.read(_addresses, call, server_id)}

    @routes.get("/servers/<server_id>/ips/<network>", policy="compute:servers:show")
    async def show(self, call: Call, server_id: str, network: str) -> Addresses:
        """List a server's addresses on one network."""
        found = await self.db.read(_addresses, call, server_id)
        if network not in found:
            raise NotFound("Instance is not a member of specified network")
        return {network: found[network]}


def _addresses(conn: Connection, call: Call, server_id: str) -> Addresses:
    server = servers.visible(conn, call.caller, server_id)
    shown: Addresses = {}
    if server.vm_state != BUILDING:
        for address in networking.addresses(conn, [server.id]).get(server.id, []):
            shown.setdefault(address.network_name, []).append({"addr": address.ip, "version": address.version})
    return shown


@frozen
class ServerTags:
    routes = Routes("Server tags")

    db: Database

    @routes.get("/servers/<server_id>/tags", policy="compute:servers:show", since=(2, 26))
    async def list(self, call: Call, server_id: str) -> dict[str, Any]:
        """List a server's tags."""
        return {"tags": await self.db.read(server_metadata.tags, call.caller, server_id)}

    @routes.put("/servers/<server_id>/tags", policy="compute:servers:tags", body=Body(Tags, key="tags"), since=(2, 26))
    async def replace(self, call: Call, server_id: str, body: Sequence[str]) -> dict[str, Any]:
        """Replace a server's tags."""
        return {"tags": await self.db.run(server_metadata.replace_tags, call.caller, server_id, body)}

    @routes.delete("/servers/<server_id>/tags", policy="compute:servers:tags", since=(2, 26))
    async def clear(self, call: Call, server_id: str) -> None:
        """Delete all tags of a server."""
        await self.db.run(server_metadata.remove_tags, call.caller, server_id)

    @routes.get("/servers/<server_id>/tags/<name>", policy="compute:servers:show", since=(2, 26), status=204)
    async def show(self, call: Call, server_id: str, name: str) -> None:
        """Check whether a server has a tag."""
        if name not in await self.db.read(server_metadata.tags, call.caller, server_id):
            raise server_metadata.no_tag(server_id, name)

    @routes.put("/servers/<server_id>/tags/<name>", policy="compute:servers:tags", since=(2, 26), status=201)
    async def add(self, call: Call, server_id: str, name: str) -> Reply:
        """Add one tag."""
        _check(name)
        if not await self.db.run(server_metadata.add_tag, call.caller, server_id, name):
            return Reply(status=204)
        here = query.resource_links(call, "servers", server_id)[0]["href"]
        return Reply(headers=(("Location", f"{here}/tags/{quote(name, safe='')}"),))

    @routes.delete("/servers/<server_id>/tags/<name>", policy="compute:servers:tags", since=(2, 26))
    async def remove(self, call: Call, server_id: str, name: str) -> None:
        """Delete one tag."""
        await self.db.run(server_metadata.remove_tag, call.caller, server_id, name)


def _check(name: str) -> None:
    """Raises Invalid."""
    try:
        tag(name)
    except ValueError as error:
        raise Invalid(f"Invalid input for field/attribute tag: {error}") from None
    if not 1 <= len(name) <= 60:
        raise Invalid(f"Invalid input for field/attribute tag: {name[:60]!r} is too long (at most 60 characters)")


@frozen
class ServerTopology:
    routes = Routes("Server topology")

    db: Database

    @routes.get("/servers/<server_id>/topology", policy="compute:servers:show", since=(2, 78))
    async def show(self, call: Call, server_id: str) -> dict[str, Any]:
        """Show the NUMA nodes of a server, which no hypervisor gives it."""
        query.only(call, ())
        await self.db.read(servers.visible, call.caller, server_id)
        return {"nodes": [], "pagesize_kb": None}


@frozen
class ServerPassword:
    routes = Routes("Server passwords")

    db: Database

    @routes.get("/servers/<server_id>/os-server-password", policy="compute:servers:show")
    async def show(self, call: Call, server_id: str) -> dict[str, str]:
        """Show the password that the guest has set and encrypted."""
        row = await self.db.read(servers.visible, call.caller, server_id)
        return {"password": row.guest_password or ""}

    @routes.delete("/servers/<server_id>/os-server-password", policy="compute:servers:password")
    async def clear(self, call: Call, server_id: str) -> None:
        """Forget the password that the guest has set."""
        await self.db.run(_forget_password, call, server_id)


def _forget_password(conn: Connection, call: Call, server_id: str) -> None:
    row = servers.visible(conn, call.caller, server_id)
    servers.change(conn, row, {"guest_password": None}, call.now)
