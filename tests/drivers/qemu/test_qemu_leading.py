"""Volumes that are led elsewhere while guests use them: nothing is lost, wherever a call or a guest dies."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import DriverError, InvalidPower
from cloudctl.drivers.qemu import processes, slots
from cloudctl.drivers.qemu.hypervisor import Qemu
from cloudctl.drivers.qemu.qmp import Monitor
from cloudctl.drivers.specs import ConnectionInfo, Power, VolumeConnection
from tests.drivers.qemu import real
from tests.drivers.qemu.real import ID, VOLUME, bytes_of, disk_info, driver_in, is_open, path, tiny, volume
from tests.there import there

MIB = 1 << 20
DEVICE = slots.volume(VOLUME)


class Killed(BaseException):
    """The process of the caller dies."""


def elsewhere(directory: Path) -> VolumeConnection:
    """A copy that was made earlier: it holds what the volume does not hold any more."""
    found = evolve(volume(directory, "elsewhere"), volume_id=VOLUME)
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", f"write -P 3 {5 * MIB} 4096", path(found)], check=True, stdout=-1)
    return found


def where(driver: Qemu) -> ConnectionInfo:
    return there(driver.records.get(ID)).volume(VOLUME).info


async def started(driver: Qemu, directory: Path) -> VolumeConnection:
    """A running guest with a volume, to which it has written."""
    before = volume(directory)
    await driver.ensure_defined(tiny(directory, volumes=(before,)))
    await driver.ensure_running(ID)
    await real.write(driver, 7, MIB, DEVICE)
    return before


async def killed(driver: Qemu) -> None:
    """The guest's process."""
    file = driver.records.files(ID).pid
    os.kill(there(processes.find(file)), signal.SIGKILL)
    assert await real.soon(lambda: processes.find(file) is None)


async def test_a_volume_is_led_there_and_back_while_its_guest_uses_it(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    before, after = await started(driver, tmp_path), elsewhere(tmp_path)
    for _ in range(2):
        await driver.ensure_volume_swapped(ID, VOLUME, after.info)
        assert (where(driver), is_open(before), is_open(after)) == (after.info, False, True)
    await real.write(driver, 9, 2 * MIB, DEVICE)
    assert bytes_of(before, 1, 2) == [7, 0]
    for _ in range(2):
        await driver.ensure_volume_swapped(ID, VOLUME, before.info)
        assert (where(driver), is_open(before), is_open(after)) == (before.info, True, False)
    assert bytes_of(after, 1, 2, 5) == [7, 9, 0]
    await driver.ensure_paused(ID)
    await driver.ensure_volume_swapped(ID, VOLUME, after.info)
    assert (await driver.observe(ID)).power is Power.PAUSED
    await driver.ensure_stopped(ID, 0.0)
    await driver.ensure_running(ID)
    assert (is_open(before), is_open(after)) == (False, True)
    assert bytes_of(before, 1, 2, 5) == [7, 9, 0]
    await driver.close()


async def test_a_volume_that_was_led_elsewhere_is_one_as_before(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    await started(driver, tmp_path)
    after, target = elsewhere(tmp_path), tmp_path / "copied"
    await driver.ensure_volume_swapped(ID, VOLUME, after.info)
    await real.write(driver, 9, 2 * MIB, DEVICE)
    assert None not in [disk.write_bytes for disk in (await driver.diagnostics(ID)).disks]
    assert await driver.ensure_volume_captured(ID, VOLUME, str(target)) == "raw"
    with target.open("rb") as file:
        assert [(file.seek(place * MIB), file.read(1))[1] for place in (1, 2)] == [b"\7", b"\t"]
    await driver.ensure_volume_size(ID, VOLUME, 2)
    assert disk_info(Path(path(after)))["virtual-size"] == 2 << 30
    await driver.ensure_volume_detached(ID, VOLUME)
    assert not is_open(after)
    await driver.ensure_volume_attached(ID, after)
    assert (await driver.observe(ID)).volume_ids == (VOLUME,)
    await driver.close()


async def test_a_guest_that_is_off_cannot_copy(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    before, after = await started(driver, tmp_path), elsewhere(tmp_path)
    await driver.ensure_stopped(ID, 0.0)
    with pytest.raises(InvalidPower, match="off"):
        await driver.ensure_volume_swapped(ID, VOLUME, after.info)
    await driver.ensure_volume_swapped(ID, VOLUME, before.info)
    assert where(driver) == before.info
    await driver.close()


async def test_a_copy_that_fails_leaves_the_guest_where_it_was(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    before, after = await started(driver, tmp_path), elsewhere(tmp_path)
    subprocess.run(["qemu-img", "resize", "-q", path(after), "2G"], check=True)
    for _ in range(2):
        with pytest.raises(DriverError):
            await driver.ensure_volume_swapped(ID, VOLUME, after.info)
        assert (where(driver), is_open(before), is_open(after)) == (before.info, True, False)
    await driver.close()


@pytest.fixture
def killed_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets before which command to QEMU, counted from now on, the caller dies; and says whether it did."""
    execute, left = Monitor.execute, [0]

    def dying(self: Monitor, *arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        return execute(self, *arguments, **named)

    def set_to(number: int) -> None:
        left[0] = number

    monkeypatch.setattr(Monitor, "execute", dying)
    yield set_to


@pytest.mark.parametrize("way", ["again", "back", "dead"])
async def test_wherever_its_caller_dies_nothing_is_lost(
    tmp_path: Path, runtime_dir: Path, killed_at: Any, way: str
) -> None:
    """Then the call is repeated, or the volume is led back; or the guest's process dies, too."""
    driver = driver_in(tmp_path, runtime_dir)
    before, after = await started(driver, tmp_path), elsewhere(tmp_path)
    here, number, places = before, 0, set()
    while True:
        number += 1
        away = after if here is before else before
        killed_at(number)
        try:
            await driver.ensure_volume_swapped(ID, VOLUME, away.info)
        except Killed:
            pass
        else:
            break
        killed_at(0)
        await driver.close()
        driver = driver_in(tmp_path, runtime_dir)
        await real.write(driver, number, MIB, DEVICE)
        if way == "dead":
            await killed(driver)
            await driver.ensure_running(ID)
            here = before if where(driver) == before.info else after
            places.add(path(here))
        else:
            here = away if way == "again" else here
            await driver.ensure_volume_swapped(ID, VOLUME, here.info)
        other = after if here is before else before
        assert (where(driver), is_open(here), is_open(other)) == (here.info, True, False)
        await driver.ensure_stopped(ID, 0.0)
        assert bytes_of(here, 1, 5) == [number, 0]
        await driver.ensure_running(ID)
    assert number > 12
    assert way != "dead" or len(places) == 2  # it died before it was noted, and after
    await driver.close()
