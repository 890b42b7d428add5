"""What goes wrong with a Ceph, and what is left half done in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import evolve

from cloudctl.drivers.errors import Busy, DriverError, InUse, NoCapacity, UnknownSnapshot, UnknownVolume, Unreachable
from cloudctl.drivers.rbd.disk import rbd_disk
from cloudctl.drivers.specs import ImageSource, SnapshotSpec, VolumeSpec, VolumeState
from tests.drivers.rbd.cluster import POOL, Cluster

ID, OTHER, THIRD = "volume a", "volume/b", "volume.c"
SNAPSHOT = "snapshot"


async def opened(make: Callable[..., Any], directory: Path, **options: Any) -> Any:
    driver = make(directory, **options)
    await driver.check()
    return driver


def image(directory: Path, content: bytes) -> ImageSource:
    path = directory / "image"
    path.write_bytes(content)
    return ImageSource("image", str(path), "raw")


async def content(driver: Any, directory: Path, id: str) -> bytes:
    target = directory / "exported"
    await driver.ensure_exported(id, str(target))
    with target.open("rb") as file:
        return file.read(512).rstrip(b"\0")


async def test_a_monitor_that_hangs_is_given_up_at_the_deadline_and_asked_again_later(
    make: Callable[..., Any], cluster: Cluster, tmp_path: Path
) -> None:
    driver = await opened(make, tmp_path, looks=True, answer_timeout=0.5)
    cluster.freeze("ceph-mon")
    try:
        for method, *words in (
            ("inventory",),
            ("capacity",),
            ("ensure_created", VolumeSpec(ID, 1)),
            ("connect", ID, "a"),
        ):
            with pytest.raises(Unreachable):
                await getattr(driver, method)(*words)
    finally:
        cluster.thaw("ceph-mon")
    patient = await opened(make, tmp_path)
    await patient.ensure_created(VolumeSpec(ID, 1))
    assert await patient.inventory() == (VolumeState(ID, 1),)


async def test_a_pool_that_is_not_there_is_no_unknown_volume(make: Callable[..., Any], tmp_path: Path) -> None:
    for options in ({"pool": "none"}, {"namespace": "none"}):
        driver = await opened(make, tmp_path, **options)
        for method, *words in (("inventory",), ("capacity",), ("observe", ID), ("ensure_absent", ID)):
            with pytest.raises(DriverError, match="has no pool or namespace") as caught:
                await getattr(driver, method)(*words)
            assert not isinstance(caught.value, UnknownVolume)


async def test_a_pool_that_is_full_takes_no_volume(make: Callable[..., Any], cluster: Cluster, tmp_path: Path) -> None:
    driver = await opened(make, tmp_path)
    await driver.ensure_created(VolumeSpec(ID, 1))
    cluster.ceph("osd", "pool", "set-quota", POOL, "max_bytes", "1")
    while "POOL_FULL" not in cluster.ceph("health", "detail"):
        time.sleep(0.1)
    try:
        full = await opened(make, tmp_path, looks=True)
        assert (await full.capacity()).free_gib == 0
        with pytest.raises(NoCapacity):
            await full.ensure_created(VolumeSpec(OTHER, 1))
        with pytest.raises(NoCapacity):
            await full.ensure_extended(ID, 2)
    finally:
        cluster.ceph("osd", "pool", "set-quota", POOL, "max_bytes", "0")
    # It may be a while until the daemons know that there is room again.
    assert await full.inventory() == (VolumeState(ID, 1),)
    assert (await full.capacity()).allocated_gib == 1


async def test_what_was_left_half_made_is_made_anew_and_what_was_half_filled_holds_what_it_held(
    make: Callable[..., Any], cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    driver = await opened(make, tmp_path)
    ceph = driver.ceph
    await driver.ensure_created(VolumeSpec(ID, 1, image=image(tmp_path, b"whole")))
    # Half of a clone, of an image that is brought, and of a snapshot that a copy reads.
    for name in ("making-volume%2Fb", "making-image-other"):
        cluster.rbd("create", "--size=1M", f"{POOL}/{namespace}/{name}")
    cluster.rbd("snap", "create", f"{POOL}/{namespace}/making-image-other@base")
    cluster.rbd("snap", "create", ceph.path("volume-volume%20a", "for-volume%2Fb"))
    assert [state.id for state in await driver.inventory()] == [ID]
    await driver.ensure_created(VolumeSpec(OTHER, 2, volume_id=ID))
    other = evolve(image(tmp_path, b"another"), id="other")
    await driver.ensure_created(VolumeSpec(THIRD, 1, image=other))
    assert [await content(driver, tmp_path, id) for id in (OTHER, THIRD)] == [b"whole", b"another"]
    # Half of a restored backup: nothing is in the volume.
    cluster.rbd("snap", "create", ceph.path("volume-volume%20a", "undo"))
    await ceph.note("undo", "volume%20a")
    cluster.rbd("resize", "--allow-shrink", "--size=0", ceph.path("volume-volume%20a"))
    successor = await opened(make, tmp_path)
    await successor.connect(ID, "host")
    assert await successor.observe(ID) == VolumeState(ID, 1, ("host",))
    assert await content(successor, tmp_path, ID) == b"whole"


async def test_a_volume_that_is_made_again_is_kept_even_if_its_source_is_gone(
    make: Callable[..., Any], tmp_path: Path
) -> None:
    driver = await opened(make, tmp_path)
    await driver.ensure_created(VolumeSpec(ID, 1, image=image(tmp_path, b"whole")))
    await driver.ensure_snapshot(SnapshotSpec(SNAPSHOT, ID))
    clone = VolumeSpec(OTHER, 1, snapshot_id=SNAPSHOT)
    await driver.ensure_created(clone)
    await driver.ensure_created(clone)
    await driver.ensure_snapshot_absent(SNAPSHOT)
    await driver.ensure_created(clone)
    assert await content(driver, tmp_path, OTHER) == b"whole"
    assert sorted(await driver.ceph.names()) == ["image-image", "volume-volume%20a", "volume-volume%2Fb"]
    with pytest.raises(UnknownSnapshot):
        await driver.ensure_created(evolve(clone, id=THIRD))


async def test_a_snapshot_that_a_killed_process_copied_goes_with_the_next_copy(
    make: Callable[..., Any], cluster: Cluster, tmp_path: Path
) -> None:
    driver = await opened(make, tmp_path)
    await driver.ensure_created(VolumeSpec(ID, 1, image=image(tmp_path, b"whole")))
    cluster.rbd("snap", "create", driver.ceph.path("volume-volume%20a", "copy-exported"))
    assert await content(driver, tmp_path, ID) == b"whole"
    assert await driver.ceph.snapshots("volume-volume%20a") == []


async def test_nothing_is_left_of_a_volume_that_was_never_completed(
    make: Callable[..., Any], cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    driver = await opened(make, tmp_path)
    await driver.ensure_created(VolumeSpec(ID, 1, image=image(tmp_path, b"whole")))
    # Half of a clone, and half of a restored backup.
    base = driver.ceph.path("image-image", "base")
    for name in ("making-volume%2Fb", "making-volume%20a"):
        cluster.rbd("clone", "--rbd-default-clone-format=2", base, driver.ceph.path(name))
    await driver.ensure_absent(OTHER)
    await driver.ensure_absent(ID)
    assert [await driver.ceph.names(), await driver.ceph.trashed()] == [[], []]


async def test_nothing_is_left_of_what_depended_on_each_other_when_all_of_it_has_gone(
    make: Callable[..., Any], cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    driver = await opened(make, tmp_path, clone_depth=2)
    await driver.ensure_created(VolumeSpec(ID, 1, image=image(tmp_path, b"first")))
    await driver.ensure_snapshot(SnapshotSpec(SNAPSHOT, ID))
    await driver.ensure_created(VolumeSpec(OTHER, 1, snapshot_id=SNAPSHOT))
    await driver.ensure_created(VolumeSpec(THIRD, 1, volume_id=OTHER))
    depends = [(await driver.ceph.find(name)).parent for name in ("volume-volume%2Fb", "volume-volume%2Ec")]
    assert depends[0].image == "volume-volume%20a"
    assert depends[1] is None  # a third in a row is a full copy
    await driver.ensure_snapshot_absent(SNAPSHOT)
    await driver.ensure_absent(ID)
    assert await content(driver, tmp_path, OTHER) == b"first"
    for id in (OTHER, THIRD):
        await driver.ensure_absent(id)
    place = f"{POOL}/{namespace}"
    assert [orjson.loads(cluster.rbd(*words, place, "--format=json")) for words in (("ls",), ("trash", "ls"))] == [
        [],
        [],
    ]
    assert await driver.ceph.notes() == []


async def test_an_image_that_another_process_has_let_go_of_is_brought_anew(
    make: Callable[..., Any], tmp_path: Path
) -> None:
    driver, other = [await opened(make, tmp_path) for _ in range(2)]
    source = image(tmp_path, b"first")
    await driver.ensure_created(VolumeSpec(ID, 1, image=source))
    await other.ensure_absent(ID)
    with pytest.raises(Busy):
        await driver.ensure_created(VolumeSpec(OTHER, 1, image=source))
    await driver.ensure_created(VolumeSpec(OTHER, 1, image=source))
    assert await content(driver, tmp_path, OTHER) == b"first"
    await driver.ensure_absent(OTHER)
    await driver.ensure_created(VolumeSpec(OTHER, 1, image=source))
    assert await content(driver, tmp_path, OTHER) == b"first"


async def test_several_hosts_use_a_volume_at_once_and_are_told_no_secret(
    make: Callable[..., Any], cluster: Cluster, tmp_path: Path
) -> None:
    driver = await opened(make, tmp_path)
    await driver.ensure_created(VolumeSpec(ID, 1))
    told = [await driver.connect(ID, host) for host in ("west", "east")]
    assert await driver.observe(ID) == VolumeState(ID, 1, ("east", "west"))
    disk = rbd_disk(told[0]["data"])
    assert disk.info == told[0] == told[1]
    assert disk.key() in cluster.keyring.read_text()
    assert disk.key() not in str(told)
    await driver.disconnect(ID, "west")
    with pytest.raises(InUse, match="east"):
        await driver.ensure_reverted(ID, SNAPSHOT)
