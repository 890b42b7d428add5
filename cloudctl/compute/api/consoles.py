"""Consoles of servers that a client can open. Reference: compute.md, section 8.8.

There is none yet: each of them is as one that the operator has not enabled.
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen

from cloudctl.compute import servers
from cloudctl.compute.api.server_actions import PATH
from cloudctl.db import Connection, Database
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.rest.body import Body, BodyError, Problem
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import Span, since

LAST = (2, 5)
CONSOLES, WEBMKS = since(2, 6, "remote consoles"), since(2, 8, "remote consoles of the type `webmks`")
# Protocol → its types, and the versions in which they may be asked for.
TYPES: dict[str, dict[str, Span]] = {
    "vnc": {"novnc": CONSOLES, "xvpvnc": CONSOLES},
    "spice": {"spice-html5": CONSOLES},
    "rdp": {"rdp-html5": CONSOLES},
    "serial": {"serial": CONSOLES},
    "mks": {"webmks": WEBMKS},
}


@frozen
class Vnc:
    type: Literal["novnc", "xvpvnc"]


@frozen
class Spice:
    type: Literal["spice-html5"]


@frozen
class Rdp:
    type: Literal["rdp-html5"]


@frozen
class Serial:
    type: Literal["serial"]


@frozen
class RemoteConsole:
    protocol: Literal["vnc", "spice", "rdp", "serial", "mks"]
    type: Literal["novnc", "xvpvnc", "rdp-html5", "spice-html5", "serial", "webmks"]


@frozen
class Consoles:
    routes = Routes("Server consoles")

    db: Database

    @routes.action(PATH, "os-getVNCConsole", policy="compute:servers:consoles", body=Body(Vnc), status=200, until=LAST)
    async def vnc(self, call: Call, server_id: str, body: Vnc) -> dict[str, Any]:
        """Open a VNC console."""
        return await self._open(call, server_id, body.type)

    @routes.action(
        PATH, "os-getSPICEConsole", policy="compute:servers:consoles", body=Body(Spice), status=200, until=LAST
    )
    async def spice(self, call: Call, server_id: str, body: Spice) -> dict[str, Any]:
        """Open a SPICE console."""
        return await self._open(call, server_id, body.type)

    @routes.action(PATH, "os-getRDPConsole", policy="compute:servers:consoles", body=Body(Rdp), status=200, until=LAST)
    async def rdp(self, call: Call, server_id: str, body: Rdp) -> dict[str, Any]:
        """Open an RDP console."""
        return await self._open(call, server_id, body.type)

    @routes.action(
        PATH, "os-getSerialConsole", policy="compute:servers:consoles", body=Body(Serial), status=200, until=LAST
    )
    async def serial(self, call: Call, server_id: str, body: Serial) -> dict[str, Any]:
        """Open a serial console."""
        return await self._open(call, server_id, body.type)

    @routes.post(
        "/servers/<server_id>/remote-consoles",
        policy="compute:servers:consoles",
        body=Body(RemoteConsole, key="remote_console"),
        since=(2, 6),
    )
    async def create(self, call: Call, server_id: str, body: RemoteConsole) -> dict[str, Any]:
        """Open a console."""
        span = TYPES[body.protocol].get(body.type)
        if span is None or call.version not in span:
            raise BodyError([Problem("$.remote_console.type", f"{body.type!r} is no type of {body.protocol}")])
        return await self._open(call, server_id, body.type)

    async def _open(self, call: Call, server_id: str, type: str) -> dict[str, Any]:
        await self.db.read(_on_a_host, call, server_id)
        raise Invalid(f"Unavailable console type {type}.")

    @routes.get("/os-console-auth-tokens/<token>", policy="compute:consoles:tokens")
    async def token(self, call: Call, token: str) -> dict[str, Any]:
        """Show where the console of a token is."""
        raise NotFound("Token not found")


def _on_a_host(conn: Connection, call: Call, server_id: str) -> None:
    row = servers.visible(conn, call.caller, server_id)
    if row.host is None or row.launched_at is None:
        raise Conflict(f"Instance {row.id} is not ready")
