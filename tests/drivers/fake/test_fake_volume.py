"""The fake volume backend: the public suite in each of its variants, and what is its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.task import Clock

from cloudctl.drivers.boundary import methods
from cloudctl.drivers.errors import NoCapacity, Unusable
from cloudctl.drivers.fake.volume import Config, FakeVolumeBackend, create
from cloudctl.drivers.interfaces import IVolumeBackend
from cloudctl.drivers.specs import DriverResources, SnapshotSpec, VolumeSpec
from cloudctl.testing.volume_suite import volume_suite

SLOW = {name: 0.001 for name in methods(IVolumeBackend) if name.startswith(("ensure_", "connect", "disconnect"))}


def in_memory(_directory: Path, total_gib: int = 100) -> FakeVolumeBackend:
    return create(Config(total_gib=total_gib), DriverResources(clock=Clock(), name="fake"))


def durable(directory: Path) -> FakeVolumeBackend:
    return create(Config(durable=True), DriverResources(clock=Clock(), name="fake", state_dir=directory / "state"))


def marked(directory: Path) -> FakeVolumeBackend:
    resources = DriverResources(clock=Clock(), name="fake", state_dir=directory / "state")
    return create(Config(tells_changes=True), resources)


def slow(directory: Path) -> FakeVolumeBackend:
    from twisted.internet import reactor

    return create(Config(delays=SLOW), DriverResources(clock=reactor, name="fake"))


class TestInMemory(volume_suite(in_memory)):
    pass


class TestMarked(volume_suite(marked)):
    """One that tells what has changed."""


class TestDurable(volume_suite(durable)):
    pass


class TestSlow(volume_suite(slow)):
    """With delays, calls at once really overlap."""


async def test_volumes_and_snapshots_use_up_room_and_give_it_back() -> None:
    driver = in_memory(Path(), total_gib=10)
    await driver.ensure_created(VolumeSpec("v1", 4))
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
    assert (await driver.capacity()).free_gib == 2
    with pytest.raises(NoCapacity):
        await driver.ensure_snapshot(SnapshotSpec("s2", "v1"))
    with pytest.raises(NoCapacity):
        await driver.ensure_extended("v1", 7)
    await driver.ensure_extended("v1", 6)
    await driver.ensure_snapshot_absent("s1")
    await driver.ensure_absent("v1")
    assert (await driver.capacity()).free_gib == 10


async def test_what_is_kept_is_there_for_the_next_process(tmp_path: Path) -> None:
    first = durable(tmp_path)
    await first.ensure_created(VolumeSpec("v1", 4))
    await first.ensure_snapshot(SnapshotSpec("s1", "v1"))
    info = await first.connect("v1", "host-1")
    second = durable(tmp_path)
    assert await second.inventory() == await first.inventory()
    assert await second.snapshots() == await first.snapshots()
    assert await second.connect("v1", "host-1") == info


async def test_a_state_directory_that_cannot_be_made_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in the way")
    with pytest.raises(Unusable, match="state"):
        await durable(tmp_path).check()
