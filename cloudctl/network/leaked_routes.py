"""Subnets that the wire below a router's gateway has routes to. Neutron's extension `ovn-bgp`.

There they all share one address space: no two may overlap.
"""

from __future__ import annotations

from ipaddress import ip_network

from sqlalchemy import bindparam, exists, select

from cloudctl.db import Connection
from cloudctl.errors import Invalid
from cloudctl.network.tables import IpAllocation, RouterPort, Subnet
from cloudctl.tasks import queue

# Built once: building a statement costs more than running it.
_inside, _outside = RouterPort.table.alias("inside"), RouterPort.table.alias("outside")
_ways_out = (
    select(_inside.c.router_id)
    .join_from(_inside, _outside, _outside.c.router_id == _inside.c.router_id)
    .where(_inside.c.network_id == bindparam("network"))
    .where(exists().where(IpAllocation.port_id == _inside.c.port_id, IpAllocation.subnet_id == bindparam("subnet")))
    .where(_inside.c.is_gateway.is_(False), _outside.c.is_gateway.is_(True))
    .limit(1)
)
_others = select(Subnet.id, Subnet.cidr).where(
    Subnet.leak_routes.is_(True), Subnet.ip_version == bindparam("version"), Subnet.id != bindparam("but")
)


def check(conn: Connection, subnet: Subnet) -> None:
    """Check that routes to a locked subnet can be leaked. Raises Invalid."""
    if conn.scalar(_ways_out, {"network": subnet.network_id, "subnet": subnet.id}) is None:
        raise _bad(f"subnet {subnet.id} is on no router that has an external gateway")
    # Concurrent requests take turns.
    queue.lock_resource(conn, "subnet", "leaked ones")
    cidr = ip_network(subnet.cidr)
    for id, other in conn.execute(_others, {"version": subnet.ip_version, "but": subnet.id}):
        if cidr.overlaps(ip_network(other)):
            raise _bad(f"cidr {cidr} of subnet {subnet.id} overlaps with cidr {other} of subnet {id}")


def _bad(reason: str) -> Invalid:
    return Invalid(f"Bad subnets request: its routes cannot be leaked: {reason}.", type="BadRequest")
