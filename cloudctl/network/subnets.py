"""Subnets: their addresses and how they may change. Reference: network.md, section 3; network-rules.md, section 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from ipaddress import ip_network
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, delete, or_, select, true

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.network import (
    address_scopes,
    addresses,
    dhcp_ports,
    fixed_ips,
    ipam,
    kinds,
    leaked_routes,
    local_ip_ports,
    network_segments,
    networks,
    quotas,
    router_ports,
    shares,
    standard,
    tags,
)
from cloudctl.network.addresses import Cidr, Range, parse_address, written
from cloudctl.network.tables import IpAllocation, Network, Subnet, SubnetPool
from cloudctl.rest import quota
from cloudctl.rest.body import MISSING, Missing
from cloudctl.rest.caller import Caller
from cloudctl.rest.listing import Condition
from cloudctl.tasks import Origin, queue

NAMESERVERS_MOST = 5
ROUTES_MOST = 20

Pools = tuple[tuple[str, str], ...]  # (start, end)
Routes = tuple[tuple[str, str], ...]  # (destination, nexthop)


@frozen
class NewSubnet:
    """`gateway_ip` MISSING: the first address; None: no gateway. `pools` None: all other addresses."""

    cidr: str
    ip_version: int
    name: str = ""
    description: str = ""
    gateway_ip: str | Missing | None = MISSING
    pools: Pools | None = None
    dns_nameservers: tuple[str, ...] = ()
    host_routes: Routes = ()
    enable_dhcp: bool = True
    ipv6_ra_mode: str | None = None
    ipv6_address_mode: str | None = None
    subnetpool_id: str | None = None  # that the cidr is from
    service_types: tuple[str, ...] = ()
    segment_id: str | None = None
    dns_publish_fixed_ip: bool = False


# Who takes an address of a subnet waits for who has locked it.
RECORDS = ById(Subnet, "Subnet {} could not be found.", "SubnetNotFound")
get, not_found = RECORDS.get, RECORDS.not_found

# Built once: building a statement costs more than running it.
_others = select(Subnet.cidr, Subnet.segment_id, Subnet.ip_version, Subnet.subnetpool_id).where(
    Subnet.network_id == bindparam("network")
)
_scope = select(SubnetPool.address_scope_id).where(SubnetPool.id == bindparam("pool"))
_scopes = select(SubnetPool.address_scope_id).where(SubnetPool.id.in_(bindparam("pools", expanding=True)))
_allocations = select(IpAllocation.port_id).where(IpAllocation.subnet_id == bindparam("subnet")).limit(1)
_delete = delete(Subnet).where(Subnet.id == bindparam("wanted"))

# -- who sees what


def visible_to(conn: Connection, caller: Caller) -> Condition:
    """The subnets that the caller sees: their own, those of networks shared with them, and all on their networks."""
    if standard.sees_all(caller):
        return true()
    reasons = [Subnet.project_id == caller.project_id]
    if shared := shares.seen(conn, shares.NETWORK, caller.project_id):
        # By their ids, which are few: the other conditions may match all of a cloud's subnets.
        reasons.append(Subnet.id.in_(list(conn.scalars(select(Subnet.id).where(Subnet.network_id.in_(shared))))))
    hosted = Subnet.network_project_id == caller.project_id
    if conn.execute(select(Subnet.id).where(hosted).limit(1)).first() is not None:
        reasons.append(hosted)
    return or_(*reasons)


def visible(conn: Connection, caller: Caller, subnet_id: str, lock: bool = False) -> Subnet:
    """The subnet, if the caller may see it. Raises NotFound. `lock`: as for `get`."""
    row = get(conn, subnet_id, lock=lock)
    if row.project_id != caller.project_id and not standard.sees_all(caller):
        try:
            networks.visible(conn, caller, row.network_id)
        except NotFound:
            raise not_found(subnet_id) from None
    return row


def to_remove(conn: Connection, caller: Caller, subnet_id: str) -> Subnet:
    """The subnet, locked for `remove`: after its network and the ports that change with it. Raises NotFound."""
    return quotas.after_turn(conn, caller, subnet_id, visible, _lock_around)


def _lock_around(conn: Connection, row: Subnet) -> None:
    networks.find(conn, row.network_id, lock=True)
    if addresses.is_automatic(row.ipv6_address_mode):
        fixed_ips.lock_everybody(conn, row.network_id)


# -- changes


def create(conn: Connection, network: Network, project_id: str, new: NewSubnet, now: datetime, by: Origin) -> Subnet:
    """Add a subnet to a locked network. Raises OverQuota, Invalid, Conflict."""
    others = conn.execute(_others, {"network": network.id}).all()
    cidr = _checked_cidr(network, new, [each for each, _, _, _ in others])
    network_segments.check_new_subnet(conn, network, [segment for _, segment, _, _ in others], new.segment_id)
    pools_beside = [pool for _, _, version, pool in others if version == cidr.version]
    _check_pool(conn, network, new.subnetpool_id, pools_beside)
    addresses.check_modes(new.ipv6_ra_mode, new.ipv6_address_mode, cidr, new.enable_dhcp)
    networks.check_mtu_of_family(network.mtu, cidr.version, network.id)
    gateway = _gateway(new.gateway_ip, cidr)
    if new.pools is None:
        pools = addresses.default_pools(cidr, gateway)
    else:
        pools = addresses.check_pools(new.pools, cidr)
        addresses.check_gateway_outside(pools, gateway)
    if addresses.is_automatic(new.ipv6_address_mode):
        fixed_ips.lock_everybody(conn, network.id)
    quota.take(conn, quotas.QUOTAS, project_id, {"subnet": 1})
    values = standard.new(project_id, now, description=new.description)
    row = Subnet(
        **values,
        network_id=network.id,
        name=new.name,
        ip_version=cidr.version,
        cidr=str(cidr),
        gateway_ip=None if gateway is None else str(gateway),
        enable_dhcp=new.enable_dhcp,
        allocation_pools=shown_pools(pools, cidr.version),
        dns_nameservers=checked_nameservers(new.dns_nameservers, cidr),
        host_routes=checked_routes(new.host_routes, cidr),
        ipv6_ra_mode=new.ipv6_ra_mode,
        ipv6_address_mode=new.ipv6_address_mode,
        subnetpool_id=new.subnetpool_id,
        service_types=checked_types(new.service_types),
        segment_id=new.segment_id,
        dns_publish_fixed_ip=new.dns_publish_fixed_ip,
        network_project_id="" if network.project_id == project_id else network.project_id,
    )
    standard.insert(conn, row)
    ipam.lay_out_new(conn, row.id, pools)
    if addresses.is_automatic(row.ipv6_address_mode):
        fixed_ips.give_everybody(conn, row, now)
    if row.segment_id is not None and not others:
        network_segments.subnets_changed(conn, network.id, now)
    _network_changed(conn, network.id, now, by)
    return row


def change(conn: Connection, row: Subnet, changes: dict[str, Any], now: datetime, by: Origin) -> Subnet:
    """Set columns of a locked subnet.

    `changes` holds columns of the table; allocation_pools, host_routes as pairs. Raises Invalid, Conflict.
    """
    changes, cidr = dict(changes), ip_network(row.cidr)
    if "gateway_ip" in changes:
        gateway = _gateway(changes["gateway_ip"], cidr)
        changes["gateway_ip"] = None if gateway is None else str(gateway)
        _check_gateway_unused(conn, row, changes["gateway_ip"])
    pools = ipam.pools_of(row)
    if "allocation_pools" in changes:
        pools = addresses.check_pools(changes["allocation_pools"], cidr)
        changes["allocation_pools"] = shown_pools(pools, cidr.version)
    held_gateway = changes.get("gateway_ip", row.gateway_ip)
    if "allocation_pools" in changes or "gateway_ip" in changes:
        addresses.check_gateway_outside(pools, parse_address(held_gateway) if held_gateway else None)
    if "dns_nameservers" in changes:
        changes["dns_nameservers"] = checked_nameservers(changes["dns_nameservers"], cidr)
    if "host_routes" in changes:
        changes["host_routes"] = checked_routes(changes["host_routes"], cidr)
    if "service_types" in changes:
        changes["service_types"] = checked_types(changes["service_types"])
    if "enable_dhcp" in changes:
        addresses.check_cidr(cidr, changes["enable_dhcp"])
        addresses.check_modes(row.ipv6_ra_mode, row.ipv6_address_mode, cidr, changes["enable_dhcp"])
    if changes.get("leak_routes"):
        leaked_routes.check(conn, row)
    moves = changes.get("segment_id", row.segment_id) != row.segment_id
    if moves:
        network_segments.check_changed_subnet(conn, row, changes["segment_id"])
    standard.change(conn, Subnet.table, row.id, now, **changes)
    if moves:
        network_segments.subnets_changed(conn, row.network_id, now)
    if "allocation_pools" in changes:
        ipam.lay_out(conn, row.id, pools)
    if {"gateway_ip", "leak_routes"} & changes.keys():
        router_ports.network_changed(conn, row.network_id)
    _network_changed(conn, row.network_id, now, by)
    return get(conn, row.id)


def remove(conn: Connection, row: Subnet, now: datetime, by: Origin) -> None:
    """Delete a subnet from `to_remove`. Raises Conflict while ports have addresses on it.

    Addresses that guests give themselves (SLAAC) are taken away instead, unless one is a local IP.
    """
    is_used = False
    if addresses.is_automatic(row.ipv6_address_mode):
        # The ports are locked, so no local IP is made of such an address afterwards.
        fixed_ips.take_from_everybody(conn, row, now)
        is_used = local_ip_ports.has_one_on(conn, row.network_id, row.cidr)
        local_ip_ports.forget_taken(conn, row.network_id)
    dhcp_ports.leave(conn, row, now)
    if is_used or conn.execute(_allocations, {"subnet": row.id}).first():
        raise Conflict(
            f"Unable to complete operation on subnet {row.id}: "
            "One or more ports have an IP allocation from this subnet.",
            type="SubnetInUse",
        )
    tags.forget(conn, row.id)
    conn.execute(_delete, {"wanted": row.id})
    if row.segment_id is not None:
        network_segments.subnets_changed(conn, row.network_id, now)
    _network_changed(conn, row.network_id, now, by)


def _network_changed(conn: Connection, network_id: str, now: datetime, by: Origin) -> None:
    standard.change(conn, Network.table, network_id, now)
    tasks.submit_once(conn, kinds.ENSURE_NETWORK, network_id, by)


# -- rules


def _checked_cidr(network: Network, wanted: NewSubnet, others: Iterable[str]) -> Cidr:
    cidr = addresses.parse_cidr(wanted.cidr)
    if cidr.version != wanted.ip_version:
        raise Invalid(
            f"Invalid input for operation: cidr '{wanted.cidr}' does not match the ip_version '{wanted.ip_version}'."
        )
    addresses.check_cidr(cidr, wanted.enable_dhcp)
    for other in others:
        if cidr.overlaps(ip_network(other)):
            raise Invalid(
                f"Invalid input for operation: Requested subnet with cidr: {cidr} for network: {network.id} "
                "overlaps with another subnet."
            )
    return cidr


def _check_pool(conn: Connection, network: Network, pool_id: str | None, others: Sequence[str | None]) -> None:
    """Raises Invalid unless the network's other subnets of the family, which are of these pools, go together with it.

    They do if they are of the same pool, of pools in the same address scope, or all of none.
    """
    if not others or pool_id in others:
        return
    scope_id = conn.scalar(_scope, {"pool": others[0]})
    if pool_id is None or scope_id is None:
        message = f"Subnets hosted on the same network {network.id} must be allocated from the same subnet pool."
        raise Invalid(message, type="NetworkSubnetPoolAffinityError")
    # Whoever takes a pool out of the scope has this turn, too.
    queue.lock_resource(conn, "address_scope", scope_id)
    if set(conn.scalars(_scopes, {"pools": [others[0], pool_id]})) != {scope_id}:
        raise address_scopes.torn(network.id)


def _check_gateway_unused(conn: Connection, row: Subnet, wanted: str | None) -> None:
    """Raises Conflict if the gateway's address would change while a router has the old one."""
    if row.gateway_ip in (None, wanted) or not router_ports.holds(conn, row.id, row.gateway_ip):
        return
    message = f"Current gateway ip {row.gateway_ip} already in use by a port of a router. Unable to update."
    raise Conflict(message, type="GatewayIpInUse")


