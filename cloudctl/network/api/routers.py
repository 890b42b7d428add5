"""`/routers`. Reference: network.md, section 7."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any

from attrs import asdict, frozen
from sqlalchemy import func

from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IConntrackHelpers, IEvpn, IManyGateways, INdpProxies, IWatchedGateways
from cloudctl.errors import Invalid
from cloudctl.network import (
    evpn,
    extra_routes,
    flavors,
    ndp_proxies,
    networks,
    qos_policies,
    router_gateways,
    router_ports,
    routers,
)
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Flag, Hints, Id, IpText, Json, Text, standard
from cloudctl.network.api.conntrack_helpers import within
from cloudctl.network.api.matching import check_match
from cloudctl.network.api.ports import FixedIps, requests
from cloudctl.network.api.resource import Declared
from cloudctl.network.options import NetworkOptions
from cloudctl.network.router_gateways import Gateway
from cloudctl.network.routers import NewRouter
from cloudctl.network.standard import owner_of_new
from cloudctl.network.tables import Router, RouterPort
from cloudctl.rest.body import MISSING, Body, Check, Items, Loose, Missing, Range, ValueProblem, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import any_of, number
from cloudctl.rest.resource import Attribute, always
from cloudctl.rest.route import Routes
from cloudctl.tasks import Origin

# How a router is realised.
KIND = "network:routers:kind"
KINDS = {"distributed", "ha"}
WAYS_OUT = {"enable_default_route_bfd": IWatchedGateways, "enable_default_route_ecmp": IManyGateways}
# Values of a body that NewRouter has.
NEW = (
    "name",
    "description",
    "admin_state_up",
    "availability_zone_hints",
    "flavor_id",
    "evpn_vni",
    *sorted(KINDS | WAYS_OUT.keys()),
)
Do = Callable[[Connection, Router, Sequence[Gateway], datetime, Origin], None]
Change = Callable[[Sequence[extra_routes.Route], Sequence[extra_routes.Route]], list[extra_routes.Route]]


def _only_false(value: bool) -> bool:
    if value:
        raise ValueProblem("this cloud supports neither distributed nor highly available routers")
    return value


No = Annotated[bool, Loose(), Check(_only_false)]
Vni = Annotated[int, Loose(), Range(0, evpn.MOST)]


@frozen
class GatewayInfo:
    """An empty one is no gateway."""

    network_id: Id | Missing = MISSING
    enable_snat: Flag | Missing | None = MISSING
    external_fixed_ips: FixedIps | Missing | None = MISSING
    qos_policy_id: Id | Missing | None = MISSING


@frozen
class NoGateways:
    """An empty mapping, which the `openstack` command sends whatever it is asked to unset."""


@frozen
class SomeGateways:
    external_gateways: NoGateways | Annotated[list[GatewayInfo], Items(0, 20)]


@frozen
class Route:
    destination: IpText
    nexthop: IpText


# More than the domain accepts, so that the client sees the domain's own error.
ExtraRoutes = Annotated[list[Route], Items(0, 100)]


@frozen
class SomeRoutes:
    routes: ExtraRoutes


def external_gateways(conn: Connection, call: Call, records: Sequence[Router]) -> list[list[Json]]:
    """The gateways of each router, the one of `external_gateway_info` first."""
    gateways = router_ports.all_gateways_of(conn, [router.id for router in records])
    every = [port for ports in gateways.values() for port in ports]
    addresses, policies = router_gateways.addresses_of(conn, every), router_gateways.policies_of(conn, every)

    def info(router: Router, port: RouterPort) -> Json:
        return {
            "network_id": port.network_id,
            "enable_snat": router.enable_snat,
            "external_fixed_ips": addresses.get(port.port_id, []),
            "qos_policy_id": policies.get(port.port_id),
        }

    return [[info(router, port) for port in gateways.get(router.id, ())] for router in records]


def external_gateway_info(conn: Connection, call: Call, records: Sequence[Router]) -> list[Json | None]:
    return [found[0] if found else None for found in external_gateways(conn, call, records)]


# One for each cloud of a process that is configured differently.
@lru_cache(maxsize=64)
def declared(options: NetworkOptions, has_kinds: bool, has_limits: bool) -> Declared[Router]:
    """What the driver can do: `has_kinds`, distributed or highly available routers; `has_limits`, gateways with
    policies.
    """

    def create(conn: Connection, call: Call, owner: str | None, values: dict[str, Any]) -> Router:
        project = owner_of_new(call.caller, owner)
        values = _with_kind(conn, call, values)
        _check_ways_out(call, values)
        if "evpn_vni" in values:
            call.require("network:routers:evpn")
        new = NewRouter(**{name: values[name] for name in NEW if values.get(name) is not None})
        router = routers.create(conn, project, new, call.now, options, call.caller)
        gateway = _gateway(conn, call, values["external_gateway_info"], has_limits)
        if gateway is not None:
            router_gateways.set(conn, router, gateway, call.now, call.caller)
        if values.get("enable_ndp_proxy"):
            ndp_proxies.check_possible(conn, router)
            router = routers.change(conn, router, {"enable_ndp_proxy": True}, call.now, call.caller)
        return routers.get(conn, router.id)

    def change(conn: Connection, call: Call, router: Router, changes: dict[str, Any]) -> Router:
        if KINDS & changes.keys():
            call.require(KIND)
        _check_ways_out(call, changes)
        by = call.now, call.caller
        columns = {name: value for name, value in changes.items() if name in ("name", "description", "admin_state_up")}
        columns |= {name: changes[name] for name in KINDS | WAYS_OUT.keys() if changes.get(name) is not None}
        if "routes" in changes:
            # The present routes may need a gateway that the new ones do not.
            columns["routes"] = []
        if columns:
            router = routers.change(conn, router, columns, *by)
        if "external_gateway_info" in changes:
            gateway = _gateway(conn, call, changes["external_gateway_info"], has_limits)
            if gateway is None:
                router_gateways.clear(conn, router, *by)
            else:
                router_gateways.set(conn, router, gateway, *by)
        if "routes" in changes:
            extra_routes.set(conn, router, _parsed(changes["routes"]), *by)
        answers = changes.get("enable_ndp_proxy")
        if answers:
            ndp_proxies.check_possible(conn, router)
        if answers is not None and answers != router.enable_ndp_proxy:
            routers.change(conn, routers.get(conn, router.id), {"enable_ndp_proxy": answers}, *by)
        return routers.get(conn, router.id)

    kind = Flag if has_kinds else No
    c = Router
    return Declared(
        name="router",
        record=Router,
        attributes=(
            Attribute("id", c.id, filter=any_of, sort=True),
            Attribute("name", c.name, Text, post="", put=True, filter=any_of, sort=True),
            Attribute("status", c.status, filter=any_of, sort=True),
            Attribute("admin_state_up", c.admin_state_up, Flag, post=True, put=True, filter=lists.truths, sort=True),
            Attribute(
                "external_gateway_info", None, GatewayInfo | None, post=None, put=True, view=external_gateway_info
            ),
            Attribute("routes", c.routes, put=ExtraRoutes | None),
            Attribute("availability_zone_hints", c.availability_zone_hints, Hints, post=MISSING),
            Attribute("availability_zones", view=always([options.availability_zone])),
            Attribute("external_gateways", view=external_gateways, needs=IManyGateways),
            *(
                Attribute(name, c.table.c[name], Flag | None, post=MISSING, put=True, filter=lists.truths, needs=needs)
                for name, needs in WAYS_OUT.items()
            ),
            Attribute("conntrack_helpers", view=within, needs=IConntrackHelpers),
            Attribute(
                "enable_ndp_proxy",
                c.enable_ndp_proxy,
                Flag | None,
                post=MISSING,
                put=True,
                filter=lists.truths,
                needs=INdpProxies,
            ),
            Attribute(
                "evpn_vni",
                c.evpn_vni,
                Vni,
                post=MISSING,
                filter=number,
                sort=func.coalesce(c.evpn_vni, 0),
                needs=IEvpn,
            ),
            Attribute("flavor_id", c.flavor_id, Id | None, post=None, filter=any_of, sort=True),
            Attribute("service_type_id", None, NoneType, post=None, view=always(None)),
            *standard(Router),
            # Shown to callers who may choose how a router is realised.
            Attribute(
                "distributed", c.distributed, kind | None, post=MISSING, put=True, filter=lists.truths, rule=KIND
            ),
            Attribute("ha", c.ha, kind | None, post=MISSING, put=True, filter=lists.truths, rule=KIND),
        ),
        visible=routers.visible,
        visible_to=routers.visible_to,
        not_found=routers.not_found,
        create=create,
        change=change,
        remove=remove,
        says={
            "update": "Change a router, its gateway and its routes.",
            "delete": "Delete a router that has no interfaces.",
        },
    )


def remove(conn: Connection, call: Call, router: Router) -> None:
    routers.remove(conn, router, call.now, call.caller)


def _with_kind(conn: Connection, call: Call, values: dict[str, Any]) -> dict[str, Any]:
    """A body with how the router is made: as an administrator chooses, or as its flavor defines.

    Raises Forbidden, Invalid, NotFound (the flavor), Conflict (it is disabled).
    """
    said = {name: values[name] for name in KINDS if values.get(name) is not None}
    rest = {name: value for name, value in values.items() if name not in KINDS}
    if KINDS & values.keys():
        call.require(KIND)
    if values["flavor_id"] is None:
        return {**rest, **said}
    if said:
        message = "Bad router request: a router has a flavor, or says how it is made."
        raise Invalid(message, type="BadRequest")
    return {**rest, **asdict(flavors.kind_of(conn, values["flavor_id"]))}


def _check_ways_out(call: Call, values: Mapping[str, Any]) -> None:
    """Raises Forbidden if the caller may not choose how several gateways are used."""
    if WAYS_OUT.keys() & values.keys():
        call.require("network:routers:gateway")


def _gateway(
    conn: Connection, call: Call, body: GatewayInfo | None, has_limits: bool, chooses: bool = True
) -> Gateway | None:
    """What a body requests; None: no gateway. Raises Invalid, Forbidden, NotFound (the network, the policy).

    `chooses`: the body sets values, and does not only identify a gateway.
    """
    if body is None or not given(body):
        return None
    if isinstance(body.network_id, Missing):
        raise Invalid("Invalid input for external_gateway_info. Reason: 'network_id' is required.")
    if chooses and given(body, "enable_snat", "external_fixed_ips"):
        call.require("network:routers:gateway")
    networks.RECORDS.usable(conn, call.caller, body.network_id)
    snat = None if isinstance(body.enable_snat, Missing) else body.enable_snat
    fixed = None if isinstance(body.external_fixed_ips, Missing) else body.external_fixed_ips
    policy = None if isinstance(body.qos_policy_id, Missing) else body.qos_policy_id
    if policy is not None and not has_limits:
        raise Invalid("Invalid input for qos_policy_id. Reason: this cloud does not limit gateways.")
    if chooses:
        qos_policies.check_set(conn, call.caller, None, policy)
    return Gateway(
        body.network_id,
        True if snat is None else snat,
        None if fixed is None else requests(fixed),
        policy,
        not isinstance(body.qos_policy_id, Missing),
        snat is not None,
    )


def _parsed(wanted: Sequence[Route] | None) -> list[extra_routes.Route]:
    return extra_routes.parsed((route.destination, route.nexthop) for route in wanted or ())


@frozen
class RouterRoutes:
    """Some of a router's static routes, added and removed."""

    routes = Routes("Routers")

    db: Database
    routers: Declared[Router]

    @routes.put(
        "/routers/<router_id>/add_extraroutes", policy="network:routers:update", body=Body(SomeRoutes, "router")
    )
    async def add(self, call: Call, router_id: str, body: SomeRoutes) -> Json:
        """Add routes to a router."""
        return {"router": await self.db.run(self._change, call, router_id, extra_routes.merged, body)}

    @routes.put(
        "/routers/<router_id>/remove_extraroutes", policy="network:routers:update", body=Body(SomeRoutes, "router")
    )
    async def remove(self, call: Call, router_id: str, body: SomeRoutes) -> Json:
        """Remove some of a router's routes."""
        return {"router": await self.db.run(self._change, call, router_id, extra_routes.without, body)}

    def _change(self, conn: Connection, call: Call, router_id: str, change: Change, body: SomeRoutes) -> Json:
        router = changeable(conn, call, router_id)
        wanted = change(router.routes, _parsed(body.routes))
        if wanted != router.routes:
            extra_routes.set(conn, router, wanted, call.now, call.caller)
        return self.routers.views(conn, call, [routers.get(conn, router.id)])[0]


