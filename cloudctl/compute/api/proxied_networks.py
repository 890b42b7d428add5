"""Networks and floating IPs as compute once showed them: for clients that ask for 2.35 or less.

Reference: compute.md, section 17.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from attrs import field, frozen
from sqlalchemy import bindparam, select

from cloudctl.compute.api import query
from cloudctl.compute.options import ComputeOptions
from cloudctl.db import Connection, Database
from cloudctl.errors import Conflict, NotFound
from cloudctl.network import floating_ips, networks
from cloudctl.network.floating_ips import NewFloatingIp
from cloudctl.network.standard import batches
from cloudctl.network.tables import FloatingIp, Network, Subnet
from cloudctl.rest.body import MISSING, Body, Length, Missing
from cloudctl.rest.call import Call
from cloudctl.rest.caller import Caller
from cloudctl.rest.route import Routes

LAST = (2, 35)
# What networks once had here, and networking does not show in this form.
UNSAID = ("bridge", "broadcast", "cidr", "cidr_v6", "dns1", "dns2", "gateway", "gateway_v6", "netmask", "netmask_v6")
# The same, for administrators.
UNSAID_OF_HOSTS = (
    "bridge_interface", "created_at", "deleted", "deleted_at", "dhcp_server", "dhcp_start", "enable_dhcp", "host",
    "injected", "multi_host", "priority", "project_id", "rxtx_base", "share_address", "updated_at", "vlan",
    "vpn_private_address", "vpn_public_address", "vpn_public_port",
)  # fmt: skip


@frozen
class Allocate:
    pool: Annotated[str, Length(1, 255)] | Missing | None = MISSING


def network(call: Call, row: Network) -> dict[str, Any]:
    unsaid = (*UNSAID, *UNSAID_OF_HOSTS) if call.may("compute:networks:show:admin_fields") else UNSAID
    return {"id": row.id, "label": row.name, "mtu": row.mtu, **dict.fromkeys(unsaid)}


@frozen
class Networks:
    routes = Routes("Networks (deprecated)")

    db: Database
    options: ComputeOptions = field(factory=ComputeOptions)

    @routes.get("/os-networks", policy="compute:networks:list", until=LAST)
    async def list(self, call: Call) -> dict[str, Any]:
        """List networks."""
        return {"networks": [network(call, row) for row in await self.db.scan(_networks, call)]}

    @routes.get("/os-networks/<network>", policy="compute:networks:list", until=LAST)
    async def show(self, call: Call, network: str) -> dict[str, Any]:
        """Show one network."""
        return {"network": _shown(call, await self.db.read(networks.visible, call.caller, network))}

    @routes.get("/os-tenant-networks", policy="compute:networks:list", until=LAST)
    async def list_of_project(self, call: Call) -> dict[str, Any]:
        """List networks in brief."""
        return {"networks": await self.db.scan(_in_short, call, None)}

    @routes.get("/os-tenant-networks/<network>", policy="compute:networks:list", until=LAST)
    async def show_of_project(self, call: Call, network: str) -> dict[str, Any]:
        """Show one network in brief."""
        return {"network": (await self.db.scan(_in_short, call, network))[0]}

    @routes.get("/os-floating-ip-pools", policy="compute:floating_ips:list", until=LAST)
    async def pools(self, call: Call) -> dict[str, Any]:
        """List the external networks that floating IPs come from."""
        return {"floating_ip_pools": [{"name": row.name} for row in await self.db.scan(_pools, call.caller)]}

    @routes.get("/os-floating-ips", policy="compute:floating_ips:list", until=LAST, query=("limit", "offset"))
    async def floating_ips(self, call: Call) -> dict[str, Any]:
        """List the project's floating IPs."""
        limit, offset = query.offset_page(call, self.options)
        return {"floating_ips": await self.db.scan(_floating_ips, call, limit, offset)}

    @routes.get("/os-floating-ips/<floating_ip>", policy="compute:floating_ips:list", until=LAST)
    async def floating_ip(self, call: Call, floating_ip: str) -> dict[str, Any]:
        """Show one floating IP."""
        return {"floating_ip": await self.db.scan(_floating_ip, call, floating_ip)}

    @routes.post(
        "/os-floating-ips", policy="compute:floating_ips:manage", until=LAST, body=Body(Allocate, optional=True)
    )
    async def allocate(self, call: Call, body: Allocate | None) -> dict[str, Any]:
        """Allocate a floating IP from a pool."""
        return {"floating_ip": await self.db.run(_allocate, call, (body and body.pool) or None)}

    @routes.delete("/os-floating-ips/<floating_ip>", policy="compute:floating_ips:manage", until=LAST, status=202)
    async def release(self, call: Call, floating_ip: str) -> None:
        """Release a floating IP."""
        await self.db.run(_release, call, floating_ip)


