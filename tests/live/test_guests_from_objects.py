"""Images, copies of servers and backups as objects: real guests start from each, whatever was killed in between."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.qemu import tiny_guest
from tests.drivers.qemu.conftest import runtime_dir  # noqa: F401 (the fixture of that folder)
from tests.live.process import LiveCloud

TOML = """
[drivers]
hypervisor = "qemu"
volume = "qcow2"
[driver.hypervisor.qemu]
runtime_dir = "{runtime_dir}"
[image.stores.default]
driver = "file"
[driver.objects.file]
directory = "{store}"
"""
SERVERS, IMAGES, VOLUMES = "/compute/v2.1/servers", "/image/v2/images", "/volume/v3"
PATIENCE = 240.0  # seconds


class Story:
    def __init__(self, cloud: LiveCloud, store: Path) -> None:
        self.cloud, self.store = cloud, store

    def good(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        service = "volume 3.70" if path.startswith(VOLUMES) else "compute 2.90"
        told = {"OpenStack-API-Version": service, **headers}
        status, found = self.cloud.ask(method, path, body, "admin", **told)
        assert status < 300, (method, path, status, found)
        return found

    def becomes(self, path: str, wanted: str, key: str = "") -> Any:
        limit = time.monotonic() + PATIENCE
        while True:
            found = self.good("GET", path)
            found = found[key] if key else found
            if found["status"] == wanted:
                return found
            assert found["status"].lower() != "error" and time.monotonic() < limit, (found.get("fail_reason"), found)
            time.sleep(0.05)

    def image(self, data: bytes) -> str:
        wish = {"name": "tiny", "disk_format": "raw", "container_format": "bare"}
        id = str(self.good("POST", IMAGES, wish)["id"])
        self.good("PUT", f"{IMAGES}/{id}/file", data, **{"Content-Type": "application/octet-stream"})
        return id

    def kept(self) -> list[bytes]:
        """What the store has of images."""
        return [each.read_bytes() for each in self.store.glob("part-*/*/*")]

    def flavor(self) -> str:
        wish = {"flavor": {"name": "tiny", "ram": 16, "vcpus": 1, "disk": 1}}
        return str(self.good("POST", "/compute/v2.1/flavors", wish)["flavor"]["id"])

    def starts(self, flavor: str, **source: Any) -> str:
        """A server, once its guest has reported that it runs."""
        wish = {"name": "tiny", "flavorRef": flavor, "networks": "none", **source}
        id = str(self.good("POST", SERVERS, {"server": wish})["server"]["id"])
        self.becomes(f"{SERVERS}/{id}", "ACTIVE", "server")
        limit = time.monotonic() + PATIENCE
        while tiny_guest.LAST_LINE not in self.act(id, "os-getConsoleOutput", {})["output"]:
            assert time.monotonic() < limit
            time.sleep(0.05)
        return id

    def act(self, id: str, action: str, body: Any) -> Any:
        return self.good("POST", f"{SERVERS}/{id}/action", {action: body})

    def volume(self, **source: Any) -> str:
        made = self.good("POST", f"{VOLUMES}/volumes", {"volume": {"size": 1, **source}})["volume"]
        self.becomes(f"{VOLUMES}/volumes/{made['id']}", "available", "volume")
        return str(made["id"])

    def starts_from(self, flavor: str, volume_id: str) -> str:
        disk = {"uuid": volume_id, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
        return self.starts(flavor, block_device_mapping_v2=[disk])

    def backed_up(self, volume_id: str, *, incremental: bool) -> str:
        """A backup; the process is killed in the middle of an incremental one."""
        wish = {"volume_id": volume_id, "container": "kept", "force": True, "incremental": incremental}
        id = str(self.good("POST", f"{VOLUMES}/backups", {"backup": wish})["backup"]["id"])
        if incremental:
            self.cloud.kill()
            self.cloud.start()
        self.becomes(f"{VOLUMES}/backups/{id}", "available", "backup")
        return id

    def objects(self) -> int:
        """How many objects its user sees in the named container."""
        project = self.good("GET", "/identity/v3/auth/projects")["projects"][0]["id"]
        account = f"/object-store/v1/AUTH_{project}"
        return len(self.good("GET", f"{account}/kept?format=json"))

    def deleted(self, path: str) -> None:
        self.good("DELETE", path)
        limit = time.monotonic() + PATIENCE
        while self.cloud.ask("GET", path, None, "admin")[0] != 404:
            assert time.monotonic() < limit, path
            time.sleep(0.05)


@pytest.fixture
def story(tmp_path: Path, runtime_dir: Path) -> Iterator[Story]:  # noqa: F811 (the fixture above)
    store = tmp_path / "store"
    cloud = LiveCloud(tmp_path, TOML.format(runtime_dir=runtime_dir, store=store))
    cloud.start()
    yield Story(cloud, store)
    cloud.kill()


@pytest.mark.slow
def test_guests_start_from_images_copies_and_backups_that_are_objects(story: Story) -> None:
    disk, flavor, before = tiny_guest.disk(), story.flavor(), story.kept()
    image_id = story.image(disk)
    assert sorted(story.kept()) == sorted([*before, disk])
    server = story.starts(flavor, imageRef=image_id)

    copy = story.act(server, "createImage", {"name": "copy"})["image_id"]
    story.cloud.kill()
    story.cloud.start()
    story.becomes(f"{IMAGES}/{copy}", "active")
    assert len(story.kept()) == len(before) + 2
    story.deleted(f"{SERVERS}/{server}")
    story.deleted(f"{SERVERS}/{story.starts(flavor, imageRef=copy)}")

    volume = story.volume(imageRef=image_id)
    server = story.starts_from(flavor, volume)
    # The guest goes on, and has the file open: its own QEMU copies it.
    backups = [story.backed_up(volume, incremental=False)]
    full = story.objects()
    backups.append(story.backed_up(volume, incremental=True))
    assert story.objects() > full > 1
    story.deleted(f"{SERVERS}/{server}")
    story.deleted(f"{VOLUMES}/volumes/{volume}")

    for backup in backups:
        volume = story.volume()
        story.good("POST", f"{VOLUMES}/backups/{backup}/restore", {"restore": {"volume_id": volume}})
        story.becomes(f"{VOLUMES}/volumes/{volume}", "available", "volume")
        story.deleted(f"{SERVERS}/{story.starts_from(flavor, volume)}")
    for backup in reversed(backups):
        story.deleted(f"{VOLUMES}/backups/{backup}")
    assert story.objects() == 0
