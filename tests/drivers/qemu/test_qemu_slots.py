"""How many devices real guests can have: as many as may be configured, and as many as they have when that changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.qemu.options import Config
from cloudctl.drivers.specs import Power
from cloudctl.errors import ConfigError
from cloudctl.options import structure
from tests.drivers.qemu.real import ID, VOLUME, driver_in, is_open, port, tiny, volume


@pytest.mark.parametrize(("slots", "vnc"), [(23, True), (24, False)])
async def test_a_guest_with_as_many_slots_as_there_may_be_starts(
    tmp_path: Path, runtime_dir: Path, slots: int, vnc: bool
) -> None:
    structure(Config, {"slots": slots, "vnc": vnc}, "here")
    with pytest.raises(ConfigError, match="slots"):
        structure(Config, {"slots": slots + 1, "vnc": vnc}, "here")
    driver = driver_in(tmp_path, runtime_dir, slots=slots, vnc=vnc)
    await driver.ensure_defined(tiny(tmp_path, ephemeral_gib=1, swap_mib=1, config_drive=True))
    await driver.ensure_running(ID)
    assert (await driver.observe(ID)).power is Power.RUNNING
    await driver.close()


async def test_a_guest_with_more_devices_than_new_ones_may_have_starts(tmp_path: Path, runtime_dir: Path) -> None:
    spec = tiny(tmp_path, volumes=tuple(volume(tmp_path, f"{VOLUME[:-1]}{number}") for number in range(3)))
    driver = driver_in(tmp_path, runtime_dir, slots=4)
    await driver.ensure_defined(spec)
    await driver.close()
    driver = driver_in(tmp_path, runtime_dir, slots=1)
    await driver.ensure_running(ID)
    assert (await driver.observe(ID)).power is Power.RUNNING
    await driver.close()


async def test_a_guest_that_was_started_with_fewer_slots_is_told_to_be_rebooted(
    tmp_path: Path, runtime_dir: Path
) -> None:
    """QEMU's own words were "Bus 'rp6' not found"."""
    one, more, interface = volume(tmp_path), volume(tmp_path, f"{VOLUME[:-1]}7"), port(tmp_path)
    driver = driver_in(tmp_path, runtime_dir, slots=1)
    await driver.ensure_defined(tiny(tmp_path, volumes=(one,)))
    await driver.ensure_running(ID)
    await driver.close()
    driver = driver_in(tmp_path, runtime_dir, slots=4)
    told = "was started with fewer places for volumes and ports .* after a hard reboot"
    with pytest.raises(Unfit, match=told):
        await driver.ensure_volume_attached(ID, more)
    with pytest.raises(Unfit, match=told):
        await driver.ensure_port_attached(ID, interface)
    found = await driver.observe(ID)
    assert (found.volume_ids, found.port_ids, is_open(more)) == ((VOLUME,), (), False)
    await driver.ensure_rebooted(ID, "token", True)
    await driver.ensure_volume_attached(ID, more)
    await driver.ensure_port_attached(ID, interface)
    await driver.close()
