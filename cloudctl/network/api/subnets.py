"""`/subnets`. Reference: network.md, section 3."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import frozen
from sqlalchemy import exists, select
from sqlalchemy.sql import and_

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.network import networks, standard, subnets, tags
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import (
    Flag,
    Id,
    IpText,
    Json,
    Project,
    Rows,
    Tags,
    Text,
    Version,
    Views,
    default,
    enveloped,
    listed,
    owner_named,
)
from cloudctl.network.api.attributes import standard as standard_view
from cloudctl.network.api.matching import check_match
from cloudctl.network.subnets import NewSubnet
from cloudctl.network.tables import Network, Subnet
from cloudctl.rest.body import MISSING, Body, Items, Missing, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, any_of, number
from cloudctl.rest.route import Routes

POOLS_MOST = 100
# More than the domain takes, so that its own error is the one that is seen.
SOME = Items(0, 100)

Mode = Literal["slaac", "dhcpv6-stateful", "dhcpv6-stateless"]


def _network_is(flag: Any) -> Condition:
    return exists().where(and_(Network.id == Subnet.network_id, flag))


def _of_network(flag: Any) -> Any:
    """A filter on a flag of the subnet's network."""
    test = lists.truths(flag)
    return lambda values: _network_is(test(values))


COLLECTION = lists.collection(
    "subnets",
    Subnet.table,
    subnets.not_found,
    filters={
        "name": any_of(Subnet.name),
        "network_id": any_of(Subnet.network_id),
        "ip_version": number(Subnet.ip_version),
        "cidr": any_of(Subnet.cidr),
        "gateway_ip": any_of(Subnet.gateway_ip),
        "enable_dhcp": lists.truths(Subnet.enable_dhcp),
        "ipv6_ra_mode": any_of(Subnet.ipv6_ra_mode),
        "ipv6_address_mode": any_of(Subnet.ipv6_address_mode),
        "shared": _of_network(Network.shared),
        "router:external": _of_network(Network.external),
    },
    sort_keys={
        "name": Subnet.name,
        "network_id": Subnet.network_id,
        "ip_version": Subnet.ip_version,
        "cidr": Subnet.cidr,
        "enable_dhcp": Subnet.enable_dhcp,
    },
)


@frozen
class Pool:
    start: IpText
    end: IpText


@frozen
class HostRoute:
    destination: IpText
    nexthop: IpText


Pools = Annotated[list[Pool], Items(0, POOLS_MOST)]
Servers = Annotated[list[IpText], SOME]
HostRoutes = Annotated[list[HostRoute], SOME]


@frozen
class CreateSubnet:
    network_id: Id
    ip_version: Version
    cidr: IpText | Missing = MISSING
    name: Text = ""
    description: Text = ""
    tenant_id: Project | Missing = MISSING
    project_id: Project | Missing = MISSING
    gateway_ip: IpText | Missing | None = MISSING
    allocation_pools: Pools | Missing = MISSING
    dns_nameservers: Servers | Missing = MISSING
    host_routes: HostRoutes | Missing = MISSING
    enable_dhcp: Flag = True
    ipv6_ra_mode: Mode | None = None
    ipv6_address_mode: Mode | None = None
    tags: Tags | Missing = MISSING


@frozen
class UpdateSubnet:
    name: Text | Missing = MISSING
    description: Text | Missing = MISSING
    gateway_ip: IpText | Missing | None = MISSING
    allocation_pools: Pools | Missing = MISSING
    dns_nameservers: Servers | Missing = MISSING
    host_routes: HostRoutes | Missing = MISSING
    enable_dhcp: Flag | Missing = MISSING


def _pairs_of_pools(pools: Any) -> subnets.Pools:
    return tuple((pool.start, pool.end) for pool in pools)


def _pairs_of_routes(routes: Any) -> subnets.Routes:
    return tuple((route.destination, route.nexthop) for route in routes)


