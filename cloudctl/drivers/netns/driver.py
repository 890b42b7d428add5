"""The network driver `netns`."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any

from attrs import define, evolve, field
from twisted.logger import Logger
from twisted.web.resource import IResource
from zope.interface import alsoProvides, implementer

from cloudctl.drivers.errors import DriverError, InUse, UnknownHost, UnknownNetwork, UnknownPort, Unusable
from cloudctl.drivers.interfaces import (
    IConntrackHelpers,
    IDhcpOptions,
    IDhcpPorts,
    IGatewayLimits,
    IGuestMetadata,
    IManyGateways,
    IMarking,
    IMetering,
    INdpProxies,
    INetworkBackend,
    IOneServiceHost,
    IPacketLimits,
    IPacketLogs,
    IPortForwarding,
    IRouters,
    ISecurityGroups,
    ITrunks,
)
from cloudctl.drivers.locks import Locks
from cloudctl.drivers.netns import dhcp, flows, links, rules, spoofing, tagging, underlay
from cloudctl.drivers.netns.config import Config
from cloudctl.drivers.netns.daemons import Daemons
from cloudctl.drivers.netns.dnsmasq import Advertisers, Dnsmasq
from cloudctl.drivers.netns.hosts import Host
from cloudctl.drivers.netns.kernel import Kernel
from cloudctl.drivers.netns.metadata import MetadataService
from cloudctl.drivers.netns.names import Names, read
from cloudctl.drivers.netns.records import Network, Port, Records, free_index, make_readable, records
from cloudctl.drivers.netns.routers import Routers
from cloudctl.drivers.netns.underlay import Underlay
from cloudctl.drivers.network_specs import Metered
from cloudctl.drivers.programs import Programs, require
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

__all__ = ["Config", "NetnsBackend", "create"]

PROGRAMS = ("ip", "bridge", "nft", "conntrack", "sysctl", "dnsmasq")

_log = Logger()


def create(config: Config, resources: DriverResources) -> NetnsBackend:
    names = Names(config.prefix)
    kernel = Kernel(Programs(resources.reactor, resources.clock, config.dry_run))
    namespaces = config.namespaces
    addresses = underlay.addresses(config.underlay, namespaces)
    # A dry run must leave no record behind that a later real run would apply.
    held = records(None if config.dry_run else resources.state_dir)
    joined = Underlay(kernel, names, namespaces, IPv4Network(config.underlay), addresses)
    physical, group = config.physical_networks, config.log_group
    hosts = {
        name: Host(name, namespace, kernel, names, held, addresses, physical, joined.ensure, group)
        for name, namespace in namespaces.items()
    }
    first = next(iter(hosts.values()))

    def daemons(directory: str) -> Daemons:
        return Daemons(kernel, resources.clock, config.runtime_dir / directory)

    made = NetnsBackend(
        config=config,
        resources=resources,
        kernel=kernel,
        names=names,
        records=held,
        hosts=hosts,
        dnsmasq=Dnsmasq(daemons(config.prefix), config.lease_seconds),
        routers=Routers(kernel, names, held, first, Advertisers(daemons(f"{config.prefix}.routers"))),
        metadata=MetadataService(resources.reactor),
    )
    if tagging.is_possible():
        alsoProvides(made, ITrunks)
    return made


@implementer(INetworkBackend, IRouters, ISecurityGroups, IGuestMetadata)
@implementer(
    IMarking,
    IPacketLimits,
    IPortForwarding,
    IGatewayLimits,
    IDhcpPorts,
    IDhcpOptions,
    IPacketLogs,
    IMetering,
    IManyGateways,
    INdpProxies,
    IConntrackHelpers,
    IOneServiceHost,
)
@define(eq=False, slots=False)  # its capabilities also depend on the machine: see `create`
class NetnsBackend:
    """A spec is recorded before it is applied, and its record is deleted before what was made from it is removed."""

    config: Config
    resources: DriverResources
    kernel: Kernel
    names: Names
    records: Records
    hosts: dict[str, Host]
    dnsmasq: Dnsmasq
    routers: Routers
    metadata: MetadataService
    _fulfilled: dict[str, NetworkSpec] = field(factory=dict)  # networks that this process has made
    # Routers that were not updated yet after a subnet of a gateway changed. After a start all are.
    _outdated: set[str] = field(factory=set)
    _restored: bool = False
    _locks: Locks = field(factory=Locks)

    def service_host(self) -> str:
        return self.routers.host.name

    async def check(self) -> None:
        require(*PROGRAMS)
        if self.resources.reactor is None:
            raise Unusable("it runs programs and therefore needs a reactor")
        if self.config.dry_run:
            return
        directory = self.config.runtime_dir
        if os.geteuid() != 0:
            raise Unusable("it must run as root to configure the kernel's networks")
        if not os.path.exists("/proc/sys/net/bridge/bridge-nf-call-iptables"):
            raise Unusable(
                "the kernel module br_netfilter is not loaded; security groups need it: modprobe br_netfilter"
            )
        try:
            make_readable(directory)
        except OSError as error:
            raise Unusable(f"cannot write its runtime_dir {directory}: {error.strerror}") from error
        closed = [each for each in (directory, *directory.parents) if not each.stat().st_mode & 0o001]
        if closed:
            raise Unusable(
                f"dnsmasq drops its privileges and then cannot read runtime_dir {directory}: "
                f"{closed[-1]} is not accessible to everyone"
            )
        # The first host has every network. What is in a namespace of its own may be made later, as that may.
        if not next(iter(self.config.namespaces.values())):
            here = {name for _, name in socket.if_nameindex()}
            for physical, bridge in self.config.physical_networks.items():
                if bridge not in here:
                    raise Unusable(f"the bridge {bridge} of physical network {physical} does not exist")

    async def close(self) -> None:
        await self.metadata.close()

    # -- state

    async def inventory(self) -> NetworkInventory:
        await self._restore()
        namespaces = self.kernel.namespaces()
        return NetworkInventory(
            networks=tuple(self.names.networks_among(namespaces)),
            ports=tuple(await self._ports()),
            routers=tuple(self.names.routers_among(namespaces)),
            security_groups=tuple(sorted(self.records.groups.rows)),
        )

    async def observe_port(self, id: str) -> PortState:
        await self._restore()
        for port in await self._ports():
            if port.id == id:
                return port
        raise UnknownPort(id)

    async def _ports(self) -> list[PortState]:
        """The ports that the kernel has, sorted by id."""
        seen: dict[str, dict[str, bool]] = {}
        networks: dict[str, str] = {}
        for host in self.hosts.values():
            found = await host.links()
            for id, up in links.plugged(self.names, found).items():
                seen.setdefault(id, {})[host.name] = up
                networks[id] = self._network_of(id, found)
        return [
            PortState(id, networks[id], tuple(sorted(where)), up=any(where.values()))
            for id, where in sorted(seen.items())
        ]

    def _network_of(self, port_id: str, found: links.Found) -> str:
        port = self.records.ports.get(port_id)
        if port is not None:
            return port.spec.network_id
        # Its record is gone: the bridge's alias tells, unless the bridge is the operator's.
        master = found[self.names.tap(port_id)].master or ""
        return read(found[master].alias) if master in found else ""

    # -- networks

    async def ensure_network(self, spec: NetworkSpec) -> None:
        await self._restore()
        self.routers.host.segment(spec)  # raises Unfit
        self.dnsmasq.arguments(spec)
        async with self._locks.hold("network", spec.id):
            kept = self.records.networks.get(spec.id)
            index = kept.index if kept else free_index(each.index for each in self.records.networks.values())
            if kept is not None and kept.spec.subnets != spec.subnets:
                self._outdated.update(router.id for router in self._routers_out(spec.id))
            self.records.networks.put(spec.id, Network(spec, index))
            if not self._is_fulfilled(spec):
                await self._fulfil(spec)
        failures = []
        for router in self._routers_out(spec.id):
            if router.id in self._outdated:
                try:
                    await self._update_router(router.id)
                except DriverError as error:
                    # It keeps no other from being updated.
                    failures.append(error)
        if failures:
            raise failures[0]

    def _routers_out(self, network_id: str) -> list[RouterSpec]:
        """Those with a gateway on the network."""
        routers = self.records.routers.values()
        return [each for each in routers if any(way.network_id == network_id for way in each.ways_out)]

    async def _update_router(self, id: str) -> None:
        """Its gateways' subnets have changed. The router may have, too, while others were updated."""
        async with self._locks.hold("router", id):
            spec = self.records.routers.get(id)
            if spec is not None:
                await self.routers.ensure(spec)
            self._outdated.discard(id)

    def _is_fulfilled(self, spec: NetworkSpec) -> bool:
        """Compute ensures the network of each port that it plugs: that must cost nothing."""
        there = self.kernel.has_namespace(self.names.network_namespace(spec.id))
        served = self.metadata.is_served(spec.id) or not self._has_metadata(spec)
        return there and served and self._fulfilled.get(spec.id) == spec and self.dnsmasq.runs(spec)

    async def _fulfil(self, spec: NetworkSpec) -> None:
        namespace = self.names.network_namespace(spec.id)
        if not self.kernel.has_namespace(namespace):
            # The listener is in a removed namespace of the same name.
            await self.metadata.ensure_absent(spec.id)
            await self.kernel.ensure_namespace(namespace)
        for host in self._hosts_of(spec.id):
            await host.ensure(spec.id)
        if self.routers.host.segment(spec).served:
            await self.kernel.batch(namespace, links.service_lines(spec))
            await self.dnsmasq.ensure(spec, namespace, lambda: [port.spec for port in self.records.ports_of(spec.id)])
            self._listen(spec)
        self._fulfilled[spec.id] = spec

    def _hosts_of(self, network_id: str) -> list[Host]:
        having = self.records.hosts_of(network_id)
        return [host for host in self.hosts.values() if host.carries_namespaces or host.name in having]

    async def ensure_network_absent(self, id: str) -> None:
        await self._restore()
        async with self._locks.hold("network", id):
            if self.records.ports_of(id):
                raise InUse(f"network {id} has ports")
            if any(id == leg.network_id for router in self.records.routers.values() for leg in _legs(router)):
                raise InUse(f"network {id} has routers")
            self._fulfilled.pop(id, None)
            self.records.networks.delete(id)
            await self.metadata.ensure_absent(id)
            await self.dnsmasq.ensure_absent(id)
            for host in self.hosts.values():
                await host.ensure_links_absent([self.names.service(id), self.names.tunnel(id), self.names.bridge(id)])
            await self.kernel.remove_namespace(self.names.network_namespace(id))

    # -- ports

    async def ensure_port(self, port: PortSpec, host: str) -> PortBinding:
        await self._restore()
        where = self.hosts.get(host)
        if where is None:
            raise UnknownHost(host)
        rules.check_port(port)
        dhcp.options(port)
        async with self._locks.hold("port", port.id):
            network = self.records.networks.get(port.network_id)
            if network is None:
                raise UnknownNetwork(port.network_id)
            kept = self.records.ports.get(port.id)
            index = kept.index if kept else free_index(each.index for each in self.records.ports.values())
            hosts = tuple(sorted({host, *(kept.hosts if kept else ())}))
            if kept is not None and flows.port_narrowed(kept.spec, port):
                self.records.narrow(port.id, kept.spec)
            self.records.ports.put(port.id, Port(evolve(port, binding=None), hosts, index))
            await self.dnsmasq.ensure_port(port, network.spec, self.names.network_namespace(port.network_id))
            await self._ensure_hosts(port.network_id, port.id)
            await self._forget_flows(port.id)
        details = {"tap": self.names.tap(port.id), "namespace": where.namespace}
        return {"vif_type": "tap", "vif_details": details}

    async def _ensure_hosts(self, *ids: str) -> None:
        """All hosts, because a port's addresses are in the rules of every host with a group that lets them in.

        Raises what prevented these networks and ports from being made.
        """
        for host in self.hosts.values():
            await host.ensure(*ids)

    async def _forget_flows(self, id: str) -> None:
        """Forget the connections of what this port or group was, if it has become narrower."""
        narrowed = self.records.narrowed.get(id)
        if narrowed is None:
            return
        lines = [
            line
            for port in narrowed.ports
            for line in flows.forget_lines(flows.zones(self.records, port), spoofing.addresses(port))
        ]
        for host in self.hosts.values():
            await host.forget_flows(lines)
        self.records.narrowed.delete(id)

    async def ensure_port_absent(self, id: str, host: str | None = None) -> None:
        await self._restore()
        # A host that is configured no more, too: while a port is recorded there, its network and groups cannot go.
        async with self._locks.hold("port", id):
            kept = self.records.ports.get(id)
            if kept is not None:
                left = tuple(each for each in kept.hosts if host not in (None, each))
                if left:
                    self.records.ports.put(id, evolve(kept, hosts=left))
                else:
                    self.records.narrow(id, kept.spec)
                    self.records.ports.delete(id)
            is_gone = self.records.ports.get(id) is None
            narrowed = self.records.narrowed.get(id) if is_gone else None
            for network_id in {each.network_id for each in narrowed.ports} if narrowed is not None else ():
                await self.dnsmasq.ensure_port_absent(id, network_id, self.names.network_namespace(network_id))
            for each in self.hosts.values():
                leaves = host in (None, each.name)
                await each.ensure_links_absent([self.names.tap(id)] if leaves else [])
            if is_gone:
                # Another port may soon have its addresses.
                await self._forget_flows(id)

    # -- routers

    async def ensure_router(self, spec: RouterSpec) -> None:
        await self._restore()
        async with self._locks.hold("router", spec.id):
            self.routers.check(spec)
            kept = self.records.routers.get(spec.id)
            if kept is not None and (surrendered := flows.surrendered(kept, spec)):
                self.records.surrender(spec.id, surrendered)
            self.records.routers.put(spec.id, spec)
            await self.routers.ensure(spec)
            await self.routers.cut_flows(spec.id)
            self._outdated.discard(spec.id)

    async def ensure_router_absent(self, id: str) -> None:
        await self._restore()
        async with self._locks.hold("router", id):
            self.records.routers.delete(id)
            self._outdated.discard(id)
            await self.routers.ensure_absent(id)
            self.records.surrendered.delete(id)

    async def metered(self) -> tuple[Metered, ...]:
        await self._restore()
        found: list[Metered] = []
        for each in self.records.routers.values():
            # Locked so that its namespace is not removed meanwhile.
            async with self._locks.hold("router", each.id):
                spec = self.records.routers.get(each.id)
                found += await self.routers.metered(spec) if spec is not None else ()
        return tuple(found)

    # -- security groups

    async def ensure_security_group(self, spec: SecurityGroupSpec) -> None:
        await self._restore()
        rules.check_group(spec)
        async with self._locks.hold("group", spec.id):
            kept = self.records.groups.get(spec.id)
            ports = self.records.ports_in(spec.id)
            if ports and kept is not None and flows.group_narrowed(kept, spec):
                self.records.narrow(spec.id, *(port.spec for port in ports))
            self.records.groups.put(spec.id, spec)
            # Even if nothing has changed: an earlier call may have been interrupted halfway.
            if ports:
                await self._ensure_hosts()
            await self._forget_flows(spec.id)

    async def ensure_security_group_absent(self, id: str) -> None:
        await self._restore()
        if self.records.ports_in(id):
            raise InUse(f"security group {id} has ports")
        self.records.groups.delete(id)
        # Its ports were narrowed when they left it.
        self.records.narrowed.delete(id)

    # -- metadata

    async def serve_guest_metadata(self, site_of: Callable[[str], IResource]) -> None:
        self.metadata.site_of = site_of
        await self._restore()
        for network in self.records.networks.values():
            try:
                self._listen(network.spec)
            except DriverError as error:
                # The next call for this network tries again. Others are served meanwhile.
                _log.error("metadata is not served on network {id} yet: {error}", id=network.spec.id, error=error)

    def _listen(self, spec: NetworkSpec) -> None:
        if self._has_metadata(spec):
            self.metadata.ensure(spec.id, self.names.network_namespace(spec.id))

    def _has_metadata(self, spec: NetworkSpec) -> bool:
        there = self.kernel.has_namespace(self.names.network_namespace(spec.id))
        return there and self.routers.host.segment(spec).served and not self.config.dry_run

    # -- after a start

    async def _restore(self) -> None:
        """Once: recreate what was wanted before this process began, whatever became of it meanwhile.

        What cannot be made is left to the next call for it, which raises the reason.
        """
        async with self._locks.hold("restore"):
            if not self._restored:
                await self._restore_all()
                self._restored = True

    async def _restore_all(self) -> None:
        self.records.load()
        for network in self.records.networks.values():
            await self.kernel.ensure_namespace(self.names.network_namespace(network.spec.id))
        for kept in self.records.networks.values():
            await self._attempt("network", kept.spec.id, self._fulfil, kept.spec)
        for router in self.records.routers.values():
            await self._attempt("router", router.id, self.routers.ensure, router)

    async def _attempt(self, kind: str, id: str, ensure: Callable[[Any], Any], spec: Any) -> None:
        try:
            await ensure(spec)
        except DriverError as error:
            _log.error("cannot restore {kind} {id}: {error}", kind=kind, id=id, error=error)


def _legs(router: RouterSpec) -> list[Any]:
    return [*router.interfaces, *router.ways_out]
