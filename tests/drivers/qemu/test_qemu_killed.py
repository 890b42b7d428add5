"""Calls that were killed in the midst of their work, and storage that is not there yet: the next call goes on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from attrs import evolve

from cloudctl.drivers.errors import Busy, Unreachable
from cloudctl.drivers.qemu.hypervisor import Qemu
from cloudctl.drivers.specs import GuestSpec, Power, VolumeConnection
from tests.drivers.qemu import real
from tests.drivers.qemu.real import ID, VOLUME, disk_info, driver_in, tiny
from tests.there import there


async def power(driver: Qemu) -> Power:
    state = await driver.observe(ID)
    assert await driver.inventory() == (state,)
    return state.power


async def run(driver: Qemu, spec: GuestSpec) -> None:
    await driver.ensure_defined(spec)
    await driver.ensure_running(spec.id)


async def test_what_a_killed_call_still_writes_is_in_nobodys_way(tmp_path: Path, runtime_dir: Path) -> None:
    """A program outlives its caller and holds its lock on the file: of an image, a disk, a copy."""
    driver, target = driver_in(tmp_path, runtime_dir), tmp_path / "captured"
    left = [tmp_path / "state" / "images" / f"{real.IMAGE}.qcow2.new", Path(f"{target}.new")]
    left.append(driver.records.files(ID).root.with_name("root.qcow2.new"))
    writers = []
    for file in left:
        file.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", file, "1G"], check=True)
        writer = subprocess.Popen(["qemu-io", "-f", "qcow2", file], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert writer.stdin is not None and writer.stdout is not None
        writer.stdin.write(b"read 0 512\n")
        writer.stdin.flush()
        assert b"512" in writer.stdout.readline()
        writers.append(writer)
    try:
        await driver.ensure_defined(tiny(tmp_path))
        await driver.ensure_captured(ID, str(target))
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert disk_info(target)["virtual-size"] == 1 << 30
    assert not any(file.exists() for file in left)
    await driver.close()


async def test_a_guest_of_which_a_disk_is_held_is_busy(tmp_path: Path, runtime_dir: Path) -> None:
    driver, spec = driver_in(tmp_path, runtime_dir), tiny(tmp_path)
    await driver.ensure_defined(spec)
    root = driver.records.files(ID).root
    with subprocess.Popen(["qemu-io", "-f", "qcow2", root], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        holder.stdin.write(b"read 0 512\n")
        holder.stdin.flush()
        holder.stdout.readline()
        with pytest.raises(Busy):
            await driver.ensure_defined(evolve(spec, disk_gib=2))
        holder.kill()
    await driver.ensure_defined(evolve(spec, disk_gib=2))
    await driver.close()


async def test_an_unrescue_that_was_killed_before_the_start_goes_on_with_it(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    await run(driver, tiny(tmp_path))
    await driver.ensure_rescued(ID, None, "secret")
    record, files = there(driver.records.get(ID)), driver.records.files(ID)
    await driver.machines.end(evolve(record, rescued=False), files)
    await driver.ensure_unrescued(ID)
    assert (await power(driver), files.rescue.exists()) == (Power.RUNNING, False)
    await driver.ensure_stopped(ID, 0.0)
    await driver.ensure_unrescued(ID)
    assert await power(driver) is Power.STOPPED, "it is not rescued"
    await driver.close()


async def test_a_guest_whose_volume_is_not_served_yet_starts_later(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    server = {"type": "unix", "path": str(runtime_dir / "none")}
    info = {"driver_volume_type": "nbd", "data": {"server": server, "export": "x/here"}}
    connection = VolumeConnection(VOLUME, info)
    await driver.ensure_defined(tiny(tmp_path, volumes=(connection,)))
    with pytest.raises(Unreachable):
        await driver.ensure_running(ID)
    await driver.ensure_volume_detached(ID, VOLUME)
    await driver.ensure_running(ID)
    with pytest.raises(Unreachable):
        await driver.ensure_volume_attached(ID, connection)
    assert (await driver.observe(ID)).volume_ids == ()
    await driver.close()


async def test_a_config_drive_is_told_nothing_by_a_call_that_was_killed(tmp_path: Path, runtime_dir: Path) -> None:
    driver, spec = driver_in(tmp_path, runtime_dir), tiny(tmp_path, config_drive=True)
    await driver.ensure_defined(spec)
    files = driver.records.files(ID)
    tree = files.config_drive.with_suffix(".tree")
    tree.mkdir()
    (tree / "old").write_bytes(b"an old secret")
    await driver.disks.make_config_drive(spec, files)
    assert b"an old secret" not in files.config_drive.read_bytes()
    assert not tree.exists()
    await driver.close()
