"""A guest whose record is damaged, or of which a process does not end, and all others."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import Busy, DriverError, Unfit
from cloudctl.drivers.qemu import processes
from cloudctl.drivers.qemu.machines import Machines
from cloudctl.drivers.qemu.moves import Moves
from cloudctl.drivers.qemu.qmp import Refused
from cloudctl.drivers.specs import Power
from tests.drivers.qemu.real import ID, driver_in, soon, tiny, volume
from tests.there import there


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


async def test_a_root_disk_that_is_missing_is_not_made_anew(tmp_path: Path, runtime_dir: Path) -> None:
    """The guest started from an empty one, as if nothing had been lost."""
    driver, spec = driver_in(tmp_path, runtime_dir), tiny(tmp_path)
    await driver.ensure_defined(spec)
    root = driver.records.files(ID).root
    hidden = root.rename(root.with_name("hidden"))
    with pytest.raises(Unfit, match=r"the root disk of guest .*, /.*, is missing"):
        await driver.ensure_defined(spec)
    assert not root.exists()
    hidden.rename(root)
    await driver.ensure_defined(spec)
    await driver.close()


async def test_what_is_wrong_with_a_guest_is_what_the_inventory_raises(
    tmp_path: Path, runtime_dir: Path, monkeypatch: Any
) -> None:
    async def refused(*_args: Any) -> Any:
        raise Refused("query-migrate", "GenericError", "not now")

    driver, spec = driver_in(tmp_path, runtime_dir), tiny(tmp_path)
    for each in (spec, evolve(spec, id=f"{ID[:-1]}b")):
        await driver.ensure_defined(each)
    with monkeypatch.context() as patched:
        patched.setattr(Moves, "now", refused)
        with pytest.raises(Refused, match="not now"):
            await driver.inventory()
    assert len(await driver.inventory()) == 2
    await driver.close()


async def test_a_process_without_a_guest_that_does_not_end_keeps_no_guest_from_being_watched(
    tmp_path: Path, runtime_dir: Path, monkeypatch: Any
) -> None:
    first = driver_in(tmp_path, runtime_dir)
    await first.ensure_defined(tiny(tmp_path))
    await first.ensure_running(ID)
    await first.close()
    second, told = driver_in(tmp_path, runtime_dir), list[str]()
    stuck, find = second.records.files(ID, "-2").pid, processes.find

    async def does_not_end(*_args: Any) -> None:
        raise Busy("it does not exit")

    with monkeypatch.context() as patched:
        patched.setattr(processes, "find", lambda file, *more: 1 if file == stuck else find(file, *more))
        patched.setattr(Machines, "end_process", does_not_end)
        await second.watch_guests(told.append)
    os.kill(there(find(second.records.files(ID).pid)), signal.SIGKILL)
    assert await soon(lambda: told) == [ID]
    await second.close()
