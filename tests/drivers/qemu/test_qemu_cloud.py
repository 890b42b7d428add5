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
from tests.drivers.qcow2.live import MIB, holds
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


BACKENDS = """
[driver.volume.served]
runtime_dir = "{runtime_dir}"
"""


@pytest.fixture
def backends(tmp_path: Path, runtime_dir: Path) -> Iterator[LiveCloud]:
    """A cloud that has volumes in files, and others that are served."""
    toml = TOML.replace("[driver.", 'volume = {{files = "qcow2", served = "nbd"}}\n[driver.', 1) + BACKENDS
    made = LiveCloud(tmp_path, toml.format(runtime_dir=runtime_dir))
    made.start()
    yield made
    made.kill()


def test_a_volume_goes_to_another_backend_while_a_guest_has_it(backends: LiveCloud) -> None:
    def done(method: str, path: str, body: Any = None, user: str = "demo", **headers: str) -> Any:
        status, answer = backends.ask(method, path, body, user, **headers)
        assert status < 300, (path, status, answer)
        return answer

    def volume(wanted: str) -> Any:
        began = time.monotonic()
        while (found := done("GET", f"/volume/v3/volumes/{volume_id}", None, "admin")["volume"])[
            "status"
        ] != wanted or (found["migration_status"] not in (None, "success", "error")):
            assert time.monotonic() < began + 240.0 and "error" not in found["status"], found
            time.sleep(0.05)
        return found

    def disk(backend: str) -> Path:
        return backends.state_dir / "drivers" / "volume" / backend / "volumes" / volume_id / "disk.qcow2"

    wished = {"name": "seven", "disk_format": "raw", "container_format": "bare"}
    image_id = done("POST", "/image/v2/images", wished)["id"]
    octets = {"Content-Type": "application/octet-stream"}
    done("PUT", f"/image/v2/images/{image_id}/file", bytes([7]) * MIB, **octets)
    type_ = {"name": "f", "extra_specs": {"volume_backend_name": "files"}}
    done("POST", "/volume/v3/types", {"volume_type": type_}, "admin")
    wish = {"size": 1, "imageRef": image_id, "volume_type": "f"}
    volume_id = done("POST", "/volume/v3/volumes", {"volume": wish})["volume"]["id"]
    volume("available")
    server_id = boot(backends)
    path = f"{SERVERS}/{server_id}/os-volume_attachments"
    done("POST", path, {"volumeAttachment": {"volumeId": volume_id}})
    volume("in-use")
    for here, there_, action in (("files", "served", None), ("served", "files", "os-stop"), ("files", "served", None)):
        if action is not None:
            done("POST", f"{SERVERS}/{server_id}/action", {action: None})
            becomes(backends, server_id, "SHUTOFF")
        host = f"cloudctl@{there_}#{there_}"
        done("POST", f"/volume/v3/volumes/{volume_id}/action", {"os-migrate_volume": {"host": host}}, "admin")
        found = volume("in-use")
        assert (found["migration_status"], found["os-vol-host-attr:host"]) == ("success", host)
        assert disk(there_).exists() and not disk(here).exists()
    done("POST", f"{SERVERS}/{server_id}/action", {"os-start": None})
    becomes(backends, server_id, "ACTIVE")
    done("DELETE", f"{path}/{volume_id}")
    volume("available")
    assert holds(disk("served"), 7)
