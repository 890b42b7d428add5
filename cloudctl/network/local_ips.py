"""Local IPs: addresses that lead, on each host, to a port of that host. Neutron's extension `local_ip`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from ipaddress import ip_address
from typing import Any

from attrs import evolve, frozen
from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.network import ipam, local_ip_ports, ports, standard
from cloudctl.network.extension_tables import LocalIp
from cloudctl.network.fixed_ips import FixedIpRequest
from cloudctl.network.owned import Owned
from cloudctl.network.ports import NewPort
from cloudctl.network.tables import Network, Port
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Origin

RECORDS = Owned(LocalIp, "Local IP {} could not be found.", "LocalIPNotFound")
TRANSLATE = "translate"


@frozen
class NewLocalIp:
    """With an address of the port `local_port_id`, or of a new one on `network_id`. `address` None: any."""

    name: str = ""
    description: str = ""
    address: str | None = None
    ip_mode: str = TRANSLATE


def visible(conn: Connection, caller: Caller, id: str, lock: bool = False) -> LocalIp:
    """`lock`: the port that has its address is locked, too, and first: whoever deletes that deletes the local IP."""
    found = RECORDS.visible(conn, caller, id)
    if not lock:
        return found
    ports.find(conn, found.local_port_id, lock=True)
    return RECORDS.visible(conn, caller, id, lock=True)


def create(conn: Connection, project_id: str, new: NewLocalIp, port: Port, now: datetime) -> LocalIp:
    """Create one with an address of a port, whose owner does not change. Raises Invalid, Conflict."""
    made = LocalIp(
        **standard.new(project_id, now, description=new.description),
        name=new.name,
        network_id=port.network_id,
        local_port_id=port.id,
        local_ip_address=local_ip_ports.address_of(conn, port, new.address),
        ip_mode=new.ip_mode,
    )
    taken = LocalIp.local_port_id == port.id, LocalIp.local_ip_address == made.local_ip_address
    if conn.execute(select(LocalIp.id).where(*taken)).first() is not None:
        message = f"Local IP with address {made.local_ip_address} of port {port.id} already exists."
        raise Conflict(message, type="LocalIPAlreadyExists")
    return standard.insert(conn, made)


def create_on(
    conn: Connection, project_id: str, new: NewLocalIp, network: Network, now: datetime, by: Origin
) -> LocalIp:
    """Create one with a port of its own on a pinned network, and its IPv4 address.

    Raises as `ports.create`, and Invalid.
    """
    fixed = None if new.address is None else (FixedIpRequest(ip_address=new.address),)
    # Its port security is the network's: its owner may give the port to a server later.
    wanted = NewPort(network, fixed_ips=fixed, device_owner=local_ip_ports.OWNER)
    port = ports.create(conn, project_id, wanted, now, by)
    if new.address is None:
        # On a network that also has IPv6, the port has several.
        found = (row.ip_address for row in ipam.of_ports(conn, [port.id]).get(port.id, ()))
        address = next((each for each in found if ip_address(each).version == 4), None)
        if address is None:
            message = f"Bad local_ip request: Network {network.id} does not contain any IPv4 subnet."
            raise Invalid(message, type="BadRequest")
        new = evolve(new, address=address)
    return create(conn, project_id, new, port, now)


def change(conn: Connection, row: LocalIp, changes: Mapping[str, Any], now: datetime) -> LocalIp:
    """Set name, description of a locked local IP."""
    return standard.changed(conn, row, now, **changes)


def remove(conn: Connection, row: LocalIp, now: datetime, by: Origin) -> None:
    """Delete a local IP, locked as by `visible`, and with the last one of it the port that was made for one.

    Raises Conflict while ports are associated.
    """
    if local_ip_ports.has_any(conn, row):
        raise Conflict(f"Local IP {row.id} is still associated with one or more ports.", type="LocalIPInUse")
    port = ports.find(conn, row.local_port_id)
    RECORDS.delete(conn, row)
    if port is not None and port.device_owner == local_ip_ports.OWNER and not local_ip_ports.has_one(conn, port.id):
        ports.discard(conn, port.id, now, by)
