"""Ports of guests in Open vSwitch, as OVN has them: a tap in the host's network namespace, in the bridge that the
binding names. The hypervisor driver makes and removes it; taps of other ports belong to the network driver.

It exists before the guest's process does, and goes after it. Calls check nothing first and can be repeated.
Sources: ovs-vsctl(8); ovs-vswitchd.conf.db(5), external_ids of an Interface; ip-tuntap(8).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from attrs import frozen

from cloudctl.drivers.errors import DriverError, Unreachable
from cloudctl.drivers.programs import ProgramFailed, Programs
from cloudctl.drivers.qemu.options import Config
from cloudctl.drivers.specs import GuestSpec, PortSpec

OPEN_VSWITCH = "ovs"  # of a binding, its vif_type
PROGRAM = "ovs-vsctl"
# What ip reports for a tap that QEMU has open already, and for a missing tap or namespace.
THERE = ("Device or resource busy",)
GONE = ("Cannot find device", "Cannot open network namespace")
# What ovs-vsctl reports before a host's daemons have started.
AWAY = ("database connection failed", "no bridge named")


@frozen
class Plug:
    """Where a port's tap is plugged in."""

    tap: str
    bridge: str
    interface_id: str  # of OVN's logical port
    mac: str  # of the guest
    mtu: int


def plugs(*ports: PortSpec) -> Iterator[Plug]:
    """The plugs of those ports that are in Open vSwitch."""
    for port in ports:
        if port.binding is not None and port.binding.get("vif_type") == OPEN_VSWITCH:
            details = port.binding["vif_details"]
            yield Plug(details["tap"], details["bridge"], details["interface_id"], port.mac, details["mtu"])


def adding(plug: Plug) -> list[str]:
    """Arguments of ovs-vsctl. OVN's daemon finds the interface by its `iface-id`."""
    told = {"iface-id": plug.interface_id, "attached-mac": plug.mac, "iface-status": "active"}
    columns = [f"external_ids:{key}={json.dumps(value)}" for key, value in told.items()]
    return ["--may-exist", "add-port", plug.bridge, plug.tap, "--", "set", "Interface", plug.tap, *columns]


def removing(plug: Plug) -> list[str]:
    return ["--if-exists", "del-port", plug.tap]


@frozen
class Switches:
    """The switches of the hosts."""

    programs: Programs
    config: Config

    async def ensure(self, spec: GuestSpec, *ports: PortSpec) -> None:
        """These ports of the guest are plugged on its host. Raises Unreachable if Open vSwitch does not answer."""
        for plug in plugs(*ports):
            await self._ip(spec.host, THERE, "tuntap", "add", "dev", plug.tap, "mode", "tap")
            # Without an address of its own: nobody on the guest's network may talk to this machine.
            up = ("addrgenmode", "none", "mtu", str(plug.mtu), "up")
            await self._ip(spec.host, (), "link", "set", "dev", plug.tap, *up)
            await self._vsctl(spec.host, adding(plug))

    async def ensure_absent(self, spec: GuestSpec, *ports: PortSpec) -> None:
        """Nothing is left of these ports on the guest's host. Raises as `ensure`."""
        if spec.host not in self.config.namespaces:
            return
        for plug in plugs(*ports):
            await self._ip(spec.host, GONE, "link", "del", "dev", plug.tap)
            await self._vsctl(spec.host, removing(plug))

    async def _ip(self, host: str, harmless: tuple[str, ...], *words: str) -> None:
        namespace = self.config.namespaces[host]
        try:
            await self.programs.change("ip", *(["-n", namespace] if namespace else []), *words)
        except ProgramFailed as error:
            if not any(each in error.complaint for each in harmless):
                raise

    async def _vsctl(self, host: str, words: list[str]) -> None:
        """Waits until the daemon has applied it."""
        where = self.config.ovs_db.get(host)
        database = [f"--db={where}"] if where else []
        try:
            await self.programs.change(PROGRAM, *database, *words, timeout=self.config.answer_timeout)
        except ProgramFailed as error:
            raise _failure(host, error) from error


def _failure(host: str, error: ProgramFailed) -> DriverError:
    if any(each in error.complaint for each in AWAY):
        return Unreachable(f"Open vSwitch of host {host} is not ready: {error.complaint}")
    return error
