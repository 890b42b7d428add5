"""The process dies at any moment of any call: the call repeated by the next process does what was wanted.

Every change goes through `Programs` or `Records`. Before each of them in turn, everything ends.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import deferLater

from cloudctl.drivers.programs import Programs
from cloudctl.drivers.qcow2.disks import LocalDisks
from cloudctl.drivers.qcow2.images import Images
from cloudctl.drivers.qcow2.records import DISK, Records, Volume
from cloudctl.drivers.specs import SnapshotSpec, SnapshotState, VolumeSpec
from tests.drivers.qcow2.live import MIB, holds, inside, is_zero, raw_image, write


class Dead(BaseException):
    """Not an Exception: no driver may catch it."""


class Fate:
    """Death comes before the change with this number, counted from 0, and there is no life after it."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.dead = False

    def moment(self) -> None:
        if not self.dead and self.left:
            self.left -= 1
            return
        self.dead = True
        raise Dead


@frozen
class MortalPrograms(Programs):
    fate: Any = None

    async def change(self, *arguments: Any, **named: Any) -> bytes:
        self.fate.moment()
        return await super().change(*arguments, **named)


@frozen
class MortalRecords(Records):
    fate: Any = None

    async def _change(self, *arguments: Any) -> None:
        self.fate.moment()
        await super()._change(*arguments)


def mortal(driver: Any, fate: Fate) -> None:
    """From now on the driver can die."""
    programs = driver.images.programs
    records = MortalRecords(driver.records.root, driver.records.reactor, fate=fate)
    images = evolve(driver.images, programs=MortalPrograms(programs.reactor, programs.clock, fate=fate))
    driver.records, driver.images, driver.disks = records, images, LocalDisks(records, images)


async def before(driver: Any, tmp_path: Path) -> None:
    """A volume of 1 GiB: ones, and twos where the snapshot has ones, too; and an empty one."""
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "ones", 1, 1)))
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
    write(driver.records.disk("v1"), 2, MIB)
    await driver.ensure_created(VolumeSpec("v0", 1))


def disk_holds(driver: Any, id: str, first: Any, second: Any) -> Any:
    disk = driver.records.disk(id)
    return is_zero(disk, 2 * MIB) and (
        holds(disk, first, 0, 2 * MIB) if first == second else holds(disk, first, 0) and holds(disk, second, MIB)
    )


