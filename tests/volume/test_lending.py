"""What a volume is made from stays as it is until the volume is made, whatever is requested meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.there import there
from tests.volume.asking import V3, act, volume

Make = Callable[..., dict[str, Any]]


def snapshot(demo: Client, volume_id: str) -> str:
    made = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": volume_id}})
    assert made.status == 202
    demo.cloud.settle()
    return str(made.json()["snapshot"]["id"])


@pytest.fixture
def source(backend: FakeVolumeBackend, make: Make) -> str:
    source = str(make()["id"])
    backend.volumes.put(source, evolve(there(backend.volumes.get(source)), head="content"))
    return source


def copying(demo: Client, backend: FakeVolumeBackend, seconds: float = 60.0, **source: str) -> str:
    """A volume that is being made from it, and that takes its time."""
    backend.behaviour.delay("ensure_created", seconds)
    made = demo.post(f"{V3}/volumes", {"volume": source})
    assert made.status == 202
    return str(made.json()["volume"]["id"])


def is_copy(demo: Client, backend: FakeVolumeBackend, id: str) -> bool:
    demo.cloud.settle()
    return (volume(demo, id)["status"], there(backend.volumes.get(id)).head) == ("available", "content")


WAYS: dict[str, tuple[Callable[[Client, Client, str], Any], int | None]] = {
    "delete": (lambda demo, _, id: demo.delete(f"{V3}/volumes/{id}"), None),
    "force": (lambda _, admin, id: act(admin, id, "os-force_delete", {}), None),
    "by compute": (lambda demo, _, id: demo.delete(f"/compute/v2.1/os-volumes/{id}"), None),
    "extend": (lambda demo, _, id: act(demo, id, "os-extend", {"new_size": 7}), 7),
    "unmanage": (lambda _, admin, id: act(admin, id, "os-unmanage", {}), None),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wait", [0.0, 1.5], ids=["at once", "later"])
def test_a_volume_is_copied_as_it_was_accepted(
    cloud: MemoryCloud, demo: Client, admin: Client, backend: FakeVolumeBackend, source: str, way: str, wait: float
) -> None:
    copy = copying(demo, backend, source_volid=source)
    cloud.advance(wait)
    request, size = WAYS[way]
    assert request(demo, admin, source).status == 202
    assert is_copy(demo, backend, copy)
    if size is None:
        assert demo.get(f"{V3}/volumes/{source}").status == 404
    else:
        assert (volume(demo, source)["size"], volume(demo, copy)["size"]) == (size, 1)


@pytest.mark.parametrize("error", [None, DriverError("the disk is full")])
@pytest.mark.parametrize("of", ["volume", "snapshot"])
def test_it_is_returned_as_soon_as_the_copy_is_made_or_has_failed(
    cloud: MemoryCloud, demo: Client, backend: FakeVolumeBackend, source: str, of: str, error: Exception | None
) -> None:
    """A client that waited for the copy, deleted both and then their type was refused for up to a second."""
    id, key = (source, "source_volid") if of == "volume" else (snapshot(demo, source), "snapshot_id")
    copy = copying(demo, backend, 60.3, **{key: id})
    if error is not None:
        backend.behaviour.fail("ensure_created", times=None, error=error)
    for passes in (0.0, 60.3, 0.0):
        cloud.advance(passes)
    assert volume(demo, copy)["status"] == ("available" if error is None else "error")
    assert demo.delete(f"{V3}/{of}s/{id}").status == 202
    cloud.advance(0.0)
    assert demo.get(f"{V3}/{of}s/{id}").status == 404


@pytest.mark.parametrize("way", ["snapshots", "cascade"])
def test_a_snapshot_that_a_volume_is_made_from_goes_afterwards(
    demo: Client, backend: FakeVolumeBackend, source: str, way: str
) -> None:
    origin = snapshot(demo, source)
    copy = copying(demo, backend, snapshot_id=origin)
    path = f"snapshots/{origin}" if way == "snapshots" else f"volumes/{source}?cascade=true"
    assert demo.delete(f"{V3}/{path}").status == 202
    assert is_copy(demo, backend, copy)
    assert demo.get(f"{V3}/snapshots/{origin}").status == 404


def test_a_snapshot_that_a_server_boots_from_goes_afterwards(
    demo: Client, admin: Client, backend: FakeVolumeBackend, source: str
) -> None:
    origin = snapshot(demo, source)
    act(demo, source, "os-set_bootable", {"bootable": True})
    disk = {"source_type": "snapshot", "uuid": origin, "destination_type": "volume", "boot_index": 0}
    wish = {"name": "vm", "flavorRef": "1", "networks": "none", "block_device_mapping_v2": [disk]}
    headers = {"OpenStack-API-Version": "compute 2.37"}
    assert demo.post("/compute/v2.1/servers", {"server": wish}, headers=headers).status == 202
    assert demo.delete(f"{V3}/snapshots/{origin}").status == 202
    demo.cloud.settle()
    (server,) = demo.get("/compute/v2.1/servers/detail").json()["servers"]
    assert server["status"] == "ACTIVE"


def test_copies_of_one_volume_are_made_at_once_and_a_failed_one_keeps_nothing(
    cloud: MemoryCloud, demo: Client, admin: Client, backend: FakeVolumeBackend, source: str
) -> None:
    copies = [copying(demo, backend, source_volid=source) for _ in range(3)]
    cloud.advance(1)
    cloud.advance(60)
    cloud.advance(1)
    assert {volume(demo, each)["status"] for each in copies} == {"available"}
    last = copying(demo, backend, source_volid=source)
    assert demo.delete(f"{V3}/volumes/{source}").status == 202
    assert act(admin, last, "os-force_delete", {}).status == 202
    cloud.advance(1)
    cloud.advance(60)
    cloud.advance(1)
    assert demo.get(f"{V3}/volumes/{source}").status == 404
