"""What the cloud asks of a driver. Small interfaces: one core a kind, and capabilities that a driver may add.

Rules for all of them:

* A method named `ensure_…` describes an end, not a change. Where the end is reached already it does nothing.
* The answer to a call may be lost (the process was killed): the same call will come again, possibly after a restart.
* Two calls for the same id may run at the same time, with the same wish. Both must succeed, or fail with `Busy`.
* Names and metadata are any Unicode; ids are printable ASCII without spaces.
* Methods are `async def`. They may also return a Deferred, or block: see `boundary` and `threaded`.
* Any method may raise `Unreachable`; a docstring lists what else. Anything that is no `DriverError` is a bug.

A capability is present when the driver declares its interface (`@implementer`): declare only what is implemented, the
cloud refuses the actions that need the others.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Literal

from twisted.internet.interfaces import IProtocol
from twisted.web.resource import IResource
from zope.interface import Attribute, Interface

from cloudctl.drivers.specs import (
    Capacity,
    ConnectionInfo,
    GuestDiagnostics,
    GuestSpec,
    GuestState,
    HostInventory,
    ImageSource,
    MigrationProgress,
    NetworkInventory,
    NetworkSpec,
    PortBinding,
    PortSpec,
    PortState,
    RouterSpec,
    SecurityGroupSpec,
    SnapshotSpec,
    SnapshotState,
    Unmanaged,
    VolumeConnection,
    VolumeSpec,
    VolumeState,
)

Kind = Literal["hypervisor", "volume", "network", "fencer"]


class IDriverMaker(Interface):
    """A plugin: a driver that may be configured by name. The module must be cheap to import until `load` is called."""

    kind = Attribute("'hypervisor', 'volume', 'network' or 'fencer'.")
    name = Attribute("What the configuration calls it.")
    description = Attribute("One line for `cloudctl drivers`.")

    def load() -> ModuleType:
        """Import and return the driver's module. Raises whatever its import raises.

        The module has `Config`, a frozen attrs class whose fields are the options of the driver's TOML table, and
        `create(config, resources)`, which returns the driver and touches nothing outside the process.
        """


class IDriver(Interface):
    """Of every driver, whatever its kind."""

    async def check() -> None:
        """Raise `Unusable`, with the reason, if this driver cannot work here.

        Called once before the reactor runs: it may block for a few seconds and must not wait for the reactor.
        """

    async def close() -> None:
        """Let go of sockets, threads and files. Guests, volumes and networks stay. A repeat does nothing."""


# -- hypervisors


class IHypervisor(IDriver):
    """Guests on one or more hosts."""

    async def hosts() -> tuple[HostInventory, ...]:
        """Every host that this driver serves, also those that are down, sorted by name."""

    async def inventory() -> tuple[GuestState, ...]:
        """Every guest on every host that is up, also those that the cloud does not know, sorted by id."""

    async def observe(id: str) -> GuestState:
        """One guest; what `inventory` says of it. Raises UnknownGuest, HostDown."""

    async def ensure_defined(spec: GuestSpec) -> None:
        """The guest exists on `spec.host` as `spec` says, with a root disk; a new one is stopped.

        A guest that is there gets what differs: volumes, ports, names and metadata at any time; size and host only
        while it is stopped or crashed. Its root disk is kept and grown, never shrunk, and moves along; from a host
        that is down it cannot, so there a new disk is made from the image (an evacuation), and the old host drops
        its copy when it returns. Raises UnknownHost, HostDown (of `spec.host`), NoCapacity, Unfit, InvalidPower.
        """

    async def ensure_running(id: str) -> None:
        """The guest executes: started if stopped or crashed, continued if paused or suspended.

        Raises UnknownGuest, HostDown, NoCapacity.
        """

    async def ensure_stopped(id: str, timeout: float = 60.0) -> None:
        """The guest is off. It gets `timeout` seconds to shut itself down, then its power is cut; 0 cuts at once.

        A suspended guest loses the memory that was kept. Raises UnknownGuest, HostDown.
        """

    async def ensure_rebooted(id: str, token: str, hard: bool = False) -> None:
        """The guest has started anew since `token` was first seen, and runs. The same token again is the same reboot.

        Soft: the guest is asked first; hard: its power is cut. The token of the latest reboot outlives a restart
        of the driver. A guest that is off is started. Raises UnknownGuest, HostDown.
        """

    async def ensure_absent(id: str) -> None:
        """No guest of this id, no root disk, no log. Volumes and ports are let go, not deleted.

        An unknown id is no error. Raises HostDown.
        """

    async def console_output(id: str, lines: int | None = None) -> str:
        """The last `lines` lines of the serial console (all that is kept when None). Raises UnknownGuest, HostDown."""

    async def ensure_volume_attached(id: str, connection: VolumeConnection) -> None:
        """The guest, running or not, has the volume. Raises UnknownGuest, HostDown, Busy, Unfit."""

    async def ensure_volume_detached(id: str, volume_id: str) -> None:
        """The guest does not have the volume. A volume that it never had, or an unknown guest, is no error.

        Raises HostDown, and Busy while a running guest has not let go of the device.
        """

    async def ensure_port_attached(id: str, port: PortSpec) -> None:
        """The guest, running or not, has an interface for the port. Raises UnknownGuest, HostDown, Busy, Unfit."""

    async def ensure_port_detached(id: str, port_id: str) -> None:
        """The guest does not have the interface; otherwise as `ensure_volume_detached`."""


class IPause(Interface):
    """Guests can be frozen in memory. `ensure_running` thaws them."""

    async def ensure_paused(id: str) -> None:
        """A running guest is paused. Raises UnknownGuest, HostDown, InvalidPower if it is off or suspended."""


class ISuspend(Interface):
    """Guests can be frozen to disk. `ensure_running` thaws them."""

    async def ensure_suspended(id: str) -> None:
        """A running or paused guest is suspended. Raises UnknownGuest, HostDown, InvalidPower if it is off."""


class ISnapshot(Interface):
    """The root disk of a guest can be copied while the guest goes on."""

    async def ensure_captured(id: str, path: str) -> str:
        """`path` is a complete copy of the root disk, as it was at one moment; returns its disk format.

        The file appears whole or not at all; a repeat makes it anew. Raises UnknownGuest, HostDown, and Unfit for a
        guest without a root disk of its own.
        """


class IRescue(Interface):
    """A guest can run from another image, with its root disk beside it."""

    async def ensure_rescued(id: str, image: ImageSource | None, password: str) -> None:
        """The guest runs from `image` (None: from its own) with this admin password.

        A repeat does not restart it. Raises UnknownGuest, HostDown, Unfit.
        """

    async def ensure_unrescued(id: str) -> None:
        """The guest runs from its root disk. Of a guest that is not rescued nothing changes.

        Raises UnknownGuest, HostDown.
        """


class ILiveMigrate(Interface):
    """A running or paused guest can move without stopping."""

    async def ensure_migrated(spec: GuestSpec, disks: bool | None = None) -> None:
        """The guest is on `spec.host`, in the same power state; `spec` holds the connections and bindings there.

        `disks`: whether those that are its own are copied, or are where both hosts reach them; None: the driver finds
        out. If it fails the guest goes on where it was. Raises UnknownGuest, UnknownHost, HostDown (of either host),
        NoCapacity, InvalidPower if it is off or suspended, Aborted.
        """

    async def migration_progress(id: str) -> MigrationProgress | None:
        """How far the guest has come on its way to another host; None if it is not on one. Raises HostDown."""

    async def ensure_migration_aborted(id: str) -> None:
        """The guest is not on its way: a call of `ensure_migrated` that waits for it raises Aborted.

        Of a guest that has arrived, and of an unknown one, nothing changes. Raises HostDown.
        """

    async def ensure_migration_forced(id: str) -> None:
        """A guest that is on its way arrives soon, at the price of a pause. Otherwise as `ensure_migration_aborted`."""


class IPassword(Interface):
    """The admin password of a running guest can be set."""

    async def ensure_password(id: str, password: str) -> None:
        """Raises UnknownGuest, HostDown, InvalidPower unless it runs."""


class IDiagnostics(Interface):
    """What guests use can be told."""

    async def diagnostics(id: str) -> GuestDiagnostics:
        """As it is now. Raises UnknownGuest, HostDown."""


class ICrashDump(Interface):
    """Guests can be made to save what is in their memory, for who looks for a fault."""

    async def ensure_interrupted(id: str, token: str) -> None:
        """The guest has had a non-maskable interrupt since `token` was first seen. The same token again is the same.

        Raises UnknownGuest, HostDown, InvalidPower unless it runs or is paused.
        """


class ISerialConsole(Interface):
    """Guests have a serial console that can be typed into."""

    async def open_serial(id: str, client: IProtocol) -> None:
        """`client` is connected to the console: it receives what the guest writes, and what it writes is typed.

        Either of them may hang up; the guest goes on. The caller has one connection to a console at a time. Raises
        UnknownGuest, HostDown, InvalidPower if the guest is off.
        """


class IVncConsole(Interface):
    """Guests have a screen, a keyboard and a mouse, by the protocol RFB."""

    async def open_vnc(id: str, client: IProtocol) -> None:
        """As `open_serial`; there may be several connections. Raises Unfit for a guest that was made without."""


class IResizeAttached(Interface):
    """A guest can see a volume grow while it is attached."""

    async def ensure_volume_size(id: str, volume_id: str, size_gib: int) -> None:
        """The guest sees the new size. Raises UnknownGuest, HostDown, UnknownVolume if it does not have the volume."""


class IGuestEvents(Interface):
    """The driver notices by itself that a guest has gone off or died."""

    async def watch_guests(changed: Callable[[str], None]) -> None:
        """From now on `changed(id)` is called within a second after a guest's power may have changed unasked.

        Called once, as the cloud starts; what was so before is found by `inventory`. Calls too many do no harm.
        """


# -- volumes


class IVolumeBackend(IDriver):
    """Block devices that hosts can connect to."""

    async def capacity() -> Capacity:
        """What there is and what is left."""

    async def inventory() -> tuple[VolumeState, ...]:
        """Every volume, also those that the cloud does not know, sorted by id."""

    async def observe(id: str) -> VolumeState:
        """One volume; what `inventory` says of it. Raises UnknownVolume."""

    async def ensure_created(spec: VolumeSpec) -> None:
        """The volume exists, filled from its source and grown to `size_gib`. One that is there stays as it is.

        A volume that is half filled is never seen under its id. Raises NoCapacity, Unfit, and UnknownVolume or
        UnknownSnapshot for a source.
        """

    async def ensure_extended(id: str, size_gib: int) -> None:
        """The volume has this size, connected or not. Raises UnknownVolume, NoCapacity, Unfit if it is larger now."""

    async def ensure_absent(id: str) -> None:
        """No volume of this id. An unknown id is no error. Raises InUse while it has snapshots or is connected."""

    async def connect(id: str, host: str) -> ConnectionInfo:
        """Let this host use the volume; says how. A repeat returns an equal answer. Raises UnknownVolume."""

    async def disconnect(id: str, host: str) -> None:
        """The host cannot use it any more. A host that could not, or an unknown id, is no error."""


class IVolumeSnapshots(Interface):
    """Volumes can be frozen in time."""

    async def snapshots() -> tuple[SnapshotState, ...]:
        """Every snapshot, also those that the cloud does not know, sorted by id."""

    async def ensure_snapshot(spec: SnapshotSpec) -> None:
        """The snapshot exists; one that is there stays as it is.

        Raises UnknownVolume, NoCapacity, and InUse if it cannot be taken while a guest has the volume open.
        """

    async def ensure_snapshot_absent(id: str) -> None:
        """No snapshot of this id. An unknown id is no error. Raises InUse if volumes depend on it."""

    async def ensure_reverted(id: str, snapshot_id: str) -> None:
        """The volume holds what the snapshot holds. Raises UnknownVolume, UnknownSnapshot, InUse if connected."""


class IVolumeData(Interface):
    """The content of volumes can be copied out and in: backups, images of volumes, moves between backends."""

    async def ensure_exported(id: str, path: str, snapshot_id: str | None = None) -> str:
        """`path` is a copy of the volume, or of its snapshot; returns its disk format: "raw", sparse where it is empty.

        The file appears whole or not at all; a repeat makes it anew. The copy shows the volume at one moment, also
        while guests write to it. Raises UnknownVolume, UnknownSnapshot, NoCapacity, and InUse if that cannot be done
        while a guest has the volume open.
        """

    async def ensure_imported(id: str, image: ImageSource) -> None:
        """The volume holds what the file holds, then zeros. If it fails the volume holds what it held.

        Raises UnknownVolume, InUse if connected, NoCapacity, and Unfit for a file that is no such image or too large.
        """


class IVolumeFormats(Interface):
    """What is copied out of volumes can be in other disk formats than raw."""

    formats = Attribute("Those formats, as images name them, in a tuple of str.")

    async def ensure_exported_as(id: str, path: str, disk_format: str, snapshot_id: str | None = None) -> None:
        """As `ensure_exported` of IVolumeData, in one of `formats`."""


class IVolumeAdoption(Interface):
    """What the backend has beside the volumes of the cloud can become such, and these can be left to it alone."""

    async def unmanaged() -> tuple[Unmanaged, ...]:
        """The volumes that it has beside those of `inventory`, sorted by name."""

    async def ensure_adopted(id: str, name: str) -> None:
        """What `unmanaged` called `name` is the volume `id`, its size rounded up to whole GiB.

        Raises UnknownVolume for a name that is not there, Unfit for what cannot be a volume, InUse while somebody
        has it open.
        """

    async def ensure_released(id: str, name: str) -> None:
        """The volume is one of `unmanaged`, and has this name there. An unknown id is no error.

        Raises InUse while it has snapshots or is connected, Unfit if something else has the name.
        """

    async def unmanaged_snapshots() -> tuple[Unmanaged, ...]:
        """The snapshots of volumes that it has beside those of `snapshots`, sorted by volume and name."""

    async def ensure_snapshot_adopted(id: str, volume_id: str, name: str) -> None:
        """What `unmanaged_snapshots` called `name` is the snapshot `id`. Raises UnknownVolume, UnknownSnapshot."""

    async def ensure_snapshot_released(id: str) -> None:
        """The snapshot is one of `unmanaged_snapshots`, by a name that is found there. An unknown id is no error."""


# -- networks


class INetworkBackend(IDriver):
    """Layer 2 segments over all hosts, with addresses by DHCP."""

    async def inventory() -> NetworkInventory:
        """Everything that it holds, also what the cloud does not know, each tuple sorted by id."""

    async def observe_port(id: str) -> PortState:
        """One port; what `inventory` says of it. Raises UnknownPort."""

    async def ensure_network(spec: NetworkSpec) -> None:
        """The network is as `spec` says, subnets included, wherever a port of it is. Raises Unfit."""

    async def ensure_network_absent(id: str) -> None:
        """No network of this id. An unknown id is no error. Raises InUse while it has ports."""

    async def ensure_port(port: PortSpec, host: str) -> PortBinding:
        """The port can be plugged into a guest on `host`, with its addresses and groups as `port` says.

        It stays plugged on other hosts: a live migration needs both. What has changed in `port` holds on all hosts.
        A repeat returns an equal answer. Raises UnknownNetwork, UnknownHost, HostDown.
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


