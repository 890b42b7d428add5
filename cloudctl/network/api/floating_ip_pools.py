"""`/floatingip_pools`: where floating IPs can be allocated. Reference: network.md, section 8."""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import select

from cloudctl.db import Connection, Database
from cloudctl.network import networks
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json
from cloudctl.network.tables import Network, Subnet
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

FIELDS = ("subnet_id", "subnet_name", "network_id", "cidr", "project_id", "tenant_id")


@frozen
class FloatingIpPools:
    routes = Routes("Floating IPs")

    db: Database

    @routes.get("/floatingip_pools", policy="network:floatingips:list", pure=True)
    async def list(self, call: Call) -> Json:
        """List the subnets that floating IPs get their addresses from."""
        return await self._list(call)

    @routes.get("/floatingip-pools", policy="network:floatingips:list", pure=True)
    async def list_by_dashes(self, call: Call) -> Json:
        """List the same by the other name that clients use."""
        return await self._list(call)

    async def _list(self, call: Call) -> Json:
        unknown = [name[:64] for name in call.query if name not in lists.RESERVED and name not in FIELDS]
        if unknown:
            raise lists.bad(f"{unknown} is invalid attribute for filtering")
        return {"floatingip_pools": await self.db.scan(_pools, call)}


def _pools(conn: Connection, call: Call) -> list[Json]:
    query = (
        select(Subnet)
        .join_from(Subnet, Network, Network.id == Subnet.network_id)
        .where(Network.external.is_(True), Subnet.ip_version == 4, networks.visible_to(conn, call.caller))
        .order_by(Subnet.created_at, Subnet.id)
    )
    views = [_view(row) for row in conn.execute(query)]
    asked = [(name, call.query.all(name)) for name in FIELDS if name in call.query]
    return [lists.narrowed(call, each) for each in views if all(each[name] in values for name, values in asked)]


def _view(row: Subnet) -> Json:
    owner = {"project_id": row.project_id, "tenant_id": row.project_id}
    return {"subnet_id": row.id, "subnet_name": row.name, "network_id": row.network_id, "cidr": row.cidr, **owner}
