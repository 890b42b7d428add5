"""Control groups of guests, below a directory that looks like the kernel's, and with the kernel's where it lets us."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attrs import evolve
from twisted.logger import capturedLogs, formatEvent

from cloudctl.drivers.qemu.cgroups import ControlGroups, limits
from cloudctl.drivers.qemu.options import Config
from cloudctl.drivers.specs import GuestSpec
from tests.drivers.qemu.real import ID, driver_in, tiny

SPEC = GuestSpec(ID, "name", "here", vcpus=4, memory_mib=1024, disk_gib=1)
KERNEL = Path("/sys/fs/cgroup")


def filled(directory: Path, *files: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for file in files:
        (directory / file).touch()
    return directory


def test_a_guest_has_its_size_and_what_qemu_takes_beside_it() -> None:
    found = limits(SPEC, 64)
    assert found == {"memory.max": (1024 + 64 + 512 + 4 * 16) << 20, "pids.max": 4 + 256, "cpu.weight": 400}
    assert limits(evolve(SPEC, vcpus=200), 0)["cpu.weight"] == 10000


def test_a_process_is_put_into_a_group_that_has_limits(tmp_path: Path) -> None:
    above = filled(tmp_path / "fs", "cgroup.controllers", "cgroup.subtree_control")
    root = filled(above / "cloud", "cgroup.subtree_control")
    group = filled(root / "guest", "cgroup.procs", "memory.max", "pids.max", "cpu.weight")
    groups = ControlGroups(root)
    groups.put("guest", 4711, limits(SPEC, 0))
    told = {file.name: file.read_text() for file in group.iterdir()}
    assert told == {**{name: str(value) for name, value in limits(SPEC, 0).items()}, "cgroup.procs": "4711"}
    assert (root / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (above / "cgroup.subtree_control").read_text() == "", "a group that an operator gives is within his own"


def test_a_group_goes_with_its_guest(tmp_path: Path) -> None:
    groups = ControlGroups(filled(tmp_path / "cloud"))
    filled(tmp_path / "cloud" / "guest")
    for _ in range(2):
        groups.remove("guest")
        assert not list((tmp_path / "cloud").iterdir())


def test_where_there_are_none_the_log_says_so_once(tmp_path: Path) -> None:
    groups = ControlGroups(tmp_path / "cloud")
    with capturedLogs() as logged:
        for _ in range(2):
            groups.put("guest", os.getpid(), limits(SPEC, 0))
            groups.remove("guest")
    assert [formatEvent(event) for event in logged] == [
        f"guests have no control groups of their own, nor limits beside their size: {tmp_path}: there is no cgroup v2"
    ]
    assert not list(tmp_path.iterdir())


def test_an_operator_may_want_none() -> None:
    groups = ControlGroups(None)
    with capturedLogs() as logged:
        groups.put("guest", os.getpid(), {})
        groups.remove("guest")
    assert not logged


def offered() -> bool:
    """Whether this kernel's control groups are those of version 2, and writable."""
    controllers = KERNEL / "cgroup.controllers"
    has_all = controllers.exists() and {"cpu", "memory", "pids"} <= set(controllers.read_text().split())
    return has_all and os.access(KERNEL / "cgroup.subtree_control", os.W_OK)


@pytest.mark.skipif(not offered(), reason="the control groups of this machine are not ours, or of version 1")
async def test_a_guest_is_in_a_group_of_its_own(tmp_path: Path, runtime_dir: Path) -> None:
    root = KERNEL / f"cloudctl-{os.getpid()}"
    driver = driver_in(tmp_path, runtime_dir, cgroup=str(root))
    spec = tiny(tmp_path)
    try:
        await driver.ensure_defined(spec)
        await driver.ensure_running(ID)
        group = root / driver.records.files(ID).runtime.name
        for file, value in limits(spec, Config().translation_cache_mib).items():
            assert int((group / file).read_text()) == value
        assert (group / "cgroup.procs").read_text().strip() == driver.records.files(ID).pid.read_text().strip()
        await driver.ensure_absent(ID)
        assert not group.exists()
    finally:
        await driver.close()
        root.rmdir()
