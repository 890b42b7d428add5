"""What servers and other devices have through their ports: addresses and security groups, of many at once."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen
from sqlalchemy import bindparam, select

from cloudctl.db import Connection
from cloudctl.network import ports, standard
from cloudctl.network.tables import FloatingIp, IpAllocation, Network, Port, Subnet


@frozen
class PortAddress:
    """One address of a port of a device; or a floating one that leads to it."""

    port_id: str
    network_id: str
    network_name: str
    mac: str
    ip: str
    version: int  # 4 or 6
    security_groups: tuple[tuple[str, str], ...] = ()  # (id, name) of the port's
    floating: bool = False


# Built once: building a query costs more than running it, and every view of a server needs these.
_of_devices = select(Port.id, Port.device_id).where(Port.device_id.in_(bindparam("devices", expanding=True)))
_addresses = (
    select(Port.id, Port.device_id, Port.network_id, Port.mac_address)
    .add_columns(Network.name, IpAllocation.ip_address, Subnet.ip_version)
    .add_columns(FloatingIp.floating_ip_address)
    .join_from(Port, Network, Network.id == Port.network_id)
    .join(IpAllocation, IpAllocation.port_id == Port.id)
    .join(Subnet, Subnet.id == IpAllocation.subnet_id)
    .outerjoin(
        FloatingIp,
        (FloatingIp.port_id == Port.id) & (FloatingIp.fixed_ip_address == IpAllocation.ip_address),
    )
    .where(Port.device_id.in_(bindparam("devices", expanding=True)))
    .order_by(Port.created_at, Port.id, IpAllocation.position)
    .order_by(FloatingIp.created_at, FloatingIp.id)
)


def addresses(conn: Connection, device_ids: Sequence[str]) -> dict[str, list[PortAddress]]:
    """Device id → the addresses of its ports, the oldest port first. Devices without any are missing.

    A fixed address is followed by the floating ones that lead to it.
    """
    found: dict[str, list[PortAddress]] = {}
    for some in standard.batches(device_ids):
        rows = conn.execute(_addresses, {"devices": some})
        groups = ports.groups_of(conn, list({row.id for row in rows}))
        before: tuple[str, str] | None = None
        for row in rows:
            address = PortAddress(
                port_id=row.id,
                network_id=row.network_id,
                network_name=row.name,
                mac=row.mac_address,
                ip=row.ip_address,
                version=row.ip_version,
                security_groups=tuple(groups.get(row.id, ())),
            )
            mine = found.setdefault(row.device_id, [])
            # A fixed address has a row for each floating one.
            if (row.id, row.ip_address) != before:
                mine.append(address)
            before = row.id, row.ip_address
            if row.floating_ip_address is not None:
                mine.append(evolve(address, ip=row.floating_ip_address, floating=True))
    return found


def groups(conn: Connection, device_ids: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Device id → (id, name) of the security groups of its ports, each once."""
    devices: dict[str, str] = {}
    for some in standard.batches(device_ids):
        devices |= dict(conn.execute(_of_devices, {"devices": some}))
    found: dict[str, list[tuple[str, str]]] = {}
    for port_id, mine in ports.groups_of(conn, list(devices)).items():
        known = found.setdefault(devices[port_id], [])
        known += [group for group in mine if group not in known]
    return found
