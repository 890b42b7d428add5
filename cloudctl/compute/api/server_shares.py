"""Shared file systems of a server. The cloud has no service for them, so no server has any, and none can be found.

Reference: compute-microversions.md, 2.97.
"""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.compute import servers
from cloudctl.db import Database
from cloudctl.errors import NotFound
from cloudctl.rest.body import MISSING, Body, Length, Missing, Pattern, Uuid
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

PATH = "/servers/<server_id>/shares"


@frozen
class Share:
    share_id: Uuid
    tag: Annotated[str, Length(1, 255), Pattern(r"[a-zA-Z0-9-]*", "a tag of letters, digits and '-'")] | Missing = (
        MISSING
    )


def not_found(share_id: str) -> NotFound:
    return NotFound(f"Share {share_id[:64]} could not be found.")


@frozen
class ServerShares:
    routes = Routes("Server shares")

    db: Database

    @routes.get(PATH, policy="compute:servers:show", since=(2, 97))
    async def list(self, call: Call, server_id: str) -> dict[str, Any]:
        """List the shares of a server: the cloud has none."""
        await self.db.read(servers.visible, call.caller, server_id)
        return {"shares": []}

    @routes.get(f"{PATH}/<share_id>", policy="compute:servers:show", since=(2, 97))
    async def show(self, call: Call, server_id: str, share_id: str) -> None:
        """Show one share of a server: the cloud has none."""
        await self.db.read(servers.visible, call.caller, server_id)
        raise not_found(share_id)

    @routes.post(PATH, policy="compute:servers:shares", body=Body(Share, key="share"), since=(2, 97), status=201)
    async def attach(self, call: Call, server_id: str, body: Share) -> None:
        """Attach a share to a server: refused, as the cloud has none."""
        await self.db.read(servers.visible, call.caller, server_id)
        raise not_found(body.share_id)

    @routes.delete(f"{PATH}/<share_id>", policy="compute:servers:shares", since=(2, 97), status=200)
    async def detach(self, call: Call, server_id: str, share_id: str) -> None:
        """Detach a share from a server: the cloud has none."""
        await self.db.read(servers.visible, call.caller, server_id)
        raise not_found(share_id)
