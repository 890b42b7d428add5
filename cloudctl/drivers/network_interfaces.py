"""Network backends, and what some can do besides. The rules for all drivers: `interfaces`."""

from __future__ import annotations

from collections.abc import Callable

from twisted.web.resource import IResource
from zope.interface import Attribute, Interface

from cloudctl.drivers.driver_interface import IDriver
from cloudctl.drivers.network_specs import Metered
from cloudctl.drivers.specs import (
    NetworkInventory,
    NetworkSpec,
    PortBinding,
    PortSpec,
    PortState,
    RouterSpec,
    SecurityGroupSpec,
)


class INetworkBackend(IDriver):
    """Layer 2 segments across all hosts, with addresses given by DHCP."""

    async def inventory() -> NetworkInventory:
        """Everything that it holds, including what the cloud does not know, each tuple sorted by id."""

    async def observe_port(id: str) -> PortState:
        """One port, as `inventory` reports it. Raises UnknownPort."""

    async def ensure_network(spec: NetworkSpec) -> None:
        """The network is as `spec` says, including its subnets, wherever it has a port. Raises Unfit."""

    async def ensure_network_absent(id: str) -> None:
        """No network of this id. An unknown id is no error. Raises InUse while it has ports."""

    async def ensure_port(port: PortSpec, host: str) -> PortBinding:
        """The port can be plugged into a guest on `host`, with its addresses and groups as `port` says.

        It stays plugged on other hosts: a live migration needs both. Changes in `port` apply on all hosts. A repeat
        returns an equal answer. Raises UnknownNetwork, UnknownHost, HostDown.
        """

    async def ensure_port_absent(id: str, host: str | None = None) -> None:
        """The port is not plugged on `host` (None: on no host). An unknown port or host is no error."""


class IRouters(Interface):
    """Routers between networks, source NAT and floating addresses."""

    async def ensure_router(spec: RouterSpec) -> None:
        """The router is as `spec` says, with all interfaces, routes and floating addresses. Raises UnknownNetwork."""

    async def ensure_router_absent(id: str) -> None:
        """No router of this id. An unknown id is no error."""


class ISecurityGroups(Interface):
    """Ports are filtered by the rules of their groups."""

    async def ensure_security_group(spec: SecurityGroupSpec) -> None:
        """Ports in the group obey these rules from now on."""

    async def ensure_security_group_absent(id: str) -> None:
        """No group of this id. An unknown id is no error. Raises InUse while a port is in it."""


class ITrunks(Interface):
    """A port carries others: `PortSpec.subports` is obeyed."""


class IDhcpPorts(Interface):
    """A network's DHCP server has an address of the network itself: `NetworkSpec.dhcp_port` is obeyed."""


class IDhcpOptions(Interface):
    """Guests get further options by DHCP: `PortSpec.dhcp_options` is obeyed."""


class IMarking(Interface):
    """What guests send is marked: `PortSpec.dscp_mark` is obeyed."""


class IPacketLimits(Interface):
    """Ports are limited in packets per second: `PortSpec.packet_limits` is obeyed."""


class IGuaranteedRates(Interface):
    """Ports have bandwidth reserved for them: `PortSpec.guarantees` is obeyed."""


class IPortForwarding(Interface):
    """Ports of floating addresses lead to ports of fixed ones: `RouterSpec.port_forwardings` is obeyed."""


class ILocalIps(Interface):
    """Addresses lead to ports of the same host: `PortSpec.local_ips` is obeyed."""


class IPacketLogs(Interface):
    """What ports let through and drop is logged: `PortSpec.logged` is obeyed."""


class IConntrackHelpers(Interface):
    """Routers follow protocols that open further connections: `RouterSpec.conntrack_helpers` is obeyed."""


class INdpProxies(Interface):
    """Routers answer on the outside for addresses inside: `RouterSpec.ndp_proxies` is obeyed."""


class IMetering(Interface):
    """Traffic between routers and the outside is counted: `RouterSpec.meters` is obeyed."""

    async def metered() -> tuple[Metered, ...]:
        """The counts, sorted by router and meter: all meters of all routers that have a gateway.

        Counts only grow, except that recreated meters and routers begin at 0 again.
        """


class IGatewayLimits(Interface):
    """Gateways and floating addresses are limited in bandwidth: their `limits` in a RouterSpec are obeyed."""


class IManyGateways(Interface):
    """A router may have several gateways: `RouterSpec.more_gateways` and `default_route_ecmp` are obeyed."""


class IWatchedGateways(Interface):
    """Gateways that do not answer are not used: `RouterSpec.default_route_bfd` is obeyed."""


class IRouterKinds(Interface):
    """Routers work on every host, or stand in for each other: `RouterSpec.distributed` and `ha` are obeyed."""


class IEvpn(Interface):
    """Routers are announced in a VPN over the underlying network: `RouterSpec.evpn_vni` is obeyed."""


class IRouteLeaks(Interface):
    """The routers of the underlying network learn routes into networks: `RouterSpec.leaked` is obeyed."""


class IPrivateVlans(Interface):
    """Ports of one network cannot all reach each other: `PortSpec.isolation` is obeyed."""


class IGeneve(Interface):
    """Packets between hosts may travel in Geneve: a `network_type` of this name is obeyed."""


class ITunnelMtu(Interface):
    """It knows how much fits into the tunnels between hosts. Without it that is 50 bytes less than into the wire."""

    tunnel_mtu = Attribute("Bytes of the largest packet of a guest on a network without a physical one.")


class ISegments(Interface):
    """A network may be on several wires, which are one network to its guests: `NetworkSpec.segments` is obeyed."""


class IServiceHosts(Interface):
    """The hosts that serve DHCP and on which routers work can be chosen: see NetworkSpec and RouterSpec."""


class IOneServiceHost(Interface):
    """Only one host serves DHCP and has routers, whatever other hosts there are."""

    def service_host() -> str:
        """Its name."""


class IHostsHeard(Interface):
    """The network hears from its hosts independently of the hypervisor."""

    async def silent_hosts() -> frozenset[str]:
        """The names of the hosts that have been silent for longer than they should be."""


class INetworkDrift(Interface):
    """The driver detects whether others have changed what it made."""

    async def drifted() -> frozenset[str]:
        """The ids of all networks, ports, routers and security groups that differ from what was last requested.

        The `ensure_…` method of each repairs it. Called every few minutes, so it may take seconds.
        """


class IGuestMetadata(Interface):
    """Guests can ask for their metadata at 169.254.169.254."""

    async def serve_guest_metadata(site_of: Callable[[str], IResource]) -> None:
        """From now on a connection of a guest on network N to 169.254.169.254:80 is answered by `site_of(N)`.

        Called once, as the cloud starts. The resource identifies the guest by the client's address, so the driver
        passes connections on with their own source addresses, and only with those that `ensure_port` has given. Paths
        are relative to the resource; bodies of more than a few kilobytes need not be accepted.
        """
