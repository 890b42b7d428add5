"""Hypervisors: guests, and what some drivers can do besides. The rules for all drivers: `interfaces`."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IProtocol
from zope.interface import Interface

from cloudctl.drivers.driver_interface import IDriver
from cloudctl.drivers.specs import (
    ConnectionInfo,
    GuestDiagnostics,
    GuestSpec,
    GuestState,
    HostInventory,
    ImageSource,
    MigrationProgress,
    PortSpec,
    VolumeConnection,
)


class IHypervisor(IDriver):
    """Guests on one or more hosts."""

    async def hosts() -> tuple[HostInventory, ...]:
        """Every host that this driver serves, including those that are down, sorted by name."""

    async def inventory() -> tuple[GuestState, ...]:
        """Every guest on every host that is up, including those that the cloud does not know, sorted by id.

        A guest that several hosts have is listed once per host, the valid one last: a host that was down while its
        guest was recreated elsewhere still has it, until it has dropped its copy.
        """

    async def observe(id: str) -> GuestState:
        """One guest, as `inventory` reports it. Raises UnknownGuest, HostDown."""

    async def ensure_defined(spec: GuestSpec) -> None:
        """The guest exists on `spec.host` as `spec` says, with a root disk; a new one is stopped.

        An existing guest is changed where it differs: volumes, ports, names and metadata at any time; size and host
        only while it is stopped or crashed. Its root disk is kept and grown, never shrunk, and moves with it. It cannot
        move off a host that is down: then a new disk is made from the image (an evacuation), and the old host drops
        its copy when it returns. Raises UnknownHost, HostDown (of `spec.host`), NoCapacity, Unfit, InvalidPower.
        """

    async def ensure_running(id: str) -> None:
        """The guest executes: started if stopped or crashed, continued if paused or suspended.

        Raises UnknownGuest, HostDown, NoCapacity.
        """

    async def ensure_stopped(id: str, timeout: float = 60.0) -> None:
        """The guest is off. It gets `timeout` seconds to shut itself down, then its power is cut; 0 cuts at once.

        A suspended guest loses its saved memory. Raises UnknownGuest, HostDown.
        """

    async def ensure_rebooted(id: str, token: str, hard: bool = False) -> None:
        """The guest has been restarted since `token` was first seen, and runs. The same token means the same reboot.

        Soft: the guest is asked to shut down first; hard: its power is cut. The token of the latest reboot survives a
        restart of the driver. A guest that is off is started. Raises UnknownGuest, HostDown.
        """

    async def ensure_absent(id: str) -> None:
        """No guest of this id, no root disk, no log. Volumes and ports are released, not deleted.

        An unknown id is no error. Raises HostDown.
        """

    async def console_output(id: str, lines: int | None = None) -> str:
        """The last `lines` lines of the serial console (None: all that is kept). Raises UnknownGuest, HostDown."""

    async def ensure_volume_attached(id: str, connection: VolumeConnection) -> None:
        """The guest, running or not, has the volume. Raises UnknownGuest, HostDown, Busy, Unfit."""

    async def ensure_volume_detached(id: str, volume_id: str) -> None:
        """The guest does not have the volume. A volume that it never had, or an unknown guest, is no error.

        Raises HostDown, and Busy while a running guest has not released the device.
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
    """The root disk of a guest can be copied while the guest continues to run."""

    async def ensure_captured(id: str, path: str) -> str:
        """`path` is a complete copy of the root disk, as it was at one moment; returns its disk format.

        The file appears whole or not at all; a repeat recreates it. Raises UnknownGuest, HostDown, and Unfit for a
        guest without a root disk of its own.
        """


class IRescue(Interface):
    """A guest can run from another image, with its root disk beside it."""

    async def ensure_rescued(id: str, image: ImageSource | None, password: str) -> None:
        """The guest runs from `image` (None: from its own) with this admin password.

        A repeat does not restart it. Raises UnknownGuest, HostDown, Unfit.
        """

    async def ensure_unrescued(id: str) -> None:
        """The guest runs from its root disk. A guest that is not rescued does not change.

        Raises UnknownGuest, HostDown.
        """


