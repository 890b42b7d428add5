"""How many addresses subnets have, and how many are taken. Reference: network.md, section 13."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network

from attrs import frozen
from sqlalchemy import bindparam, func, select

from cloudctl.db import Connection
from cloudctl.network import ipam, standard
from cloudctl.network.addresses import hosts
from cloudctl.network.tables import IpAllocation, Subnet

# Built once: building a statement costs more than running it.
_subnets = (
    select(Subnet)
    .where(Subnet.network_id.in_(bindparam("networks", expanding=True)))
    .order_by(Subnet.network_id, Subnet.created_at, Subnet.id)
)
_used = (
    select(IpAllocation.subnet_id, func.count())
    .where(IpAllocation.subnet_id.in_(bindparam("subnets", expanding=True)))
    .group_by(IpAllocation.subnet_id)
)


@frozen
class Use:
    """`total`: in the subnet's allocation pools; `used`: by ports, in the pools or not; `pooled`: used in the pools."""

    subnet: Subnet
    total: int
    used: int
    pooled: int

    @property
    def hosts(self) -> int:
        """How many addresses the subnet has for hosts, in the pools or not."""
        return hosts(ip_network(self.subnet.cidr)).size


def of_networks(conn: Connection, network_ids: Sequence[str]) -> dict[str, list[Use]]:
    """Network id → its subnets, the oldest first. Networks without any are missing."""
    found: dict[str, list[Use]] = {}
    for some in standard.batches(network_ids):
        subnets = conn.execute(_subnets, {"networks": some}).all()
        used: dict[str, int] = {}
        free: dict[str, int] = {}
        for few in standard.batches([subnet.id for subnet in subnets]):
            used |= dict(conn.execute(_used, {"subnets": few}))
            free |= ipam.free_in_pools(conn, few)
        for subnet in subnets:
            total = sum(pool.size for pool in ipam.pools_of(subnet))
            pooled = total - free.get(subnet.id, 0)
            found.setdefault(subnet.network_id, []).append(Use(subnet, total, used.get(subnet.id, 0), pooled))
    return found