class IDhcpOptions(Interface):
    """Guests are told more by DHCP: `PortSpec.dhcp_options` is obeyed."""


class IMarking(Interface):
    """What guests send is marked: `PortSpec.dscp_mark` is obeyed."""


class IPacketLimits(Interface):
    """Ports are held to a number of packets: `PortSpec.packet_limits` is obeyed."""


class IGuaranteedRates(Interface):
    """Ports have a part of the wire for themselves: `PortSpec.guarantees` is obeyed."""


class IPortForwarding(Interface):
    """Ports of floating addresses lead to ports of fixed ones: `RouterSpec.port_forwardings` is obeyed."""


class ILocalIps(Interface):
    """Addresses lead to ports of the same host: `PortSpec.local_ips` is obeyed."""


class IPacketLogs(Interface):
    """What ports let through and drop is written down: `PortSpec.logged` is obeyed."""


class IConntrackHelpers(Interface):
    """Routers follow protocols that open further connections: `RouterSpec.conntrack_helpers` is obeyed."""


class INdpProxies(Interface):
    """Routers answer outside for addresses that are inside: `RouterSpec.ndp_proxies` is obeyed."""


class IMetering(Interface):
    """Traffic between routers and the outside is counted: `RouterSpec.meters` is obeyed."""


class IGatewayLimits(Interface):
    """Gateways and floating addresses are held to a bandwidth: their `limits` in a RouterSpec are obeyed."""