@frozen
class RouterGateways:
    """Several gateways of a router, added, changed and removed."""

    routes = Routes("Routers")

    db: Database
    routers: Declared[Router]
    has_limits: bool

    @routes.put(
        "/routers/<router_id>/add_external_gateways", policy="network:routers:update", body=Body(SomeGateways, "router")
    )
    async def add(self, call: Call, router_id: str, body: SomeGateways) -> Json:
        """Add gateways to a router."""
        return {"router": await self.db.run(self._do, call, router_id, router_gateways.add, body)}

    @routes.put(
        "/routers/<router_id>/update_external_gateways",
        policy="network:routers:update",
        body=Body(SomeGateways, "router"),
    )
    async def update(self, call: Call, router_id: str, body: SomeGateways) -> Json:
        """Change some of a router's gateways."""
        return {"router": await self.db.run(self._do, call, router_id, router_gateways.alter, body)}

    @routes.put(
        "/routers/<router_id>/remove_external_gateways",
        policy="network:routers:update",
        body=Body(SomeGateways, "router"),
    )
    async def remove(self, call: Call, router_id: str, body: SomeGateways) -> Json:
        """Remove some of a router's gateways."""
        return {"router": await self.db.run(self._do, call, router_id, router_gateways.remove, body)}

    def _do(self, conn: Connection, call: Call, router_id: str, do: Do, body: SomeGateways) -> Json:
        router = changeable(conn, call, router_id)
        # A gateway to remove is named as it was shown, including what only administrators choose.
        chooses = do is not router_gateways.remove
        said = [] if isinstance(body.external_gateways, NoGateways) else body.external_gateways
        wanted = [_gateway(conn, call, each, self.has_limits, chooses) for each in said]
        do(conn, router, [each for each in wanted if each is not None], call.now, call.caller)
        return self.routers.views(conn, call, [routers.get(conn, router.id)])[0]


def changeable(conn: Connection, call: Call, router_id: str) -> Router:
    """The router, locked, if the caller may change it and its revision is the expected one."""
    router = routers.visible(conn, call.caller, router_id, lock=True)
    call.require(project_id=router.project_id)
    check_match(call, router)
    return router
