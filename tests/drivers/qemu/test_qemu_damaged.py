"""A guest whose record is damaged, and all others."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.specs import Power
from tests.drivers.qemu.real import ID, driver_in, tiny, volume


async def test_a_damaged_record_concerns_no_other_guest(tmp_path: Path, runtime_dir: Path) -> None:
    driver, spec = driver_in(tmp_path, runtime_dir, image_cache_seconds=0.0), tiny(tmp_path)
    other = evolve(spec, id=f"{ID[:-1]}b", volumes=(volume(tmp_path),))
    await driver.ensure_defined(spec)
    await driver.ensure_running(ID)
    record = driver.records.get(ID)
    assert record is not None and record.uid is not None
    file = driver.records.files(ID).record
    whole = file.read_bytes()
    file.write_bytes(b"{")
    await driver.watch_guests(lambda _: None)
    await driver.ensure_defined(other)
    await driver.ensure_running(other.id)
    assert [state.id for state in await driver.inventory()] == [other.id]
    assert driver.machines._likely_users(ID) == {record.uid}
    await driver.ensure_defined(evolve(other, volumes=()))
    await driver.ensure_absent(other.id)
    assert list(driver.disks.cache.iterdir()), "the damaged guest may need it"
    with pytest.raises(DriverError, match=r"guest\.json is damaged"):
        await driver.observe(ID)
    file.write_bytes(whole)
    assert (await driver.observe(ID)).power is Power.RUNNING
    await driver.close()
