"""What a guest's process may do: next to nothing, whatever its guest makes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cloudctl.drivers import accounts
from cloudctl.drivers.qemu import processes
from cloudctl.drivers.qemu.hypervisor import Qemu
from cloudctl.drivers.qemu.qmp import Refused
from cloudctl.drivers.specs import GuestSpec, Power
from tests.drivers.qemu import real
from tests.drivers.qemu.real import ID, VOLUME, booted, driver_in, soon, tiny, volume
from tests.there import there


def pid(driver: Qemu) -> int | None:
    return processes.find(driver.records.files(ID).pid)


async def run(driver: Qemu, spec: GuestSpec) -> None:
    await driver.ensure_defined(spec)
    await driver.ensure_running(spec.id)


def own_descriptors() -> set[str]:
    """What this process has open; the list itself is not there any more when it is looked at."""
    return {os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}


def rights(thread: Path) -> dict[str, list[str]]:
    """What the kernel says of it."""
    lines = (thread / "status").read_text().splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.parametrize(
    ("user", "number", "capabilities"),
    # As root it can search folders and open its interface; nothing else of what root may.
    [(accounts.DEFAULT, 65523, 0), ("65500", 65500, 0), ("root", 0, 1 << 2 | 1 << 12)],
)
async def test_a_guests_process_is_of_a_user_without_rights(
    tmp_path: Path, runtime_dir: Path, user: str, number: int, capabilities: int
) -> None:
    driver = driver_in(tmp_path, runtime_dir, user=user)
    await run(driver, tiny(tmp_path, volumes=(volume(tmp_path),), ports=(real.port(tmp_path),)))
    process = Path("/proc", str(pid(driver)))
    threads = [rights(each) for each in (process / "task").iterdir()]
    assert len(threads) > 1
    for found in threads:
        assert found["Uid"] == found["Gid"] == [str(number)] * 4
        assert set(found["Groups"]) <= {str(number)}
        assert [int(found[name][0], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")] == [
            capabilities, capabilities, 0, 0,
        ]  # fmt: skip
        assert (found["NoNewPrivs"], found["Seccomp"]) == (["1"], ["2"])
    # The kernel keeps other processes of that user away from what it has open: of other guests.
    assert (process / "fd").stat().st_uid == 0
    await driver.close()


async def test_a_guests_process_opens_nothing_by_itself(tmp_path: Path, runtime_dir: Path) -> None:
    """Not even its own disk, by a path that is right; and no socket but that of the volumes is its group's."""
    driver = driver_in(tmp_path, runtime_dir)
    await driver.check()
    await run(driver, tiny(tmp_path))
    monitor, files = await driver.monitors.get(ID, driver.records.files(ID)), driver.records.files(ID)
    for path in (files.root, files.record, files.pid, Path("/etc/shadow")):
        block = {"driver": "file", "node-name": "seen", "filename": str(path), "read-only": True, "locking": "off"}
        with pytest.raises(Refused, match="Permission denied"):
            await monitor.execute("blockdev-add", block)
    for path in (files.qmp, files.serial, files.vnc, files.pid, files.directory):
        assert (path.stat().st_uid, path.stat().st_gid) == (0, 0)
    found = runtime_dir.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (0, 65523, 0o710)
    await driver.close()


async def test_a_guests_process_depends_on_nobody(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    await run(driver, tiny(tmp_path))
    number = there(pid(driver))
    assert os.getsid(number) == number
    # What it says after its start is read by nobody, so it cannot fill anything.
    assert [os.readlink(f"/proc/{number}/fd/{each}") for each in (0, 1)] == [os.devnull] * 2
    complaints = os.readlink(f"/proc/{number}/fd/2")
    assert await soon(lambda: complaints not in own_descriptors())
    await driver.close()


async def test_a_guest_of_root_goes_on_until_it_is_started_anew(tmp_path: Path, runtime_dir: Path) -> None:
    """As one that a release before this one has started, which knew no other user."""
    first = driver_in(tmp_path, runtime_dir, user="root")
    await run(first, tiny(tmp_path))
    await booted(first)
    await first.close()
    runtime_dir.chmod(0o700)
    driver = driver_in(tmp_path, runtime_dir)
    await driver.check()
    assert (await driver.observe(ID)).power is Power.RUNNING
    await driver.ensure_volume_attached(ID, volume(tmp_path))
    await driver.ensure_port_attached(ID, real.port(tmp_path))
    await driver.ensure_captured(ID, str(tmp_path / "captured"))
    await driver.ensure_suspended(ID)
    assert (await driver.observe(ID)).power is Power.SUSPENDED
    assert pid(driver) is None
    await driver.ensure_running(ID)
    state = await driver.observe(ID)
    assert (state.power, state.volume_ids, state.port_ids) == (Power.RUNNING, (VOLUME,), (real.PORT,))
    assert rights(Path("/proc", str(pid(driver))))["Uid"] == ["65523"] * 4
    await driver.ensure_volume_detached(ID, VOLUME)
    await driver.ensure_port_detached(ID, real.PORT)
    assert await booted(driver) == 1
    await driver.close()
