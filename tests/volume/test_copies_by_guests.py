"""Copies of volumes that a backend cannot freeze, since guests have them open: their hypervisor makes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from zope.interface import classImplements, classImplementsOnly, implementedBy

from cloudctl.drivers.errors import InUse, InvalidPower, UnknownVolume
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.interfaces import ICaptureAttached
from tests.volume.asking import V3, act, volume
from tests.volume.backing_up import content, fill, held, restore, shown

SERVERS = "/compute/v2.1/servers"
LATEST = {"OpenStack-API-Version": "compute latest"}


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """The guest and the volume of each copy, which holds another text than the backend has."""
    made: list[tuple[str, str]] = []

    async def ensure_volume_captured(self: FakeHypervisor, id: str, volume_id: str, path: str) -> str:
        if volume_id not in (await self.observe(id)).volume_ids:
            raise UnknownVolume(volume_id)
        made.append((id, volume_id))
        Path(path).write_text(content("g"))
        return "raw"

    # mypy does not see what is given to the class for a while.
    say: Any = classImplements
    before = tuple(implementedBy(FakeHypervisor))
    monkeypatch.setattr(FakeHypervisor, "ensure_volume_captured", ensure_volume_captured, raising=False)
    say(FakeHypervisor, ICaptureAttached)
    yield made
    classImplementsOnly(FakeHypervisor, *before)


@pytest.fixture
def server(demo: Any, cloud: Any) -> str:
    image = demo.get("/image/v2/images").json()["images"][0]["id"]
    flavor = demo.get("/compute/v2.1/flavors").json()["flavors"][0]["id"]
    wish = {"name": "one", "imageRef": image, "flavorRef": flavor, "networks": "none"}
    made = demo.post(SERVERS, {"server": wish}, headers=LATEST).json()["server"]["id"]
    cloud.settle()
    return str(made)


@pytest.fixture
def open_volume(make: Any, demo: Any, cloud: Any, backend: Any, server: str) -> str:
    """One that the server has, and that cannot be frozen."""
    id = str(make()["id"])
    fill(backend, id, content("a"))
    demo.post(f"{SERVERS}/{server}/os-volume_attachments", {"volumeAttachment": {"volumeId": id}})
    cloud.settle()
    assert volume(demo, id)["status"] == "in-use"
    backend.behaviour.fail("ensure_snapshot", times=None, error=InUse("it is open in a running guest"))
    return id


def backed_up(demo: Any, cloud: Any, volume_id: str) -> Any:
    made = demo.post(f"{V3}/backups", {"backup": {"volume_id": volume_id, "force": True}}).json()["backup"]
    cloud.settle()
    assert volume(demo, volume_id)["status"] == "in-use"
    return shown(demo, made["id"])


def test_a_backup_has_what_the_guest_has(
    demo: Any, cloud: Any, backend: Any, server: str, open_volume: str, copies: list[tuple[str, str]]
) -> None:
    found = backed_up(demo, cloud, open_volume)
    assert (found["status"], copies) == ("available", [(server, open_volume)])
    restored = restore(demo, found["id"]).json()["restore"]["volume_id"]
    cloud.settle()
    assert held(backend, restored) == content("g")


def test_one_whose_guest_has_gone_off_meanwhile_is_frozen_after_all(
    demo: Any, cloud: Any, backend: Any, open_volume: str, copies: list[tuple[str, str]], monkeypatch: Any
) -> None:
    async def off(self: FakeHypervisor, id: str, volume_id: str, path: str) -> str:
        backend.behaviour.clear()
        raise InvalidPower("it is off")

    monkeypatch.setattr(FakeHypervisor, "ensure_volume_captured", off)
    found = backed_up(demo, cloud, open_volume)
    assert (found["status"], copies, backend.frozen.values()) == ("available", [], [])
    restored = restore(demo, found["id"]).json()["restore"]["volume_id"]
    cloud.settle()
    assert held(backend, restored) == content("a")


def test_an_image_that_is_raw_has_what_the_guest_has_and_no_other(
    demo: Any, cloud: Any, server: str, open_volume: str, copies: list[tuple[str, str]]
) -> None:
    found = {}
    for disk_format in ("raw", "qcow2"):
        wish = {"image_name": disk_format, "disk_format": disk_format, "force": True}
        made = act(demo, open_volume, "os-volume_upload_image", wish).json()["os-volume_upload_image"]["image_id"]
        cloud.settle()
        assert volume(demo, open_volume)["status"] == "in-use"
        found[disk_format] = demo.get(f"/image/v2/images/{made}")
    assert (found["raw"].json()["status"], found["qcow2"].status) == ("active", 404)
    assert copies == [(server, open_volume)]


def test_without_such_a_hypervisor_it_is_refused(demo: Any, cloud: Any, open_volume: str) -> None:
    found = backed_up(demo, cloud, open_volume)
    assert found["status"] == "error" and "it is open in a running guest" in found["fail_reason"]
