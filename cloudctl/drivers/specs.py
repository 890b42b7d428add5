"""Values that go into drivers and come out of them.

The cloud chooses every id before the effect, so an effect whose answer was lost is found again under its id. A spec is
a complete state, not a change: applying it twice is the same as applying it once. All sizes have their unit in the
name. All values can be converted to JSON and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from attrs import field, frozen
from twisted.internet.interfaces import IReactorTime

from cloudctl.drivers.network_specs import DhcpPort, Isolation, Meter, SegmentSpec

ConnectionInfo = Mapping[str, Any]
"""How a hypervisor reaches a volume: a JSON object `{"driver_volume_type": str, "data": {…}}`. Only drivers read it."""

PortBinding = Mapping[str, Any]
"""How a hypervisor plugs a port: a JSON object `{"vif_type": str, "vif_details": {…}}`. Only drivers read it."""


@frozen
class DriverResources:
    """What a driver may use of the process it lives in. It must not import a reactor of its own."""

    clock: IReactorTime
    name: str  # of this configured driver; unique within its kind
    reactor: Any = None  # the running reactor, for processes, sockets and threads; None in tests on a Clock
    state_dir: Path | None = None  # its own directory; None: nothing may be kept on disk
    hypervisor: Any = None  # for a fencer: the driver whose hosts it fences
    volumes: Sequence[Any] = ()  # for a fencer: the drivers of all volumes that these hosts use
    part: str = ""  # for an objects driver: the part of the cloud that owns the contents; it sees none of another part


# -- hosts and guests


class Power(Enum):
    """A guest's power state, as the hypervisor sees it."""

    RUNNING = "running"
    PAUSED = "paused"  # in memory, executing nothing
    SUSPENDED = "suspended"  # its memory is kept on disk
    STOPPED = "stopped"
    CRASHED = "crashed"


@frozen
class HostInventory:
    """A machine that guests run on. Capacities are physical: overcommitting is not the driver's concern."""

    name: str
    hypervisor_type: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    hypervisor_version: int = 1  # major * 1000000 + minor * 1000 + patch
    host_ip: str | None = None
    cpu_info: Mapping[str, Any] = field(factory=dict)
    up: bool = True  # False: it does not answer; its guests are missing from `inventory`
    up_since: float | None = None  # seconds since the epoch; None: the driver cannot tell


@frozen
class ImageSource:
    """The bytes of an image, as a file on this machine."""

    id: str
    path: str | None  # None: an image without bytes
    disk_format: str = "raw"  # raw, qcow2, iso, …
    kernel_path: str | None = None  # with `ramdisk_path`: boot these; the image is the root disk
    ramdisk_path: str | None = None
    properties: Mapping[str, str] = field(factory=dict)


@frozen
class FixedIp:
    subnet_id: str
    ip_address: str


@frozen
class BandwidthLimit:
    """Traffic that exceeds it is dropped."""

    direction: str  # as the guest sees it: ingress, egress
    max_kbps: int  # 1000 bit/s
    max_burst_kbit: int = 0  # 1000 bits that may come at once; 0: what suits the rate


@frozen
class PacketLimit:
    """The most packets in one direction, as the guest sees it."""

    direction: str  # egress, ingress
    max_kpps: int  # 1000 packets/s
    max_burst_kpps: int = 0  # 0: what suits the rate


@frozen
class Guarantee:
    """Bandwidth in one direction that is reserved for a port."""

    direction: str  # egress, ingress
    min_kbps: int  # 1000 bit/s


@frozen
class SubPort:
    """A port whose traffic goes through another port; the guest sees it by this VLAN id."""

    port_id: str
    vlan: int


@frozen
class LocalIp:
    """An address that leads guests on the same host to a port's own address."""

    address: str
    fixed_address: str
    mode: str = "translate"  # passthrough: the guest has the address itself


@frozen
class DhcpOption:
    """An option that a guest gets by DHCP besides its addresses."""

    name: str
    value: str
    ip_version: int = 4


@frozen
class PortSpec:
    """A network interface. Without addresses it may use none except those in `address_pairs`."""

    id: str
    network_id: str
    mac: str
    fixed_ips: tuple[FixedIp, ...] = ()
    mtu: int = 1500
    admin_state_up: bool = True
    port_security: bool = True  # False: neither rules nor spoofing protection
    security_groups: tuple[str, ...] = ()
    address_pairs: tuple[tuple[str, str], ...] = ()  # (CIDR or address, MAC) that it may also send from
    binding: PortBinding | None = None  # for hypervisors: what `ensure_port` returned for the guest's host
    tag: str | None = None  # by which the guest finds it in its metadata
    limits: tuple[BandwidthLimit, ...] = ()  # at most one per direction
    packet_limits: tuple[PacketLimit, ...] = ()  # at most one per direction; obeyed by an IPacketLimits
    guarantees: tuple[Guarantee, ...] = ()  # at most one per direction; obeyed by an IGuaranteedRates
    dscp_mark: int | None = None  # of what the guest sends; obeyed by an IMarking
    subports: tuple[SubPort, ...] = ()  # obeyed by an ITrunks
    dhcp_options: tuple[DhcpOption, ...] = ()  # obeyed by an IDhcpOptions
    local_ips: tuple[LocalIp, ...] = ()  # obeyed by an ILocalIps
    logged: tuple[str, ...] = ()  # ACCEPT, DROP; obeyed by an IPacketLogs
    isolation: Isolation | None = None  # from other ports of its network; obeyed by an IPrivateVlans


