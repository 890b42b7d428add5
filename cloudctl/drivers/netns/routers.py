"""Routers in the kernel: each is a namespace on the host that carries them."""

from __future__ import annotations

from pathlib import Path

from attrs import define, field

from cloudctl.drivers.errors import UnknownNetwork
from cloudctl.drivers.netns import advertisements, flows, inside, meters, routing
from cloudctl.drivers.netns.dnsmasq import Advertisers
from cloudctl.drivers.netns.hosts import Host
from cloudctl.drivers.netns.kernel import Kernel
from cloudctl.drivers.netns.names import Names
from cloudctl.drivers.netns.records import Records
from cloudctl.drivers.netns.routing import Leg
from cloudctl.drivers.network_specs import Metered
from cloudctl.drivers.specs import RouterInterface, RouterSpec


@define(eq=False)
class Routers:
    kernel: Kernel
    names: Names
    records: Records
    host: Host
    advertisers: Advertisers
    _counters: dict[str, set[str]] = field(factory=dict)  # by router: names of its meters' counters, once known
    _announced: dict[str, set[tuple[str, str, str]]] = field(factory=dict)  # by router

    def legs(self, spec: RouterSpec) -> list[Leg]:
        """Raises UnknownNetwork, and Unfit for an invalid address."""
        found = [self._leg(each) for each in spec.interfaces]
        return [*found, *(self._leg(each, gateway=True) for each in spec.ways_out)]

    def check(self, spec: RouterSpec) -> None:
        """Raises Unfit and UnknownNetwork, before anything is changed."""
        legs = self.legs(spec)
        routing.inner_lines(self.names, spec, legs, [])
        routing.route_lines(self.names, spec, legs, [], [])
        routing.proxy_lines(self.names, spec, [])
        routing.ruleset(self.names.prefix, self.names, spec, legs)
        meters.ruleset(self.names.prefix, self._outside(spec), spec.meters)
        advertisements.arguments(routing.inner_links(self.names, legs), Path())

    async def ensure(self, spec: RouterSpec) -> None:
        """Raises UnknownNetwork, Unfit, ProgramFailed."""
        legs = self.legs(spec)
        namespace = self.names.router_namespace(spec.id)
        if not self.kernel.has_namespace(namespace):
            await self.kernel.ensure_namespace(namespace)
            self._announced.pop(spec.id, None)
            self._counters.pop(spec.id, None)
        await self.kernel.sysctl(namespace, *routing.SYSCTLS)
        # NAT first: what arrives at a floating address is always for its server, never for the router itself.
        await self.kernel.rules(namespace, routing.ruleset(self.names.prefix, self.names, spec, legs))
        await self._count(spec, namespace)
        lines = routing.outer_lines(self.names, await self.host.links(), namespace, legs)
        await self.kernel.batch(self.host.namespace, lines)
        found = await self.kernel.show(namespace, "address", "show")
        await self.kernel.batch(namespace, routing.inner_lines(self.names, spec, legs, found))
        proxies = await self.kernel.show(namespace, "neigh", "show", "proxy")
        await self.kernel.batch(namespace, routing.proxy_lines(self.names, spec, proxies))
        routes = await self.kernel.show(namespace, "route", "show", "table", "all", "proto", "static")
        rules = await self.kernel.show(namespace, "rule", "show")
        await self.kernel.batch(namespace, routing.route_lines(self.names, spec, legs, routes, rules))
        self._announce(spec, namespace, legs)
        told = routing.inner_links(self.names, legs) if spec.admin_state_up else {}
        await self.advertisers.ensure(spec.id, namespace, told)

    async def cut_flows(self, id: str) -> None:
        """Cut the connections that go by what the router no longer translates as before. Raises ProgramFailed."""
        surrendered = self.records.surrendered.get(id)
        if surrendered is not None:
            await self.kernel.forget(self.names.router_namespace(id), flows.cut_lines(surrendered.addresses))
            self.records.surrendered.delete(id)

    async def metered(self, spec: RouterSpec) -> list[Metered]:
        """What the router's meters have counted. Raises ProgramFailed."""
        if not spec.meters:
            return []
        found = await self.kernel.counters(self.names.router_namespace(spec.id))
        counted = ((meter.id, found.get(meters.counter(meter.id))) for meter in spec.meters)
        return [Metered(spec.id, id, *numbers) for id, numbers in sorted(counted) if numbers is not None]

    async def ensure_absent(self, id: str) -> None:
        self._counters.pop(id, None)
        namespace = self.names.router_namespace(id)
        await self.advertisers.ensure_absent(id)
        # The ends in the bridges would go with the namespace, but only some time later.
        inner = await self.kernel.show(namespace, "link", "show")
        lines = [f"link del dev {row['ifname']}" for row in inner if self.names.is_inner(row.get("ifname", ""))]
        await self.kernel.batch(namespace, lines)
        await self.kernel.remove_namespace(namespace)
        self._announced.pop(id, None)

    def _leg(self, spec: RouterInterface, gateway: bool = False) -> Leg:
        network = self.records.networks.get(spec.network_id)
        if network is None:
            raise UnknownNetwork(spec.network_id)
        bridge = self.host.segment(network.spec).bridge
        return Leg(spec, network.spec, bridge, network.index, gateway)

    async def _count(self, spec: RouterSpec, namespace: str) -> None:
        outside = self._outside(spec)
        wanted = {meters.counter(meter.id) for meter in spec.meters} if outside else set()
        known = self._counters.get(spec.id)
        if known is None:
            # An earlier process may have made some.
            known = set(await self.kernel.counters(namespace)) if wanted else set()
        # Without any meter the whole table goes.
        gone = sorted(known - wanted) if wanted else []
        await self.kernel.rules(namespace, meters.ruleset(self.names.prefix, outside, spec.meters, gone))
        self._counters[spec.id] = wanted

    def _outside(self, spec: RouterSpec) -> str | None:
        """The interfaces to the networks of gateways, in nftables' notation; None: there are none."""
        ways = [self.names.router_inner(each.port_id) for each in spec.ways_out]
        return routing.one_of(ways) if ways else None

    def _announce(self, spec: RouterSpec, namespace: str, legs: list[Leg]) -> None:
        """Announce addresses that are new here to neighbours: another router may have had them."""
        if self.kernel.programs.dry_run or not spec.admin_state_up:
            return
        claims = set(routing.announced(spec, legs, self.names))
        new = claims - self._announced.get(spec.id, set())
        if new:
            inside.announce(namespace, sorted(new))
        self._announced[spec.id] = claims
