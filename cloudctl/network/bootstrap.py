"""What a new cloud has: an external network for everybody, and a network of the demo project."""

from __future__ import annotations

from ipaddress import ip_network

from attrs import evolve
from sqlalchemy import Connection, select

from cloudctl.network import networks, subnets
from cloudctl.network.networks import NewNetwork
from cloudctl.network.options import NetworkOptions
from cloudctl.network.segments import Segment
from cloudctl.network.subnets import NewSubnet
from cloudctl.network.tables import networks as table

PUBLIC, PRIVATE = "public", "private"


def bootstrap(
    conn: Connection, admin_project_id: str, demo_project_id: str, now: float, options: NetworkOptions
) -> None:
    """Make the networks that are not there yet, each with a subnet. `now`: seconds since the epoch."""
    if not _has(conn, admin_project_id, PUBLIC):
        public = NewNetwork(name=PUBLIC, external=True, segment=_outside(options))
        # Nobody gives out addresses by DHCP on the operator's own wire.
        subnet = NewSubnet("", options.public_cidr, 4, f"{PUBLIC}-subnet", enable_dhcp=False)
        _make(conn, admin_project_id, public, subnet, now, options)
    if not _has(conn, demo_project_id, PRIVATE):
        subnet = NewSubnet("", options.private_cidr, 4, f"{PRIVATE}-subnet")
        _make(conn, demo_project_id, NewNetwork(name=PRIVATE), subnet, now, options)


def _outside(options: NetworkOptions) -> Segment:
    """The first physical network as it is; a tunnel if the operator has none."""
    if not options.physical_networks:
        return Segment()
    return Segment("flat", options.physical_networks[0])


def _has(conn: Connection, project_id: str, name: str) -> bool:
    query = select(table.c.id).where(table.c.project_id == project_id, table.c.name == name)
    return conn.execute(query.limit(1)).first() is not None


def _make(
    conn: Connection, project_id: str, network: NewNetwork, subnet: NewSubnet, now: float, options: NetworkOptions
) -> None:
    made = networks.create(conn, project_id, network, now, options)
    wanted = evolve(subnet, network_id=made.id, ip_version=ip_network(subnet.cidr).version)
    subnets.create(conn, made, project_id, wanted, now)