class Subnets:
    routes = Routes("Subnets")

    def __init__(self, db: Database) -> None:
        self.db = db

    @routes.get("/subnets", policy="network:subnets:list", pure=True)
    async def list(self, call: Call) -> Json:
        """List subnets: one's own, and those of shared and external networks."""
        return await self.db.read(self._list, call)

    def _list(self, conn: Connection, call: Call) -> Json:
        page = lists.fetch(conn, call, COLLECTION, subnets.visible_to(conn, call.caller))
        return lists.answer(call, COLLECTION, page, _views(conn, page.rows))

    @routes.post("/subnets", policy="network:subnets:create", status=201, body=Body(CreateSubnet, "subnet", "subnets"))
    async def create(self, call: Call, body: Any) -> Json:
        """Create a subnet, or several at once."""
        return enveloped(body, "subnet", "subnets", await self.db.run(self._create, call, listed(body)))

    def _create(self, conn: Connection, call: Call, wanted: Rows) -> Views:
        now = self.db.now(conn)
        rows = []
        for each in wanted:
            network = networks.visible(conn, call.caller, each.network_id, lock=True)
            standard.refuse_foreign(call.caller, network, "network:subnets:create:foreign_network")
            named = owner_named(each.tenant_id, each.project_id)
            # An administrator's subnet on a project's network belongs to that project.
            owner = standard.owner_of_new(call.caller, named) if named else network.project_id
            row = subnets.create(conn, network, owner, _new(each), now, call.caller)
            tags.replace(conn, row.id, default(each.tags, []))
            rows.append(row)
        return _views(conn, rows)

    @routes.get("/subnets/<subnet_id>", policy="network:subnets:show", pure=True)
    async def show(self, call: Call, subnet_id: str) -> Json:
        """Show a subnet."""
        return {"subnet": lists.narrowed(call, await self.db.read(self._show, call, subnet_id))}

    def _show(self, conn: Connection, call: Call, subnet_id: str) -> Json:
        return _views(conn, [subnets.visible(conn, call.caller, subnet_id)])[0]

    @routes.put("/subnets/<subnet_id>", policy="network:subnets:update", body=Body(UpdateSubnet, "subnet"))
    async def update(self, call: Call, subnet_id: str, body: UpdateSubnet) -> Json:
        """Change a subnet."""
        return {"subnet": await self.db.run(self._update, call, subnet_id, body)}

    def _update(self, conn: Connection, call: Call, subnet_id: str, body: UpdateSubnet) -> Json:
        row = self._held(conn, call, subnet_id)
        changes = given(body)
        if "allocation_pools" in changes:
            changes["allocation_pools"] = _pairs_of_pools(changes["allocation_pools"])
        if "host_routes" in changes:
            changes["host_routes"] = _pairs_of_routes(changes["host_routes"])
        if changes:
            row = subnets.change(conn, row, changes, self.db.now(conn), call.caller)
        return _views(conn, [row])[0]

    @routes.delete("/subnets/<subnet_id>", policy="network:subnets:delete")
    async def delete(self, call: Call, subnet_id: str) -> None:
        """Delete a subnet of which no port has an address."""
        await self.db.run(self._delete, call, subnet_id)

    def _delete(self, conn: Connection, call: Call, subnet_id: str) -> None:
        subnets.remove(conn, self._held(conn, call, subnet_id), self.db.now(conn), call.caller)

    def _held(self, conn: Connection, call: Call, subnet_id: str) -> Any:
        """The subnet, locked, if the caller may change it."""
        seen = subnets.visible(conn, call.caller, subnet_id)
        call.require(project_id=seen.project_id)
        row = subnets.held(conn, subnet_id)
        check_match(call, row)
        return row


def _new(body: CreateSubnet) -> NewSubnet:
    if isinstance(body.cidr, Missing):
        raise Invalid(
            "Bad subnets request: a subnetpool must be specified in the absence of a cidr.", type="BadRequest"
        )
    if body.ip_version not in (4, 6):
        raise Invalid(f"Invalid input for ip_version. Reason: '{body.ip_version}' is not in [4, 6].")
    return NewSubnet(
        network_id=body.network_id,
        cidr=body.cidr,
        ip_version=body.ip_version,
        name=body.name,
        description=body.description,
        gateway_ip=body.gateway_ip,
        pools=None if isinstance(body.allocation_pools, Missing) else _pairs_of_pools(body.allocation_pools),
        dns_nameservers=tuple(default(body.dns_nameservers, [])),
        host_routes=_pairs_of_routes(default(body.host_routes, [])),
        enable_dhcp=body.enable_dhcp,
        ipv6_ra_mode=body.ipv6_ra_mode,
        ipv6_address_mode=body.ipv6_address_mode,
    )


def _views(conn: Connection, rows: Rows) -> Views:
    tagged = tags.of(conn, [row.id for row in rows])
    wanted = sorted({row.network_id for row in rows})
    external = set()
    for some in standard.batches(wanted):
        query = select(Network.id).where(Network.id.in_(some), Network.external)
        external |= set(conn.scalars(query))
    return [view(row, tagged.get(row.id, []), row.network_id in external) for row in rows]


def view(row: Any, tagged: Any, external: bool) -> Json:
    return {
        "id": row.id,
        "name": row.name,
        "network_id": row.network_id,
        "ip_version": row.ip_version,
        "cidr": row.cidr,
        "gateway_ip": row.gateway_ip,
        "allocation_pools": row.allocation_pools,
        "enable_dhcp": row.enable_dhcp,
        "dns_nameservers": row.dns_nameservers,
        "host_routes": row.host_routes,
        "ipv6_ra_mode": row.ipv6_ra_mode,
        "ipv6_address_mode": row.ipv6_address_mode,
        "router:external": external,
        **standard_view(row, tagged),
    }
