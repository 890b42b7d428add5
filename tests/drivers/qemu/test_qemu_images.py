"""The images that guests' disks are made over: converted once, shared, and kept for a while."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from attrs import evolve
from twisted.internet.defer import DeferredList, ensureDeferred

from cloudctl.drivers.rbd.disk import RbdDisk
from cloudctl.drivers.specs import GuestSpec, ImageSource, Power
from tests.drivers.qemu.real import ID, disk_info, driver_in, tiny
from tests.there import there


async def test_an_image_is_kept_for_a_while_after_its_last_guest_is_gone(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir, image_cache_seconds=3600.0)
    await driver.ensure_defined(tiny(tmp_path))
    base = Path(disk_info(driver.records.files(ID).root)["backing-filename"])
    # It was made long ago.
    os.utime(base, (0, 0))
    await driver.ensure_absent(ID)
    assert base.exists()
    os.utime(base, (0, 0))
    await driver.ensure_absent("another")
    assert not base.exists()
    await driver.close()


async def test_an_image_is_converted_once_and_shared(tmp_path: Path, runtime_dir: Path) -> None:
    driver, spec = driver_in(tmp_path, runtime_dir), tiny(tmp_path)
    others = [evolve(spec, id=f"guest-{number}") for number in range(3)]
    results = await DeferredList([ensureDeferred(driver.ensure_defined(each)) for each in others], consumeErrors=True)
    assert [succeeded for succeeded, _ in results] == [True] * 3
    bases = {disk_info(driver.records.files(each.id).root)["backing-filename"] for each in others}
    assert len(bases) == 1 and len(list((tmp_path / "state" / "images").iterdir())) == 1
    await driver.close()


def unshelved(directory: Path) -> tuple[GuestSpec, GuestSpec]:
    """A guest with a kernel: from the saved disk, then from the server's own image, whose kernel is gone meanwhile."""
    kernel, spec = directory / "kernel", tiny(directory)
    # QEMU takes whatever says that it follows version 2.0 of Linux's boot protocol.
    kernel.write_bytes((bytes(0x202) + b"HdrS\0\2").ljust(1 << 20, b"\0"))
    saved = evolve(there(spec.image), kernel_path=str(kernel), ramdisk_path=str(kernel))
    gone: dict[str, Any] = {
        "path": f"{directory}/image.gone",
        "kernel_path": f"{kernel}.gone",
        "ramdisk_path": f"{kernel}.gone",
    }
    own = evolve(saved, id="6f1c0f5e-0000-4000-8000-0000000000fe", **gone)
    return evolve(spec, image=saved), evolve(spec, image=own)


async def test_a_guest_keeps_its_kernel_when_another_image_is_wished(tmp_path: Path, runtime_dir: Path) -> None:
    driver, (saved, own) = driver_in(tmp_path, runtime_dir), unshelved(tmp_path)
    await driver.ensure_defined(saved)
    for _ in range(2):  # off, and on
        await driver.ensure_defined(own)
        await driver.ensure_running(ID)
    await driver.ensure_rebooted(ID, "hard", hard=True)
    assert (await driver.observe(ID)).power is Power.RUNNING
    await driver.close()


async def test_so_does_one_whose_root_disk_is_no_file(tmp_path: Path, runtime_dir: Path) -> None:
    class Roots:
        async def ensure(self, id: str, image: ImageSource, size_gib: int) -> RbdDisk:
            return RbdDisk("pool", "", id, "user", "", ())

    driver, (saved, own) = driver_in(tmp_path, runtime_dir), unshelved(tmp_path)
    driver.machines.disks.roots = cast(Any, Roots())
    await driver.ensure_defined(saved)
    for _ in range(2):
        await driver.ensure_defined(own)
    await driver.close()
