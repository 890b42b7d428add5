"""What a new cloud has: an external network for everybody, and a network of the demo project with a route to it."""

from __future__ import annotations

from datetime import datetime
from ipaddress import ip_network

from attrs import evolve
from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.network import (
    networks,
    router_gateways,
    router_interfaces,
    routers,
    rule_templates,
    subnet_pools,
    subnets,
)
from cloudctl.network.networks import NewNetwork
from cloudctl.network.options import NetworkOptions, usual_length
from cloudctl.network.router_gateways import Gateway
from cloudctl.network.routers import NewRouter
from cloudctl.network.segments import Segment
from cloudctl.network.subnet_pools import NewSubnetPool
from cloudctl.network.subnets import NewSubnet
from cloudctl.network.tables import Network, Subnet
from cloudctl.tasks import Unasked

PUBLIC, PRIVATE, ROUTER, POOL = "public", "private", "router", "default"


def bootstrap(
    conn: Connection,
    admin_project_id: str,
    demo_project_id: str,
    now: datetime,
    options: NetworkOptions,
    has_routers: bool = True,
) -> None:
    """Make the networks that do not exist yet, each with a subnet, and a router between them if the driver has routers.

    Before that, while no project has a security group yet, write the rules that groups begin with.
    """
    rule_templates.write_shipped(conn, now)
    if not _has(conn, admin_project_id, PUBLIC):
        public = NewNetwork(name=PUBLIC, external=True, is_default=True, segments=(_outside(options),))
        # Nobody gives out addresses by DHCP on the operator's own wire.
        subnet = NewSubnet(options.public_cidr, 4, f"{PUBLIC}-subnet", enable_dhcp=False)
        _make(conn, admin_project_id, public, subnet, now, options)
        prefix = options.pool_cidr
        # Once, with the external network: neither is made again after somebody deletes it.
        if subnet_pools.default_of(conn, ip_network(prefix).version) is None:
            pool = NewSubnetPool(POOL, [prefix], default_prefixlen=usual_length(prefix), is_default=True, shared=True)
            subnet_pools.make(conn, admin_project_id, pool, now)
    if not _has(conn, demo_project_id, PRIVATE):
        subnet = NewSubnet(options.private_cidr, 4, f"{PRIVATE}-subnet")
        made = _make(conn, demo_project_id, NewNetwork(name=PRIVATE), subnet, now, options)
        if has_routers:
            _join(conn, demo_project_id, made, now, options)


def _outside(options: NetworkOptions) -> Segment:
    """The first physical network as it is; a tunnel if the operator has none."""
    if not options.physical_networks:
        return Segment()
    return Segment("flat", options.physical_networks[0])


def _join(conn: Connection, project_id: str, subnet: Subnet, now: datetime, options: NetworkOptions) -> None:
    """A router leads from the subnet to the external network."""
    by = Unasked(project_id)
    public = conn.scalar(select(Network.id).where(Network.is_default.is_(True)))
    router = routers.create(conn, project_id, NewRouter(ROUTER), now, options, by)
    if public is not None:
        router_gateways.set(conn, router, Gateway(public), now, by)
    router_interfaces.add_subnet(conn, router, subnet, now, by)


def _has(conn: Connection, project_id: str, name: str) -> bool:
    query = select(Network.id).where(Network.project_id == project_id, Network.name == name)
    return conn.execute(query.limit(1)).first() is not None


def _make(
    conn: Connection, project_id: str, network: NewNetwork, subnet: NewSubnet, now: datetime, options: NetworkOptions
) -> Subnet:
    by = Unasked(project_id)
    made = networks.create(conn, project_id, network, now, options, by)
    wanted = evolve(subnet, ip_version=ip_network(subnet.cidr).version)
    return subnets.create(conn, made, project_id, wanted, now, by)
