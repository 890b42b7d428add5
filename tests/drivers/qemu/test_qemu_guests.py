"""Guests of one sector, and what can happen to them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers import accounts
from cloudctl.drivers.errors import Busy, DriverError, InvalidPower, NoCapacity, Unfit
from cloudctl.drivers.nbd import driver as nbd
from cloudctl.drivers.qemu import processes, slots
from cloudctl.drivers.qemu.hypervisor import Qemu
from cloudctl.drivers.qemu.lending import lent_file
from cloudctl.drivers.specs import GuestSpec, ImageSource, Power, VolumeConnection, VolumeSpec
from tests.drivers.qemu import real, tiny_guest
from tests.drivers.qemu.real import ID, VOLUME, booted, disk_info, driver_in, soon, tiny, volume
from tests.there import there


def pid(driver: Qemu) -> int | None:
    return processes.find(driver.records.files(ID).pid)


async def power(driver: Qemu) -> Power:
    state = await driver.observe(ID)
    assert await driver.inventory() == (state,)
    return state.power


async def run(driver: Qemu, spec: GuestSpec) -> None:
    await driver.ensure_defined(spec)
    await driver.ensure_running(spec.id)


# -- processes that end, here and there


async def test_a_killed_guest_has_crashed_and_is_told_of(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    told: list[Any] = []
    await driver.watch_guests(told.append)
    await run(driver, tiny(tmp_path))
    assert told == []
    os.kill(there(pid(driver)), signal.SIGKILL)
    assert await soon(lambda: told) == [ID]
    assert await power(driver) is Power.CRASHED
    await driver.ensure_running(ID)
    assert await power(driver) is Power.RUNNING
    await driver.close()
    assert told == [ID], "neither a start nor an orderly end is an event"


async def test_a_guest_that_shuts_itself_down_is_off_and_is_told_of(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    told: list[Any] = []
    await driver.watch_guests(told.append)
    await run(driver, tiny(tmp_path))
    await booted(driver)
    monitor = await driver.monitors.get(ID, driver.records.files(ID))
    await monitor.execute("system_powerdown")
    assert await soon(lambda: told) == [ID]
    assert await power(driver) is Power.STOPPED
    await driver.ensure_volume_attached(ID, volume(tmp_path))
    assert pid(driver) is None
    await driver.ensure_running(ID)
    assert await booted(driver) == 2
    await driver.close()


async def test_a_guest_outlives_the_driver_and_is_found_again(tmp_path: Path, runtime_dir: Path) -> None:
    first = driver_in(tmp_path, runtime_dir)
    await run(first, evolve(tiny(tmp_path), volumes=(volume(tmp_path),)))
    await booted(first)
    number = pid(first)
    await first.close()
    second = driver_in(tmp_path, runtime_dir)
    told: list[Any] = []
    await second.watch_guests(told.append)
    assert pid(second) == number
    state = await second.observe(ID)
    assert (state.power, state.volume_ids) == (Power.RUNNING, (VOLUME,))
    await second.ensure_running(ID)
    await second.ensure_volume_detached(ID, VOLUME)
    assert await booted(second) == 1
    os.kill(there(number), signal.SIGKILL)
    assert await soon(lambda: told) == [ID]
    await second.close()


async def test_a_start_whose_note_was_lost_is_not_repeated(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    await run(driver, tiny(tmp_path))
    number = pid(driver)
    record = there(driver.records.get(ID))
    driver.records.put(evolve(record, power=Power.STOPPED))
    assert await power(driver) is Power.RUNNING
    await driver.ensure_running(ID)
    assert pid(driver) == number
    await driver.close()


async def test_a_reboot_that_was_killed_after_the_stop_goes_on_with_the_start(
    tmp_path: Path, runtime_dir: Path
) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    await run(driver, tiny(tmp_path))
    assert await booted(driver) == 1
    record = evolve(there(driver.records.get(ID)), reboot_token="a", reboot_done=True)
    await driver.machines.end(record, driver.records.files(ID))
    await driver.ensure_rebooted(ID, "a", True)
    assert await booted(driver) == 2
    await driver.ensure_rebooted(ID, "a", True)
    assert await booted(driver) == 2
    await driver.close()


async def test_nothing_is_left_of_a_deleted_guest(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir, image_cache_seconds=0.0)
    await run(driver, tiny(tmp_path, ephemeral_gib=1, swap_mib=1, config_drive=True))
    number = pid(driver)
    await driver.ensure_absent(ID)
    assert not Path(f"/proc/{number}/cmdline").exists() or not Path(f"/proc/{number}/cmdline").read_bytes()
    assert list(runtime_dir.iterdir()) == []
    assert [file for file in (tmp_path / "state").rglob("*") if file.is_file()] == []
    await driver.close()


# -- shut down


async def test_a_guest_that_heeds_the_button_shuts_itself_down(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    await run(driver, tiny(tmp_path))
    await booted(driver)
    began = time.monotonic()
    await driver.ensure_stopped(ID, 300.0)
    assert time.monotonic() - began < 290.0, "its power was cut"
    assert (await power(driver), pid(driver)) == (Power.STOPPED, None)
    await driver.close()


async def test_the_power_of_a_guest_that_does_not_heed_it_is_cut(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    await run(driver, tiny(tmp_path, image=None))  # it finds nothing to start from
    await driver.ensure_stopped(ID, 0.2)
    assert (await power(driver), pid(driver)) == (Power.STOPPED, None)
    await driver.close()


async def test_a_process_that_hangs_is_killed(
    tmp_path: Path, runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloudctl.drivers.qemu import machines

    monkeypatch.setattr(machines, "QUIT_SECONDS", 0.2)
    first = driver_in(tmp_path, runtime_dir)
    await run(first, tiny(tmp_path))
    await first.close()
    driver = driver_in(tmp_path, runtime_dir, answer_timeout=2.0)
    os.kill(there(pid(driver)), signal.SIGSTOP)
    assert await power(driver) is Power.RUNNING
    await driver.ensure_stopped(ID, 5.0)
    assert (await power(driver), pid(driver)) == (Power.STOPPED, None)
    await driver.close()


async def test_a_suspension_whose_caller_was_killed_is_finished(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    await run(driver, tiny(tmp_path))
    assert await booted(driver) == 1
    record, files = there(driver.records.get(ID)), driver.records.files(ID)
    monitor = await driver.monitors.get(ID, files)
    await driver.machines._save(record, files, monitor)
    assert await power(driver) is Power.PAUSED, "the note of it was lost"
    await driver.ensure_suspended(ID)
    assert (await power(driver), pid(driver)) == (Power.SUSPENDED, None)
    await driver.ensure_running(ID)
    assert (await power(driver), files.memory.exists()) == (Power.RUNNING, False)
    assert (await driver.console_output(ID)).count("Linux version") == 1
    await driver.close()


async def test_memory_that_cannot_be_read_is_told_and_a_stop_helps(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    await run(driver, tiny(tmp_path))
    await driver.ensure_suspended(ID)
    driver.records.files(ID).memory.write_bytes(b"no memory at all")
    with pytest.raises(DriverError, match="memory"):
        await driver.ensure_running(ID)
    assert await power(driver) is Power.SUSPENDED
    await driver.ensure_stopped(ID, 0.0)
    await driver.ensure_running(ID)
    assert await power(driver) is Power.RUNNING
    await driver.close()


# -- disks


async def test_a_captured_disk_is_whole_and_needs_no_other_file(tmp_path: Path, runtime_dir: Path) -> None:
    driver, target = driver_in(tmp_path, runtime_dir), tmp_path / "captured"
    await run(driver, tiny(tmp_path))
    for number in range(2):
        assert await driver.ensure_captured(ID, str(target)) == "qcow2"
        found = disk_info(target)
        assert (found["virtual-size"], found.get("backing-filename")) == (1 << 30, None)
        raw = tmp_path / f"raw{number}"
        subprocess.run(["qemu-img", "convert", "-O", "raw", target, raw], check=True)
        with raw.open("rb") as file:
            assert file.read(tiny_guest.SIZE) == tiny_guest.disk()
        await driver.ensure_stopped(ID, 0.0)
    assert not Path(f"{target}.new").exists()
    await driver.close()


async def test_a_copied_volume_holds_what_the_guest_has_written_and_has_no_room_for_zeros(
    tmp_path: Path, runtime_dir: Path
) -> None:
    driver, target = driver_in(tmp_path, runtime_dir), tmp_path / "copied"
    await run(driver, tiny(tmp_path, volumes=(volume(tmp_path),)))
    for byte in (7, 9):
        await real.write(driver, byte, 1 << 20, slots.volume(VOLUME))
        assert await driver.ensure_volume_captured(ID, VOLUME, str(target)) == "raw"
        assert target.stat().st_size == 1 << 30 and target.stat().st_blocks * 512 < 1 << 20
        with target.open("rb") as file:
            file.seek((1 << 20) - 1)
            assert file.read(4098) == bytes([0, *[byte] * 4096, 0])
    assert await power(driver) is Power.RUNNING and not Path(f"{target}.new").exists()
    await driver.close()


async def test_a_capture_whose_caller_was_killed_is_in_nobodys_way(tmp_path: Path, runtime_dir: Path) -> None:
    driver, target = driver_in(tmp_path, runtime_dir), tmp_path / "captured"
    await run(driver, tiny(tmp_path))
    monitor = await driver.monitors.get(ID, driver.records.files(ID))
    left = tmp_path / "left"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", left, "1G"], check=True)
    block = {"driver": "qcow2", "node-name": "capture-target", "file": {"driver": "file", "filename": str(left)}}
    async with lent_file(monitor, block) as reached:
        await monitor.execute("blockdev-add", reached)
    job = {"job-id": "capture", "device": slots.node("root"), "target": "capture-target", "sync": "full", "speed": 1}
    await monitor.execute("blockdev-backup", {**job, "auto-dismiss": False})
    await driver.ensure_captured(ID, str(target))
    assert disk_info(target)["virtual-size"] == 1 << 30
    await driver.close()


async def test_a_larger_flavor_makes_the_root_disk_larger(tmp_path: Path, runtime_dir: Path) -> None:
    driver, spec = driver_in(tmp_path, runtime_dir), tiny(tmp_path)
    await run(driver, spec)
    larger = evolve(spec, disk_gib=2, vcpus=2, ephemeral_gib=1)
    with pytest.raises(InvalidPower):
        await driver.ensure_defined(larger)
    await driver.ensure_stopped(ID, 0.0)
    await driver.ensure_defined(larger)
    assert disk_info(driver.records.files(ID).root)["virtual-size"] == 2 << 30
    await driver.ensure_running(ID)
    assert (await driver.observe(ID)).vcpus == 2
    await driver.close()


async def test_a_disk_stays_over_what_it_was_made_of_when_another_image_is_wished(
    tmp_path: Path, runtime_dir: Path
) -> None:
    driver, spec = driver_in(tmp_path, runtime_dir, image_cache_seconds=0.0), tiny(tmp_path)
    await run(driver, spec)
    base = Path(disk_info(driver.records.files(ID).root)["backing-filename"])
    own = evolve(spec, image=evolve(there(spec.image), id="6f1c0f5e-0000-4000-8000-0000000000fe"))
    for _ in range(2):  # while it is on, and when it is off
        await driver.ensure_defined(own)
        await driver.ensure_stopped(ID, 0.0)
    # Nothing that others leave behind takes the image along.
    os.utime(base, (0, 0))
    await driver.ensure_absent("another")
    assert await driver.ensure_captured(ID, str(tmp_path / "captured")) == "qcow2"
    await driver.ensure_running(ID)
    assert (await power(driver), base.exists()) == (Power.RUNNING, True)
    await driver.close()


async def test_an_attached_volume_that_grows_is_larger_in_the_guest(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    await run(driver, tiny(tmp_path))
    connection = volume(tmp_path)
    await driver.ensure_volume_attached(ID, connection)
    await driver.ensure_volume_size(ID, VOLUME, 3)
    assert disk_info(Path(connection.info["data"]["path"]))["virtual-size"] == 3 << 30
    await driver.close()


@pytest.mark.parametrize("user", [accounts.DEFAULT, "root"])
async def test_a_volume_comes_grows_and_goes_by_nbd(tmp_path: Path, runtime_dir: Path, user: str) -> None:
    """Whoever the guest's process is: one of root's is there since a release before, or as the operator wishes."""
    driver = driver_in(tmp_path, runtime_dir, user=user)
    resources = evolve(driver.resources, name="nbd", state_dir=tmp_path / "volumes")
    backend = nbd.create(nbd.Config(runtime_dir=runtime_dir), resources)
    await backend.check()
    await backend.ensure_created(VolumeSpec(VOLUME, 1))
    connection = VolumeConnection(VOLUME, await backend.connect(VOLUME, real.HOST))
    await run(driver, tiny(tmp_path))
    await booted(driver)
    monitor = await driver.monitors.get(ID, driver.records.files(ID))
    for size in (2, 3):
        await driver.ensure_volume_attached(ID, connection)
        assert (await driver.observe(ID)).volume_ids == (VOLUME,)
        await backend.ensure_extended(VOLUME, size)
        for _ in range(2):
            await driver.ensure_volume_size(ID, VOLUME, size)
            nodes = await monitor.execute("query-named-block-nodes", {"flat": True})
            assert [each["image"]["virtual-size"] for each in nodes if each["drv"] == "nbd"] == [size << 30]
        await driver.ensure_volume_detached(ID, VOLUME)
        assert (await driver.observe(ID)).volume_ids == ()
    await backend.disconnect(VOLUME, real.HOST)
    await backend.close()
    await driver.close()


# -- devices


async def test_a_device_that_the_guest_does_not_let_go_of_is_busy(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir, unplug_timeout=0.2)
    await run(driver, tiny(tmp_path, volumes=(volume(tmp_path),)))
    await booted(driver)
    await driver.ensure_paused(ID)
    for _ in range(2):
        with pytest.raises(Busy):
            await driver.ensure_volume_detached(ID, VOLUME)
        assert (await driver.observe(ID)).volume_ids == (VOLUME,)
    await driver.ensure_running(ID)
    assert await soon(lambda: _detached(driver))
    await driver.close()


async def _detached(driver: Qemu) -> bool:
    try:
        await driver.ensure_volume_detached(ID, VOLUME)
    except Busy:
        return False
    return (await driver.observe(ID)).volume_ids == ()


async def test_a_volume_that_another_process_holds_is_busy(tmp_path: Path, runtime_dir: Path) -> None:
    driver, connection = driver_in(tmp_path, runtime_dir), volume(tmp_path)
    other = tiny(tmp_path, volumes=(connection,))
    await driver.ensure_defined(evolve(other, id="other"))
    await driver.ensure_running("other")
    await run(driver, tiny(tmp_path))
    with pytest.raises(Busy):
        await driver.ensure_volume_attached(ID, connection)
    assert (await driver.observe(ID)).volume_ids == ()
    await driver.ensure_absent("other")
    await driver.ensure_volume_attached(ID, connection)
    await driver.close()


async def test_a_port_whose_tap_is_taken_is_refused_and_not_kept(tmp_path: Path, runtime_dir: Path) -> None:
    driver, port = driver_in(tmp_path, runtime_dir), real.port(tmp_path)
    await driver.ensure_defined(evolve(tiny(tmp_path), id="other", ports=(port,)))
    await driver.ensure_running("other")
    await run(driver, tiny(tmp_path))
    with pytest.raises(DriverError, match="busy"):
        await driver.ensure_port_attached(ID, port)
    assert (await driver.observe(ID)).port_ids == ()
    await driver.ensure_absent("other")
    await driver.ensure_port_attached(ID, port)
    await driver.close()


async def test_more_devices_than_slots_are_refused(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir, slots=1)
    await run(driver, tiny(tmp_path, volumes=(volume(tmp_path),)))
    with pytest.raises(Unfit, match="1 volumes"):
        await driver.ensure_volume_attached(ID, volume(tmp_path, "another"))
    await driver.close()


@pytest.fixture
def namespace(runtime_dir: Path) -> Iterator[str]:
    """A network namespace with a tap."""
    name = runtime_dir.name
    subprocess.run(["ip", "netns", "add", name], check=True)
    subprocess.run(["ip", "-n", name, "tuntap", "add", "mode", "tap", "name", "cctap"], check=True)
    yield name
    subprocess.run(["ip", "netns", "delete", name], check=True)


async def test_a_guest_runs_in_the_namespace_of_its_host(tmp_path: Path, runtime_dir: Path, namespace: str) -> None:
    driver = driver_in(tmp_path, runtime_dir, hosts={"east": namespace, real.HOST: ""})
    await driver.check()
    assert [each.name for each in await driver.hosts()] == ["east", real.HOST]
    port = evolve(real.port(tmp_path), binding={"vif_type": "tap", "vif_details": {"tap": "cctap"}})
    await run(driver, evolve(tiny(tmp_path), host="east"))
    await driver.ensure_port_attached(ID, port)
    here, there = (os.readlink(f"/proc/{each}/ns/net") for each in (os.getpid(), pid(driver)))
    assert here != there
    subprocess.run(["ip", "-n", namespace, "link", "set", "cctap", "up"], check=True)
    shown = subprocess.run(["ip", "-n", namespace, "link", "show", "cctap"], capture_output=True, check=True)
    assert b"LOWER_UP" in shown.stdout, "somebody has opened it"
    await driver.ensure_absent(ID)
    await driver.close()


# -- a machine that is in the way


@pytest.fixture
def small_disk(tmp_path: Path, runtime_dir: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    directory = tmp_path / "state"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory], check=True)
    yield directory
    subprocess.run(["umount", "-l", directory], check=True)


async def test_a_full_disk_is_no_capacity_and_leaves_nothing(
    tmp_path: Path, runtime_dir: Path, small_disk: Path
) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    image = tmp_path / "large"
    image.write_bytes(os.urandom(4 << 20))
    spec = tiny(tmp_path, image=ImageSource("large", str(image), "raw"))
    with pytest.raises(NoCapacity):
        await driver.ensure_defined(spec)
    await driver.ensure_absent(ID)
    assert [file for file in small_disk.rglob("*") if file.is_file()] == []
    await run(driver, tiny(tmp_path))
    left = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes((left.f_bavail - 8) * left.f_bsize))
    with pytest.raises(NoCapacity):
        await driver.ensure_suspended(ID)
    assert await power(driver) is Power.RUNNING
    left = os.statvfs(small_disk)
    (small_disk / "rest").write_bytes(bytes(left.f_bavail * left.f_bsize))
    with pytest.raises(NoCapacity):
        await driver.ensure_stopped(ID)
    await driver.close()


async def test_an_image_that_unpacks_to_more_than_the_disk_is_given_up(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    (tmp_path / "bomb").write_bytes(b"\1" * (40 << 20))
    bomb = ImageSource("bomb", str(tmp_path / "bomb"), "raw")
    with pytest.raises(Unfit):
        await driver.disks.converted(bomb, most=1 << 20)
    assert not list(driver.disks.cache.glob("*"))
    assert (await driver.disks.converted(bomb, most=40 << 20)).exists()
    await driver.close()


async def test_an_image_that_is_none_is_unfit(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    (tmp_path / "junk").write_bytes(b"no qcow2 at all")
    spec = tiny(tmp_path)
    with pytest.raises(Unfit):
        await driver.ensure_defined(evolve(spec, image=ImageSource("junk", str(tmp_path / "junk"), "qcow2")))
    (tmp_path / "large").write_bytes(b"")
    os.truncate(tmp_path / "large", 3 << 30)
    with pytest.raises(Unfit, match="3 GiB"):
        await driver.ensure_defined(evolve(spec, image=ImageSource("large", str(tmp_path / "large"), "raw")))
    assert await driver.inventory() == ()
    await driver.close()


async def test_a_dry_run_tells_and_starts_nothing(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir, dry_run=True)
    await run(driver, tiny(tmp_path, config_drive=True, swap_mib=1))
    assert await power(driver) is Power.RUNNING
    await driver.ensure_stopped(ID)
    await driver.ensure_absent(ID)
    assert (await driver.inventory(), list(runtime_dir.iterdir())) == ((), [])
    assert not (tmp_path / "state").exists()
    await driver.close()
