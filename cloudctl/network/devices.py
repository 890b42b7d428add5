"""What servers and other devices have through their ports: addresses and security groups, of many at once."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen
from sqlalchemy import Connection, bindparam, select

from cloudctl.network import ports, standard
from cloudctl.network.tables import allocations, floating_ips
from cloudctl.network.tables import networks as networks_table
from cloudctl.network.tables import ports as ports_table
from cloudctl.network.tables import subnets as subnets_table


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
_of_devices = select(ports_table.c.id, ports_table.c.device_id).where(
    ports_table.c.device_id.in_(bindparam("devices", expanding=True))
)
_addresses = (
    select(ports_table.c.id, ports_table.c.device_id, ports_table.c.network_id, ports_table.c.mac_address)
    .add_columns(networks_table.c.name, allocations.c.ip_address, subnets_table.c.ip_version)
    .add_columns(floating_ips.c.floating_ip_address)
    .join_from(ports_table, networks_table, networks_table.c.id == ports_table.c.network_id)
    .join(allocations, allocations.c.port_id == ports_table.c.id)
    .join(subnets_table, subnets_table.c.id == allocations.c.subnet_id)
    .outerjoin(
        floating_ips,
        (floating_ips.c.port_id == ports_table.c.id) & (floating_ips.c.fixed_ip_address == allocations.c.ip_address),
    )
    .where(ports_table.c.device_id.in_(bindparam("devices", expanding=True)))
    .order_by(ports_table.c.created_at, ports_table.c.id, allocations.c.position)
    .order_by(floating_ips.c.created_at, floating_ips.c.id)
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
        devices |= {row.id: row.device_id for row in conn.execute(_of_devices, {"devices": some})}
    found: dict[str, list[tuple[str, str]]] = {}
    for port_id, mine in ports.groups_of(conn, list(devices)).items():
        known = found.setdefault(devices[port_id], [])
        known += [group for group in mine if group not in known]
    return found
