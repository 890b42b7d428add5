"""Networks that carry nothing."""

from __future__ import annotations

from pathlib import Path

from attrs import define, evolve, field, frozen
from zope.interface import implementer

from cloudctl.drivers.errors import InUse, UnknownNetwork, UnknownPort
from cloudctl.drivers.fake.behaviour import Behaviour, delays_of
from cloudctl.drivers.fake.store import Store, check_writable, directory, open_store
from cloudctl.drivers.interfaces import (
    IConntrackHelpers,
    IDhcpOptions,
    IDhcpPorts,
    IElsewhere,
    IEvpn,
    IGatewayLimits,
    IGeneve,
    IGuaranteedRates,
    IHostsHeard,
    ILocalIps,
    IManyGateways,
    IMarking,
    IMetering,
    INdpProxies,
    INetworkBackend,
    INetworkDrift,
    IPacketLimits,
    IPacketLogs,
    IPortForwarding,
    IPrivateVlans,
    IRouteLeaks,
    IRouterKinds,
    IRouters,
    ISecurityGroups,
    ISegments,
    IServiceHosts,
    ITrunks,
    IWatchedGateways,
)
from cloudctl.drivers.network_specs import Metered
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

INTERFACES = (
    INetworkBackend,
    IRouters,
    ISecurityGroups,
    ITrunks,
    IDhcpPorts,
    IDhcpOptions,
    IMarking,
    IPacketLimits,
    IGuaranteedRates,
    IPortForwarding,
    ILocalIps,
    IPacketLogs,
    IConntrackHelpers,
    INdpProxies,
    IMetering,
    IRouterKinds,
    IEvpn,
    IRouteLeaks,
    IPrivateVlans,
    IGeneve,
    ISegments,
    IGatewayLimits,
    IManyGateways,
    IWatchedGateways,
    IServiceHosts,
    IHostsHeard,
    INetworkDrift,
)


@frozen
class Config:
    """`[driver.network.fake]`"""

    delays: dict[str, float] = field(factory=dict, validator=delays_of(INTERFACES))  # method: seconds
    durable: bool = True  # keep networks in the state directory, if there is one: they outlive this process
    directory: str = ""  # keep them here instead: for processes that have state directories of their own


@frozen
class Port:
    """What is stored of a port."""

    spec: PortSpec
    hosts: tuple[str, ...]

    @property
    def state(self) -> PortState:
        return PortState(self.spec.id, self.spec.network_id, self.hosts, up=self.spec.admin_state_up)


def create(config: Config, resources: DriverResources) -> FakeNetworkBackend:
    root = directory(config.durable, resources, config.directory)
    return FakeNetworkBackend(
        behaviour=Behaviour(resources.clock, INTERFACES, dict(config.delays)),
        root=root,
        networks=open_store(NetworkSpec, root, "networks"),
        ports=open_store(Port, root, "ports"),
        routers=open_store(RouterSpec, root, "routers"),
        groups=open_store(SecurityGroupSpec, root, "security-groups"),
        elsewhere=config.durable and bool(config.directory),
    )


@implementer(*INTERFACES, IElsewhere)
@define(eq=False)
class FakeNetworkBackend:
    """Any name is accepted as a host: only a hypervisor knows which hosts there are."""

    behaviour: Behaviour
    root: Path | None
    networks: Store[NetworkSpec]
    ports: Store[Port]
    routers: Store[RouterSpec]
    groups: Store[SecurityGroupSpec]
    silent: set[str] = field(factory=set)  # hosts that tests have made silent
    changed: set[str] = field(factory=set)  # ids of what tests declare changed by others
    counted: dict[tuple[str, str], tuple[int, int]] = field(factory=dict)  # router and meter → packets and bytes
    elsewhere: bool = False

    async def check(self) -> None:
        check_writable(self.root)

    async def close(self) -> None:
        """Nothing is open."""

    # -- core

    async def inventory(self) -> NetworkInventory:
        async with self.behaviour.around("inventory"):
            return NetworkInventory(
                networks=tuple(each.id for each in self.networks.values()),
                ports=tuple(each.state for each in self.ports.values()),
                routers=tuple(each.id for each in self.routers.values()),
                security_groups=tuple(each.id for each in self.groups.values()),
            )

    async def observe_port(self, id: str) -> PortState:
        async with self.behaviour.around("observe_port", id):
            port = self.ports.get(id)
            if port is None:
                raise UnknownPort(id)
            return port.state

    async def ensure_network(self, spec: NetworkSpec) -> None:
        async with self.behaviour.around("ensure_network", spec.id):
            self.networks.put(spec.id, spec)

    async def ensure_network_absent(self, id: str) -> None:
        async with self.behaviour.around("ensure_network_absent", id):
            if any(port.spec.network_id == id for port in self.ports.values()):
                raise InUse(f"network {id} has ports")
            self.networks.delete(id)

    async def ensure_port(self, port: PortSpec, host: str) -> PortBinding:
        async with self.behaviour.around("ensure_port", port.id):
            self._network(port.network_id)
            kept = self.ports.get(port.id)
            hosts = {host, *(kept.hosts if kept else ())}
            unbound = port if port.binding is None else evolve(port, binding=None)
            self.ports.put(port.id, Port(unbound, tuple(sorted(hosts))))
            return {"vif_type": "fake", "vif_details": {"device": f"tap{port.id[:11]}", "host": host}}

    async def ensure_port_absent(self, id: str, host: str | None = None) -> None:
        async with self.behaviour.around("ensure_port_absent", id):
            port = self.ports.get(id)
            if port is None:
                return
            hosts = tuple(each for each in port.hosts if host not in (None, each))
            if hosts:
                self.ports.put(id, evolve(port, hosts=hosts))
            else:
                self.ports.delete(id)

    # -- capabilities

    async def silent_hosts(self) -> frozenset[str]:
        async with self.behaviour.around("silent_hosts"):
            return frozenset(self.silent)

    async def drifted(self) -> frozenset[str]:
        async with self.behaviour.around("drifted"):
            return frozenset(self.changed)

    async def metered(self) -> tuple[Metered, ...]:
        async with self.behaviour.around("metered"):
            metered = sorted(
                (each.id, meter.id) for each in self.routers.values() if each.ways_out for meter in each.meters
            )
            return tuple(Metered(*pair, *self.counted.get(pair, (0, 0))) for pair in metered)

    async def ensure_router(self, spec: RouterSpec) -> None:
        async with self.behaviour.around("ensure_router", spec.id):
            for each in (*spec.interfaces, *spec.ways_out):
                self._network(each.network_id)
            self.routers.put(spec.id, spec)

    async def ensure_router_absent(self, id: str) -> None:
        async with self.behaviour.around("ensure_router_absent", id):
            self.routers.delete(id)

    async def ensure_security_group(self, spec: SecurityGroupSpec) -> None:
        async with self.behaviour.around("ensure_security_group", spec.id):
            self.groups.put(spec.id, spec)

    async def ensure_security_group_absent(self, id: str) -> None:
        async with self.behaviour.around("ensure_security_group_absent", id):
            if any(id in port.spec.security_groups for port in self.ports.values()):
                raise InUse(f"security group {id} has ports")
            self.groups.delete(id)

    def _network(self, id: str) -> None:
        if self.networks.get(id) is None:
            raise UnknownNetwork(id)
