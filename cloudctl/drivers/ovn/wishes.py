"""The wishes of the cloud as the database stores them, and what follows from one wish for the others.

A port's rows also depend on its network and on the port that carries it; a router's on its networks and on the ports of
its floating addresses; a group's on its ports. All of them are written in the transaction that changes the wish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import orjson
from attrs import define, field
from cattrs import Converter

from cloudctl.drivers.errors import InUse, Unfit, UnknownNetwork
from cloudctl.drivers.ovn import groups, networks, ports, routers
from cloudctl.drivers.ovn.options import Config
from cloudctl.drivers.ovn.ports import Carrier, Port
from cloudctl.drivers.ovn.replica import Draft, Replica
from cloudctl.drivers.ovn.rows import Owned, owner
from cloudctl.drivers.specs import NetworkSpec, RouterSpec, SecurityGroupSpec

T = TypeVar("T")

NETWORK, PORT, ROUTER, GROUP = "network", "port", "router", "group"
KINDS: dict[str, type[Any]] = {NETWORK: NetworkSpec, PORT: Port, ROUTER: RouterSpec, GROUP: SecurityGroupSpec}
SECURED = owner("cloud", "secured")

_converter = Converter()


def ids(replica: Replica, kind: str) -> tuple[str, ...]:
    """The ids of all objects of one kind, sorted. One whose anchor is gone is no object, whatever is left of it."""
    prefix = owner(kind, "")
    there = (each for each, known in replica.known.items() if known.wish is not None)
    return tuple(sorted(each.removeprefix(prefix) for each in there if each.startswith(prefix)))


def find(replica: Replica, kind: str, id: str, of: type[T]) -> T | None:
    """The wish; None if there is none, or its anchor is gone."""
    known = replica.known.get(owner(kind, id))
    if known is None or known.wish is None:
        return None
    if known.decoded is None:
        known.decoded = _converter.structure(orjson.loads(known.wish), KINDS[kind])
    assert isinstance(known.decoded, of)
    return known.decoded


@define(eq=False)
class Wishes:
    """The wishes within one transaction, which sees at once what it has put itself."""

    draft: Draft
    config: Config
    _put: dict[str, Any] = field(factory=dict)  # owner → wish; None: it is gone

    def network(self, id: str) -> NetworkSpec | None:
        return self._find(NETWORK, id, NetworkSpec)

    def port(self, id: str) -> Port | None:
        return self._find(PORT, id, Port)

    def _find(self, kind: str, id: str, of: type[T]) -> T | None:
        name = owner(kind, id)
        if name in self._put:
            found: T | None = self._put[name]
            return found
        return find(self.draft.replica, kind, id, of)

    def _naming(self, kind: str, id: str, of: str) -> Iterator[str]:
        """The ids of all objects of kind `of` whose wishes named, or now name, this object."""
        prefix = owner(of, "")
        named = self.draft.replica.naming.get(owner(kind, id), set())
        for each in sorted(named | self._put.keys()):
            if each.startswith(prefix):
                yield each.removeprefix(prefix)

    def _write(self, kind: str, id: str, wish: Any, rows: Any, named: frozenset[str] = frozenset()) -> bool:
        text = orjson.dumps(_converter.unstructure(wish)).decode()
        return self.draft.put(Owned(owner(kind, id), text, rows, named))

    def put_again(self, kind: str, id: str) -> None:
        """Put the wish again as it is; does nothing if there is none any more."""
        wish = find(self.draft.replica, kind, id, KINDS[kind])
        put: dict[str, Callable[[Any], None]] = {
            NETWORK: self.put_network,
            PORT: self.put_port,
            ROUTER: self.put_router,
            GROUP: self.put_group,
        }
        if wish is not None:
            put[kind](wish)

    # -- networks

    def put_network(self, spec: NetworkSpec) -> None:
        rows = networks.rows(spec, self.config)
        before = self.network(spec.id)
        self._put[owner(NETWORK, spec.id)] = spec
        if self._write(NETWORK, spec.id, spec, rows) or before != spec:
            for port in list(self.ports_on(spec.id)):
                self.put_port(port)
            for router in list(self.routers_on(spec.id)):
                self.put_router(router)

    def ports_on(self, network_id: str) -> Iterator[Port]:
        for id in self._naming(NETWORK, network_id, PORT):
            port = self.port(id)
            if port is not None and port.spec.network_id == network_id:
                yield port

    def routers_on(self, network_id: str) -> Iterator[RouterSpec]:
        for id in self._naming(NETWORK, network_id, ROUTER):
            router = self._find(ROUTER, id, RouterSpec)
            if router is not None and any(leg.network_id == network_id for leg in routers.legs(router)):
                yield router

    def remove_network(self, id: str) -> None:
        if any(self.ports_on(id)):
            raise InUse(f"network {id} has ports")
        if any(self.routers_on(id)):
            raise InUse(f"network {id} has routers")
        self.draft.hold(networks.switch(id), "ports")
        self.draft.remove(owner(NETWORK, id))

    # -- ports

    def put_port(self, port: Port) -> None:
        """Raises UnknownNetwork, Unfit."""
        spec = port.spec
        network = self.network(spec.network_id)
        if network is None:
            raise UnknownNetwork(spec.network_id)
        before = self.port(spec.id)
        self._put[owner(PORT, spec.id)] = port
        rows = ports.rows(port, network, self._carrier(spec.id), self.config)
        named = {owner(NETWORK, spec.network_id)}
        named |= {owner(GROUP, each) for each in spec.security_groups}
        named |= {owner(PORT, each.port_id) for each in spec.subports}
        if spec.port_security:
            self.draft.put(Owned(SECURED, "", groups.secured_rows()))
        self._write(PORT, spec.id, port, rows, frozenset(named))
        self._change_memberships(before, port)
        self._put_carried(before, port)
        if bool(before and before.hosts) != bool(port.hosts):
            self._put_translating(spec.id)

    def remove_port(self, id: str) -> None:
        before = self.port(id)
        self._put[owner(PORT, id)] = None
        self.draft.remove(owner(PORT, id))
        if before is not None:
            self._change_memberships(before, None)
            self._put_carried(before, None)
            self._put_translating(id)

    def _put_translating(self, port_id: str) -> None:
        """The routers with a floating address of the port: who serves it depends on whether the port has a host."""
        for id in list(self._naming(PORT, port_id, ROUTER)):
            router = self._find(ROUTER, id, RouterSpec)
            if router is not None and any(each.port_id == port_id for each in router.floating_ips):
                self.put_router(router)

    def _carrier(self, port_id: str) -> Carrier | None:
        for id in self._naming(PORT, port_id, PORT):
            parent = self.port(id)
            for each in parent.spec.subports if parent is not None else ():
                if each.port_id == port_id:
                    return Carrier(id, each.vlan)
        return None

    def _put_carried(self, before: Port | None, after: Port | None) -> None:
        had, has = (set(each.spec.subports) if each else set() for each in (before, after))
        for id in sorted({each.port_id for each in had ^ has}):
            carried = self.port(id)
            if carried is not None:
                self.put_port(carried)

    def _change_memberships(self, before: Port | None, after: Port | None) -> None:
        had, has = (ports.members(each) if each else {} for each in (before, after))
        if before is not None and before.spec.port_security and after is not None:
            row = ports.logical_port(after.spec.id)
            left = [groups.port_group(each) for each in had.keys() - has.keys()]
            if not after.spec.port_security:
                left.append(groups.SECURED)
            for each in left:
                self.draft.leave(row, each, "ports")
        for group in sorted(had.keys() | has.keys()):
            come = has.get(group, frozenset())
            gone = had.get(group, frozenset()) - come
            if gone:
                gone -= self._members(group)
            for version in groups.VERSIONS:
                self.draft.exchange(
                    groups.address_set(group, version),
                    "addresses",
                    groups.of_version(gone, version),
                    groups.of_version(come, version),
                )

    # -- security groups

    def put_group(self, spec: SecurityGroupSpec) -> None:
        if self._write(GROUP, spec.id, spec, groups.rows(spec, self._members(spec.id))):
            # Ports that existed before the group join it now.
            for port in list(self._ports_in(spec.id)):
                self.put_port(port)

    def _ports_in(self, group_id: str) -> Iterator[Port]:
        for id in self._naming(GROUP, group_id, PORT):
            port = self.port(id)
            if port is not None and group_id in port.spec.security_groups:
                yield port

    def _members(self, group_id: str) -> frozenset[str]:
        found = (ports.members(port).get(group_id, frozenset()) for port in self._ports_in(group_id))
        return frozenset().union(*found)

    def remove_group(self, id: str) -> None:
        if any(self._ports_in(id)):
            raise InUse(f"security group {id} has ports")
        self.draft.hold(groups.port_group(id), "ports")
        self.draft.remove(owner(GROUP, id))

    # -- routers

    def put_router(self, spec: RouterSpec) -> None:
        """Raises UnknownNetwork, Unfit."""
        if spec.gateway is not None and not self.config.gateway_chassis:
            raise Unfit("no chassis for gateways: [driver.network.ovn] gateway_chassis is empty")
        known = {}
        for leg in routers.legs(spec):
            network = self.network(leg.network_id)
            if network is None:
                raise UnknownNetwork(leg.network_id)
            known[network.id] = network
        self._put[owner(ROUTER, spec.id)] = spec
        floating = {each.port_id for each in spec.floating_ips if each.port_id is not None}
        named = frozenset(owner(NETWORK, each) for each in known) | frozenset(owner(PORT, each) for each in floating)
        bound = {id for id in floating if (port := self.port(id)) is not None and port.hosts}
        self._write(ROUTER, spec.id, spec, routers.rows(spec, known, bound, self.config), named)

    def remove_router(self, id: str) -> None:
        self.draft.remove(owner(ROUTER, id))
