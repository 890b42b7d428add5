"""Consoles of servers that a client can open. Reference: compute.md, section 8.8.

Consoles that the operator has not enabled, or the hypervisor does not have, are unavailable.
"""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

from attrs import frozen

from cloudctl.compute import consoles
from cloudctl.compute.api import gates
from cloudctl.compute.api.server_actions import PATH
from cloudctl.compute.consoles import NEEDS, NOVNC, RULE, Rights
from cloudctl.compute.options import ComputeOptions
from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IHypervisor
from cloudctl.errors import Invalid, NotFound, Unauthorized
from cloudctl.rest.body import Body, BodyError, Problem
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import Span, since
from cloudctl.rest.views import Fields

LAST = (2, 5)
CONSOLES, WEBMKS = since(2, 6, "remote consoles"), since(2, 8, "remote consoles of the type `webmks`")
DIRECT = since(2, 99, "remote consoles of the type `spice-direct`")
# Protocol → its types, and the versions in which they may be requested.
TYPES: dict[str, dict[str, Span]] = {
    "vnc": {"novnc": CONSOLES, "xvpvnc": CONSOLES},
    "spice": {"spice-html5": CONSOLES, "spice-direct": DIRECT},
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
    type: Literal["novnc", "xvpvnc", "rdp-html5", "spice-html5", "spice-direct", "serial", "webmks"]


# No console here has a port of its own, let alone one with TLS.
PLACE = Fields[[]]("where the console of a token is", {"tls_port": (since(2, 99), lambda: None)})


@frozen
class Consoles:
    routes = Routes("Server consoles")

    db: Database
    hypervisor: IHypervisor
    options: ComputeOptions
    rights: Rights

    @routes.action(PATH, "os-getVNCConsole", policy=RULE, body=Body(Vnc), status=200, until=LAST)
    async def vnc(self, call: Call, server_id: str, body: Vnc) -> dict[str, Any]:
        """Open a VNC console."""
        return _answer(body.type, await self._open(call, server_id, body.type))

    @routes.action(PATH, "os-getSPICEConsole", policy=RULE, body=Body(Spice), status=200, until=LAST)
    async def spice(self, call: Call, server_id: str, body: Spice) -> dict[str, Any]:
        """Open a SPICE console."""
        return _answer(body.type, await self._open(call, server_id, body.type))

    @routes.action(PATH, "os-getRDPConsole", policy=RULE, body=Body(Rdp), status=200, until=LAST)
    async def rdp(self, call: Call, server_id: str, body: Rdp) -> dict[str, Any]:
        """Open an RDP console."""
        return _answer(body.type, await self._open(call, server_id, body.type))

    @routes.action(PATH, "os-getSerialConsole", policy=RULE, body=Body(Serial), status=200, until=LAST)
    async def serial(self, call: Call, server_id: str, body: Serial) -> dict[str, Any]:
        """Open a serial console."""
        return _answer(body.type, await self._open(call, server_id, body.type))

    @routes.post(
        "/servers/<server_id>/remote-consoles",
        policy=RULE,
        body=Body(RemoteConsole, key="remote_console"),
        since=(2, 6),
    )
    async def create(self, call: Call, server_id: str, body: RemoteConsole) -> dict[str, Any]:
        """Open a console."""
        span = TYPES[body.protocol].get(body.type)
        if span is None or call.version not in span:
            raise BodyError(
                [Problem("$.remote_console.type", f"{body.type!r} is not a console type of protocol {body.protocol}")]
            )
        url = await self._open(call, server_id, body.type)
        return {"remote_console": {"protocol": body.protocol, "type": body.type, "url": url}}

    async def _open(self, call: Call, server_id: str, type: str) -> str:
        """The URL of a console that may be opened now."""
        return await self.db.run(self._url, call, server_id, type)

    def _url(self, conn: Connection, call: Call, server_id: str, type: str) -> str:
        asker, lifetime = call.header("X-Auth-Token") or "", self.options.console_token_lifetime
        token = consoles.create(conn, call.caller, asker, server_id, type, lifetime)
        # Only now: all other refusals come first, and this one rolls the token back.
        if not self.options.console_listen or type not in NEEDS or not NEEDS[type].providedBy(self.hypervisor):
            raise Invalid(f"Unavailable console type {type}.")
        base = self.options.console_base(urlsplit(call.host_url).hostname or "localhost")
        page = self.options.console_vnc_page
        return vnc_link(page, base, token) if type == NOVNC and page else f"{base}/?token={token}"

    @routes.get("/os-console-auth-tokens/<token>", policy="compute:consoles:tokens")
    async def token(self, call: Call, token: str) -> dict[str, Any]:
        """Show where the console of a token is."""
        right = await self.rights.find(token)
        if right is None:
            raise NotFound("Token not found")
        if call.version not in gates.EVERY_TOKEN:
            raise Unauthorized("The requested console type details are not accessible")
        found = right.console
        where = urlsplit(self.options.console_base(found.host))
        shown = {"instance_uuid": found.server_id, "host": found.host, "port": where.port}
        return {"console": {**shown, **PLACE.of(call.version), "internal_access_path": None}}


def vnc_link(page: str, base: str, token: str) -> str:
    """A link to noVNC's page that tells it where the WebSocket is."""
    where = urlsplit(base)
    secure = where.scheme == "wss"
    told = {
        "autoconnect": "true",
        "host": where.hostname or "",
        "port": str(where.port or (443 if secure else 80)),
        "encrypt": "1" if secure else "0",
        "path": f"{where.path.lstrip('/')}?token={token}",
    }
    return f"{page}?{urlencode(told)}"


def _answer(type: str, url: str) -> dict[str, Any]:
    return {"console": {"type": type, "url": url}}
