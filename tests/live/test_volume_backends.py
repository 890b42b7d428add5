"""Volumes on real backends, without a guest: what they hold, however they are moved, reverted or handed over."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.qcow2.live import MIB, demand, holds
from tests.live.process import LiveCloud

VOLUMES, IMAGES = "/volume/v3", "/image/v2/images"
NEWEST = {"OpenStack-API-Version": "volume latest"}
PATIENCE = 120.0  # seconds
DRIVERS = """
[drivers]
volume = {{files = "qcow2", served = "nbd"}}
[driver.volume.served]
runtime_dir = "{runtime_dir}"
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCloud]:
    demand("qemu-img", "qemu-storage-daemon")
    # Paths of sockets must be short.
    runtime_dir = tempfile.mkdtemp(prefix="cc-")
    made = LiveCloud(tmp_path_factory.mktemp("live"), DRIVERS.format(runtime_dir=runtime_dir))
    made.start()
    for name in ("files", "served"):
        wish = {"volume_type": {"name": name, "extra_specs": {"volume_backend_name": name}}}
        good(made, "POST", f"{VOLUMES}/types", wish)
    yield made
    made.kill()
    shutil.rmtree(runtime_dir)


def good(cloud: LiveCloud, method: str, path: str, body: Any = None) -> Any:
    kind = {"Content-Type": "application/octet-stream"} if isinstance(body, bytes) else {}
    status, found = cloud.ask(method, path, body, "admin", **NEWEST, **kind)
    assert status < 300, (method, path, status, found)
    return found


def volume(cloud: LiveCloud, volume_id: str, status: str = "available") -> Any:
    """The volume, once it has this status."""
    limit = time.monotonic() + PATIENCE
    while True:
        found = good(cloud, "GET", f"{VOLUMES}/volumes/{volume_id}")["volume"]
        if found["status"] == status:
            return found
        assert "error" not in found["status"] and time.monotonic() < limit, found
        time.sleep(0.05)


def gone(cloud: LiveCloud, path: str) -> None:
    limit = time.monotonic() + PATIENCE
    while cloud.ask("GET", path, None, "admin")[0] != 404:
        assert time.monotonic() < limit, path
        time.sleep(0.05)


def act(cloud: LiveCloud, volume_id: str, action: str, body: Any = None) -> None:
    good(cloud, "POST", f"{VOLUMES}/volumes/{volume_id}/action", {action: body})


def image(cloud: LiveCloud, pattern: int) -> str:
    """An image: one MiB of this byte."""
    wish = {"name": str(pattern), "disk_format": "raw", "container_format": "bare"}
    image_id = str(good(cloud, "POST", IMAGES, wish)["id"])
    good(cloud, "PUT", f"{IMAGES}/{image_id}/file", bytes([pattern]) * MIB)
    return image_id


def disk(cloud: LiveCloud, backend: str, volume_id: str) -> Path:
    return cloud.state_dir / "drivers" / "volume" / backend / "volumes" / volume_id / "disk.qcow2"


def made_of(cloud: LiveCloud, pattern: int, type_: str) -> str:
    wish = {"size": 1, "imageRef": image(cloud, pattern), "volume_type": type_}
    volume_id = str(good(cloud, "POST", f"{VOLUMES}/volumes", {"volume": wish})["volume"]["id"])
    volume(cloud, volume_id)
    return volume_id


def test_a_retype_moves_the_bytes_to_the_backend_of_the_type_and_back(cloud: LiveCloud) -> None:
    id = made_of(cloud, 7, "files")
    assert holds(disk(cloud, "files", id), 7)
    for here, there in (("files", "served"), ("served", "files")):
        act(cloud, id, "os-retype", {"new_type": there, "migration_policy": "on-demand"})
        found = volume(cloud, id)
        assert (found["volume_type"], found["os-vol-host-attr:host"]) == (there, f"cloudctl@{there}#{there}")
        assert holds(disk(cloud, there, id), 7) and not disk(cloud, here, id).exists()


@pytest.mark.parametrize("backend", ["files", "served"])
def test_a_revert_brings_back_what_the_snapshot_holds(cloud: LiveCloud, backend: str) -> None:
    id = made_of(cloud, 7, backend)
    wish = {"snapshot": {"volume_id": id}}
    snapshot_id = good(cloud, "POST", f"{VOLUMES}/snapshots", wish)["snapshot"]["id"]
    while good(cloud, "GET", f"{VOLUMES}/snapshots/{snapshot_id}")["snapshot"]["status"] == "creating":
        time.sleep(0.05)
    act(cloud, id, "os-reimage", {"image_id": image(cloud, 9)})
    volume(cloud, id)
    assert holds(disk(cloud, backend, id), 9)
    act(cloud, id, "revert", {"snapshot_id": snapshot_id})
    volume(cloud, id)
    assert holds(disk(cloud, backend, id), 7)


@pytest.mark.parametrize("backend", ["files", "served"])
def test_a_volume_is_left_to_its_backend_and_taken_over_again(cloud: LiveCloud, backend: str) -> None:
    id = made_of(cloud, 7, backend)
    act(cloud, id, "os-unmanage")
    gone(cloud, f"{VOLUMES}/volumes/{id}")
    host = f"cloudctl@{backend}"
    (listed,) = good(cloud, "GET", f"{VOLUMES}/manageable_volumes?host={host}").values()
    safe = {each["reference"]["source-name"]: each["safe_to_manage"] for each in listed}
    assert safe[f"volume-{id}"] is True
    wish = {"host": host, "ref": {"source-name": f"volume-{id}"}, "volume_type": backend}
    again = good(cloud, "POST", f"{VOLUMES}/os-volume-manage", {"volume": wish})["volume"]["id"]
    volume(cloud, again)
    assert holds(disk(cloud, backend, again), 7)


def test_a_killed_process_goes_on_with_a_backup_that_is_restored_whole(cloud: LiveCloud) -> None:
    id = made_of(cloud, 7, "files")
    made = good(cloud, "POST", f"{VOLUMES}/backups", {"backup": {"volume_id": id, "container": "kept"}})["backup"]
    cloud.kill()
    cloud.start()
    volume(cloud, id)
    found = good(cloud, "GET", f"{VOLUMES}/backups/{made['id']}")["backup"]
    assert (found["status"], found["container"], found["object_count"]) == ("available", "kept", 1)
    act(cloud, id, "os-reimage", {"image_id": image(cloud, 9)})
    volume(cloud, id)
    good(cloud, "POST", f"{VOLUMES}/backups/{made['id']}/restore", {"restore": {"volume_id": id}})
    volume(cloud, id)
    assert holds(disk(cloud, "files", id), 7)
