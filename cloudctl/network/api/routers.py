"""`/routers`. Reference: network.md, section 7."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.network import extra_routes, networks, router_gateways, router_ports, routers, standard, tags
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
    Views,
    default,
    enveloped,
    listed,
    owner_named,
)
from cloudctl.network.api.attributes import standard as standard_view
from cloudctl.network.api.matching import check_match
from cloudctl.network.api.ports import FixedIps, requests
from cloudctl.network.options import NetworkOptions
from cloudctl.network.router_gateways import Gateway
from cloudctl.network.routers import NewRouter
from cloudctl.network.tables import Router
from cloudctl.rest.body import MISSING, Body, Check, Items, Loose, Missing, ValueProblem, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of
from cloudctl.rest.route import Routes

COLLECTION = lists.collection(
    "routers",
    Router.table,
    routers.not_found,
    filters={
        "name": any_of(Router.name),
        "status": any_of(Router.status),
        "admin_state_up": lists.truths(Router.admin_state_up),
    },
    sort_keys={
        "name": Router.name,
        "status": Router.status,
        "admin_state_up": Router.admin_state_up,
    },
)


def _only_false(value: bool) -> bool:
    if value:
        raise ValueProblem("this cloud supports neither distributed nor highly available routers")
    return value


No = Annotated[bool, Loose(), Check(_only_false)]


@frozen
class GatewayInfo:
    """An empty one is no gateway."""

    network_id: Id | Missing = MISSING
    enable_snat: Flag | Missing | None = MISSING
    external_fixed_ips: FixedIps | Missing | None = MISSING


@frozen
class Route:
    destination: IpText
    nexthop: IpText


# More than the domain takes, so that its own error is the one that is seen.
ExtraRoutes = Annotated[list[Route], Items(0, 100)]


@frozen
class CreateRouter:
    name: Text = ""
    description: Text = ""
    admin_state_up: Flag = True
    tenant_id: Project | Missing = MISSING
    project_id: Project | Missing = MISSING
    external_gateway_info: GatewayInfo | None = None
    availability_zone_hints: Annotated[list[Text], Items(0, 10)] | Missing = MISSING
    flavor_id: None = None
    service_type_id: None = None
    distributed: No | Missing = MISSING
    ha: No | Missing = MISSING
    tags: Tags | Missing = MISSING


@frozen
class UpdateRouter:
    name: Text | Missing = MISSING
    description: Text | Missing = MISSING
    admin_state_up: Flag | Missing = MISSING
    external_gateway_info: GatewayInfo | Missing | None = MISSING
    routes: ExtraRoutes | Missing | None = MISSING
    distributed: No | Missing = MISSING
    ha: No | Missing = MISSING


@frozen
class SomeRoutes:
    routes: ExtraRoutes


class Routers:
    routes = Routes("Routers")

    def __init__(self, db: Database, options: NetworkOptions) -> None:
        self.db = db
        self.options = options

    @routes.get("/routers", policy="network:routers:list", pure=True)
    async def list(self, call: Call) -> Json:
        """List routers."""
        return await self.db.read(self._list, call)

    def _list(self, conn: Connection, call: Call) -> Json:
        page = lists.fetch(conn, call, COLLECTION, routers.visible_to(conn, call.caller))
        return lists.answer(call, COLLECTION, page, self._views(conn, call, page.rows))

    @routes.post("/routers", policy="network:routers:create", status=201, body=Body(CreateRouter, "router", "routers"))
    async def create(self, call: Call, body: Any) -> Json:
        """Create a router, or several at once."""
        return enveloped(body, "router", "routers", await self.db.run(self._create, call, listed(body)))

    def _create(self, conn: Connection, call: Call, wanted: Rows) -> Views:
        now = self.db.now(conn)
        rows = []
        for each in wanted:
            owner = standard.owner_of_new(call.caller, owner_named(each.tenant_id, each.project_id))
            _check_kind(call, each)
            row = routers.create(conn, owner, _new(each), now, self.options, call.caller)
            gateway = _gateway(conn, call, each.external_gateway_info)
            if gateway is not None:
                router_gateways.set(conn, row, gateway, now, call.caller)
            tags.replace(conn, row.id, default(each.tags, []))
            rows.append(routers.get(conn, row.id))
        return self._views(conn, call, rows)

    @routes.get("/routers/<router_id>", policy="network:routers:show", pure=True)
    async def show(self, call: Call, router_id: str) -> Json:
        """Show a router."""
        return {"router": lists.narrowed(call, await self.db.read(self._show, call, router_id))}

    def _show(self, conn: Connection, call: Call, router_id: str) -> Json:
        return self._views(conn, call, [routers.visible(conn, call.caller, router_id)])[0]

    @routes.put("/routers/<router_id>", policy="network:routers:update", body=Body(UpdateRouter, "router"))
    async def update(self, call: Call, router_id: str, body: UpdateRouter) -> Json:
        """Change a router, its gateway and its routes."""
        return {"router": await self.db.run(self._update, call, router_id, body)}

    def _update(self, conn: Connection, call: Call, router_id: str, body: UpdateRouter) -> Json:
        row, now = self._held(conn, call, router_id), self.db.now(conn)
        _check_kind(call, body)
        changes = given(body, "name", "description", "admin_state_up")
        if not isinstance(body.routes, Missing):
            # The gateway may be what the present ones need and the new ones do not.
            changes["routes"] = []
        if changes:
            row = routers.change(conn, row, changes, now, call.caller)
        if not isinstance(body.external_gateway_info, Missing):
            gateway = _gateway(conn, call, body.external_gateway_info)
            if gateway is None:
                router_gateways.clear(conn, row, now, call.caller)
            else:
                router_gateways.set(conn, row, gateway, now, call.caller)
        if not isinstance(body.routes, Missing):
            extra_routes.set(conn, row, _parsed(body.routes), now, call.caller)
        return self._views(conn, call, [routers.get(conn, row.id)])[0]

    @routes.delete("/routers/<router_id>", policy="network:routers:delete")
    async def delete(self, call: Call, router_id: str) -> None:
        """Delete a router that has no interfaces."""
        await self.db.run(self._delete, call, router_id)

    def _delete(self, conn: Connection, call: Call, router_id: str) -> None:
        routers.remove(conn, self._held(conn, call, router_id), self.db.now(conn), call.caller)

    @routes.put(
        "/routers/<router_id>/add_extraroutes", policy="network:routers:update", body=Body(SomeRoutes, "router")
    )
    async def add_routes(self, call: Call, router_id: str, body: SomeRoutes) -> Json:
        """Add routes to those that a router has."""
        return {"router": await self.db.run(self._change_routes, call, router_id, extra_routes.merged, body)}

    @routes.put(
        "/routers/<router_id>/remove_extraroutes", policy="network:routers:update", body=Body(SomeRoutes, "router")
    )
    async def remove_routes(self, call: Call, router_id: str, body: SomeRoutes) -> Json:
        """Remove some of the routes that a router has."""
        return {"router": await self.db.run(self._change_routes, call, router_id, extra_routes.without, body)}

    def _change_routes(self, conn: Connection, call: Call, router_id: str, change: Any, body: SomeRoutes) -> Json:
        row = self._held(conn, call, router_id)
        wanted = change(row.routes, _parsed(body.routes))
        if wanted != row.routes:
            extra_routes.set(conn, row, wanted, self.db.now(conn), call.caller)
        return self._views(conn, call, [routers.get(conn, row.id)])[0]

    def _held(self, conn: Connection, call: Call, router_id: str) -> Any:
        """The router, locked, if the caller may change it."""
        row = routers.visible(conn, call.caller, router_id, lock=True)
        call.require(project_id=row.project_id)
        check_match(call, row)
        return row

    def _views(self, conn: Connection, call: Call, rows: Rows) -> Views:
        ids = [row.id for row in rows]
        gateways, tagged = router_ports.gateways_of(conn, ids), tags.of(conn, ids)
        addresses = router_gateways.addresses_of(conn, [*gateways.values()])
        kind, zone = call.may("network:routers:kind"), self.options.availability_zone
        views = []
        for row in rows:
            port = gateways.get(row.id)
            gateway = None if port is None else _gateway_view(row, port, addresses.get(port.port_id, []))
            views.append(view(row, gateway, tagged.get(row.id, []), zone, kind))
        return views


def _check_kind(call: Call, body: CreateRouter | UpdateRouter) -> None:
    if given(body, "distributed", "ha"):
        call.require("network:routers:kind")


def _new(body: CreateRouter) -> NewRouter:
    return NewRouter(
        name=body.name,
        description=body.description,
        admin_state_up=body.admin_state_up,
        availability_zone_hints=tuple(default(body.availability_zone_hints, [])),
    )


def _gateway(conn: Connection, call: Call, body: GatewayInfo | None) -> Gateway | None:
    """What a body asks for; None: no gateway. Raises Invalid, Forbidden, NotFound (the network)."""
    if body is None or not given(body):
        return None
    if isinstance(body.network_id, Missing):
        raise Invalid("Invalid input for external_gateway_info. Reason: 'network_id' is required.")
    if given(body, "enable_snat", "external_fixed_ips"):
        call.require("network:routers:gateway")
    networks.visible(conn, call.caller, body.network_id)
    snat = None if isinstance(body.enable_snat, Missing) else body.enable_snat
    fixed = None if isinstance(body.external_fixed_ips, Missing) else body.external_fixed_ips
    return Gateway(body.network_id, True if snat is None else snat, None if fixed is None else requests(fixed))


def _parsed(wanted: Any) -> list[extra_routes.Route]:
    return extra_routes.parsed((route.destination, route.nexthop) for route in wanted or ())


def _gateway_view(row: Any, port: Any, addresses: Any) -> Json:
    return {"network_id": port.network_id, "enable_snat": row.enable_snat, "external_fixed_ips": addresses}


def view(row: Any, gateway: Json | None, tagged: Any, zone: str, kind: bool) -> Json:
    """`kind`: whether the caller may know how the router is realised."""
    shown = {
        "id": row.id,
        "name": row.name,
        "status": row.status,
        "admin_state_up": row.admin_state_up,
        "external_gateway_info": gateway,
        "routes": row.routes,
        "availability_zone_hints": row.availability_zone_hints,
        "availability_zones": [zone],
        "flavor_id": None,
        "service_type_id": None,
        **standard_view(row, tagged),
    }
    if kind:
        shown |= {"distributed": False, "ha": False}
    return shown