@frozen
class VolumeConnection:
    """A volume of a guest, with the answer of `connect` for the guest's host."""

    volume_id: str
    info: ConnectionInfo
    device: str | None = None  # a preference such as "/dev/vdb"; the guest's kernel decides
    boot_index: int | None = None  # 0: the guest boots from it
    read_only: bool = False
    tag: str | None = None  # by which the guest finds it in its metadata


@frozen
class GuestFile:
    """A file that a guest finds on its config drive, with the path it is meant for."""

    path: str
    contents: str  # base64


@frozen
class GuestSpec:
    """A virtual machine, with the host it is to be on."""

    id: str
    name: str
    host: str
    vcpus: int
    memory_mib: int
    disk_gib: int  # root disk; 0: as large as the image
    image: ImageSource | None = None  # None: it boots from the volume with boot_index 0
    ephemeral_gib: int = 0
    swap_mib: int = 0
    ports: tuple[PortSpec, ...] = ()
    volumes: tuple[VolumeConnection, ...] = ()
    hostname: str | None = None
    user_data: str | None = None  # base64
    metadata: Mapping[str, str] = field(factory=dict)
    keypair_name: str | None = None
    public_key: str | None = None
    admin_password: str | None = field(default=None, repr=False)
    config_drive: bool = False
    files: tuple[GuestFile, ...] = ()
    extra_specs: Mapping[str, str] = field(factory=dict)  # of the flavor
    # -- what else a guest is told about itself, see `guest_data`: none of it changes the machine
    project_id: str = ""
    number: int = 0  # of the server in the cloud: EC2's short ids are made from it
    launch_index: int = 0  # among the servers of one request
    reservation_id: str = ""
    flavor_name: str = ""
    availability_zone: str = ""
    security_groups: tuple[str, ...] = ()  # names
    public_ipv4: str = ""  # a floating address
    networks: tuple[NetworkSpec, ...] = ()  # those of `ports`, each once


@frozen
class GuestState:
    """A guest as its driver finds it."""

    id: str
    host: str
    power: Power
    vcpus: int
    memory_mib: int
    volume_ids: tuple[str, ...] = ()  # sorted
    port_ids: tuple[str, ...] = ()  # sorted
    rescued: bool = False


@frozen
class MigrationProgress:
    """How far a guest's migration has come. Bytes."""

    memory_total: int
    memory_remaining: int
    disk_total: int
    disk_remaining: int


@frozen
class Traffic:
    """Traffic of a network interface as the guest sees it, since it was started. None: the driver does not count it."""

    mac: str
    rx_octets: int | None = None
    rx_packets: int | None = None
    rx_errors: int | None = None
    rx_drop: int | None = None
    tx_octets: int | None = None
    tx_packets: int | None = None
    tx_errors: int | None = None
    tx_drop: int | None = None


@frozen
class DiskUse:
    """Use of a guest's disk since the guest started. None: the driver does not count it."""

    name: str  # vda, …
    read_bytes: int | None = None
    read_requests: int | None = None
    write_bytes: int | None = None
    write_requests: int | None = None
    errors: int | None = None


@frozen
class GuestDiagnostics:
    """What a guest uses. None: the driver does not know it."""

    power: Power
    uptime: int | None  # seconds since it was started
    cpu_times: tuple[int | None, ...]  # nanoseconds, of each of its processors
    memory_mib: int
    memory_used_mib: int | None
    disks: tuple[DiskUse, ...]
    nics: tuple[Traffic, ...]


# -- volumes


