"""`/subnets`. Reference: network.md, section 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from attrs import evolve, frozen
from sqlalchemy import Column, bindparam, select

from cloudctl.db import Connection
from cloudctl.drivers.interfaces import IRouteLeaks
from cloudctl.errors import Invalid
from cloudctl.network import dhcp_ports, networks, shares, subnet_pools, subnets
from cloudctl.network.addresses import parse_cidr
from cloudctl.network.api import lists, sharing
from cloudctl.network.api.attributes import Flag, Id, IpText, Text, Version, standard
from cloudctl.network.api.resource import Declared
from cloudctl.network.standard import owner_of_new, refuse_foreign, rows
from cloudctl.network.subnets import NewSubnet
from cloudctl.network.tables import Network, Subnet
from cloudctl.rest.body import MISSING, Items, Length, Loose, Range
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Filter, any_of, number
from cloudctl.rest.resource import REQUIRED, Attribute

POOLS_MOST = 100
# More than the domain accepts, so that the client sees the domain's own error.
SOME = Items(0, 100)

# Built once: building a statement costs more than running it.
_external = select(Network.id).where(Network.id.in_(bindparam("networks", expanding=True)), Network.external)


def _of_network(flag: Column[bool]) -> Filter:
    """A filter on a flag of the subnet's network that few have."""
    those = select(Network.id).where(flag.is_(True))
    return lists.truths_of(
        flag.name, lambda wanted: Subnet.network_id.in_(those) if wanted else Subnet.network_id.not_in(those)
    )


@frozen
class Pool:
    start: IpText
    end: IpText


@frozen
class HostRoute:
    destination: IpText
    nexthop: IpText


Types = Annotated[list[Annotated[str, Length(1, 255)]], Items(0, 20)]
PREFIX_DELEGATION = "prefix_delegation"
PoolId = Literal["prefix_delegation"] | Id
PrefixLength = Annotated[int, Loose(), Range(0, 128)]
Mode = Literal["slaac", "dhcpv6-stateful", "dhcpv6-stateless"]
Pools = Annotated[list[Pool], Items(0, POOLS_MOST)]
Servers = Annotated[list[IpText], SOME]
HostRoutes = Annotated[list[HostRoute], SOME]
LISTS = ("dns_nameservers", "host_routes", "service_types")


def external(conn: Connection, call: Call, records: Sequence[Subnet]) -> list[bool]:
    network_ids = sorted({subnet.network_id for subnet in records})
    found = {id for (id,) in rows(conn, _external, networks=network_ids)}
    return [subnet.network_id in found for subnet in records]


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> Subnet:
    return _created(conn, call, owner, values)[1]


