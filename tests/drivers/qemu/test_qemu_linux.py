"""Guests with a real Linux, built from Debian packages: they start, take what they are told, heed plugs."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint, connectProtocol
from twisted.internet.protocol import Protocol

from cloudctl.drivers.qemu.hypervisor import Qemu
from cloudctl.drivers.specs import GuestSpec, ImageSource, Power
from tests.drivers.qemu.real import HOST, ID, PORT, VOLUME, driver_in, port, soon, volume
from tests.live import guest_image
from tests.there import there

# The guest's kernel makes the node of a plugged disk and what it says of it one after the other.
VDE = "/sys/block/vde"
SCRIPT = base64.b64encode(b"#!/bin/sh\necho this is what the user wants\n").decode()


def linux(image: Path, **changes: Any) -> GuestSpec:
    source = ImageSource("linux", str(image / "guest.qcow2"), "qcow2")
    spec = GuestSpec(ID, "linux", HOST, vcpus=1, memory_mib=128, disk_gib=0, image=source)
    return evolve(spec, **changes)


def direct(image: Path, arguments: str = guest_image.KERNEL_ARGUMENTS, **changes: Any) -> GuestSpec:
    """The same without its boot loader, which is half of a start. Without `arguments` the kernel has the driver's."""
    spec = linux(image, **changes)
    kernel: dict[str, Any] = {"kernel_path": str(image / "vmlinuz"), "ramdisk_path": str(image / "initrd")}
    properties = {"os_command_line": arguments} if arguments else {}
    return evolve(spec, image=evolve(there(spec.image), **kernel, properties=properties))


class Typing(Protocol):
    """Somebody at the serial console."""

    def __init__(self) -> None:
        self.seen = ""
        self.closed: Deferred[None] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.seen += data.decode("utf-8", "replace")

    async def hang_up(self) -> None:
        there(self.transport).loseConnection()
        await self.closed

    def connectionLost(self, reason: object = None) -> None:
        self.closed.callback(None)

    async def type(self, line: str, until: str) -> str:
        self.seen = ""
        there(self.transport).write(f"{line}\n".encode())
        assert await soon(lambda: until in self.seen), self.seen
        return self.seen


async def test_a_disk_starts_by_itself(image: Path, tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    await driver.ensure_defined(linux(image))
    await driver.ensure_running(ID)
    await on_console(driver, "guest login:")
    await driver.close()


async def on_console(driver: Qemu, wanted: str) -> str:
    async def shown() -> str | None:
        text = await driver.console_output(ID)
        return text if wanted in text else None

    found = await soon(shown)
    assert found, await driver.console_output(ID, 20)
    return found


async def logged_in(driver: Qemu) -> Typing:
    """Once it asks for a name."""
    from twisted.internet import reactor

    console = await connectProtocol(UNIXClientEndpoint(reactor, str(driver.records.files(ID).serial)), Typing())
    await console.type("", "login: ")
    await console.type("root", "assword: ")
    await console.type("cloudctl", "# ")
    return console


async def test_a_guest_takes_its_name_and_heeds_plugs_and_the_button(
    image: Path, tmp_path: Path, runtime_dir: Path
) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    spec = direct(image, "", hostname="anna", config_drive=True, user_data=SCRIPT, swap_mib=8, ephemeral_gib=1)
    await driver.ensure_defined(spec)
    await driver.ensure_running(ID)
    text = await on_console(driver, "anna login:")
    assert "guest: the drive says that this is anna" in text
    assert "this is what the user wants" in text
    console = await logged_in(driver)
    assert "SWAPSPACE2" in await console.type("strings /dev/vdc | grep SWAP; swapon /dev/vdc && echo done$?", "done0")

    await driver.ensure_volume_attached(ID, volume(tmp_path))
    seen = await console.type(
        f"until [ -b /dev/vde ] && [ -e {VDE}/serial ]; do usleep 9999; done; cat {VDE}/serial; echo '' done$?",
        " done0",
    )
    assert VOLUME[:20] in seen
    await console.type(
        "mke2fs -q /dev/vde && mount -t ext4 /dev/vde /mnt && echo kept > /mnt/file && echo done$?", "done0"
    )
    await driver.ensure_volume_size(ID, VOLUME, 2)
    await console.type(
        f"until [ $(cat {VDE}/size) = 4194304 ]; do usleep 9999; done; umount /mnt; echo done$?", "done0"
    )
    await driver.ensure_volume_detached(ID, VOLUME)
    await console.type("until [ ! -e /dev/vde ]; do usleep 9999; done; echo done$?", "done0")

    await driver.ensure_port_attached(ID, port(tmp_path))
    await console.type("until pidof udhcpc; do usleep 9999; done; cat /sys/class/net/eth0/mtu; echo done$?", "done0")
    await driver.ensure_port_detached(ID, PORT)
    await console.type("while [ -e /sys/class/net/eth0 ] || pidof udhcpc; do usleep 9999; done; echo done$?", "done0")

    await console.hang_up()
    await driver.ensure_stopped(ID, 30.0)
    assert "guest: the power button was pressed" in await driver.console_output(ID)
    assert (await driver.observe(ID)).power is Power.STOPPED
    await driver.close()