class ILiveMigrate(Interface):
    """A running or paused guest can move without stopping."""

    async def ensure_migrated(spec: GuestSpec, disks: bool | None = None) -> None:
        """The guest is on `spec.host`, in the same power state; `spec` holds the connections and bindings there.

        `disks`: whether the guest's own disks are copied (False: both hosts reach them; None: the driver finds out).
        If the migration fails, the guest goes on where it was. Raises UnknownGuest, UnknownHost, HostDown (of either
        host), NoCapacity, InvalidPower if it is off or suspended, Aborted.
        """

    async def migration_progress(id: str) -> MigrationProgress | None:
        """How far the guest's migration has come; None if it is not migrating. Raises HostDown."""

    async def ensure_migration_aborted(id: str) -> None:
        """The guest is not migrating: a call of `ensure_migrated` that is waiting for it raises Aborted.

        A guest that has arrived does not change; an unknown one is no error. Raises HostDown.
        """

    async def ensure_migration_forced(id: str) -> None:
        """A migrating guest arrives soon, at the price of a pause. Otherwise as `ensure_migration_aborted`."""


class IPassword(Interface):
    """The admin password of a running guest can be set."""

    async def ensure_password(id: str, password: str) -> None:
        """Raises UnknownGuest, HostDown, InvalidPower unless it runs."""


class IDiagnostics(Interface):
    """The driver can report what guests use."""

    async def diagnostics(id: str) -> GuestDiagnostics:
        """What the guest uses now. Raises UnknownGuest, HostDown."""


class ICrashDump(Interface):
    """Guests can be made to dump their memory, for fault analysis."""

    async def ensure_interrupted(id: str, token: str) -> None:
        """The guest has had a non-maskable interrupt since `token` was first seen. The same token means the same one.

        Raises UnknownGuest, HostDown, InvalidPower unless it runs or is paused.
        """


class ISerialConsole(Interface):
    """Guests have a serial console that can be typed into."""

    async def open_serial(id: str, client: IProtocol) -> None:
        """`client` is connected to the console: it receives what the guest writes, and what it writes is typed.

        Either side may hang up; the guest goes on. The caller opens one connection to a console at a time. Raises
        UnknownGuest, HostDown, InvalidPower if the guest is off.
        """


class IVncConsole(Interface):
    """Guests have a screen, a keyboard and a mouse, reached by the RFB protocol."""

    async def open_vnc(id: str, client: IProtocol) -> None:
        """As `open_serial`; there may be several connections. Raises Unfit for a guest that has no screen."""


class IResizeAttached(Interface):
    """A guest can see a volume grow while it is attached."""

    async def ensure_volume_size(id: str, volume_id: str, size_gib: int) -> None:
        """The guest sees the new size. Raises UnknownGuest, HostDown, UnknownVolume if it does not have the volume."""


class ICaptureAttached(Interface):
    """A volume can be copied by the guest that has it open, where its backend cannot do that meanwhile."""

    async def ensure_volume_captured(id: str, volume_id: str, path: str) -> str:
        """`path` is a copy of the volume, as it was at one moment; returns its disk format: "raw", sparse.

        The guest goes on. The file appears whole or not at all; a repeat recreates it. Raises UnknownGuest, HostDown,
        UnknownVolume if the guest does not have the volume, InvalidPower if it is off and so has nothing open,
        NoCapacity.
        """


class ISwapVolume(Interface):
    """A volume of a guest can be moved to another place while the guest uses it."""

    async def ensure_volume_swapped(id: str, volume_id: str, info: ConnectionInfo, exact: bool = False) -> None:
        """The guest, on or off, has this volume where `info` leads, with all that it wrote before.

        A volume of the same size is already there: empty, or a copy that was made while the guest was writing, and the
        driver brings over what differs. `exact`: nothing does, as the guest was off when the copy was begun, and still
        is. If the call fails, the guest uses the volume where it was. Raises UnknownGuest, HostDown, UnknownVolume if
        it does not have the volume, Busy, Unfit, NoCapacity, InvalidPower if it is off and the driver cannot bring over
        what differs then.
        """


class IGuestEvents(Interface):
    """The driver notices by itself when a guest has switched off or died."""

    async def watch_guests(changed: Callable[[str], None]) -> None:
        """From now on call `changed(id)` within a second after a guest's power may have changed on its own.

        Called as the cloud starts, and again while it raises something; `inventory` finds what changed before.
        Superfluous calls of `changed` do no harm.
        """
