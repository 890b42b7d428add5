"""Real guests on volumes of a real Ceph."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve

from cloudctl.drivers.qemu import processes
from cloudctl.drivers.rbd.disk import rbd_disk
from cloudctl.drivers.specs import DriverResources, ImageSource, Power, VolumeConnection, VolumeSpec
from tests.drivers.libvirt.daemon import Libvirtd
from tests.drivers.qemu import real, tiny_guest
from tests.drivers.qemu.real import HOST, ID, booted, driver_in, tiny
from tests.there import there

ROOT, DATA = "root", real.VOLUME


async def filled(backend: Any, directory: Path) -> tuple[VolumeConnection, VolumeConnection]:
    """A volume that a guest starts from, and an empty one."""
    await backend.check()
    (directory / "image").write_bytes(tiny_guest.disk())
    image = ImageSource("image", str(directory / "image"), "raw")
    await backend.ensure_created(VolumeSpec(ROOT, 1, image=image))
    await backend.ensure_created(VolumeSpec(DATA, 1))
    root, data = [VolumeConnection(id, await backend.connect(id, HOST)) for id in (ROOT, DATA)]
    return evolve(root, boot_index=0), data


async def emptied(backend: Any) -> None:
    for id in (ROOT, DATA):
        await backend.disconnect(id, HOST)
        await backend.ensure_absent(id)
    assert await backend.inventory() == ()


async def test_a_guest_starts_from_a_volume_and_is_given_another_that_grows(
    make: Callable[..., Any],
    tmp_path: Path,
    runtime_dir: Path,
) -> None:
    backend = make(tmp_path)
    root, data = await filled(backend, tmp_path)

    driver = driver_in(tmp_path, runtime_dir)
    spec = evolve(tiny(tmp_path), image=None, disk_gib=0, volumes=(root,))
    await driver.ensure_defined(spec)
    await driver.ensure_running(ID)
    assert await booted(driver) == 1
    files = driver.records.files(ID)
    key = rbd_disk(root.info["data"]).key()
    command = Path(f"/proc/{there(processes.find(files.pid))}/cmdline").read_text()
    assert key not in command
    left = [file for file in tmp_path.rglob("*") if file.is_file() and key.encode() in file.read_bytes()]
    assert left == [], "the key is in a file"

    monitor = await driver.monitors.get(ID, files)
    for size in (2, 3):
        for _ in range(2):
            await driver.ensure_volume_attached(ID, data)
        await backend.ensure_extended(DATA, size)
        for _ in range(2):
            await driver.ensure_volume_size(ID, DATA, size)
            nodes = await monitor.execute("query-named-block-nodes", {"flat": True})
            assert [each["image"]["virtual-size"] for each in nodes if each["drv"] == "rbd"].count(size << 30) == 1
        await driver.ensure_volume_detached(ID, DATA)
        assert (await driver.observe(ID)).volume_ids == (ROOT,)
    await driver.ensure_absent(ID)
    await emptied(backend)
    await driver.close()


async def test_a_libvirtd_starts_a_guest_from_a_volume_and_gives_it_another_that_grows(
    make: Callable[..., Any],
    tmp_path: Path,
    libvirtd: Libvirtd,
) -> None:
    from twisted.internet import reactor

    from cloudctl.drivers.libvirt.hypervisor import Config, create

    backend = make(tmp_path, namespace="")
    root, data = await filled(backend, tmp_path)
    config = Config(hosts={HOST: libvirtd.uri}, accelerator="tcg", directory=str(tmp_path / "disks"), slots=2)
    driver = create(config, DriverResources(reactor, "libvirt", reactor, tmp_path))
    await driver.ensure_defined(evolve(tiny(tmp_path), image=None, disk_gib=0, volumes=(root,)))
    await driver.ensure_running(ID)

    async def is_up() -> bool:
        return tiny_guest.LAST_LINE in await driver.console_output(ID)

    assert await real.soon(is_up)
    for size in (2, 3):
        for _ in range(2):
            await driver.ensure_volume_attached(ID, data)
        await backend.ensure_extended(DATA, size)
        for _ in range(2):
            await driver.ensure_volume_size(ID, DATA, size)
        assert (await driver.observe(ID)).volume_ids == tuple(sorted((DATA, ROOT)))
        await driver.ensure_volume_detached(ID, DATA)
    assert (await driver.observe(ID)).power is Power.RUNNING
    await driver.ensure_absent(ID)
    await emptied(backend)
    await driver.close()
    libvirtd.empty()


async def led_into_ceph_and_back(driver: Any, backend: Any, directory: Path, is_up: Callable[[int], Any]) -> None:
    """The disk that a guest starts from, while it runs."""
    await backend.check()
    await backend.ensure_created(VolumeSpec(ROOT, 1))
    there = VolumeConnection(ROOT, await backend.connect(ROOT, HOST), boot_index=0)
    here = evolve(real.volume(directory, ROOT), boot_index=0)
    file = Path(here.info["data"]["path"])
    (directory / "raw").write_bytes(tiny_guest.disk())
    subprocess.run(["qemu-img", "convert", "-n", "-O", "qcow2", directory / "raw", file], check=True)
    await driver.ensure_defined(evolve(tiny(directory), image=None, disk_gib=0, volumes=(here,)))
    await driver.ensure_running(ID)
    await is_up(1)
    for _ in range(2):
        await driver.ensure_volume_swapped(ID, ROOT, there.info)
    file.unlink()
    await driver.ensure_rebooted(ID, "in Ceph", hard=True)
    await is_up(2)
    await driver.ensure_volume_swapped(ID, ROOT, real.volume(directory, ROOT).info)
    await backend.disconnect(ROOT, HOST)
    # It is closed there, too.
    await backend.ensure_absent(ROOT)
    await driver.ensure_rebooted(ID, "in the file", hard=True)
    await is_up(3)
    await driver.ensure_absent(ID)
    await driver.close()


async def test_a_disk_goes_into_ceph_and_back_while_its_guest_runs(
    make: Callable[..., Any], tmp_path: Path, runtime_dir: Path
) -> None:
    driver = driver_in(tmp_path, runtime_dir)

    async def is_up(times: int) -> None:
        assert await booted(driver) == times

    await led_into_ceph_and_back(driver, make(tmp_path), tmp_path, is_up)


async def test_a_disk_of_a_libvirtds_guest_goes_into_ceph_and_back_while_it_runs(
    make: Callable[..., Any], tmp_path: Path, libvirtd: Libvirtd
) -> None:
    from twisted.internet import reactor

    from cloudctl.drivers.libvirt.hypervisor import Config, create

    config = Config(hosts={HOST: libvirtd.uri}, accelerator="tcg", directory=str(tmp_path / "disks"), slots=2)
    driver = create(config, DriverResources(reactor, "libvirt", reactor, tmp_path))

    async def is_up(times: int) -> None:
        async def has_said() -> bool:
            return str(await driver.console_output(ID)).count(tiny_guest.LAST_LINE) == times

        assert await real.soon(has_said)

    await led_into_ceph_and_back(driver, make(tmp_path, namespace=""), tmp_path, is_up)
    libvirtd.empty()
