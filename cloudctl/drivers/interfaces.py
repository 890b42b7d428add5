"""What the cloud requires of a driver: small interfaces, one core per kind and capabilities that a driver may add.

Rules for all of them:

* A method named `ensure_…` describes a state, not a change. If that state already holds, it does nothing.
* The answer to a call may be lost (the process was killed): the same call will come again, possibly after a restart.
* Two identical calls for the same id may run at the same time. Each must succeed or raise `Busy`.
* Names and metadata are any Unicode; ids are printable ASCII without spaces.
* Methods are `async def`. They may also return a Deferred, or block: see `boundary` and `threaded`.
* Any method may raise `Unreachable`; its docstring lists what else. Any exception but a `DriverError` is a bug.

A driver has a capability when it declares its interface (`@implementer`). Declare only what is implemented: the cloud
refuses the actions that need the others.
"""

from __future__ import annotations

from typing import Literal

from zope.interface import Interface

from cloudctl.drivers.bus_interface import IBus, IBusListening, IBusPublishing
from cloudctl.drivers.driver_interface import IDriver, IDriverMaker, IElsewhere
from cloudctl.drivers.fencer_interface import (
    IFencer,
)
from cloudctl.drivers.hypervisor_interfaces import (
    ICaptureAttached,
    ICrashDump,
    IDiagnostics,
    IGuestEvents,
    IHypervisor,
    ILiveMigrate,
    IPassword,
    IPause,
    IRescue,
    IResizeAttached,
    ISerialConsole,
    ISnapshot,
    ISuspend,
    ISwapVolume,
    IVncConsole,
)
from cloudctl.drivers.network_interfaces import (
    IConntrackHelpers,
    IDhcpOptions,
    IDhcpPorts,
    IEvpn,
    IGatewayLimits,
    IGeneve,
    IGuaranteedRates,
    IGuestMetadata,
    IHostsHeard,
    ILocalIps,
    IManyGateways,
    IMarking,
    IMetering,
    INdpProxies,
    INetworkBackend,
    INetworkDrift,
    IOneServiceHost,
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
    ITunnelMtu,
    IWatchedGateways,
)
from cloudctl.drivers.objects_interface import IFarData, IManyContents, IObjectData
from cloudctl.drivers.volume_interfaces import (
    IConsistentSnapshots,
    IVolumeAdoption,
    IVolumeBackend,
    IVolumeChanges,
    IVolumeData,
    IVolumeFormats,
    IVolumeSnapshots,
)

__all__ = [
    "CAPABILITIES",
    "IBus",
    "IBusListening",
    "IBusPublishing",
    "ICaptureAttached",
    "IConntrackHelpers",
    "IConsistentSnapshots",
    "ICrashDump",
    "IDhcpOptions",
    "IDhcpPorts",
    "IDiagnostics",
    "IDriver",
    "IDriverMaker",
    "IElsewhere",
    "IEvpn",
    "IFarData",
    "IFencer",
    "IGatewayLimits",
    "IGeneve",
    "IGuaranteedRates",
    "IGuestEvents",
    "IGuestMetadata",
    "IHostsHeard",
    "IHypervisor",
    "ILiveMigrate",
    "ILocalIps",
    "IManyContents",
    "IManyGateways",
    "IMarking",
    "IMetering",
    "INdpProxies",
    "INetworkBackend",
    "INetworkDrift",
    "IObjectData",
    "IOneServiceHost",
    "IPacketLimits",
    "IPacketLogs",
    "IPassword",
    "IPause",
    "IPortForwarding",
    "IPrivateVlans",
    "IRescue",
    "IResizeAttached",
    "IRouteLeaks",
    "IRouterKinds",
    "IRouters",
    "ISecurityGroups",
    "ISegments",
    "ISerialConsole",
    "IServiceHosts",
    "ISnapshot",
    "ISuspend",
    "ISwapVolume",
    "ITrunks",
    "ITunnelMtu",
    "IVncConsole",
    "IVolumeAdoption",
    "IVolumeBackend",
    "IVolumeChanges",
    "IVolumeData",
    "IVolumeFormats",
    "IVolumeSnapshots",
    "IWatchedGateways",
    "Kind",
]

Kind = Literal["hypervisor", "volume", "network", "fencer", "objects", "bus"]

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
        ICaptureAttached,
        ISwapVolume,
        IGuestEvents,
    ),
    "volume": (
        IVolumeBackend,
        IVolumeSnapshots,
        IConsistentSnapshots,
        IVolumeData,
        IVolumeFormats,
        IVolumeChanges,
        IVolumeAdoption,
    ),
    "network": (
        INetworkBackend,
        IRouters,
        ISecurityGroups,
        ITrunks,
        IDhcpOptions,
        IDhcpPorts,
        IMarking,
        IPacketLimits,
        IGuaranteedRates,
        IPortForwarding,
        ILocalIps,
        IPacketLogs,
        IConntrackHelpers,
        INdpProxies,
        IMetering,
        IGatewayLimits,
        IManyGateways,
        IWatchedGateways,
        IRouterKinds,
        IEvpn,
        IRouteLeaks,
        IPrivateVlans,
        IGeneve,
        ITunnelMtu,
        ISegments,
        IServiceHosts,
        IOneServiceHost,
        IHostsHeard,
        INetworkDrift,
        IGuestMetadata,
    ),
    "fencer": (IFencer,),
    "objects": (IObjectData, IFarData, IManyContents),
    "bus": (IBus, IBusListening, IBusPublishing),
}
"""Of each kind: the interface that every driver provides, then those that it may add."""