class IManyGateways(Interface):
    """A router may have several ways out: `RouterSpec.more_gateways` is obeyed."""


class IRouterKinds(Interface):
    """Routers work on every host, or take each other's place: `RouterSpec.distributed` and `ha` are obeyed."""


class IServiceHosts(Interface):
    """Where addresses are given out and where routers work is chosen: see NetworkSpec and RouterSpec."""


class IHostsHeard(Interface):
    """The network hears of its hosts by itself, on another way than the hypervisor does."""

    async def silent_hosts() -> frozenset[str]:
        """The hosts that have not been heard of for longer than they should, by name."""


class IGuestMetadata(Interface):
    """Guests can ask for their metadata at 169.254.169.254."""

    async def serve_guest_metadata(site_of: Callable[[str], IResource]) -> None:
        """From now on a connection of a guest on network N to 169.254.169.254:80 is answered by `site_of(N)`.

        Called once, as the cloud starts. The resource knows the guest by the client's address, so the driver passes
        connections on with their own source addresses, and only such as `ensure_port` has given. Paths are relative
        to the resource; bodies of more than some kilobytes need not be taken in.
        """


# -- fencing


class IFencer(IDriver):
    """Keeps hosts that nobody can reach any more from touching what others are about to use."""

    async def ensure_fenced(host: str) -> str:
        """The host executes no guest and writes no shared disk, and will not before `ensure_unfenced`.

        Returns the evidence, for people: what was seen, not what was asked for. Whoever cannot tell raises: another
        fencer is asked, or an operator. Raises UnknownHost for one that is not its own.
        """

    async def ensure_unfenced(host: str) -> None:
        """The host may work again: it gets its power, its disks, its network. Raises UnknownHost."""


CAPABILITIES: dict[Kind, tuple[type[Interface], ...]] = {
    "hypervisor": (
        IHypervisor,
        IPause,
        ISuspend,
        ISnapshot,
        IRescue,
        ILiveMigrate,
        IPassword,
        IDiagnostics,
        ICrashDump,
        ISerialConsole,
        IVncConsole,
        IResizeAttached,
        IGuestEvents,
    ),
    "volume": (IVolumeBackend, IVolumeSnapshots, IVolumeData, IVolumeFormats, IVolumeAdoption),
    "network": (
        INetworkBackend,
        IRouters,
        ISecurityGroups,
        ITrunks,
        IDhcpOptions,
        IMarking,
        IPacketLimits,
        IGuaranteedRates,
        IPortForwarding,
        IServiceHosts,
        IHostsHeard,
        IGuestMetadata,
    ),
    "fencer": (IFencer,),
}
"""Of each kind: the interface that every driver provides, then those that it may add."""
