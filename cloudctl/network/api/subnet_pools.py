"""`/subnetpools`. Reference: network.md, section 4."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.network import networks, shares, subnet_pools
from cloudctl.network.api import lists, sharing
from cloudctl.network.api.attributes import Flag, Id, IpText, Json, standard
from cloudctl.network.api.matching import check_match
from cloudctl.network.api.resource import Declared
from cloudctl.network.api.sharing import shared
from cloudctl.network.standard import owner_of_new, refuse_foreign
from cloudctl.network.subnet_pools import NewSubnetPool
from cloudctl.network.tables import SubnetPool
from cloudctl.rest.body import Body, Items, Loose, Name, Range
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of, number
from cloudctl.rest.resource import REQUIRED, Attribute, of_each
from cloudctl.rest.route import Routes

Length = Annotated[int, Loose(), Range(0, 128)]
Quota = Annotated[int, Loose(), Range(0)]
# More than the domain accepts, so that the client sees the domain's own error.
Prefixes = Annotated[list[IpText], Items(0, 100)]


def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> SubnetPool:
    for name in ("is_default", "shared"):
        if values[name]:
            call.require(f"network:subnetpools:{name}")
    return subnet_pools.create(conn, call.caller, owner_of_new(call.caller, owner), NewSubnetPool(**values))


def change(conn: Connection, call: Call, pool: SubnetPool, changes: dict[str, Any]) -> SubnetPool:
    if "is_default" in changes:
        call.require("network:subnetpools:is_default")
    return subnet_pools.change(conn, call.caller, pool, changes)


def remove(conn: Connection, call: Call, pool: SubnetPool) -> None:
    subnet_pools.remove(conn, pool)


_c = SubnetPool
SUBNET_POOLS = Declared(
    name="subnetpool",
    title="Subnet pools",
    noun="a subnet pool",
    record=SubnetPool,
    attributes=(
        Attribute("id", _c.id, filter=any_of, sort=True),
        Attribute("name", _c.name, Name, post=REQUIRED, put=True, filter=any_of, sort=True),
        Attribute("prefixes", _c.prefixes, Prefixes, post=REQUIRED, put=True),
        Attribute("ip_version", _c.ip_version, filter=number, sort=True),
        Attribute(
            "min_prefixlen", _c.min_prefixlen, Length | None, post=None, put=Length, filter=number, sort=True,
            view=of_each(lambda pool: str(pool.min_prefixlen)),
        ),
        Attribute(
            "max_prefixlen", _c.max_prefixlen, Length | None, post=None, put=Length, filter=number, sort=True,
            view=of_each(lambda pool: str(pool.max_prefixlen)),
        ),
        Attribute(
            "default_prefixlen", _c.default_prefixlen, Length | None, post=None, put=Length, filter=number, sort=True,
            view=of_each(lambda pool: str(pool.default_prefixlen)),
        ),
        Attribute("default_quota", _c.default_quota, Quota | None, post=None, put=True, filter=number, sort=True),
        Attribute("address_scope_id", _c.address_scope_id, Id | None, post=None, put=True, filter=any_of, sort=True),
        Attribute("is_default", _c.is_default, Flag, post=False, put=True, filter=lists.truths, sort=True),
        Attribute("shared", None, Flag, post=False, view=shared, at_first=False),
        *standard(SubnetPool),
    ),
    of_caller=sharing.filters(_c.id, shares.SUBNET_POOL),
    visible=subnet_pools.visible,
    visible_to=subnet_pools.visible_to,
    not_found=subnet_pools.not_found,
    create=create,
    change=change,
    remove=remove,
    says={
        "list": "List subnet pools: one's own and shared ones.",
        "delete": "Delete a subnet pool of which there are no subnets.",
    },
)  # fmt: skip


@frozen
class SomePrefixes:
    prefixes: Prefixes


@frozen
class OfNetwork:
    network_id: Id


ONE = "/subnetpools/<subnetpool_id>"
RULE = "network:subnetpools:update"


@frozen
class PoolPrefixes:
    routes = Routes("Subnet pools")

    db: Database

    @routes.put(f"{ONE}/add_prefixes", policy=RULE, body=Body(SomePrefixes))
    async def add(self, call: Call, subnetpool_id: str, body: SomePrefixes) -> Json:
        """Add prefixes to a subnet pool."""
        return {"prefixes": await self.db.run(self._add, call, subnetpool_id, body)}

    def _add(self, conn: Connection, call: Call, id: str, body: SomePrefixes) -> list[str]:
        pool = _changeable(conn, call, id)
        return subnet_pools.add_prefixes(conn, call.caller, pool, body.prefixes).prefixes

    @routes.put(f"{ONE}/remove_prefixes", policy=RULE, body=Body(SomePrefixes))
    async def remove(self, call: Call, subnetpool_id: str, body: SomePrefixes) -> Json:
        """Remove prefixes from a subnet pool; no subnet may have addresses of them."""
        return {"prefixes": await self.db.run(self._remove, call, subnetpool_id, body)}

    def _remove(self, conn: Connection, call: Call, id: str, body: SomePrefixes) -> list[str]:
        pool = _changeable(conn, call, id)
        return subnet_pools.take_prefixes(conn, pool, body.prefixes, call.now).prefixes

    @routes.put(f"{ONE}/onboard_network_subnets", policy=RULE, body=Body(OfNetwork))
    async def onboard(self, call: Call, subnetpool_id: str, body: OfNetwork) -> Any:
        """Move the subnets of a network into a subnet pool."""
        return await self.db.run(self._onboard, call, subnetpool_id, body.network_id)

    def _onboard(self, conn: Connection, call: Call, id: str, network_id: str) -> list[Json]:
        network = networks.visible(conn, call.caller, network_id, lock=True)
        refuse_foreign(call.caller, network, "network:subnets:create:foreign_network")
        found = subnet_pools.onboard(conn, call.caller, _changeable(conn, call, id), network)
        return [{"id": each.id, "cidr": each.cidr} for each in found]


def _changeable(conn: Connection, call: Call, id: str) -> SubnetPool:
    """The pool, locked, if the caller may change it and its revision is the expected one."""
    pool = subnet_pools.visible(conn, call.caller, id, lock=True)
    call.require(project_id=pool.project_id)
    check_match(call, pool)
    return pool
