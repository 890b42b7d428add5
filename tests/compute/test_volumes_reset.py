"""Servers with volumes whose state an administrator has reset: what brings them elsewhere goes on."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import Asking
from tests.compute.test_deleted_ports import MOVES, Plugged
from tests.there import there

DETACHED = {"status": "available", "attach_status": "detached"}
DONE = {"migrate": "VERIFY_RESIZE"}
AWAY = ("live", "evacuate", "migrate")


@pytest.fixture
def server(cloud: MemoryCloud, demo: Asking, admin: Asking) -> Plugged:
    return Plugged(demo, admin, demo.boot(), "")


@pytest.fixture
def volume_id(server: Plugged) -> str:
    volume_id = server.demo.volume()
    path = f"/servers/{server.id}/os-volume_attachments"
    assert server.demo.post(path, {"volumeAttachment": {"volumeId": volume_id}}).status == 200
    server.demo.cloud.settle()
    return volume_id


def reset(server: Plugged, volume_id: str, fields: dict[str, Any]) -> None:
    path = f"/volume/v3/volumes/{volume_id}"
    assert server.admin.client.post(f"{path}/action", {"os-reset_status": fields}).status == 202
    if fields != DETACHED:
        # It is still attached.
        assert server.demo.client.delete(path).status == 409
        assert server.admin.client.post(f"{path}/action", {"os-force_delete": {}}).status == 409


def of_guest(server: Plugged, hypervisor: FakeHypervisor, what: str) -> list[tuple[str, str]]:
    """(volume, host) of the volumes of the guest, which is where its server is and as it should be."""
    shown = server.admin.server(server.id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == (DONE.get(what, "ACTIVE"), None)
    guest = there(hypervisor.guests.get(server.id))
    assert guest.spec.host == shown["OS-EXT-SRV-ATTR:host"]
    return [(each.volume_id, each.info["data"]["host"]) for each in guest.spec.volumes]


@pytest.mark.parametrize("fields", [{"status": "available"}, {"status": "error"}], ids=["available", "error"])
@pytest.mark.parametrize("what", MOVES)
def test_a_server_keeps_its_volume_whatever_status_that_is_given(
    server: Plugged, volume_id: str, hypervisor: FakeHypervisor, what: str, fields: dict[str, str]
) -> None:
    before = there(hypervisor.guests.get(server.id)).spec.host
    reset(server, volume_id, fields)
    server.begin(what)
    server.demo.cloud.settle()
    ((found, host),) = of_guest(server, hypervisor, what)
    assert found == volume_id
    assert host == there(hypervisor.guests.get(server.id)).spec.host
    assert (host != before) == (what in AWAY)


@pytest.mark.parametrize("is_gone", [False, True], ids=["free", "deleted"])
@pytest.mark.parametrize("what", MOVES)
def test_a_server_goes_on_without_a_volume_that_is_declared_detached(
    server: Plugged, volume_id: str, hypervisor: FakeHypervisor, what: str, is_gone: bool
) -> None:
    demo = server.demo
    reset(server, volume_id, DETACHED)
    if is_gone:
        assert demo.client.delete(f"/volume/v3/volumes/{volume_id}").status == 202
        demo.cloud.settle()
    before = there(hypervisor.guests.get(server.id)).spec.host
    server.begin(what)
    demo.cloud.settle()
    assert of_guest(server, hypervisor, what) == []
    assert (there(hypervisor.guests.get(server.id)).spec.host != before) == (what in AWAY)
    if what == "migrate":
        assert demo.act(server.id, {"confirmResize": None}).status == 204
        demo.cloud.settle()
    path = f"/servers/{server.id}/os-volume_attachments"
    assert demo.delete(f"{path}/{volume_id}").status == 202
    demo.cloud.settle()
    assert demo.get(path).json() == {"volumeAttachments": []}
    assert demo.volume_status(volume_id) == ("gone" if is_gone else "available")


@pytest.mark.parametrize("halves", (1, 2, 3, 5))
@pytest.mark.parametrize("what", MOVES)
def test_a_volume_that_is_declared_detached_on_the_way_stops_no_server(
    server: Plugged, volume_id: str, hypervisor: FakeHypervisor, what: str, halves: int
) -> None:
    server.begin_slowly(what, halves, hypervisor, server.demo.cloud.cloud.drivers.volume, "connect")
    reset(server, volume_id, DETACHED)
    server.demo.cloud.settle()
    of_guest(server, hypervisor, what)
