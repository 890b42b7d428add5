"""Volumes that go to another backend while a server uses them. Reference: volume-states.md, section 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve
from zope.interface import classImplementsOnly, implementedBy

from cloudctl import tasks
from cloudctl.drivers.backends import Backends
from cloudctl.drivers.errors import InUse
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.drivers.interfaces import ISwapVolume
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import Response
from tests.compute.asking import LATEST, Asking
from tests.there import there

V3 = "/volume/v3"
TABLES = {
    "drivers": {"volume": {"fast": "fake", "large": "fake"}},
    "driver": {"volume": {"fast": {"total_gib": 10}, "large": {"total_gib": 100}}},
}
FAST, LARGE = "cloudctl@fast#fast", "cloudctl@large#large"
ON_DEMAND = {"new_type": "fast", "migration_policy": "on-demand"}


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud(TABLES)
    yield made
    made.close()


@pytest.fixture
def at(cloud: MemoryCloud) -> dict[str, FakeVolumeBackend]:
    """Pool → its driver."""
    found = cloud.cloud.drivers.volume
    assert isinstance(found, Backends)
    return {name: each for name, each in found.at.items() if isinstance(each, FakeVolumeBackend)}


@pytest.fixture
def used(demo: Asking, admin: Asking, at: dict[str, FakeVolumeBackend]) -> tuple[str, str]:
    """A server and its volume with content, and a type for the other backend."""
    wish = {"name": "fast", "extra_specs": {"volume_backend_name": "fast"}}
    assert admin.client.post(f"{V3}/types", {"volume_type": wish}).status == 200
    server_id, volume_id = demo.boot(), demo.volume()
    disk = there(at[LARGE].volumes.get(volume_id))
    at[LARGE].volumes.put(volume_id, evolve(disk, head="content"))
    attach(demo, server_id, volume_id)
    return server_id, volume_id


def attach(demo: Asking, server_id: str, volume_id: str) -> None:
    path = f"/servers/{server_id}/os-volume_attachments"
    assert demo.post(path, {"volumeAttachment": {"volumeId": volume_id}}).status == 200
    demo.cloud.settle()


def act(asking: Asking, volume_id: str, action: str, body: Any) -> Response:
    return asking.client.post(f"{V3}/volumes/{volume_id}/action", {action: body})


def shown(admin: Asking, volume_id: str) -> tuple[str, str | None, str, str]:
    found = admin.client.get(f"{V3}/volumes/{volume_id}").json()["volume"]
    return found["status"], found["migration_status"], found["os-vol-host-attr:host"], found["volume_type"]


def test_a_guest_is_led_to_where_its_volume_goes(
    demo: Asking, admin: Asking, used: tuple[str, str], hypervisor: FakeHypervisor, at: dict[str, FakeVolumeBackend]
) -> None:
    server_id, volume_id = used
    hypervisor.behaviour.delay("ensure_volume_swapped", 60.0)
    assert act(demo, volume_id, "os-migrate_volume", {"host": FAST}).status == 403
    assert act(admin, volume_id, "os-migrate_volume", {"host": FAST}).status == 202
    demo.cloud.advance(1)
    demo.cloud.advance(10)
    # It is in use all the while, and stays where it is used.
    assert shown(admin, volume_id) == ("in-use", "migrating", LARGE, "__DEFAULT__")
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    assert demo.delete(path).status == 409
    assert act(admin, volume_id, "os-migrate_volume", {"host": FAST}).status == 409
    assert demo.client.post(f"{V3}/snapshots", {"snapshot": {"volume_id": volume_id, "force": True}}).status == 409
    (action,) = (each for each in _actions(demo, server_id) if each["action"] == "swap_volume")
    assert (action["message"], action["instance_uuid"]) == (None, server_id)
    demo.cloud.settle()
    assert shown(admin, volume_id) == ("in-use", "success", FAST, "__DEFAULT__")
    guest, disk = there(hypervisor.guests.get(server_id)), there(at[FAST].volumes.get(volume_id))
    assert (disk.head, disk.hosts, at[LARGE].volumes.get(volume_id)) == ("content", (guest.spec.host,), None)
    (connection,) = guest.spec.volumes
    assert (connection.info["data"]["backend"], connection.device) == ("fast", "/dev/vdb")
    (event,) = demo.get(f"/servers/{server_id}/os-instance-actions/{action['request_id']}", LATEST).json()[
        "instanceAction"
    ]["events"]
    assert (event["event"], event["result"]) == ("compute_swap_volume", "Success")
    # Everything else is done with it where it is now.
    demo.post(f"/servers/{server_id}/action", {"reboot": {"type": "HARD"}})
    demo.cloud.settle()
    (connection,) = there(hypervisor.guests.get(server_id)).spec.volumes
    assert connection.info["data"]["backend"] == "fast"
    assert demo.delete(path).status == 202
    demo.cloud.settle()
    assert (shown(admin, volume_id)[0], there(at[FAST].volumes.get(volume_id)).hosts) == ("available", ())


def _actions(demo: Asking, server_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"]
    return found


def test_nobody_else_gets_a_shared_volume_that_is_on_its_way(
    demo: Asking, admin: Asking, hypervisor: FakeHypervisor, at: dict[str, FakeVolumeBackend]
) -> None:
    wish = {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}
    assert admin.client.post(f"{V3}/types", {"volume_type": wish}).status == 200
    one, other, volume_id = demo.boot(), demo.boot(), demo.volume(volume_type="shared")
    attach(demo, one, volume_id)
    hypervisor.behaviour.delay("ensure_volume_swapped", 60.0)
    source = shown(admin, volume_id)[2]
    target = FAST if source == LARGE else LARGE
    assert act(admin, volume_id, "os-migrate_volume", {"host": target}).status == 202
    demo.cloud.advance(1)
    # Its guest would have what is left behind.
    body = {"volumeAttachment": {"volumeId": volume_id}}
    assert demo.post(f"/servers/{other}/os-volume_attachments", body, "2.60").status == 409
    for server_id in (one, other):
        wanted = {"attachment": {"volume_uuid": volume_id, "instance_uuid": server_id}}
        headers = {"OpenStack-API-Version": "volume 3.44"}
        assert demo.client.post(f"{V3}/attachments", wanted, headers=headers).status == 409
    assert act(demo, volume_id, "os-attach", {"instance_uuid": other, "mountpoint": "/dev/vdb"}).status == 409
    assert act(demo, volume_id, "os-reserve", None).status == 409
    demo.cloud.settle()
    assert shown(admin, volume_id) == ("in-use", "success", target, "shared")
    assert demo.post(f"/servers/{other}/os-volume_attachments", body, "2.60").status == 200


def test_a_new_type_takes_it_there(demo: Asking, admin: Asking, used: tuple[str, str]) -> None:
    _, volume_id = used
    assert act(demo, volume_id, "os-retype", ON_DEMAND).status == 202
    assert shown(admin, volume_id)[0] == "retyping"
    demo.cloud.settle()
    assert shown(admin, volume_id) == ("in-use", "success", FAST, "fast")


def test_what_only_the_guest_can_read_is_brought_over_by_its_hypervisor(
    demo: Asking, admin: Asking, used: tuple[str, str], hypervisor: FakeHypervisor, at: dict[str, FakeVolumeBackend]
) -> None:
    _, volume_id = used
    at[LARGE].behaviour.fail("ensure_exported", error=InUse(volume_id))
    assert act(admin, volume_id, "os-migrate_volume", {"host": FAST}).status == 202
    demo.cloud.settle()
    assert shown(admin, volume_id) == ("in-use", "success", FAST, "__DEFAULT__")
    assert at[FAST].behaviour.calls["ensure_imported"] == 0
    assert hypervisor.behaviour.calls["ensure_volume_swapped"] == 1


@pytest.mark.parametrize("power", ["running", "off", "paused", "suspended"])
@pytest.mark.parametrize("is_readable", [True, False])
def test_a_copy_is_exact_only_if_the_guest_was_off_before_it_was_begun(
    demo: Asking,
    admin: Asking,
    used: tuple[str, str],
    at: dict[str, FakeVolumeBackend],
    monkeypatch: pytest.MonkeyPatch,
    power: str,
    is_readable: bool,
) -> None:
    server_id, volume_id = used
    told = []

    async def swapped(self: FakeHypervisor, id: str, volume_id: str, info: Any, exact: bool = False) -> None:
        told.append(exact)

    monkeypatch.setattr(FakeHypervisor, "ensure_volume_swapped", swapped)
    actions = {"off": {"os-stop": None}, "paused": {"pause": None}, "suspended": {"suspend": None}}
    if power in actions:
        assert demo.post(f"/servers/{server_id}/action", actions[power]).status == 202
        demo.cloud.settle()
    if not is_readable:
        at[LARGE].behaviour.fail("ensure_exported", error=InUse(volume_id))
    assert act(admin, volume_id, "os-migrate_volume", {"host": FAST}).status == 202
    demo.cloud.settle()
    assert told == [is_readable and power in ("off", "suspended")]


def test_a_server_that_goes_meanwhile_leaves_the_volume_whole(
    demo: Asking, admin: Asking, used: tuple[str, str], hypervisor: FakeHypervisor, at: dict[str, FakeVolumeBackend]
) -> None:
    server_id, volume_id = used
    hypervisor.behaviour.delay("ensure_volume_swapped", 60.0)
    act(admin, volume_id, "os-migrate_volume", {"host": FAST})
    demo.cloud.advance(1)
    demo.cloud.advance(10)
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    status, migration, host, _ = shown(admin, volume_id)
    assert (status, migration in ("success", "error")) == ("available", True)
    kept, other = (at[FAST], at[LARGE]) if host == FAST else (at[LARGE], at[FAST])
    assert there(kept.volumes.get(volume_id)).hosts == () and other.volumes.get(volume_id) is None
    assert there(kept.volumes.get(volume_id)).head == "content"


def test_a_hypervisor_that_cannot_keeps_it_where_it_is(demo: Asking, admin: Asking, used: tuple[str, str]) -> None:
    _, volume_id = used
    declared = tuple(implementedBy(FakeHypervisor))
    classImplementsOnly(FakeHypervisor, *(each for each in declared if each is not ISwapVolume))
    try:
        assert act(admin, volume_id, "os-migrate_volume", {"host": FAST}).status == 409
        assert act(demo, volume_id, "os-retype", ON_DEMAND).status == 409
    finally:
        classImplementsOnly(FakeHypervisor, *declared)
    assert shown(admin, volume_id) == ("in-use", None, LARGE, "__DEFAULT__")


def test_a_guest_is_led_back_before_its_copy_goes_if_only_the_move_is_cancelled(
    admin: Asking, used: tuple[str, str], hypervisor: FakeHypervisor, at: dict[str, FakeVolumeBackend]
) -> None:
    """On a host that is silent it may run on the copy."""
    server_id, volume_id = used
    hypervisor.behaviour.delay("ensure_volume_swapped", 5.0)
    assert act(admin, volume_id, "os-migrate_volume", {"host": FAST}).status == 202
    admin.cloud.advance(1)
    admin.cloud.advance(1)
    host = there(hypervisor.guests.get(server_id)).spec.host
    hypervisor.fail_host(host)
    admin.cloud.transact(tasks.cancel_open, "volume", volume_id)
    admin.cloud.advance(60)
    assert at[FAST].volumes.get(volume_id) is not None
    hypervisor.recover_host(host)
    admin.cloud.settle()
    assert at[FAST].volumes.get(volume_id) is None
    assert shown(admin, volume_id) == ("in-use", "error", LARGE, "__DEFAULT__")
