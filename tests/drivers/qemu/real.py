"""What the tests with real guests have in common."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
from attrs import evolve
from twisted.internet.task import deferLater

from cloudctl.drivers.qemu.hypervisor import Config, Qemu, create
from cloudctl.drivers.qemu.records import SEATS
from cloudctl.drivers.specs import DriverResources, GuestSpec, ImageSource, PortSpec, VolumeConnection
from tests.drivers.qemu import tiny_guest

ID = "6f1c0f5e-0000-4000-8000-00000000000a"
IMAGE = "6f1c0f5e-0000-4000-8000-0000000000ff"
VOLUME = "9d2f4c11-0000-4000-8000-00000000000c"
PORT = "3b7e8a90-0000-4000-8000-00000000000d"
HOST = "here"
taps: list[str] = []  # that `port` has made


def driver_in(directory: Path, runtime_dir: Path, **options: Any) -> Qemu:
    """A driver whose state is in the directory: another one there is the same after a restart."""
    from twisted.internet import reactor

    config = Config(**{"hosts": {HOST: ""}, "runtime_dir": runtime_dir, "slots": 4, **options})
    return create(config, DriverResources(reactor, "qemu", reactor, directory / "state"))


def tiny(directory: Path, **changes: Any) -> GuestSpec:
    """A guest of one sector."""
    image = directory / "tiny"
    image.write_bytes(tiny_guest.disk())
    given = {"vcpus": 1, "memory_mib": 16, "disk_gib": 1, "image": ImageSource(IMAGE, str(image), "raw"), **changes}
    return GuestSpec(ID, "tiny", HOST, **given)


def volume(directory: Path, id: str = VOLUME) -> VolumeConnection:
    """An empty one of 1 GiB."""
    file = directory / f"{id}.qcow2"
    if not file.exists():
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", file, "1G"], check=True)
    return VolumeConnection(id, {"driver_volume_type": "qcow2", "data": {"path": str(file), "format": "qcow2"}})


def path(connection: VolumeConnection) -> str:
    """Of a volume in a file."""
    return str(connection.info["data"]["path"])


def bytes_of(connection: VolumeConnection, *places: int) -> list[int]:
    """What the file holds there, so many MiB from the beginning; it may be in use."""
    raw = Path(f"{path(connection)}.raw")
    subprocess.run(["qemu-img", "convert", "-U", "-O", "raw", path(connection), raw], check=True)
    with raw.open("rb") as file:
        return [(file.seek(place << 20), file.read(4096))[1][0] for place in places]


def is_open(connection: VolumeConnection) -> bool:
    """Whether a guest has the file open."""
    found = subprocess.run(["qemu-img", "info", path(connection)], capture_output=True, text=True)
    assert found.returncode == 0 or "lock" in found.stderr
    return found.returncode != 0


def port(directory: Path, id: str = PORT) -> PortSpec:
    """With a tap, which `conftest.py` removes."""
    tap = f"cc{directory.stat().st_ino % 10**8}"
    if not Path("/sys/class/net", tap).exists():
        subprocess.run(["ip", "tuntap", "add", "mode", "tap", "name", tap], check=True)
        taps.append(tap)
    binding = {"vif_type": "tap", "vif_details": {"tap": tap, "namespace": ""}}
    return PortSpec(id, "network", "fa:16:3e:00:00:01", binding=binding)


def disk_info(file: Path) -> Any:
    """What qemu-img knows of a disk that may be in use."""
    return orjson.loads(subprocess.run(["qemu-img", "info", "-U", "--output=json", file], stdout=-1, check=True).stdout)


async def soon(look: Callable[[], Any], seconds: float = 240.0) -> Any:
    """What `look` (may be a coroutine function) gives, as soon as it is true; what it gives at the end otherwise.

    It looks less often as time goes by: to ask a guest's libvirt costs as much as what is waited for.
    """
    from twisted.internet import reactor

    pause, waited = 0.02, 0.0
    while True:
        found = look()
        if isinstance(found, Awaitable):
            found = await found
        if found or waited >= seconds:
            return found
        await deferLater(reactor, pause)
        waited += pause
        pause = min(pause * 1.2, 0.1)


async def write(driver: Qemu, byte: int, at: int, device: str = "root") -> None:
    """4 KiB of this byte, as the guest's own kernel would write them to one of its disks."""
    record = driver.records.get(ID)
    assert record is not None
    monitor = await driver.monitors.get(ID, driver.records.files_of(record))
    for order in (f"write -P {byte} {at} 4096", "flush"):
        line = f'qemu-io -d /machine/peripheral/{device}/virtio-backend "{order}"'
        await monitor.execute("human-monitor-command", {"command-line": line})


async def booted(driver: Qemu, id: str = ID) -> int:
    """How often the tiny guest has started; waits until it has said its last line since its process began."""
    record = driver.records.get(id)
    assert record is not None
    files, moved = driver.records.files_of(record), record.seat != SEATS[0]

    async def is_up() -> bool:
        text = await driver.console_output(id)
        last = files.console.stat().st_mtime_ns if files.console.exists() else 0
        # A guest that has come to another process has no more to say.
        return text.rstrip("\n").endswith(tiny_guest.LAST_LINE) and (moved or last > files.pid.stat().st_mtime_ns)

    await soon(is_up)
    return (await driver.console_output(id)).count("Linux version")


class Guests:
    """What the public suite of hypervisors asks of whoever runs it, with the tiny guest."""

    def guest(self, id: str, host: str, directory: Path) -> GuestSpec:
        return evolve(tiny(directory), id=id)

    def volume(self, id: str, host: str, directory: Path) -> VolumeConnection:
        return volume(directory, id)

    def elsewhere(self, id: str, host: str, directory: Path) -> VolumeConnection:
        return evolve(volume(directory, f"{id}-elsewhere"), volume_id=id)

    def port(self, id: str, host: str, directory: Path) -> PortSpec:
        return port(directory, id)

    async def boots(self, driver: Any, id: str) -> int:
        return await booted(driver, id)
