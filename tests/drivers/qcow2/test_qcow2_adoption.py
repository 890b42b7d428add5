"""Files that somebody put beside the volumes: which of them become volumes, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.errors import InUse, Unfit, UnknownVolume
from cloudctl.drivers.qcow2.images import Images
from cloudctl.drivers.qcow2.records import Records
from cloudctl.drivers.specs import Unmanaged, VolumeState
from tests.drivers.qcow2.live import GIB, MIB, holds, info, run
from tests.drivers.qcow2.test_qcow2_volumes import opened_by_a_guest


def put(driver: Any, name: str, *options: str, size: str = "1500M", format: str = "qcow2") -> Path:
    """A file beside the volumes, with one MiB of 7."""
    path = Path(driver.records.root / "unmanaged" / f"{name}.qcow2")
    run("qemu-img", "create", "-q", "-f", format, *options, path, size)
    if not options:
        run("qemu-io", "-f", format, "-c", f"write -P 7 0 {MIB}", path)
    return path


async def test_a_file_becomes_a_volume_without_being_copied(open_driver: Callable[..., Any]) -> None:
    driver = await open_driver()
    path = put(driver, "web disk")
    there = path.stat().st_ino
    assert await driver.unmanaged() == (Unmanaged("web disk", 2),)
    await driver.ensure_adopted("v1", "web disk")
    disk = driver.records.disk("v1")
    assert (disk.stat().st_ino, path.exists(), info(disk)["virtual-size"]) == (there, False, 2 * GIB)
    assert await driver.inventory() == (VolumeState("v1", 2),)
    await driver.ensure_released("v1", "back")
    assert holds(path.with_name("back.qcow2"), 7)
    assert await driver.inventory() == ()


async def test_what_cannot_be_a_volume_is_told_and_refused(open_driver: Callable[..., Any], tmp_path: Path) -> None:
    driver = await open_driver()
    put(driver, "backed", "-b", str(put(driver, "whole")), "-F", "qcow2")
    put(driver, "raw", format="raw")
    put(driver, "twice").with_name("again.qcow2").hardlink_to(driver.records.root / "unmanaged" / "twice.qcow2")
    (driver.records.root / "unmanaged" / "linked.qcow2").symlink_to("whole.qcow2")
    why = {each.name: each.objection for each in await driver.unmanaged()}
    assert [name for name, objection in why.items() if not objection] == ["whole"]
    for name in why.keys() - {"whole"}:
        with pytest.raises(Unfit):
            await driver.ensure_adopted("v1", name)
    assert await driver.inventory() == () and len(await driver.unmanaged()) == 6


@pytest.mark.parametrize("name", ["", "none", "../volumes/v2/disk", ".hidden", "a\0b", "x" * 300])
async def test_a_name_reaches_nothing_else(open_driver: Callable[..., Any], name: str) -> None:
    driver = await open_driver()
    with pytest.raises(UnknownVolume):
        await driver.ensure_adopted("v1", name)


async def test_a_file_that_somebody_has_open_stays_his(open_driver: Callable[..., Any]) -> None:
    driver = await open_driver()
    with opened_by_a_guest(put(driver, "busy")), pytest.raises(InUse):
        await driver.ensure_adopted("v1", "busy")
    assert [each.name for each in await driver.unmanaged()] == ["busy"]


async def test_what_a_crash_left_with_two_names_has_one_after_the_repeat(open_driver: Callable[..., Any]) -> None:
    driver = await open_driver()
    path = put(driver, "disk")
    await driver.ensure_adopted("v1", "disk")
    path.hardlink_to(driver.records.disk("v1"))
    await driver.ensure_adopted("v1", "disk")
    assert not path.exists()
    path.hardlink_to(driver.records.disk("v1"))
    await driver.ensure_released("v1", "disk")
    assert path.stat().st_nlink == 1 and holds(path, 7)


async def test_a_volume_that_is_deleted_meanwhile_is_no_trouble_for_whoever_lists_snapshots(
    open_driver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await open_driver()
    for id in ("v1", "v2", "v3"):
        await driver.ensure_adopted(id, put(driver, id).stem)
        run("qemu-img", "snapshot", "-c", f"of {id}", driver.records.disk(id))
    read = Images.names

    async def names(images: Images, path: Path) -> frozenset[str]:
        found = await read(images, path)
        await driver.ensure_absent("v2")
        return found

    monkeypatch.setattr(Images, "names", names)
    assert [each.name for each in await driver.unmanaged_snapshots()] == ["of v1", "of v3"]


async def test_a_file_that_goes_while_they_are_looked_at_is_left_out(
    open_driver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await open_driver()
    going, staying = put(driver, "going"), put(driver, "staying")
    monkeypatch.setattr(Records, "unmanaged", lambda _: [going, staying])
    going.unlink()  # it has just become a volume
    assert [each.name for each in await driver.unmanaged()] == ["staying"]
