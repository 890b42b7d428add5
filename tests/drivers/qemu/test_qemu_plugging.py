"""How devices are taken from guests that let go of them in their own time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred

from cloudctl.drivers.qemu import plugging
from cloudctl.drivers.qemu.qmp import Monitor, Refused


@define
class LetsGo:
    """The monitor of a guest that lets go of its device after it was looked at, and before it is told to."""

    devices: list[str] = field(factory=lambda: ["volume-1"])
    told: list[str] = field(factory=list)

    async def execute(self, command: str, arguments: object = None) -> Any:
        self.told.append(command)
        if command == "qom-list":
            return [{"name": self.devices.pop(), "type": "child<virtio-blk-pci>"}] if self.devices else []
        if command == "device_del":
            raise Refused(command, "DeviceNotFound", "Device 'volume-1' not found")
        return {}

    def expect(self, event: str, wanted: Callable[[Any], bool], timeout: float) -> Deferred[Any]:
        return Deferred()


async def test_a_device_that_has_gone_meanwhile_is_one_that_was_unplugged() -> None:
    guest = LetsGo()
    await plugging.unplug_disk(cast(Monitor, guest), "volume-1", 1.0)
    assert guest.told == ["qom-list", "device_del", "qom-list", "blockdev-del", "blockdev-del"]
