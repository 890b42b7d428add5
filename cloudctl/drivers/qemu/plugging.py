"""Devices of a running guest: plugged, unplugged, grown. Each step checks first what is done, so it can be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.task import deferLater

from cloudctl.drivers.errors import Busy, Unfit, UnknownVolume, Unreachable
from cloudctl.drivers.qemu import keys, slots
from cloudctl.drivers.qemu.devices import Disk, Nic
from cloudctl.drivers.qemu.lending import lent_file, lent_tap
from cloudctl.drivers.qemu.qmp import Monitor, Refused, Silent, drop
from cloudctl.drivers.rbd.disk import rbd_disks
from cloudctl.drivers.specs import VolumeConnection

# What QEMU reports of a storage daemon that is being restarted, or does not serve everything yet.
AWAY = ("Failed to connect to", "Connection refused", "export not available")
# Seconds between two tries to close a disk that QEMU has not released yet.
PAUSE = 0.05


class NoSlot(Unfit):
    """The guest was started with too few root ports."""


async def plugged(monitor: Monitor) -> frozenset[str]:
    """The names of the devices that the guest has."""
    found = await monitor.execute("qom-list", {"path": "/machine/peripheral"})
    return frozenset(each["name"] for each in found if each["type"].startswith("child<"))


async def tell_keys(monitor: Monitor, volume: VolumeConnection) -> None:
    """QEMU has the keys with which the volume is opened."""
    for disk in rbd_disks([volume]):
        await _unless(monitor, "object-add", keys.told(disk), "uplicate")


async def plug_disk(monitor: Monitor, disk: Disk) -> None:
    """Raises Busy while another process holds the file, NoSlot."""
    if disk.name in await plugged(monitor):
        return
    await open_node(monitor, disk.name, disk.block)
    try:
        await _add(monitor, disk.device)
    except (Refused, NoSlot):
        await close(monitor, slots.node(disk.name))
        raise


async def _add(monitor: Monitor, device: Mapping[str, Any]) -> None:
    try:
        await monitor.execute("device_add", device)
    except Refused as error:
        if error.description == f"Bus '{device['bus']}' not found":
            raise NoSlot(
                "the guest was started with fewer places for volumes and ports than guests have now, and all of them "
                "are taken; it has more after a hard reboot"
            ) from error
        raise


def path(name: str) -> str:
    """Where QEMU has a disk of the guest's."""
    return f"/machine/peripheral/{name}/virtio-backend"


async def open_node(monitor: Monitor, name: str, block: Mapping[str, Any]) -> None:
    """QEMU has this block node of a disk open. Raises Busy while another process holds the file."""
    try:
        async with lent_file(monitor, block) as reached:
            await _unless(monitor, "blockdev-add", reached, "uplicate")
    except Refused as error:
        if "lock" in error.description:
            raise Busy(f"{name} is in use elsewhere: {error.description}") from error
        if any(words in error.description for words in AWAY):
            raise Unreachable(f"{name} is not served yet: {error.description}") from error
        raise


async def close(monitor: Monitor, node: str) -> None:
    await _unless(monitor, "blockdev-del", {"node-name": node}, "Failed to find")


async def opened(monitor: Monitor, name: str) -> str:
    """The block node that a device reads and writes. Raises UnknownVolume if there is no such device."""
    for each in await monitor.execute("query-block"):
        if each.get("qdev") == path(name) and "inserted" in each:
            return str(each["inserted"]["node-name"])
    raise UnknownVolume(name)


async def unplug_disk(monitor: Monitor, name: str, timeout: float) -> None:
    """Raises Busy while the guest has not released it."""
    await _release(monitor, name, timeout)
    left = timeout
    while True:
        try:
            for node in slots.nodes(name):
                await close(monitor, node)
        except Refused as error:
            # QEMU reports the device's removal a moment before it releases the node behind it.
            if "in use" not in error.description:
                raise
            if left <= 0:
                raise Busy(f"QEMU has not let go of {name}") from error
        else:
            return
        left -= PAUSE
        await deferLater(monitor.clock, PAUSE)


async def plug_nic(monitor: Monitor, nic: Nic, namespace: str) -> None:
    """The interface's tap is in `namespace`. Raises NoSlot."""
    if nic.name in await plugged(monitor):
        return
    # Left by a call that was killed: the tap is open, and nobody else can open it.
    await _unless(monitor, "netdev_del", {"id": slots.node(nic.name)}, "not found")
    async with lent_tap(monitor, nic.backend, namespace) as backend:
        await monitor.execute("netdev_add", backend)
    try:
        await _add(monitor, nic.device)
    except (Refused, NoSlot):
        await _unless(monitor, "netdev_del", {"id": slots.node(nic.name)}, "not found")
        raise


async def unplug_nic(monitor: Monitor, name: str, timeout: float) -> None:
    """Raises Busy while the guest has not released it."""
    await _release(monitor, name, timeout)
    await _unless(monitor, "netdev_del", {"id": slots.node(name)}, "not found")


async def grow(monitor: Monitor, name: str, size: int) -> None:
    """The guest sees a disk of `size` bytes.

    An NBD disk has been exported again with its new size, which QEMU learns when it next reads: so make it read.
    """
    node = await opened(monitor, name)
    for _ in range(2):
        if await _size(monitor, node) > size:
            return
        command = f'qemu-io -d {path(name)} "read 0 512"'
        await monitor.execute("human-monitor-command", {"command-line": command})
        try:
            await monitor.execute("block_resize", {"node-name": node, "size": size})
        except Refused as error:
            refused = error
        else:
            return
    raise Busy(f"{name} cannot grow yet: {refused.description}")


async def _size(monitor: Monitor, node: str) -> int:
    for each in await monitor.execute("query-named-block-nodes", {"flat": True}):
        if each["node-name"] == node:
            return int(each["image"]["virtual-size"])
    raise Busy(f"{node} is not open")


async def _release(monitor: Monitor, name: str, timeout: float) -> None:
    if name not in await plugged(monitor):
        return
    gone = monitor.expect("DEVICE_DELETED", lambda data: data.get("device") == name, timeout)
    try:
        # On a second request QEMU reports that it is unplugging already, or the guest has released it meanwhile.
        await _unless(monitor, "device_del", {"id": name}, "unplug", "not found")
        if name not in await plugged(monitor):
            drop(gone)
            return
    except Exception:  # also CancelledError: nobody waits for the event any more
        drop(gone)
        raise
    try:
        await gone
    except Silent:
        raise Busy(f"the guest has not released {name}") from None


async def _unless(monitor: Monitor, command: str, arguments: object, *harmless: str) -> None:
    """Execute the command; a refusal with one of these words means that it was done before."""
    try:
        await monitor.execute(command, arguments)  # type: ignore[arg-type]  # a mapping, see the callers
    except Refused as error:
        if not any(each in error.description for each in harmless):
            raise
