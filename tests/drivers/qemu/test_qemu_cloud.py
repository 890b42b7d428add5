"""A cloud with real guests: they outlive it, and it soon knows when one has died."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.qemu import processes
from tests.drivers.qemu import tiny_guest
from tests.live.process import LiveCloud

TOML = """
[drivers]
hypervisor = "qemu"
[driver.hypervisor.qemu]
runtime_dir = "{runtime_dir}"
"""
SERVERS = "/compute/v2.1/servers"


@pytest.fixture
def cloud(tmp_path: Path, runtime_dir: Path) -> Iterator[LiveCloud]:
    made = LiveCloud(tmp_path, TOML.format(runtime_dir=runtime_dir))
    made.start()
    yield made
    made.kill()


def boot(cloud: LiveCloud) -> str:
    wished = {"name": "tiny", "disk_format": "raw", "container_format": "bare"}
    status, image = cloud.ask("POST", "/image/v2/images", wished)
    assert status == 201, image
    bytes_ = {"Content-Type": "application/octet-stream"}
    status, answer = cloud.ask("PUT", f"/image/v2/images/{image['id']}/file", tiny_guest.disk(), **bytes_)
    assert status == 204, answer
    _, flavors = cloud.ask("GET", "/compute/v2.1/flavors/detail?sort_key=memory_mb")
    flavor = min(flavors["flavors"], key=lambda each: each["ram"])
    server = {"name": "tiny", "imageRef": image["id"], "flavorRef": flavor["id"], "networks": "none"}
    microversion = {"OpenStack-API-Version": "compute 2.37"}
    status, answer = cloud.ask("POST", SERVERS, {"server": server}, **microversion)
    assert status == 202, answer
    server_id = str(answer["server"]["id"])
    becomes(cloud, server_id, "ACTIVE")
    return server_id


def status(cloud: LiveCloud, server_id: str) -> Any:
    return cloud.ask("GET", f"{SERVERS}/{server_id}")[1]["server"]["status"]


def becomes(cloud: LiveCloud, server_id: str, wanted: str, seconds: float = 240.0) -> None:
    """Wait until the server is so."""
    began = time.monotonic()
    while (found := status(cloud, server_id)) != wanted:
        assert time.monotonic() < began + seconds and found != "ERROR", f"{found}, not {wanted}"
        time.sleep(0.05)


def pid(runtime_dir: Path) -> int | None:
    (file,) = runtime_dir.glob("*.pid")
    return processes.find(file)


def test_guests_and_their_cloud_die_apart(cloud: LiveCloud, runtime_dir: Path) -> None:
    server_id = boot(cloud)
    number = pid(runtime_dir)
    assert number is not None

    cloud.kill()
    cloud.start()
    assert (pid(runtime_dir), status(cloud, server_id)) == (number, "ACTIVE")

    os.kill(number, signal.SIGKILL)
    becomes(cloud, server_id, "SHUTOFF")

    assert cloud.ask("POST", f"{SERVERS}/{server_id}/action", {"os-start": None})[0] == 202
    becomes(cloud, server_id, "ACTIVE")
    cloud.kill()
    processes.kill(next(runtime_dir.glob("*.pid")))
    cloud.start()
    becomes(cloud, server_id, "SHUTOFF")

    assert cloud.ask("DELETE", f"{SERVERS}/{server_id}")[0] == 204
    began = time.monotonic()
    while cloud.ask("GET", f"{SERVERS}/{server_id}")[0] != 404:
        assert time.monotonic() < began + 240.0
        time.sleep(0.05)
    assert list(runtime_dir.iterdir()) == []
    assert list((cloud.state_dir / "drivers/hypervisor/qemu/guests").iterdir()) == []
