"""`/routers/{id}/add_router_interface` and its opposite. Reference: network.md, section 7."""

from __future__ import annotations

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.network import networks, ports, router_interfaces, subnets
from cloudctl.network.api.attributes import Id, Json
from cloudctl.network.api.routers import changeable
from cloudctl.network.router_interfaces import Interface
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


@frozen
class InterfaceWish:
    subnet_id: Id | None = None
    port_id: Id | None = None


@frozen
class RouterInterfaces:
    routes = Routes("Routers")

    db: Database

    @routes.put("/routers/<router_id>/add_router_interface", policy="network:routers:update", body=Body(InterfaceWish))
    async def add(self, call: Call, router_id: str, body: InterfaceWish) -> Json:
        """Attach a subnet to a router, or a port with the subnets that it is on."""
        return await self.db.run(self._add, call, router_id, body)

    def _add(self, conn: Connection, call: Call, router_id: str, body: InterfaceWish) -> Json:
        row = changeable(conn, call, router_id)
        _check_named(body)
        if body.port_id is not None and body.subnet_id is not None:
            raise Invalid("Bad router request: Cannot specify both subnet-id and port-id.", type="BadRequest")
        if body.subnet_id is not None:
            # Its gateway's address stays the same from here on: whoever changes that locks the network.
            networks.pinned(conn, subnets.visible(conn, call.caller, body.subnet_id).network_id)
            subnet = subnets.visible(conn, call.caller, body.subnet_id)
            foreign = call.may("network:routers:foreign_subnet")
            added = router_interfaces.add_subnet(conn, row, subnet, call.now, call.caller, foreign)
        else:
            port = ports.visible(conn, call.caller, str(body.port_id), lock=True)
            added = router_interfaces.add_port(conn, row, port, call.now, call.caller)
        return view(router_id, row.project_id, added)

    @routes.put(
        "/routers/<router_id>/remove_router_interface", policy="network:routers:update", body=Body(InterfaceWish)
    )
    async def remove(self, call: Call, router_id: str, body: InterfaceWish) -> Json:
        """Detach a subnet from a router, and delete the port between them."""
        return await self.db.run(self._remove, call, router_id, body)

    def _remove(self, conn: Connection, call: Call, router_id: str, body: InterfaceWish) -> Json:
        row = changeable(conn, call, router_id)
        _check_named(body)
        if body.port_id is None and body.subnet_id is not None:
            subnets.visible(conn, call.caller, body.subnet_id)
        removed = router_interfaces.remove(conn, row, body.port_id, body.subnet_id, call.now, call.caller)
        return view(router_id, row.project_id, removed)


def _check_named(body: InterfaceWish) -> None:
    if body.port_id is None and body.subnet_id is None:
        raise Invalid("Bad router request: Either subnet_id or port_id must be specified.", type="BadRequest")


def view(router_id: str, project_id: str, interface: Interface) -> Json:
    return {
        "id": router_id,
        "project_id": project_id,
        "tenant_id": project_id,
        "port_id": interface.port_id,
        "network_id": interface.network_id,
        "subnet_id": interface.subnet_ids[0],
        "subnet_ids": list(interface.subnet_ids),
    }
