"""A cloud whose guests have their root disks in Ceph: all that is done with one, by the API, with kills between."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from cloudctl.drivers.qemu import processes
from tests.drivers.qemu import tiny_guest
from tests.drivers.rbd.cluster import POOL, USER, Cluster
from tests.live.process import LiveCloud
from tests.there import there

TOML = """
[drivers]
hypervisor = "qemu"
[tasks]
audit_period = 1.0
[driver.hypervisor.qemu]
hosts = {{ east = "", west = "" }}
runtime_dir = "{runtime_dir}"
soft_reboot_timeout = 1.0
root_disks = "rbd"
[driver.hypervisor.qemu.rbd]
monitors = ["{monitor}"]
user = "{user}"
keyring = "{keyring}"
namespace = "{namespace}"
answer_timeout = 120.0
"""
SERVERS, IMAGES = "/compute/v2.1/servers", "/image/v2/images"
PATIENCE, PERIOD = 240.0, 0.2  # seconds


class Story:
    def __init__(self, cloud: LiveCloud, cluster: Cluster, namespace: str, runtime_dir: Path) -> None:
        self.cloud, self.cluster, self.runtime_dir = cloud, cluster, runtime_dir
        self.place = f"{POOL}/{namespace}"

    def good(self, method: str, path: str, body: Any = None, version: str = "2.90", **headers: str) -> Any:
        microversion = {"OpenStack-API-Version": f"compute {version}"}
        status, found = self.cloud.ask(method, path, body, "admin", **microversion, **headers)
        assert status < 300, (method, path, status, found)
        return found

    def image(self) -> str:
        wish = {"name": "tiny", "disk_format": "raw", "container_format": "bare"}
        id = str(self.good("POST", IMAGES, wish)["id"])
        bytes_ = {"Content-Type": "application/octet-stream"}
        self.good("PUT", f"{IMAGES}/{id}/file", tiny_guest.disk(), **bytes_)
        return id

    def flavor(self, disk: int) -> str:
        wish = {"flavor": {"name": f"tiny-{disk}", "ram": 16, "vcpus": 1, "disk": disk}}
        return str(self.good("POST", "/compute/v2.1/flavors", wish)["flavor"]["id"])

    def server(self, id: str) -> Any:
        return self.good("GET", f"{SERVERS}/{id}")["server"]

    def becomes(self, id: str, wanted: str) -> Any:
        """The server, once it is so and nobody is at it."""
        limit = time.monotonic() + PATIENCE
        while (found := self.server(id))["status"] != wanted or found["OS-EXT-STS:task_state"] is not None:
            assert found["status"] != "ERROR" and time.monotonic() < limit, (wanted, found)
            time.sleep(PERIOD)
        return found

    def act(self, id: str, wanted: str, /, **action: Any) -> Any:
        answer = self.good("POST", f"{SERVERS}/{id}/action", action)
        self.becomes(id, wanted)
        return answer

    def act_through_a_kill(self, id: str, wanted: str, /, **action: Any) -> Any:
        """In the middle of it the process is killed."""
        answer = self.good("POST", f"{SERVERS}/{id}/action", action)
        time.sleep(0.2)
        self.cloud.kill()
        self.cloud.start()
        self.becomes(id, wanted)
        return answer

    def cut(self) -> None:
        """The guest's process, as if its host had died."""
        for file in self.runtime_dir.glob("*.pid"):
            os.kill(there(processes.find(file)), signal.SIGKILL)

    def pool(self) -> list[str]:
        """What is in it, with its trash; an image by the beginning of its name."""
        words = (("ls",), ("trash", "ls"))
        kept, gone = (orjson.loads(self.cluster.rbd(*each, self.place, "--format=json")) for each in words)
        return sorted(name.partition("-")[0] for name in (*kept, *(each["name"] for each in gone)))

    def size(self, id: str) -> int:
        return int(orjson.loads(self.cluster.rbd("info", f"{self.place}/root-{id}", "--format=json"))["size"]) >> 30


@pytest.fixture
def story(cluster: Cluster, namespace: str, tmp_path: Path, runtime_dir: Path) -> Iterator[Story]:
    words = {"monitor": cluster.monitor, "user": USER, "keyring": cluster.keyring, "namespace": namespace}
    cloud = LiveCloud(tmp_path, TOML.format(runtime_dir=runtime_dir, **words))
    cloud.start()
    yield Story(cloud, cluster, namespace, runtime_dir)
    cloud.kill()


@pytest.mark.slow
def test_a_server_is_booted_changed_copied_evacuated_and_leaves_nothing(story: Story) -> None:
    image, flavor, larger = story.image(), story.flavor(1), story.flavor(2)
    wish = {"name": "tiny", "imageRef": image, "flavorRef": flavor, "networks": "none", "host": "east"}
    ends = time.monotonic() + PATIENCE
    # On a busy machine the cloud answers before it has looked for its hosts.
    while not story.good("GET", "/compute/v2.1/os-hypervisors")["hypervisors"] and time.monotonic() < ends:
        time.sleep(0.2)
    id = story.good("POST", SERVERS, {"server": wish})["server"]["id"]
    story.becomes(id, "ACTIVE")
    assert (story.pool(), story.size(id)) == (["image", "root"], 1)
    story.act(id, "ACTIVE", reboot={"type": "HARD"})

    copy = story.act_through_a_kill(id, "ACTIVE", createImage={"name": "copy"})["image_id"]
    while story.good("GET", f"{IMAGES}/{copy}")["status"] != "active":
        time.sleep(PERIOD)
    assert story.good("GET", f"{IMAGES}/{copy}")["disk_format"] == "qcow2"
    story.act_through_a_kill(id, "ACTIVE", rebuild={"imageRef": copy})
    assert story.pool() == ["image", "root"]

    story.act_through_a_kill(id, "VERIFY_RESIZE", resize={"flavorRef": larger})
    story.act(id, "ACTIVE", confirmResize=None)
    assert story.size(id) == 2

    story.act(id, "RESCUE", rescue={})
    story.act(id, "ACTIVE", unrescue=None)
    assert story.pool() == ["image", "root"]

    story.act_through_a_kill(id, "SHELVED_OFFLOADED", shelve=None)
    assert story.pool() == []
    story.act_through_a_kill(id, "ACTIVE", unshelve=None)
    assert (story.pool(), story.size(id)) == (["image", "root"], 2)

    host = story.server(id)["OS-EXT-SRV-ATTR:host"]
    services = story.good("GET", "/compute/v2.1/os-services?binary=nova-compute")["services"]
    (service,) = [each["id"] for each in services if each["host"] == host]
    story.cut()
    story.becomes(id, "SHUTOFF")
    story.good("PUT", f"/compute/v2.1/os-services/{service}", {"forced_down": True})
    disk = orjson.loads(story.cluster.rbd("info", f"{story.place}/root-{id}", "--format=json"))["id"]
    story.act_through_a_kill(id, "SHUTOFF", evacuate={"host": "west" if host == "east" else "east"})
    assert story.server(id)["OS-EXT-SRV-ATTR:host"] != host
    assert orjson.loads(story.cluster.rbd("info", f"{story.place}/root-{id}", "--format=json"))["id"] == disk

    story.good("DELETE", f"{SERVERS}/{id}")
    time.sleep(0.1)
    story.cloud.kill()
    story.cloud.start()
    limit = time.monotonic() + PATIENCE
    while story.cloud.ask("GET", f"{SERVERS}/{id}", None, "admin")[0] != 404:
        assert time.monotonic() < limit
        time.sleep(PERIOD)
    assert story.pool() == []
