"""The content of volumes, and what must not be lost or left behind. Real qemu-img, real files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from twisted.internet.defer import DeferredList, gatherResults

from cloudctl.drivers.boundary import call
from cloudctl.drivers.errors import (
    Busy,
    DriverError,
    InUse,
    NoCapacity,
    Unfit,
    UnknownSnapshot,
    Unreachable,
    Unusable,
)
from cloudctl.drivers.qcow2.records import Volume
from cloudctl.drivers.specs import DriverResources, ImageSource, SnapshotSpec, VolumeSpec, VolumeState
from cloudctl.errors import ConfigError
from tests.drivers.qcow2.live import (
    GIB,
    IMAGE,
    MIB,
    demand,
    greedy_vdi,
    holds,
    image,
    info,
    inside,
    is_zero,
    raw_image,
    run,
    small_file_system,
    write,
)
from tests.there import there


@contextmanager
def opened_by_a_guest(disk: Any) -> Iterator[Any]:
    """Another process has the file open for writing, as QEMU has it for a guest."""
    command = ["qemu-io", "-f", "qcow2", str(disk)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        print("length", file=process.stdin, flush=True)
        assert "GiB" in there(process.stdout).readline()
        yield
        process.communicate("quit\n")


def everything_below(directory: Path) -> Any:
    return sorted(str(each.relative_to(directory)) for each in directory.rglob("*"))


# -- making volumes


@pytest.mark.parametrize(
    ("disk_format", "format"),
    [
        ("raw", "raw"),
        ("iso", "raw"),
        ("qcow2", "qcow2"),
        ("vdi", "vdi"),
        ("vhd", "vpc"),
        ("vhdx", "vhdx"),
        ("vmdk", "vmdk"),
    ],
)
async def test_a_volume_holds_the_image_that_it_is_made_from_then_zeros(
    open_driver: Callable[..., Any], tmp_path: Path, disk_format: str, format: Any
) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 2, image=image(tmp_path / "image", disk_format, format, 1, 2)))
    disk = driver.records.disk("v1")
    assert info(disk)["virtual-size"] == 2 * GIB
    assert info(disk)["format"] == "qcow2"
    assert "backing-filename" not in info(disk)
    assert holds(disk, 1, 0) and holds(disk, 2, MIB) and is_zero(disk, 2 * MIB)
    assert everything_below(tmp_path / "state" / "new") == []


async def test_what_looks_like_a_qcow2_inside_a_raw_image_is_only_bytes(
    open_driver: Callable[..., Any], tmp_path: Path
) -> None:
    inner = image(tmp_path / "inner", "qcow2", "qcow2", 7)
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1, image=evolve(inner, disk_format="raw")))
    await driver.ensure_exported("v1", str(tmp_path / "out"))
    with open(there(inner.path), "rb") as wanted, open(tmp_path / "out", "rb") as found:
        content = wanted.read()
        assert found.read(len(content)) == content


@pytest.mark.parametrize(
    "source",
    [
        lambda path: ImageSource(IMAGE, str(path / "missing"), "raw"),
        lambda path: evolve(raw_image(path / "i", 1), disk_format="qcow2"),
        lambda path: evolve(raw_image(path / "i", 1), disk_format="vhdx"),
        lambda path: evolve(raw_image(path / "i", 1), disk_format="unheard-of"),
    ],
    ids=["missing", "no qcow2", "no vhdx", "unheard-of"],
)
async def test_an_image_that_cannot_be_read_is_unfit_and_leaves_nothing(
    open_driver: Callable[..., Any], tmp_path: Path, source: Any
) -> None:
    driver = await open_driver()
    with pytest.raises(Unfit):
        await driver.ensure_created(VolumeSpec("v1", 1, image=source(tmp_path)))
    assert await driver.inventory() == ()
    assert everything_below(tmp_path / "state") == ["new", "snapshots", "unmanaged", "volumes"]


async def test_a_damaged_image_is_unfit_and_leaves_nothing(open_driver: Callable[..., Any], tmp_path: Path) -> None:
    whole = image(tmp_path / "image", "qcow2", "qcow2", 1, 2, 3)
    with open(there(whole.path), "r+b") as file:
        file.truncate(MIB)
        file.seek(0x30000)
        file.write(b"\xff" * 0x20000)
    driver = await open_driver()
    with pytest.raises(Unfit):
        await driver.ensure_created(VolumeSpec("v1", 1, image=whole))
    assert everything_below(tmp_path / "state") == ["new", "snapshots", "unmanaged", "volumes"]


async def test_an_image_that_asks_for_more_memory_than_qemu_img_may_have_is_unfit(
    open_driver: Callable[..., Any], tmp_path: Path
) -> None:
    driver = await open_driver()
    with pytest.raises(Unfit):
        await driver.ensure_created(VolumeSpec("v1", 1, image=greedy_vdi(tmp_path / "greedy")))
    assert await driver.inventory() == ()


async def test_an_image_that_is_larger_than_the_volume_is_unfit(
    open_driver: Callable[..., Any], tmp_path: Path
) -> None:
    driver = await open_driver()
    huge = tmp_path / "huge.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", huge, "1025M")
    source = ImageSource(IMAGE, str(huge), "qcow2")
    with pytest.raises(Unfit, match="2 GiB"):
        await driver.ensure_created(VolumeSpec("v1", 1, image=source))
    await driver.ensure_created(VolumeSpec("v1", 1))
    with pytest.raises(Unfit):
        await driver.ensure_imported("v1", source)


async def test_more_than_may_be_promised_is_refused(open_driver: Callable[..., Any]) -> None:
    driver = await open_driver(overcommit=1.0)
    total = (await driver.capacity()).total_gib
    await driver.ensure_created(VolumeSpec("v1", total - 1))
    with pytest.raises(NoCapacity, match="1 GiB left"):
        await driver.ensure_created(VolumeSpec("v2", 2))
    with pytest.raises(NoCapacity):
        await driver.ensure_extended("v1", total + 1)
    await driver.ensure_extended("v1", total)


async def test_what_is_being_made_is_promised_to_nobody_else(open_driver: Callable[..., Any]) -> None:
    driver = await open_driver(overcommit=1.0)
    size = (await driver.capacity()).total_gib
    made = [call(driver.ensure_created, VolumeSpec(id, size)) for id in ("v1", "v2")]
    (first, _), (second, refusal) = await DeferredList(made, consumeErrors=True)
    assert (first, second) == (True, False) and refusal.check(NoCapacity)
    await driver.ensure_absent("v1")
    await driver.ensure_created(VolumeSpec("v2", size))


# -- snapshots, copies


async def test_copies_are_of_their_own(open_driver: Callable[..., Any], tmp_path: Path) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "i", 1)))
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
    await driver.ensure_extended("v1", 3)
    write(driver.records.disk("v1"), 2)
    write(driver.records.disk("v1"), 3, 2 * GIB)
    await driver.ensure_created(VolumeSpec("of-snapshot", 2, snapshot_id="s1"))
    await driver.ensure_created(VolumeSpec("of-volume", 3, volume_id="v1"))
    await driver.ensure_snapshot_absent("s1")
    await driver.ensure_absent("v1")
    assert info(driver.records.disk("of-snapshot"))["virtual-size"] == 2 * GIB
    assert holds(driver.records.disk("of-snapshot"), 1)
    assert holds(driver.records.disk("of-volume"), 2) and holds(driver.records.disk("of-volume"), 3, 2 * GIB)
    assert inside(driver.records.disk("of-volume")) == []


async def test_a_volume_that_grew_after_a_snapshot_keeps_its_size_when_it_goes_back(
    open_driver: Callable[..., Any], tmp_path: Path
) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "i", 1)))
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
    await driver.ensure_extended("v1", 2)
    write(driver.records.disk("v1"), 2, GIB + MIB)
    write(driver.records.disk("v1"), 2)
    await driver.ensure_reverted("v1", "s1")
    disk = driver.records.disk("v1")
    assert holds(disk, 1) and is_zero(disk, GIB)
    assert info(disk)["virtual-size"] == 2 * GIB
    assert await driver.observe("v1") == VolumeState("v1", 2)


async def test_a_volume_does_not_go_back_to_the_snapshot_of_another(open_driver: Callable[..., Any]) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1))
    await driver.ensure_created(VolumeSpec("v2", 1))
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
    with pytest.raises(Unfit):
        await driver.ensure_reverted("v2", "s1")
    with pytest.raises(UnknownSnapshot):
        await driver.ensure_exported("v2", "/nowhere", "s1")


async def test_an_export_is_sparse_and_as_large_as_what_it_is_of(
    open_driver: Callable[..., Any], tmp_path: Path
) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "i", 1)))
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
    await driver.ensure_extended("v1", 50)
    target = tmp_path / "out"
    assert await driver.ensure_exported("v1", str(target)) == "raw"
    assert target.stat().st_size == 50 * GIB
    assert target.stat().st_blocks * 512 == MIB
    assert await driver.ensure_exported("v1", str(target), "s1") == "raw"
    assert target.stat().st_size == GIB
    assert holds(target, 1, format="raw")
    assert inside(driver.records.disk("v1")) == ["s1"]
    assert everything_below(tmp_path / "state" / "new") == []
    assert not list(tmp_path.glob("out.*"))


@pytest.mark.parametrize("disk_format", ["qcow2", "vmdk", "vdi", "vhd", "vhdx"])
async def test_what_comes_out_in_a_format_goes_in_again(
    open_driver: Callable[..., Any], tmp_path: Path, disk_format: str
) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "i", 1, 2)))
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
    await driver.ensure_extended("v1", 3)
    target = tmp_path / "out"
    await driver.ensure_exported_as("v1", str(target), disk_format, "s1")
    # It has the size that the snapshot has, and not the volume.
    await driver.ensure_created(VolumeSpec("v2", 1, image=ImageSource("i2", str(target), disk_format)))
    disk = driver.records.disk("v2")
    assert holds(disk, 1) and holds(disk, 2, MIB) and is_zero(disk, 2 * MIB)
    assert not list(tmp_path.glob("out.*"))


async def test_what_is_imported_is_followed_by_zeros_and_snapshots_stay(
    open_driver: Callable[..., Any], tmp_path: Path
) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "i", 1, 1)))
    write(driver.records.disk("v1"), 9, 500 * MIB)
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
    await driver.ensure_imported("v1", image(tmp_path / "j", "qcow2", "qcow2", 5))
    disk = driver.records.disk("v1")
    assert holds(disk, 5) and is_zero(disk, MIB)
    assert inside(disk) == ["s1"]
    await driver.ensure_reverted("v1", "s1")
    assert holds(disk, 1, 0, 2 * MIB) and holds(disk, 9, 500 * MIB)
    assert "No errors" in run("qemu-img", "check", disk)


async def test_an_import_that_fails_changes_nothing(open_driver: Callable[..., Any], tmp_path: Path) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "i", 1)))
    broken = image(tmp_path / "j", "qcow2", "qcow2", *range(2, 10))
    with open(there(broken.path), "r+b") as file:
        file.truncate(5 * MIB)  # some of its clusters are missing
        file.seek(0x40000)
        file.write(b"\xff" * 0x20000)
    with pytest.raises(Unfit):
        await driver.ensure_imported("v1", broken)
    disk = driver.records.disk("v1")
    assert holds(disk, 1) and is_zero(disk, MIB)
    assert inside(disk) == []
    assert driver.records.volume("v1") == Volume("v1", 1)


async def test_many_copies_at_once_are_all_right(open_driver: Callable[..., Any], tmp_path: Path) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "i", 1, 2)))
    await driver.ensure_snapshot(SnapshotSpec("s0", "v1"))
    await gatherResults(
        [call(driver.ensure_created, VolumeSpec(f"c{n}", 1, volume_id="v1")) for n in range(3)]
        + [call(driver.ensure_created, VolumeSpec(f"d{n}", 1, snapshot_id="s0")) for n in range(2)]
        + [call(driver.ensure_snapshot, SnapshotSpec(f"s{n}", "v1")) for n in range(1, 4)]
        + [call(driver.ensure_exported, "v1", str(tmp_path / "out")) for _ in range(2)]
        + [call(driver.connect, "v1", host) for host in ("a", "b")]
    )
    for id in ("c0", "c1", "c2", "d0", "d1"):
        assert holds(driver.records.disk(id), 1) and holds(driver.records.disk(id), 2, MIB)
    assert holds(tmp_path / "out", 2, MIB, format="raw")
    assert inside(driver.records.disk("v1")) == ["s0", "s1", "s2", "s3"]
    assert await driver.observe("v1") == VolumeState("v1", 1, ("a", "b"))
    assert driver.locks.held == frozenset()


# -- a guest has it open


async def test_an_open_volume_grows_once_nobody_has_it_open(open_driver: Callable[..., Any]) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1))
    told = await driver.connect("v1", "host-1")
    disk = told["data"]["path"]
    with opened_by_a_guest(disk):
        await driver.ensure_extended("v1", 2)
        assert await driver.observe("v1") == VolumeState("v1", 2, ("host-1",))
        assert info(disk)["virtual-size"] == GIB
        assert await driver.connect("v1", "host-1") == told
    await driver.disconnect("v1", "host-1")
    assert info(disk)["virtual-size"] == 2 * GIB


async def test_an_open_volume_cannot_be_frozen_and_says_so(open_driver: Callable[..., Any], tmp_path: Path) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "i", 1)))
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
    await driver.connect("v1", "host-1")
    with opened_by_a_guest(driver.records.disk("v1")):
        with pytest.raises(InUse, match="stop the guest or detach"):
            await driver.ensure_snapshot(SnapshotSpec("s2", "v1"))
        with pytest.raises(InUse):
            await driver.ensure_exported("v1", str(tmp_path / "out"))
        with pytest.raises(InUse):
            await driver.ensure_created(VolumeSpec("v2", 1, volume_id="v1"))
        with pytest.raises(InUse):
            await driver.ensure_reverted("v1", "s1")
        # What is frozen already can be used, and forgotten.
        await driver.ensure_exported("v1", str(tmp_path / "out"), "s1")
        await driver.ensure_created(VolumeSpec("v3", 1, snapshot_id="s1"))
        await driver.ensure_snapshot_absent("s1")
        assert await driver.snapshots() == ()
        assert inside(driver.records.disk("v1")) == ["s1"]
    assert holds(driver.records.disk("v3"), 1) and holds(tmp_path / "out", 1, format="raw")
    await driver.disconnect("v1", "host-1")
    assert inside(driver.records.disk("v1")) == []


async def test_a_volume_that_is_open_though_nobody_may_is_busy(open_driver: Callable[..., Any]) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1))
    with opened_by_a_guest(driver.records.disk("v1")):
        with pytest.raises(Busy):
            await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
        with pytest.raises(Busy):
            await driver.ensure_extended("v1", 2)
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))


async def test_a_volume_is_not_deleted_while_it_is_copied(open_driver: Callable[..., Any], tmp_path: Path) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "i", 1)))
    async with driver._moment("v1"):
        with pytest.raises(Busy, match="copied"):
            await driver.ensure_absent("v1")
    await driver.ensure_absent("v1")


# -- a full disk


async def test_a_full_disk_is_no_capacity_and_nothing_is_lost_or_left(
    open_driver: Callable[..., Any], tmp_path: Path
) -> None:
    demand("qemu-img", root=True)
    content = raw_image(tmp_path / "i", *range(1, 7))
    # Bytes that are no pattern, or qemu-img would need no room for them.
    big = tmp_path / "big"
    big.write_bytes(bytes(range(256)) * (40 * MIB // 256))
    too_much = ImageSource(IMAGE, str(big), "raw")
    with small_file_system(tmp_path, 32) as place:
        driver = await open_driver(place, overcommit=1000.0)
        with pytest.raises(NoCapacity):
            await driver.ensure_created(VolumeSpec("v1", 1, image=too_much))
        assert await driver.inventory() == ()
        assert everything_below(place / "new") == []
        await driver.ensure_created(VolumeSpec("v1", 1, image=content))
        await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
        with pytest.raises(NoCapacity):
            await driver.ensure_imported("v1", too_much)
        disk = driver.records.disk("v1")
        assert all(holds(disk, number + 1, number * MIB) for number in range(6))
        assert inside(disk) == ["s1"]
        with pytest.raises(NoCapacity):
            for number in range(9):
                await driver.ensure_created(VolumeSpec(f"c{number}", 1, volume_id="v1"))
        assert inside(disk) == ["s1"]
        exported = place / "out"
        with pytest.raises(NoCapacity):
            await driver.ensure_exported("v1", str(exported))
        assert everything_below(place / "new") == []
        assert not list(place.glob("out*"))
        for volume in await driver.inventory():
            if volume.id != "v1":
                await driver.ensure_absent(volume.id)
        await driver.ensure_created(VolumeSpec("v2", 1, snapshot_id="s1"))
        assert "No errors" in run("qemu-img", "check", disk)


# -- options


async def test_a_dry_run_changes_nothing(open_driver: Callable[..., Any], tmp_path: Path) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "i", 1)))
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))

    def all_files() -> Any:
        below = (tmp_path / "state").rglob("*")
        return {each: each.read_bytes() for each in below if each.is_file()}

    before = all_files()
    dry = await open_driver(dry_run=True)
    await dry.ensure_created(VolumeSpec("v2", 1))
    await dry.ensure_created(VolumeSpec("v3", 1, volume_id="v1"))
    await dry.ensure_snapshot(SnapshotSpec("s2", "v1"))
    await dry.ensure_reverted("v1", "s1")
    await dry.ensure_extended("v1", 2)
    await dry.ensure_imported("v1", raw_image(tmp_path / "j", 3))
    await dry.ensure_exported("v1", str(tmp_path / "out"))
    await dry.connect("v1", "host-1")
    await dry.ensure_snapshot_absent("s1")
    assert all_files() == before
    assert not list(tmp_path.glob("out*"))


async def test_a_directory_that_cannot_be_made_is_unusable(open_driver: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unusable, match="file"):
        await open_driver(tmp_path / "file")


def test_a_cloud_without_a_state_directory_must_name_one() -> None:
    from twisted.internet.task import Clock

    from cloudctl.drivers.qcow2.driver import Config, create

    with pytest.raises(ConfigError, match=r"driver\.volume\.qcow2\.directory"):
        create(Config(), DriverResources(clock=Clock(), name="qcow2"))


async def test_a_damaged_record_is_named(open_driver: Callable[..., Any]) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("v1", 1))
    (driver.records.directory("v1") / "volume.json").write_text("{")
    with pytest.raises(DriverError, match=r"v1/volume\.json is damaged"):
        await driver.observe("v1")


async def test_what_cannot_be_read_or_written_is_unreachable(open_driver: Callable[..., Any]) -> None:
    driver = await open_driver()
    for id in ("v1", "v2"):
        await driver.ensure_created(VolumeSpec(id, 1))
    driver.records.disk("v1").unlink()
    with pytest.raises(Unreachable, match=r"v1/disk\.qcow2: No such file"):
        await driver.connect("v1", "a")
    record = driver.records.directory("v2") / "volume.json"
    record.with_suffix(".new").mkdir()
    with pytest.raises(Unreachable, match="Is a directory"):
        await driver.connect("v2", "a")
    record.unlink()
    record.mkdir()
    with pytest.raises(Unreachable, match=r"v2/volume\.json: Is a directory"):
        await driver.observe("v2")


async def test_ids_of_any_printable_characters_are_files_below_the_directory(
    open_driver: Callable[..., Any], tmp_path: Path
) -> None:
    driver = await open_driver()
    odd = "../a,b=c:'\"%*"
    await driver.ensure_created(VolumeSpec(odd, 1, image=raw_image(tmp_path / "i", 1)))
    await driver.ensure_snapshot(SnapshotSpec(odd, odd))
    for id in (".", "..", "-c"):
        await driver.ensure_created(VolumeSpec(id, 1, snapshot_id=odd))
        assert holds(driver.records.disk(id), 1)
    assert [each.id for each in await driver.inventory()] == ["-c", ".", "..", odd]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["i", "state"]
    assert len(list((tmp_path / "state" / "volumes").iterdir())) == 4
