"""What servers and other devices have through their ports: the addresses of many at once.

Looked up by port id, which the code that plugs a port knows: the port's owner may write anything into `device_id`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve, frozen
from sqlalchemy import bindparam, select

from cloudctl.db import Connection
from cloudctl.network import port_uses, standard
from cloudctl.network.tables import FloatingIp, IpAllocation, Network, Port, Subnet


@frozen
class PortAddress:
    """One address of a port; or a floating one that leads to it."""

    port_id: str
    network_id: str
    network_name: str
    mac: str
    ip: str
    version: int  # 4 or 6
    floating: bool = False


# Built once: building a query costs more than running it, and every view of a server needs these.
_addresses = (
    select(Port.id, Port.network_id, Port.mac_address)
    .add_columns(Network.name, IpAllocation.ip_address, Subnet.ip_version)
    .add_columns(FloatingIp.floating_ip_address)
    .join_from(Port, Network, Network.id == Port.network_id)
    .join(IpAllocation, IpAllocation.port_id == Port.id)
    .join(Subnet, Subnet.id == IpAllocation.subnet_id)
    .outerjoin(
        FloatingIp,
        (FloatingIp.port_id == Port.id) & (FloatingIp.fixed_ip_address == IpAllocation.ip_address),
    )
    .where(Port.id.in_(bindparam("ports", expanding=True)))
    .order_by(Port.id, IpAllocation.position, FloatingIp.created_at, FloatingIp.id)
)


def addresses(conn: Connection, port_ids: Sequence[str]) -> dict[str, list[PortAddress]]:
    """Port id → its addresses. Ports without any are missing.

    A fixed address is followed by the floating ones that lead to it.
    """
    found: dict[str, list[PortAddress]] = {}
    for some in standard.batches(port_ids):
        before: tuple[str, str] | None = None
        for port_id, network_id, mac, network_name, ip, version, floating in conn.execute(_addresses, {"ports": some}):
            address = PortAddress(
                port_id=port_id,
                network_id=network_id,
                network_name=network_name,
                mac=mac,
                ip=ip,
                version=version,
            )
            mine = found.setdefault(port_id, [])
            # A fixed address has a row for each floating one.
            if (port_id, ip) != before:
                mine.append(address)
            before = port_id, ip
            if floating is not None:
                mine.append(evolve(address, ip=floating, floating=True))
    return found


def reclaim(conn: Connection, port_id: str, device_id: str, now: datetime) -> bool:
    """Write into a locked port that it is this device's, whose owner has written another into it.

    False: it is a router's by now.
    """
    if port_uses.of(conn, port_id).is_routers:
        return False
    standard.change(conn, Port.table, port_id, now, device_id=device_id)
    return True
