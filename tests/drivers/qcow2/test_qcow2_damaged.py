"""A volume or a snapshot whose record is damaged, and all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.drivers.errors import DriverError, NoCapacity
from cloudctl.drivers.specs import SnapshotSpec, SnapshotState, VolumeSpec, VolumeState


async def test_a_damaged_record_concerns_no_other_volume(open_driver: Callable[..., Any]) -> None:
    driver = await open_driver()
    for id in ("v1", "v2"):
        await driver.ensure_created(VolumeSpec(id, 2))
    whole = damage(driver.records.directory("v1") / "volume.json")
    assert await driver.inventory() == (VolumeState("v2", 2),)
    assert (await driver.capacity()).allocated_gib == 4, "it has its room"
    with pytest.raises(NoCapacity):
        await driver.ensure_created(VolumeSpec("v3", 1 << 40))
    await driver.ensure_created(VolumeSpec("v3", 1))
    with pytest.raises(DriverError, match=r"volume\.json is damaged"):
        await driver.observe("v1")
    with pytest.raises(DriverError, match=r"volume\.json is damaged"):
        await driver.ensure_absent("v1")
    driver.records.directory("v1").joinpath("volume.json").write_bytes(whole)
    assert [each.id for each in await (await open_driver()).inventory()] == ["v1", "v2", "v3"]


async def test_a_damaged_record_concerns_no_other_snapshot(open_driver: Callable[..., Any]) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1))
    for id in ("s1", "s2"):
        await driver.ensure_snapshot(SnapshotSpec(id, "v1"))
    damage(driver.records.root / "snapshots" / "s1.json")
    assert await driver.snapshots() == (SnapshotState("s2", "v1", 1),)
    with pytest.raises(DriverError, match=r"s1\.json is damaged"):
        await driver.ensure_absent("v1")
    await driver.ensure_snapshot_absent("s2")
    assert await driver.images.names(driver.records.disk("v1")) == {"s1"}, "it is not left over"
    assert await driver.unmanaged_snapshots() == ()
    for id, source in (("v2", None), ("v3", "v1")):
        await driver.ensure_created(VolumeSpec(id, 1, volume_id=source))
        await driver.ensure_absent(id)
    assert [each.id for each in await driver.inventory()] == ["v1"]


def damage(file: Any) -> bytes:
    whole: bytes = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    return whole
