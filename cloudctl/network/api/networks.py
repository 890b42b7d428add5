"""`/networks`. Reference: network.md, section 2."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.network import networks, qos_policies, standard, tags
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import (
    Flag,
    Id,
    Json,
    Mtu,
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
from cloudctl.network.networks import NewNetwork
from cloudctl.network.options import NetworkOptions
from cloudctl.network.segments import Segment
from cloudctl.network.tables import Network
from cloudctl.rest.body import MISSING, Body, Items, Length, Loose, Missing, Range, given, wire
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of, number
from cloudctl.rest.route import Routes

PhysicalName = Annotated[str, Length(1, 64)]

COLLECTION = lists.collection(
    "networks",
    Network.table,
    networks.not_found,
    filters={
        "name": any_of(Network.name),
        "status": any_of(Network.status),
        "admin_state_up": lists.truths(Network.admin_state_up),
        "shared": lists.truths(Network.shared),
        "router:external": lists.truths(Network.external),
        "is_default": lists.truths(Network.is_default),
        "port_security_enabled": lists.truths(Network.port_security_enabled),
        "mtu": number(Network.mtu),
        "qos_policy_id": any_of(Network.qos_policy_id),
        "provider:network_type": any_of(Network.network_type),
        "provider:physical_network": any_of(Network.physical_network),
        "provider:segmentation_id": number(Network.segmentation_id),
    },
    sort_keys={
        "name": Network.name,
        "status": Network.status,
        "admin_state_up": Network.admin_state_up,
        "mtu": Network.mtu,
    },
)


@frozen
class CreateNetwork:
    name: Text = ""
    description: Text = ""
    admin_state_up: Flag = True
    tenant_id: Project | Missing = MISSING
    project_id: Project | Missing = MISSING
    shared: Flag = False
    external: Flag = wire("router:external", default=False)
    is_default: Flag = False
    port_security_enabled: Flag = True
    mtu: Mtu = 0
    availability_zone_hints: Annotated[list[Text], Items(0, 10)] | Missing = MISSING
    network_type: Annotated[str, Length(1, 16)] | None = wire("provider:network_type", default=None)
    physical_network: PhysicalName | None = wire("provider:physical_network", default=None)
    segmentation_id: Annotated[int, Loose(), Range(0)] | None = wire("provider:segmentation_id", default=None)
    qos_policy_id: Id | None = None
    tags: Tags | Missing = MISSING


@frozen
class UpdateNetwork:
    name: Text | Missing = MISSING
    description: Text | Missing = MISSING
    admin_state_up: Flag | Missing = MISSING
    shared: Flag | Missing = MISSING
    external: Flag | Missing = wire("router:external", default=MISSING)
    is_default: Flag | Missing = MISSING
    port_security_enabled: Flag | Missing = MISSING
    mtu: Mtu | Missing = MISSING
    qos_policy_id: Id | Missing | None = MISSING


class Networks:
    routes = Routes("Networks")

    def __init__(self, db: Database, options: NetworkOptions) -> None:
        self.db = db
        self.options = options

    @routes.get("/networks", policy="network:networks:list", pure=True)
    async def list(self, call: Call) -> Json:
        """List networks: one's own, shared and external ones."""
        if any(name.startswith("provider:") for name in call.query):
            call.require("network:networks:show:provider")
        return await self.db.read(self._list, call)

    def _list(self, conn: Connection, call: Call) -> Json:
        page = lists.fetch(conn, call, COLLECTION, networks.visible_to(conn, call.caller))
        return lists.answer(call, COLLECTION, page, self._views(conn, call, page.rows))

    @routes.post(
        "/networks", policy="network:networks:create", status=201, body=Body(CreateNetwork, "network", "networks")
    )
    async def create(self, call: Call, body: Any) -> Json:
        """Create a network, or several at once."""
        return enveloped(body, "network", "networks", await self.db.run(self._create, call, listed(body)))

    def _create(self, conn: Connection, call: Call, wanted: Rows) -> Views:
        now = self.db.now(conn)
        rows = []
        for each in wanted:
            owner = standard.owner_of_new(call.caller, owner_named(each.tenant_id, each.project_id))
            qos_policies.check_set(conn, call.caller, None, each.qos_policy_id)
            row = networks.create(conn, owner, self._new(call, each), now, self.options, call.caller)
            tags.replace(conn, row.id, default(each.tags, []))
            rows.append(row)
        return self._views(conn, call, rows)

    def _new(self, call: Call, body: CreateNetwork) -> NewNetwork:
        if body.shared:
            call.require("network:networks:create:shared")
        if body.external:
            call.require("network:networks:create:external")
        if body.is_default:
            call.require("network:networks:create:is_default")
        segment = Segment(body.network_type or "vxlan", body.physical_network, body.segmentation_id)
        if segment != Segment() or body.network_type is not None:
            call.require("network:networks:create:provider")
        return NewNetwork(
            name=body.name,
            description=body.description,
            admin_state_up=body.admin_state_up,
            shared=body.shared,
            external=body.external,
            is_default=body.is_default,
            port_security_enabled=body.port_security_enabled,
            mtu=body.mtu,
            segment=segment,
            availability_zone_hints=tuple(default(body.availability_zone_hints, [])),
            qos_policy_id=body.qos_policy_id,
        )

    @routes.get("/networks/<network_id>", policy="network:networks:show", pure=True)
    async def show(self, call: Call, network_id: str) -> Json:
        """Show a network."""
        return {"network": lists.narrowed(call, await self.db.read(self._show, call, network_id))}

    def _show(self, conn: Connection, call: Call, network_id: str) -> Json:
        return self._views(conn, call, [networks.visible(conn, call.caller, network_id)])[0]

    @routes.put("/networks/<network_id>", policy="network:networks:update", body=Body(UpdateNetwork, "network"))
    async def update(self, call: Call, network_id: str, body: UpdateNetwork) -> Json:
        """Change a network."""
        return {"network": await self.db.run(self._update, call, network_id, body)}

    def _update(self, conn: Connection, call: Call, network_id: str, body: UpdateNetwork) -> Json:
        row = networks.visible(conn, call.caller, network_id, lock=True)
        call.require(project_id=row.project_id)
        changes = given(body)
        for name in ("shared", "external", "is_default"):
            if name in changes:
                call.require(f"network:networks:update:{name}")
        check_match(call, row)
        if "qos_policy_id" in changes:
            qos_policies.check_set(conn, call.caller, row.qos_policy_id, changes["qos_policy_id"])
        if changes:
            row = networks.change(conn, row, changes, self.db.now(conn), self.options, call.caller)
        return self._views(conn, call, [row])[0]

    @routes.delete("/networks/<network_id>", policy="network:networks:delete")
    async def delete(self, call: Call, network_id: str) -> None:
        """Delete a network with its subnets; it must have no ports."""
        await self.db.run(self._delete, call, network_id)

    def _delete(self, conn: Connection, call: Call, network_id: str) -> None:
        row = networks.visible(conn, call.caller, network_id, lock=True)
        call.require(project_id=row.project_id)
        check_match(call, row)
        networks.remove(conn, row, self.db.now(conn), call.caller)

    def _views(self, conn: Connection, call: Call, rows: Rows) -> Views:
        ids = [row.id for row in rows]
        subnets, tagged = networks.subnets_of(conn, ids), tags.of(conn, ids)
        provider = call.may("network:networks:show:provider")
        zone = self.options.availability_zone
        return [view(row, subnets.get(row.id, []), tagged.get(row.id, []), zone, provider) for row in rows]


def view(row: Any, subnets: Any, tagged: Any, zone: str, provider: bool) -> Json:
    """`provider`: whether the caller may know which wire the network is on."""
    shown = {
        "id": row.id,
        "name": row.name,
        "status": row.status,
        "admin_state_up": row.admin_state_up,
        "subnets": subnets,
        "shared": row.shared,
        "router:external": row.external,
        "mtu": row.mtu,
        "port_security_enabled": row.port_security_enabled,
        "qos_policy_id": row.qos_policy_id,
        "availability_zone_hints": row.availability_zone_hints,
        "availability_zones": [zone] if subnets else [],
        "l2_adjacency": True,
        **standard_view(row, tagged),
    }
    if row.external:
        shown["is_default"] = row.is_default
    if provider:
        shown["provider:network_type"] = row.network_type
        shown["provider:physical_network"] = row.physical_network
        shown["provider:segmentation_id"] = row.segmentation_id
    return shown
