"""The network driver `ovn`: each call is one transaction on the northbound database."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from attrs import define
from twisted.internet.task import deferLater
from zope.interface import implementer

from cloudctl.drivers.errors import UnknownPort, Unreachable, Unusable
from cloudctl.drivers.interfaces import (
    IDhcpOptions,
    IElsewhere,
    IGeneve,
    IHostsHeard,
    IMarking,
    INetworkBackend,
    INetworkDrift,
    IPortForwarding,
    IRouters,
    ISecurityGroups,
    ITrunks,
    ITunnelMtu,
)
from cloudctl.drivers.ovn import networks, ports, wishes
from cloudctl.drivers.ovn.chassis import Hearing
from cloudctl.drivers.ovn.connection import Connection, Database, check_files
from cloudctl.drivers.ovn.options import Config
from cloudctl.drivers.ovn.ports import Port
from cloudctl.drivers.ovn.replica import Draft, Replica
from cloudctl.drivers.ovn.wishes import Wishes
from cloudctl.drivers.specs import (
    DriverResources,
    NetworkInventory,
    NetworkSpec,
    PortBinding,
    PortSpec,
    PortState,
    RouterSpec,
    SecurityGroupSpec,
)

T = TypeVar("T")


def create(config: Config, resources: DriverResources) -> Ovn:
    northbound = Database("northbound database", "OVN_Northbound", config.northbound, Replica)
    begin = partial(Hearing, resources.clock.seconds)
    southbound = Database("southbound database", "OVN_Southbound", config.southbound, begin)
    return Ovn(
        config,
        resources,
        Connection(northbound, config, resources.reactor, resources.clock),
        Connection(southbound, config, resources.reactor, resources.clock) if config.southbound else None,
    )


@implementer(INetworkBackend, IRouters, ISecurityGroups, ITrunks, IDhcpOptions, IMarking, IPortForwarding)
@implementer(IGeneve, ITunnelMtu, INetworkDrift, IHostsHeard, IElsewhere)
@define(eq=False)
class Ovn:
    """Any name is accepted as a host: a port waits until the chassis of that name claims it."""

    config: Config
    resources: DriverResources
    connection: Connection[Replica]
    southbound: Connection[Hearing] | None

    elsewhere = True

    @property
    def tunnel_mtu(self) -> int:
        return self.config.tunnel_mtu

    async def check(self) -> None:
        if self.resources.reactor is None:
            raise Unusable("it has a connection to a database and therefore needs a reactor")
        check_files(self.config)

    async def close(self) -> None:
        await self.connection.close()
        if self.southbound is not None:
            await self.southbound.close()

    async def _change(self, fn: Callable[[Wishes], T]) -> T:
        def run(draft: Draft) -> T:
            return fn(Wishes(draft, self.config))

        return await self.connection.transact(run)

    # -- state

    async def inventory(self) -> NetworkInventory:
        return await self.connection.read(_inventory)

    async def observe_port(self, id: str) -> PortState:
        return await self.connection.read(lambda replica: _state(replica, id))

    async def drifted(self) -> frozenset[str]:
        there = await self.connection.read(
            lambda replica: [(kind, id) for kind in wishes.KINDS for id in wishes.ids(replica, kind)]
        )
        found = set()
        for kind, id in there:
            if await self.connection.would_change(self._again(kind, id)):
                found.add(id)
            # Let others run: there may be many objects.
            await deferLater(self.resources.clock, 0)
        return frozenset(found)

    async def silent_hosts(self) -> frozenset[str]:
        """An empty set if no southbound database is configured."""
        if self.southbound is None:
            return frozenset()
        asked = await self.connection.transact(lambda draft: draft.ask())
        if asked is None:
            raise Unreachable("no ovn-northd has written into the northbound database")
        seconds = self.config.silence_seconds

        def look(hearing: Hearing) -> frozenset[str] | None:
            # Until this number has arrived here, it may be our own copy that is out of date.
            return hearing.silent(seconds) if hearing.has_passed_on(asked) else None

        return await self.southbound.read_until(look)

    def _again(self, kind: str, id: str) -> Callable[[Draft], None]:
        return lambda draft: Wishes(draft, self.config).put_again(kind, id)

    # -- networks

    async def ensure_network(self, spec: NetworkSpec) -> None:
        await self._change(lambda wishes: wishes.put_network(spec))

    async def ensure_network_absent(self, id: str) -> None:
        await self._change(lambda wishes: wishes.remove_network(id))

    # -- ports

    async def ensure_port(self, port: PortSpec, host: str) -> PortBinding:
        def put(wishes: Wishes) -> int:
            kept = wishes.port(port.id)
            hosts = kept.hosts if kept else ()
            wishes.put_port(Port(ports.without_binding(port), hosts if host in hosts else (*hosts, host)))
            network = wishes.network(port.network_id)
            assert network is not None, "a port was put into it"
            return networks.guest_mtu(network, self.config)

        mtu = await self._change(put)
        details = {
            "bridge": self.config.bridge,
            "interface_id": port.id,
            "tap": ports.tap(port.id),
            "mtu": mtu,
            "datapath_type": self.config.datapath,
            # In userspace nothing fills in the checksums that a guest leaves out.
            "offloads": self.config.datapath == "system",
            "port_filter": True,
        }
        return {"vif_type": "ovs", "vif_details": details}

    async def ensure_port_absent(self, id: str, host: str | None = None) -> None:
        def take(wishes: Wishes) -> None:
            kept = wishes.port(id)
            left = tuple(each for each in kept.hosts if host not in (None, each)) if kept else ()
            if kept is None or not left:
                wishes.remove_port(id)
            elif left != kept.hosts:
                wishes.put_port(Port(kept.spec, left))

        await self._change(take)

    # -- routers

    async def ensure_router(self, spec: RouterSpec) -> None:
        await self._change(lambda wishes: wishes.put_router(spec))

    async def ensure_router_absent(self, id: str) -> None:
        await self._change(lambda wishes: wishes.remove_router(id))

    # -- security groups

    async def ensure_security_group(self, spec: SecurityGroupSpec) -> None:
        await self._change(lambda wishes: wishes.put_group(spec))

    async def ensure_security_group_absent(self, id: str) -> None:
        await self._change(lambda wishes: wishes.remove_group(id))


def _inventory(replica: Replica) -> NetworkInventory:
    found = (wishes.find(replica, wishes.PORT, id, Port) for id in wishes.ids(replica, wishes.PORT))
    return NetworkInventory(
        networks=wishes.ids(replica, wishes.NETWORK),
        ports=tuple(_seen(replica, port) for port in found if port is not None),
        routers=wishes.ids(replica, wishes.ROUTER),
        security_groups=wishes.ids(replica, wishes.GROUP),
    )


def _state(replica: Replica, id: str) -> PortState:
    port = wishes.find(replica, wishes.PORT, id, Port)
    if port is None:
        raise UnknownPort(id)
    return _seen(replica, port)


def _seen(replica: Replica, port: Port) -> PortState:
    """Up means that traffic may pass: whether the chassis has claimed the port is written later, and by others."""
    row = replica.row(ports.logical_port(port.spec.id))
    return PortState(port.spec.id, port.spec.network_id, tuple(sorted(port.hosts)), up=row.enabled != [False])