# Built once: building a statement costs more than running it.
_cidrs = (
    select(Subnet.network_id, Subnet.cidr)
    .where(Subnet.network_id.in_(bindparam("of", expanding=True)))
    .order_by(Subnet.created_at, Subnet.id)
)
# In the class, a handler's parameter hides this name.
_shown = network


def _networks(conn: Connection, call: Call) -> Sequence[Network]:
    mine = select(Network).where(networks.visible_to(conn, call.caller))
    return conn.execute(mine.order_by(Network.created_at, Network.id)).all()


def _in_short(conn: Connection, call: Call, network_id: str | None) -> list[dict[str, Any]]:
    rows = _networks(conn, call) if network_id is None else [networks.visible(conn, call.caller, network_id)]
    cidrs: dict[str, str] = {}
    for some in batches([row.id for row in rows]):
        for of_network, cidr in conn.execute(_cidrs, {"of": some}):
            cidrs.setdefault(of_network, cidr)
    return [{"id": row.id, "label": row.name, "cidr": cidrs.get(row.id)} for row in rows]


def _pools(conn: Connection, caller: Caller) -> Sequence[Network]:
    """The external networks that the caller may use, the default one first."""
    outside = select(Network).where(Network.external.is_(True), networks.visible_to(conn, caller))
    return conn.execute(outside.order_by(Network.is_default.desc(), Network.created_at, Network.id)).all()


def _views(conn: Connection, rows: Sequence[FloatingIp]) -> list[dict[str, Any]]:
    of_pools = {row.floating_network_id for row in rows}
    names = dict(conn.execute(select(Network.id, Network.name).where(Network.id.in_(of_pools))).all())
    ports = floating_ips.ports_of(conn, [row.port_id for row in rows if row.port_id is not None])
    found = []
    for row in rows:
        port = ports.get(row.port_id or "")
        of_server = port is not None and port.device_owner.startswith("compute:")
        found.append(
            {
                "id": row.id,
                "ip": row.floating_ip_address,
                "pool": names.get(row.floating_network_id),
                "fixed_ip": row.fixed_ip_address,
                "instance_id": port.device_id if port is not None and of_server else None,
            }
        )
    return found


def _floating_ips(conn: Connection, call: Call, limit: int, offset: int) -> list[dict[str, Any]]:
    mine = select(FloatingIp).where(FloatingIp.project_id == call.project_id)
    page = mine.order_by(FloatingIp.created_at, FloatingIp.id).limit(limit).offset(offset)
    return _views(conn, conn.execute(page).all())


def _floating_ip(conn: Connection, call: Call, id: str) -> dict[str, Any]:
    return _views(conn, [floating_ips.visible(conn, call.caller, id)])[0]


def _allocate(conn: Connection, call: Call, pool: str | None) -> dict[str, Any]:
    """Raises NotFound, OverQuota."""
    found = next((row for row in _pools(conn, call.caller) if pool in (None, row.name, row.id)), None)
    if found is None:
        raise NotFound("Floating IP pool not found.")
    try:
        made = floating_ips.create(conn, call.project_id, NewFloatingIp(found.id), None, call.now, call.caller)
    except Conflict:
        raise NotFound(f"No more floating IPs in pool {found.name}.") from None
    return _views(conn, [made])[0]


def _release(conn: Connection, call: Call, id: str) -> None:
    floating_ips.remove(conn, floating_ips.to_remove(conn, call.caller, id), call.now, call.caller)