def _created(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> tuple[Network, Subnet]:
    """The locked network, too."""
    network = networks.visible(conn, call.caller, values.pop("network_id"), lock=True)
    refuse_foreign(call.caller, network, "network:subnets:create:foreign_network")
    if values.get("segment_id") is not None:
        call.require("network:subnets:segment")
    if values.get("service_types"):
        call.require("network:subnets:service_types")
    # An administrator's subnet on a project's network belongs to that project.
    project = owner_of_new(call.caller, owner) if owner else network.project_id
    if values.get("ip_version", 4) not in (4, 6):
        raise Invalid(f"Invalid input for ip_version. Reason: '{values['ip_version']}' is not in [4, 6].")
    values = _given_cidr(conn, call, network, project, _paired(values))
    new = NewSubnet(pools=values.pop("allocation_pools"), **values)
    return network, subnets.create(conn, network, project, new, call.now, call.caller)


def _create_served(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> Subnet:
    """As `create`, with the address of the network's DHCP port: left to the network's task, that is a commit more."""
    network, made = _created(conn, call, owner, values)
    dhcp_ports.follow_held(conn, network, call.now)
    return made


def _given_cidr(conn: Connection, call: Call, network: Network, project: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values with the CIDR that a subnet pool gives, if requested. Raises Invalid, NotFound, Conflict."""
    pool_id, length = values.pop("subnetpool_id", None), values.pop("prefixlen", None)
    if values.pop("use_default_subnetpool", False):
        if pool_id is not None:
            raise _bad("subnetpool_id and use_default_subnetpool cannot both be specified")
        default = subnet_pools.default_for(conn, call.caller, values.get("ip_version", 4))
        if default is None:
            raise _bad(f"no default subnetpool found for IPv{values.get('ip_version', 4)}")
        pool_id = default.id
    if pool_id is None:
        if "cidr" not in values:
            raise _bad("a subnetpool must be specified in the absence of a cidr")
        if length is not None:
            raise _bad("prefixlen can only be specified with a subnetpool")
        if "ip_version" not in values:
            raise Invalid(
                "Failed to parse request. Required attribute 'ip_version' not specified", type="HTTPBadRequest"
            )
        return values
    if pool_id == PREFIX_DELEGATION:
        raise _bad("prefix delegation is not supported")
    if length is not None and "cidr" in values:
        raise _bad("cidr and prefixlen cannot both be specified")
    if "cidr" not in values and values["allocation_pools"] is not None:
        raise _bad("allocation_pools can only be specified with a cidr")
    pool = subnet_pools.visible(conn, call.caller, pool_id, lock=True)
    if values.setdefault("ip_version", pool.ip_version) != pool.ip_version:
        raise _bad(f"ip_version {values['ip_version']} is not that of subnetpool {pool_id}")
    if "cidr" in values:
        parse_cidr(values["cidr"])
    cidr = subnet_pools.allocate(conn, pool, project, values.get("cidr"), length)
    return {**values, "cidr": str(cidr), "subnetpool_id": pool.id}


def _bad(reason: str) -> Invalid:
    return Invalid(f"Bad subnets request: {reason}.", type="BadRequest")


def check(conn: Connection, call: Call, subnet: Subnet, changes: dict[str, Any]) -> dict[str, Any]:
    """Locks the network, which changes with its subnets, before the subnet, as whoever adds one does."""
    if changes:
        networks.find(conn, subnet.network_id, lock=True)
    return changes


def change(conn: Connection, call: Call, subnet: Subnet, changes: dict[str, Any]) -> Subnet:
    if "service_types" in changes:
        call.require("network:subnets:service_types")
    if "leak_routes" in changes:
        call.require("network:subnets:leak_routes")
    if "segment_id" in changes:
        call.require("network:subnets:segment")
    return subnets.change(conn, subnet, _paired(changes), call.now, call.caller)


def remove(conn: Connection, call: Call, subnet: Subnet) -> None:
    subnets.remove(conn, subnet, call.now, call.caller)


def _paired(values: dict[str, Any]) -> dict[str, Any]:
    """Pools and routes as pairs of texts. A list that is null, which is how it is cleared, is empty."""
    found = {name: () if name in LISTS and value is None else value for name, value in values.items()}
    if found.get("allocation_pools") is not None:
        found["allocation_pools"] = tuple((pool.start, pool.end) for pool in found["allocation_pools"])
    if "host_routes" in found:
        found["host_routes"] = tuple((route.destination, route.nexthop) for route in found["host_routes"])
    return found


_subnet = Subnet
SUBNETS = Declared(
    name="subnet",
    record=Subnet,
    attributes=(
        Attribute("id", _subnet.id, filter=any_of, sort=True),
        Attribute("name", _subnet.name, Text, post="", put=True, filter=any_of, sort=True),
        Attribute("network_id", _subnet.network_id, Id, post=REQUIRED, filter=any_of, sort=True),
        Attribute("ip_version", _subnet.ip_version, Version, post=MISSING, filter=number, sort=True),
        Attribute("cidr", _subnet.cidr, IpText, post=MISSING, filter=any_of, sort=True),
        Attribute("gateway_ip", _subnet.gateway_ip, IpText | None, post=MISSING, put=True, filter=any_of, sort=True),
        Attribute("allocation_pools", _subnet.allocation_pools, Pools | None, post=None, put=Pools),
        Attribute("enable_dhcp", _subnet.enable_dhcp, Flag, post=True, put=True, filter=lists.truths, sort=True),
        Attribute("dns_nameservers", _subnet.dns_nameservers, Servers | None, post=MISSING, put=True),
        Attribute("host_routes", _subnet.host_routes, HostRoutes | None, post=MISSING, put=True),
        Attribute("ipv6_ra_mode", _subnet.ipv6_ra_mode, Mode | None, post=None, filter=any_of, sort=True),
        Attribute("ipv6_address_mode", _subnet.ipv6_address_mode, Mode | None, post=None, filter=any_of, sort=True),
        Attribute("subnetpool_id", _subnet.subnetpool_id, PoolId | None, post=MISSING, filter=any_of, sort=True),
        Attribute("service_types", _subnet.service_types, Types | None, post=MISSING, put=True),
        Attribute("segment_id", _subnet.segment_id, Id | None, post=MISSING, put=True, filter=any_of, sort=True),
        Attribute("dns_publish_fixed_ip", _subnet.dns_publish_fixed_ip, Flag, post=MISSING, put=True),
        Attribute("leak_routes", _subnet.leak_routes, Flag, put=True, needs=IRouteLeaks),
        Attribute("use_default_subnetpool", None, Flag, post=MISSING, view=None),
        Attribute("prefixlen", None, PrefixLength, post=MISSING, view=None),
        Attribute("router:external", view=external),
        *standard(Subnet),
    ),
    filters={"router:external": _of_network(Network.external)},
    of_caller=sharing.filters(_subnet.network_id, shares.NETWORK),
    visible=subnets.visible,
    visible_to=subnets.visible_to,
    not_found=subnets.not_found,
    create=create,
    check=check,
    locks_first=True,
    change=change,
    to_remove=subnets.to_remove,
    remove=remove,
    says={
        "list": "List subnets: one's own, and those of shared and external networks.",
        "delete": "Delete a subnet of which no port has an address.",
    },
)
# Where the driver gives out addresses.
SERVED_SUBNETS = evolve(SUBNETS, create=_create_served)