@frozen
class VolumeSpec:
    """A volume, empty unless one of `image`, `snapshot_id` and `volume_id` gives its source."""

    id: str
    size_gib: int
    name: str = ""
    image: ImageSource | None = None
    snapshot_id: str | None = None
    volume_id: str | None = None
    multiattach: bool = False
    extra_specs: Mapping[str, str] = field(factory=dict)  # of the volume type
    qos: Mapping[str, str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if sum(source is not None for source in (self.image, self.snapshot_id, self.volume_id)) > 1:
            raise ValueError("a volume has one source at most")


@frozen
class SnapshotSpec:
    id: str
    volume_id: str
    name: str = ""


@frozen
class VolumeState:
    id: str
    size_gib: int
    hosts: tuple[str, ...] = ()  # that it is connected to, sorted


@frozen
class SnapshotState:
    id: str
    volume_id: str
    size_gib: int


@frozen
class Unmanaged:
    """A backend's volume that does not belong to the cloud, or such a snapshot of one of the cloud's volumes."""

    name: str
    size_gib: int  # rounded up
    volume_id: str | None = None  # of a snapshot
    objection: str = ""  # why it cannot be adopted; empty if it can


@frozen
class Capacity:
    """Capacity of one backend. `free_gib` is what new volumes can have now."""

    total_gib: int
    free_gib: int
    allocated_gib: int
    thin: bool = False
    multiattach: bool = False
    storage_protocol: str = ""


# -- networks


@frozen
class Route:
    destination: str  # CIDR
    nexthop: str


@frozen
class SubnetSpec:
    id: str
    cidr: str
    gateway_ip: str | None = None
    enable_dhcp: bool = True
    dns_nameservers: tuple[str, ...] = ()
    host_routes: tuple[Route, ...] = ()
    ipv6_address_mode: str | None = None  # slaac, dhcpv6-stateful, dhcpv6-stateless; None: not given to guests
    ipv6_ra_mode: str | None = None  # the same words: what routers advertise to guests; None: nothing
    segment_id: str | None = None  # the only one of the network's segments that has this subnet; None: all have it


@frozen
class NetworkSpec:
    """A layer 2 segment with all its subnets."""

    id: str
    name: str = ""
    network_type: str = "vxlan"
    physical_network: str | None = None
    segmentation_id: int | None = None
    mtu: int = 1500
    admin_state_up: bool = True
    external: bool = False
    subnets: tuple[SubnetSpec, ...] = ()
    no_dhcp_on: tuple[str, ...] = ()  # hosts that do not serve DHCP; obeyed by an IServiceHosts
    dhcp_port: DhcpPort | None = None  # obeyed by an IDhcpPorts
    segments: tuple[SegmentSpec, ...] = ()  # all its wires, if it is on several; obeyed by an ISegments


@frozen
class PortState:
    id: str
    network_id: str
    hosts: tuple[str, ...]  # where it is plugged, sorted; two during a live migration
    up: bool  # traffic passes


@frozen
class RouterInterface:
    port_id: str
    network_id: str
    mac: str
    addresses: tuple[str, ...]  # "address/prefix length"
    limits: tuple[BandwidthLimit, ...] = ()  # of a gateway; obeyed by an IGatewayLimits


@frozen
class FloatingIp:
    id: str
    floating_address: str
    fixed_address: str
    limits: tuple[BandwidthLimit, ...] = ()  # obeyed by an IGatewayLimits
    port_id: str | None = None  # whose address the fixed one is


@frozen
class PortForwarding:
    """`count` ports of a floating address, from `external` up, lead to those of a fixed address from `internal` up."""

    id: str
    protocol: str  # tcp, udp
    floating_address: str
    external: int
    fixed_address: str
    internal: int
    count: int = 1


@frozen
class ConntrackHelper:
    """A kernel helper follows a protocol's connections to a port and recognizes the connections that these open."""

    protocol: str
    port: int
    helper: str


@frozen
class RouterSpec:
    """A router with everything attached to it."""

    id: str
    name: str = ""
    admin_state_up: bool = True
    gateway: RouterInterface | None = None
    more_gateways: tuple[RouterInterface, ...] = ()  # obeyed by an IManyGateways
    enable_snat: bool = True
    interfaces: tuple[RouterInterface, ...] = ()
    routes: tuple[Route, ...] = ()
    floating_ips: tuple[FloatingIp, ...] = ()
    port_forwardings: tuple[PortForwarding, ...] = ()  # obeyed by an IPortForwarding
    host: str = ""  # where it works ("": nowhere); obeyed by an IServiceHosts
    conntrack_helpers: tuple[ConntrackHelper, ...] = ()  # obeyed by an IConntrackHelpers
    ndp_proxies: tuple[str, ...] = ()  # addresses that it answers for on the outside; obeyed by an INdpProxies
    meters: tuple[Meter, ...] = ()  # obeyed by an IMetering
    default_route_ecmp: bool = False  # traffic is spread over all gateways; obeyed by an IManyGateways
    default_route_bfd: bool = False  # gateways that do not answer are left out; obeyed by an IWatchedGateways
    evpn_vni: int | None = None  # of the VPN in which it is announced; obeyed by an IEvpn
    leaked: tuple[str, ...] = ()  # networks behind it that the underlying network has routes to; obeyed by IRouteLeaks
    distributed: bool = False  # and ha: obeyed by an IRouterKinds
    ha: bool = False

    @property
    def ways_out(self) -> tuple[RouterInterface, ...]:
        return () if self.gateway is None else (self.gateway, *self.more_gateways)


@frozen
class SecurityGroupRule:
    direction: str  # ingress, egress
    ethertype: str  # IPv4, IPv6
    protocol: str | None = None  # name or number; None: any
    port_range_min: int | None = None  # ICMP: type
    port_range_max: int | None = None  # ICMP: code
    remote_prefix: str | None = None
    remote_group_id: str | None = None  # the addresses of the ports that are in this group


@frozen
class SecurityGroupSpec:
    """Rules that allow traffic; what no rule of a port's groups allows is dropped."""

    id: str
    rules: tuple[SecurityGroupRule, ...] = ()
    stateful: bool = True


@frozen
class NetworkInventory:
    """Everything that a network backend holds, by id."""

    networks: tuple[str, ...]
    ports: tuple[PortState, ...]
    routers: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
