"""Actions on the addresses of a server, which the network service took over. Reference: compute.md, section 7."""

from __future__ import annotations

from typing import Annotated

from attrs import frozen

from cloudctl.compute import addresses, servers
from cloudctl.compute.api.server_actions import PATH
from cloudctl.compute.api.server_bodies import Address, Address4
from cloudctl.db import Connection, Database
from cloudctl.errors import Gone
from cloudctl.rest.body import MISSING, Body, Length, Missing
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

LAST = (2, 43)


@frozen
class AddFixed:
    networkId: Annotated[str, Length(1, 64)]


@frozen
class RemoveFixed:
    address: Address


@frozen
class AddFloating:
    address: Address4
    fixed_address: Address4 | Missing = MISSING


@frozen
class RemoveFloating:
    address: Address4


@frozen
class AddressActions:
    routes = Routes("Server addresses")

    db: Database

    @routes.action(PATH, "addFixedIp", policy="compute:servers:addresses", body=Body(AddFixed), until=LAST)
    async def add_fixed(self, call: Call, server_id: str, body: AddFixed) -> None:
        """Give a server one more address on one of its networks."""
        await self.db.run(addresses.add_fixed, call.caller, server_id, body.networkId)

    @routes.action(PATH, "removeFixedIp", policy="compute:servers:addresses", body=Body(RemoveFixed), until=LAST)
    async def remove_fixed(self, call: Call, server_id: str, body: RemoveFixed) -> None:
        """Remove an address from a server."""
        await self.db.run(addresses.remove_fixed, call.caller, server_id, body.address)

    @routes.action(PATH, "addFloatingIp", policy="compute:servers:addresses", body=Body(AddFloating), until=LAST)
    async def add_floating(self, call: Call, server_id: str, body: AddFloating) -> None:
        """Associate a floating IP with a server."""
        fixed = body.fixed_address or None
        await self.db.run(addresses.add_floating, call.caller, server_id, body.address, fixed)

    @routes.action(PATH, "removeFloatingIp", policy="compute:servers:addresses", body=Body(RemoveFloating), until=LAST)
    async def remove_floating(self, call: Call, server_id: str, body: RemoveFloating) -> None:
        """Disassociate a floating IP from a server."""
        await self.db.run(addresses.remove_floating, call.caller, server_id, body.address)

    @routes.action(PATH, "injectNetworkInfo", policy="compute:servers:inject_network_info")
    async def inject(self, call: Call, server_id: str) -> None:
        """Do nothing: guests request what concerns their interfaces."""
        await self.db.read(_known, call, server_id)

    @routes.action(PATH, "resetNetwork", policy="compute:servers:inject_network_info")
    async def reset(self, call: Call, server_id: str) -> None:
        """Refuse an action of hypervisors that no longer exist."""
        raise Gone("resetNetwork is not supported by any hypervisor any more.")


def _known(conn: Connection, call: Call, server_id: str) -> None:
    servers.allowed(conn, call.caller, server_id, "injectNetworkInfo")
