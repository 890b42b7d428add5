"""The network interfaces of a server. Reference: compute.md, section 8.5."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.compute import attaching
from cloudctl.compute.api import query
from cloudctl.compute.api.server_bodies import Address, DeviceTag
from cloudctl.compute.attaching import Interface
from cloudctl.compute.networking import NewInterface
from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.network import ports
from cloudctl.rest.body import MISSING, Body, Items, Missing, Uuid, gated
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.rest.views import Fields

PATH = "/servers/<server_id>/os-interface"


@frozen
class FixedAddress:
    ip_address: Address


@frozen
class Attach:
    port_id: Uuid | Missing = MISSING
    net_id: Uuid | Missing = MISSING
    fixed_ips: Annotated[list[FixedAddress], Items(1, 1)] | Missing = MISSING
    tag: DeviceTag | Missing = gated(since(2, 49))


@frozen
class AttachRequest:
    interfaceAttachment: Attach | Missing = MISSING


LATER = Fields[[Interface]]("an interface", {"tag": (since(2, 70), lambda interface: interface.row.tag)})


def view(call: Call, interface: Interface, fixed_ips: list[dict[str, str]]) -> dict[str, Any]:
    port = interface.port
    shown = {
        "port_id": port.id,
        "net_id": port.network_id,
        "mac_addr": port.mac_address,
        "port_state": port.status,
        "fixed_ips": fixed_ips,
    }
    return shown | LATER.of(call.version, interface)


@frozen
class ServerInterfaces:
    routes = Routes("Server interfaces")

    db: Database

    @routes.get(PATH, policy="compute:interfaces:list")
    async def list(self, call: Call, server_id: str) -> dict[str, Any]:
        """List the interfaces of a server."""
        query.only(call, ())
        return {"interfaceAttachments": await self.db.read(_all, call, server_id)}

    @routes.get(f"{PATH}/<port_id>", policy="compute:interfaces:show")
    async def show(self, call: Call, server_id: str, port_id: str) -> dict[str, Any]:
        """Show one interface."""
        return {"interfaceAttachment": await self.db.read(_one, call, server_id, port_id)}

    @routes.post(PATH, policy="compute:interfaces:create", body=Body(AttachRequest, optional=True))
    async def attach(self, call: Call, server_id: str, body: AttachRequest | None) -> dict[str, Any]:
        """Attach an interface to a server."""
        wanted = (body and body.interfaceAttachment) or Attach()
        return {"interfaceAttachment": await self.db.run(_attach, call, server_id, _wish(wanted))}

    @routes.delete(f"{PATH}/<port_id>", policy="compute:interfaces:delete", status=202)
    async def detach(self, call: Call, server_id: str, port_id: str) -> None:
        """Detach an interface from a server."""
        await self.db.run(attaching.detach_interface, call.caller, server_id, port_id)


def _wish(body: Attach) -> NewInterface:
    """Raises Invalid."""
    if body.port_id and body.net_id:
        raise Invalid("Must not input both network_id and port_id")
    if body.fixed_ips and not body.net_id:
        raise Invalid("Must input network_id when request IP address")
    return NewInterface(
        network_id=body.net_id or None,
        port_id=body.port_id or None,
        fixed_ip=body.fixed_ips[0].ip_address if body.fixed_ips else None,
        tag=body.tag or None,
    )


def _attach(conn: Connection, call: Call, server_id: str, wish: NewInterface) -> dict[str, Any]:
    return _shown(conn, call, [attaching.attach_interface(conn, call.caller, server_id, wish)])[0]


def _one(conn: Connection, call: Call, server_id: str, port_id: str) -> dict[str, Any]:
    return _shown(conn, call, [attaching.interface(conn, call.caller, server_id, port_id)])[0]


def _all(conn: Connection, call: Call, server_id: str) -> list[dict[str, Any]]:
    return _shown(conn, call, attaching.interfaces(conn, call.caller, server_id))


def _shown(conn: Connection, call: Call, interfaces: list[Interface]) -> list[dict[str, Any]]:
    addresses = ports.fixed_ips_of(conn, [interface.port.id for interface in interfaces])
    return [view(call, interface, addresses.get(interface.port.id, [])) for interface in interfaces]