CALLS = {
    "from image": (
        lambda driver, path: driver.ensure_created(VolumeSpec("v2", 2, image=raw_image(path / "i", 5, 6))),
        lambda driver: disk_holds(driver, "v2", 5, 6),
    ),
    "from volume": (
        lambda driver, path: driver.ensure_created(VolumeSpec("v2", 1, volume_id="v1")),
        lambda driver: disk_holds(driver, "v2", 1, 2),
    ),
    "from snapshot": (
        lambda driver, path: driver.ensure_created(VolumeSpec("v2", 2, snapshot_id="s1")),
        lambda driver: disk_holds(driver, "v2", 1, 1),
    ),
    "extended": (
        lambda driver, path: driver.ensure_extended("v1", 2),
        lambda driver: driver.records.volume("v1").size_gib == 2 and disk_holds(driver, "v1", 1, 2),
    ),
    "snapshot": (
        lambda driver, path: driver.ensure_snapshot(SnapshotSpec("s2", "v1")),
        lambda driver: driver.records.snapshot("s2").state == SnapshotState("s2", "v1", 1),
    ),
    "snapshot absent": (
        lambda driver, path: driver.ensure_snapshot_absent("s1"),
        lambda driver: driver.records.snapshot("s1") is None,
    ),
    "reverted": (
        lambda driver, path: driver.ensure_reverted("v1", "s1"),
        lambda driver: disk_holds(driver, "v1", 1, 1),
    ),
    "imported": (
        lambda driver, path: driver.ensure_imported("v1", raw_image(path / "i", 7, 8)),
        lambda driver: disk_holds(driver, "v1", 7, 8),
    ),
    "exported": (
        lambda driver, path: driver.ensure_exported("v1", str(driver.records.root / "out")),
        lambda driver: holds(driver.records.root / "out", 2, MIB, format="raw"),
    ),
    "absent": (
        lambda driver, path: driver.ensure_absent("v0"),
        lambda driver: driver.records.volume("v0") is None,
    ),
    "connected": (
        lambda driver, path: driver.connect("v1", "host-1"),
        lambda driver: driver.records.volume("v1").hosts == ("host-1",),
    ),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_a_death_interrupted_can_be_repeated_by_the_next_process(
    name: Any, open_driver: Callable[..., Any], tmp_path: Path
) -> None:
    act, is_done = CALLS[name]
    await before(await open_driver(tmp_path / "before"), tmp_path)
    deaths = 0
    while True:
        directory = tmp_path / str(deaths)
        shutil.copytree(tmp_path / "before", directory)
        driver = await open_driver(directory)
        fate = Fate(deaths)
        mortal(driver, fate)
        try:
            await act(driver, directory)
        except Dead:
            pass
        driver = await open_driver(directory)
        if fate.dead:
            seen = {state.id for state in await driver.inventory()}
            if "v2" in seen:
                assert is_done(driver), f"volume v2 was there half made, after {deaths} changes"
        await act(driver, directory)
        assert is_done(driver), f"after {deaths} changes"
        # Any further call clears up what was begun and is not needed.
        await driver.connect("v1", "host-2")
        snapshots = {each.id for each in await driver.snapshots()}
        assert set(inside(driver.records.disk("v1"))) == snapshots
        found = driver.records.volume("v1")
        assert found == Volume("v1", found.size_gib, found.hosts)
        assert list((directory / "new").iterdir()) == []
        if not fate.dead:
            break
        deaths += 1
    assert deaths, "it never died"


async def test_an_import_that_a_death_interrupted_is_taken_back_when_the_volume_is_used(
    open_driver: Callable[..., Any], tmp_path: Path
) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "i", 1)))
    fate = Fate(10**6)
    mortal(driver, fate)
    refill = driver.images.refill

    async def half(source: Any, format: Any, target: Any, size_gib: int) -> None:
        await refill(source, format, target, size_gib)
        fate.left = 0

    driver.images = Halved(driver.images, half)
    with pytest.raises(Dead):
        await driver.ensure_imported("v1", raw_image(tmp_path / "j", 2))
    driver = await open_driver()
    assert holds(driver.records.disk("v1"), 2)
    await driver.connect("v1", "host-1")
    assert holds(driver.records.disk("v1"), 1)


class Halved:
    def __init__(self, images: Any, refill: Any) -> None:
        self._images, self.refill = images, refill

    def __getattr__(self, name: str) -> Any:
        return getattr(self._images, name)


async def test_a_copy_ends_with_the_call_that_wanted_it(
    open_driver: Callable[..., Any], reactor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before it has written anything: otherwise it would go on for as long as a copy may take."""
    seen: list[str] = []

    async def extract(*_: object) -> None:
        seen.append("begun")
        try:
            await Deferred()
        finally:
            seen.append("ended")

    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v", 1))
    monkeypatch.setattr(Images, "extract", extract)
    copying = ensureDeferred(driver.ensure_exported("v", str(tmp_path / "raw")))
    while not seen:
        await deferLater(reactor, 0.01)
    copying.cancel()
    with pytest.raises(CancelledError):
        await copying
    assert seen == ["begun", "ended"]


async def test_a_process_that_starts_drops_what_a_dead_one_left_and_not_what_another_one_makes(
    open_driver: Any, tmp_path: Path
) -> None:
    first = await open_driver()
    half = tmp_path / "state" / "new" / "half"
    half.mkdir()
    with first.records.new() as place:
        await first.images.create(place / DISK, 1)
        second = await open_driver()
        assert not half.exists()
        await first.records.publish(place, Volume("a", 1))
    assert (await second.observe("a")).size_gib == 1
    assert list((tmp_path / "state" / "new").iterdir()) == []
