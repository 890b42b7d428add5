"""Adding and removing single addresses of servers: fixed ones on their networks, and floating ones.

Reference: compute.md, section 7 (to 2.43).
"""

from __future__ import annotations

from sqlalchemy import select

from cloudctl.compute import networking, servers
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.errors import CloudError, Conflict, Invalid, NotFound
from cloudctl.network import associations, devices, fixed_ips, floating_ips, networks, ports, standard
from cloudctl.network.devices import PortAddress
from cloudctl.network.fixed_ips import FixedIpRequest
from cloudctl.network.tables import FloatingIp, Port
from cloudctl.rest.caller import Caller


def add_fixed(conn: Connection, caller: Caller, server_id: str, network_id: str) -> None:
    """Give the server one more address on a network it is on. Raises NotFound, Conflict, Invalid."""
    server = servers.allowed(conn, caller, server_id, "addFixedIp", lock=True)
    port = next((each for each in _ports(conn, server) if each.network_id == network_id), None)
    if port is None:
        raise NotFound(f"Network {network_id[:64]} is not attached to instance {server.id}")
    subnets = networks.subnets_of(conn, [network_id]).get(network_id, [])
    if not subnets:
        raise Invalid("No more fixed IPs are available: the network has no subnet.")
    present = fixed_ips.present_wish(conn, port.id) or []
    _assign(conn, caller, port, [*present, FixedIpRequest(subnet_id=subnets[0])])


def remove_fixed(conn: Connection, caller: Caller, server_id: str, address: str) -> None:
    """Raises NotFound, Conflict, Invalid if the server does not have it."""
    server = servers.allowed(conn, caller, server_id, "removeFixedIp", lock=True)
    for port in _ports(conn, server):
        present = fixed_ips.present_wish(conn, port.id) or []
        left = [wish for wish in present if wish.ip_address != address]
        if len(left) < len(present):
            _assign(conn, caller, port, left)
            return
    raise Invalid(f"Fixed IP {address} not found for the specified instance {server.id}.")


def _assign(conn: Connection, caller: Caller, port: Port, wanted: list[FixedIpRequest]) -> None:
    try:
        ports.change(conn, port, {"fixed_ips": wanted}, caller.now, caller)
    except (Conflict, NotFound) as error:
        raise Invalid(error.message) from None


def _ports(conn: Connection, server: Server) -> list[Port]:
    """In the order the guest has them, each locked."""
    found = (ports.find(conn, row.port_id, lock=True) for row in networking.of_server(conn, server.id))
    return [port for port in found if port is not None]


# -- floating


def add_floating(conn: Connection, caller: Caller, server_id: str, address: str, fixed: str | None) -> None:
    """Point it at the server. `fixed`: at which of its addresses; None: the first. Raises NotFound, Invalid."""
    server = servers.visible(conn, caller, server_id, lock=True)
    mine = [each for each in _fixed(conn, server) if each.version == 4]
    if not mine:
        raise Invalid("No fixed IPs associated to instance")
    chosen = mine[0] if fixed is None else next((each for each in mine if each.ip == fixed), None)
    if chosen is None:
        raise Invalid("Specified fixed address not assigned to instance")
    found = _visible(conn, caller, address)
    # The port is locked before the floating IP.
    port = ports.get(conn, chosen.port_id, lock=True)
    try:
        to = associations.target(conn, port, found.project_id, found.floating_network_id, chosen.ip)
        floating_ips.lead(conn, floating_ips.get(conn, found.id, lock=True), to, caller.now, caller)
    except CloudError as error:
        raise Invalid(f"Unable to associate floating IP {address} to fixed IP {chosen.ip}: {error.message}") from None


def remove_floating(conn: Connection, caller: Caller, server_id: str, address: str) -> None:
    """Raises NotFound, Conflict if it does not lead to the server."""
    server = servers.visible(conn, caller, server_id, lock=True)
    found = _visible(conn, caller, address)
    if found.port_id is None or found.port_id not in networking.ports_of(conn, [server.id]).get(server.id, ()):
        raise Conflict(f"Floating IP {address} is not associated with instance {server.id}.")
    ports.find(conn, found.port_id, lock=True)
    floating_ips.lead(conn, floating_ips.get(conn, found.id, lock=True), None, caller.now, caller)


def _fixed(conn: Connection, server: Server) -> list[PortAddress]:
    port_ids = networking.ports_of(conn, [server.id]).get(server.id, [])
    found = devices.addresses(conn, port_ids)
    return [each for port_id in port_ids for each in found.get(port_id, ()) if not each.floating]


def _visible(conn: Connection, caller: Caller, address: str) -> FloatingIp:
    """The floating IP with this address, if the caller may see it."""
    query = select(FloatingIp).where(FloatingIp.floating_ip_address == address)
    for row in conn.execute(query):
        if row.project_id == caller.project_id or standard.sees_all(caller):
            return row
    raise NotFound("floating IP not found")
