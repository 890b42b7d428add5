"""A network for projects without: made from the default pools, with a way out. Reference: network.md, section 14."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, delete, insert, select

from cloudctl.db import Connection
from cloudctl.errors import Conflict, NotFound
from cloudctl.network import networks, ports, router_gateways, router_interfaces, routers, subnet_pools, subnets
from cloudctl.network.networks import NewNetwork
from cloudctl.network.options import NetworkOptions
from cloudctl.network.router_gateways import Gateway
from cloudctl.network.routers import NewRouter
from cloudctl.network.subnets import NewSubnet
from cloudctl.network.tables import AutoTopology, Network, SubnetPool
from cloudctl.rest.caller import Caller
from cloudctl.tasks import queue

PREFIX = "auto_allocated"

# Built once: building a statement costs more than running it.
_of_project = select(AutoTopology).where(AutoTopology.project_id == bindparam("project"))
_outside = select(Network).where(Network.is_default.is_(True))
_forget = delete(AutoTopology).where(AutoTopology.project_id == bindparam("project"))


class Needed(NamedTuple):
    external_network_id: str
    pools: tuple[SubnetPool, ...]


def check(conn: Connection, caller: Caller) -> Needed:
    """What a topology is made of. Raises Conflict if an administrator has not prepared it for the caller."""
    found = (subnet_pools.default_for(conn, caller, version) for version in (4, 6))
    pools = tuple(pool for pool in found if pool is not None)
    if not pools:
        raise _failure("No default subnetpools defined.")
    outside = conn.execute(_outside).first()
    if outside is None or not networks.RECORDS.is_seen(conn, caller, outside):
        raise _failure("No default router:external network.")
    return Needed(outside.id, pools)


def ensure(conn: Connection, caller: Caller, project_id: str, options: NetworkOptions) -> str:
    """The id of the project's network, which is made unless it exists.

    Raises Conflict (nothing is prepared, there is no room), OverQuota.
    """
    # Concurrent requests take turns.
    queue.lock_resource(conn, "auto_topology", project_id)
    present = conn.execute(_of_project, {"project": project_id}).first()
    if present is not None and networks.find(conn, present.network_id) is not None:
        return present.network_id
    conn.execute(_forget, {"project": project_id})
    needed, by = check(conn, caller), (caller.now, caller)
    # Before the project's turn, as for subnets that are made one by one.
    networks.pinned(conn, needed.external_network_id)
    pools = [subnet_pools.get(conn, pool.id, lock=True) for pool in needed.pools]
    network = networks.create(conn, project_id, NewNetwork(name=f"{PREFIX}_network"), caller.now, options, caller)
    network = networks.get(conn, network.id, lock=True)
    router = routers.create(conn, project_id, NewRouter(f"{PREFIX}_router"), caller.now, options, caller)
    router_gateways.set(conn, router, Gateway(needed.external_network_id), *by)
    for pool in pools:
        cidr = subnet_pools.allocate(conn, pool, project_id, None, None)
        name = f"{PREFIX}_subnet_v{pool.ip_version}"
        new = NewSubnet(str(cidr), pool.ip_version, name, subnetpool_id=pool.id)
        router_interfaces.add_subnet(conn, router, subnets.create(conn, network, project_id, new, *by), *by)
    row = {"project_id": project_id, "network_id": network.id, "router_id": router.id}
    conn.execute(insert(AutoTopology).values(**row))
    return network.id


def remove(conn: Connection, caller: Caller, project_id: str) -> None:
    """Take away what was made for a project. Raises NotFound if nothing was, Conflict while a port uses it."""
    present = conn.execute(_of_project, {"project": project_id}).first()
    if present is None:
        message = f"No auto allocated topology exists for project {project_id}."
        raise NotFound(message, type="AutoAllocatedTopologyNotFound")
    by = caller.now, caller
    router = routers.find(conn, present.router_id, lock=True)
    network = networks.find(conn, present.network_id, lock=True)
    if router is not None:
        for port in ports.of_device(conn, router.id):
            if port.network_id == present.network_id:
                router_interfaces.remove(conn, router, port.id, None, *by)
        routers.remove(conn, router, *by)
    if network is not None:
        networks.remove(conn, network, *by)
    conn.execute(_forget, {"project": project_id})


def _failure(reason: str) -> Conflict:
    return Conflict(f"Deployment error: {reason}", type="AutoAllocationFailure")
