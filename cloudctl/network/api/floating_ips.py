"""`/floatingips`. Reference: network.md, section 8."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from sqlalchemy import func

from cloudctl.db import Connection, Database
from cloudctl.errors import Conflict
from cloudctl.network import associations, floating_ips, networks, ports, standard, subnets, tags
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import (
    Id,
    IpText,
    Json,
    Project,
    Rows,
    Tags,
    Text,
    Views,
    default,
    enveloped,
    listed,
    owner_named,
)
from cloudctl.network.api.attributes import standard as standard_view
from cloudctl.network.api.matching import check_match
from cloudctl.network.associations import Target
from cloudctl.network.floating_ips import NewFloatingIp
from cloudctl.network.tables import FloatingIp
from cloudctl.rest.body import MISSING, Body, Missing, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.route import Routes

COLLECTION = lists.collection(
    "floatingips",
    FloatingIp.table,
    floating_ips.not_found,
    filters={
        "status": any_of(FloatingIp.status),
        "floating_network_id": any_of(FloatingIp.floating_network_id),
        "floating_ip_address": any_of(FloatingIp.floating_ip_address),
        "fixed_ip_address": any_of(FloatingIp.fixed_ip_address),
        "port_id": any_of(FloatingIp.port_id),
        "router_id": any_of(FloatingIp.router_id),
    },
    sort_keys={
        "status": FloatingIp.status,
        "floating_network_id": FloatingIp.floating_network_id,
        "floating_ip_address": FloatingIp.floating_ip_address,
        "fixed_ip_address": func.coalesce(FloatingIp.fixed_ip_address, ""),
        "port_id": func.coalesce(FloatingIp.port_id, ""),
        "router_id": func.coalesce(FloatingIp.router_id, ""),
    },
)


@frozen
class CreateFloatingIp:
    floating_network_id: Id
    description: Text = ""
    tenant_id: Project | Missing = MISSING
    project_id: Project | Missing = MISSING
    floating_ip_address: IpText | None = None
    subnet_id: Id | None = None
    port_id: Id | None = None
    fixed_ip_address: IpText | None = None
    tags: Tags | Missing = MISSING


@frozen
class UpdateFloatingIp:
    description: Text | Missing = MISSING
    port_id: Id | Missing | None = MISSING
    fixed_ip_address: IpText | Missing | None = MISSING


class FloatingIps:
    routes = Routes("Floating IPs")

    def __init__(self, db: Database) -> None:
        self.db = db

    @routes.get("/floatingips", policy="network:floatingips:list", pure=True)
    async def list(self, call: Call) -> Json:
        """List floating IPs."""
        return await self.db.read(self._list, call)

    def _list(self, conn: Connection, call: Call) -> Json:
        page = lists.fetch(conn, call, COLLECTION, floating_ips.visible_to(conn, call.caller))
        return lists.answer(call, COLLECTION, page, _views(conn, page.rows))

    @routes.post(
        "/floatingips",
        policy="network:floatingips:create",
        status=201,
        body=Body(CreateFloatingIp, "floatingip", "floatingips"),
    )
    async def create(self, call: Call, body: Any) -> Json:
        """Allocate a floating IP, or several at once."""
        return enveloped(body, "floatingip", "floatingips", await self.db.run(self._create, call, listed(body)))

    def _create(self, conn: Connection, call: Call, wanted: Rows) -> Views:
        now = self.db.now(conn)
        rows = []
        for each in wanted:
            owner = standard.owner_of_new(call.caller, owner_named(each.tenant_id, each.project_id))
            if each.floating_ip_address is not None:
                call.require("network:floatingips:create:address")
            network = networks.visible(conn, call.caller, each.floating_network_id)
            floating_ips.check_network(conn, network)
            if each.subnet_id is not None:
                subnets.visible(conn, call.caller, each.subnet_id)
            to = _target(conn, call, owner, network.id, each.port_id, each.fixed_ip_address)
            new = NewFloatingIp(network.id, each.description, each.floating_ip_address, each.subnet_id)
            row = floating_ips.create(conn, owner, new, to, now, call.caller)
            tags.replace(conn, row.id, default(each.tags, []))
            rows.append(row)
        return _views(conn, rows)

    @routes.get("/floatingips/<floatingip_id>", policy="network:floatingips:show", pure=True)
    async def show(self, call: Call, floatingip_id: str) -> Json:
        """Show a floating IP."""
        return {"floatingip": lists.narrowed(call, await self.db.read(self._show, call, floatingip_id))}

    def _show(self, conn: Connection, call: Call, floatingip_id: str) -> Json:
        return _views(conn, [floating_ips.visible(conn, call.caller, floatingip_id)])[0]

    @routes.put(
        "/floatingips/<floatingip_id>", policy="network:floatingips:update", body=Body(UpdateFloatingIp, "floatingip")
    )
    async def update(self, call: Call, floatingip_id: str, body: UpdateFloatingIp) -> Json:
        """Let a floating IP lead to a port, or to none; or change its description."""
        return {"floatingip": await self.db.run(self._update, call, floatingip_id, body)}

    def _update(self, conn: Connection, call: Call, floatingip_id: str, body: UpdateFloatingIp) -> Json:
        seen, now = self._seen(conn, call, floatingip_id), self.db.now(conn)
        changes = given(body, "description")
        port_id = default(body.port_id, None)
        fixed = default(body.fixed_ip_address, None)
        # The port before the floating IP: see `associations`.
        to = _target(conn, call, seen.project_id, seen.floating_network_id, port_id, fixed)
        row = floating_ips.held(conn, seen.id)
        check_match(call, row)
        if not isinstance(body.port_id, Missing):
            row = floating_ips.lead(conn, row, to, now, call.caller, **changes)
        elif changes:
            row = floating_ips.change(conn, row, changes, now)
        return _views(conn, [row])[0]

    @routes.delete("/floatingips/<floatingip_id>", policy="network:floatingips:delete")
    async def delete(self, call: Call, floatingip_id: str) -> None:
        """Give the address of a floating IP back."""
        await self.db.run(self._delete, call, floatingip_id)

    def _delete(self, conn: Connection, call: Call, floatingip_id: str) -> None:
        row = floating_ips.held(conn, self._seen(conn, call, floatingip_id).id)
        check_match(call, row)
        floating_ips.remove(conn, row, self.db.now(conn), call.caller)

    def _seen(self, conn: Connection, call: Call, floatingip_id: str) -> Any:
        """The floating IP, if the caller may change it."""
        row = floating_ips.visible(conn, call.caller, floatingip_id)
        call.require(project_id=row.project_id)
        return row


def _target(
    conn: Connection, call: Call, owner: str, network_id: str, port_id: str | None, fixed: str | None
) -> Target | None:
    """Where a body wants a floating IP of `owner` to lead to. Locks the router and the port.

    Raises Invalid, NotFound, Conflict.
    """
    if port_id is None:
        if fixed is not None:
            raise associations.bad("fixed_ip_address cannot be specified without a port_id")
        return None
    to = associations.target(conn, ports.visible(conn, call.caller, port_id), owner, network_id, fixed)
    # What was read of it before the lock may be wrong by now.
    port = ports.visible(conn, call.caller, port_id, lock=True)
    if associations.target(conn, port, owner, network_id, fixed) != to:
        raise Conflict(f"Port {port_id} was changed at the same time.")
    return to


def _views(conn: Connection, rows: Rows) -> Views:
    tagged = tags.of(conn, [row.id for row in rows])
    details = floating_ips.ports_of(conn, sorted({row.port_id for row in rows if row.port_id is not None}))
    return [view(row, details.get(row.port_id), tagged.get(row.id, [])) for row in rows]


def view(row: Any, port: Any, tagged: Any) -> Json:
    """`port`: that which it leads to, or None."""
    return {
        "id": row.id,
        "status": row.status,
        "floating_network_id": row.floating_network_id,
        "floating_ip_address": row.floating_ip_address,
        "fixed_ip_address": row.fixed_ip_address,
        "port_id": row.port_id,
        "router_id": row.router_id,
        "port_details": None if port is None else _details(port),
        **standard_view(row, tagged),
    }


def _details(port: Any) -> Json:
    return {
        "name": port.name,
        "network_id": port.network_id,
        "mac_address": port.mac_address,
        "admin_state_up": port.admin_state_up,
        "status": port.status,
        "device_id": port.device_id,
        "device_owner": port.device_owner,
    }
