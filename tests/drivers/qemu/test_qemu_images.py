"""The images that guests' disks are made over: converted once, shared, and kept for a while."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import evolve
from twisted.internet.defer import DeferredList, ensureDeferred

from tests.drivers.qemu.real import ID, disk_info, driver_in, tiny


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