def _gateway(wanted: str | Missing | None, cidr: Cidr) -> addresses.Address | None:
    if wanted is None:
        return None
    if isinstance(wanted, Missing):
        return addresses.default_gateway(cidr)
    gateway = parse_address(wanted, "gateway_ip")
    addresses.check_gateway(gateway, cidr)
    return gateway


def shown_pools(pools: list[Range], version: int) -> list[dict[str, str]]:
    return [{"start": written(pool.first, version), "end": written(pool.last, version)} for pool in pools]


def checked_types(types: Sequence[str]) -> list[str]:
    """Owners of devices, each once. Raises Invalid for any not of the form `compute:nova`, whatever its kind."""
    for each in types:
        kind, colon, _ = each.partition(":")
        if not kind or not colon:
            message = f"Subnet service type {each[:64]} does not correspond to a valid device owner."
            raise Invalid(message, type="InvalidSubnetServiceType")
    return list(dict.fromkeys(types))


def checked_nameservers(servers: tuple[str, ...], cidr: Cidr) -> list[str]:
    """In their order. Raises Invalid for more than five, repeated ones, and the other family."""
    found = [parse_address(server, "dns_nameservers") for server in servers]
    if len(found) > NAMESERVERS_MOST:
        message = f"Unable to complete operation: the number of DNS nameservers exceeds the limit {NAMESERVERS_MOST}."
        raise Invalid(message, type="DNSNameServersExhausted")
    if len(set(found)) < len(found):
        raise Invalid("Invalid input for dns_nameservers. Reason: Duplicate nameserver.")
    for server in found:
        if server.version != cidr.version:
            raise Invalid(f"Invalid input for operation: nameserver {server} is not an IPv{cidr.version} address.")
    return [str(server) for server in found]


def checked_routes(routes: Routes, cidr: Cidr) -> list[dict[str, str]]:
    """In their order. Raises Invalid for more than 20, repeated ones, and the other family."""
    if len(routes) > ROUTES_MOST:
        message = f"Unable to complete operation: the number of host routes exceeds the limit {ROUTES_MOST}."
        raise Invalid(message, type="HostRoutesExhausted")
    found = []
    for destination, nexthop in routes:
        there = addresses.parse_cidr(destination, "host_routes")
        through = parse_address(nexthop, "host_routes")
        if there.version != cidr.version or through.version != cidr.version:
            raise Invalid(f"Invalid input for operation: host route {there} is not of IPv{cidr.version}.")
        found.append({"destination": str(there), "nexthop": str(through)})
    if len({(route["destination"], route["nexthop"]) for route in found}) < len(found):
        raise Invalid("Invalid input for host_routes. Reason: Duplicate hostroute.")
    return found
