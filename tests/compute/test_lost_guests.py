"""Guests that are gone, or whose host is, while they are to be moved with their disks."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.db import Connection
from cloudctl.drivers.errors import Unreachable
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.drivers.specs import Power
from cloudctl.tasks import queue
from cloudctl.tasks.tables import HELD, OPEN, TaskRow
from tests.compute.asking import Asking, audited, refusal
from tests.there import there


@pytest.fixture
def server_id(demo: Asking) -> str:
    return demo.boot()


def host_of(admin: Asking, server_id: str) -> str:
    return str(admin.server(server_id)["OS-EXT-SRV-ATTR:host"])


def used(admin: Asking) -> int:
    """vCPUs that are promised on all hosts."""
    return sum(each["vcpus_used"] for each in admin.get("/os-hypervisors/detail").json()["hypervisors"])


@pytest.mark.parametrize("action", [{"migrate": None}, {"resize": {"flavorRef": "2"}}])
def test_a_guest_that_has_vanished_is_not_made_anew(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor, action: Any
) -> None:
    """It ran from an empty disk, and its server was active as if nothing had been lost."""
    before, host = used(admin), host_of(admin, server_id)
    hypervisor.guests.delete(server_id)
    assert admin.act(server_id, action).status == 202
    admin.cloud.settle()
    found = admin.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ERROR", None)
    assert server_id in found["fault"]["message"]
    assert (hypervisor.guests.get(server_id), host_of(admin, server_id), used(admin)) == (None, host, before)


def test_a_guest_is_not_made_anew_where_it_goes_when_its_host_dies_on_the_way(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    """Its disk is where it was: the server is put back there once that host answers."""
    host, made = host_of(admin, server_id), there(hypervisor.guests.get(server_id))
    hypervisor.behaviour.fail("ensure_defined", times=1, error=Unreachable("the way is cut"))
    assert admin.act(server_id, {"migrate": None}).status == 202
    admin.cloud.advance(0.1)
    assert hypervisor.behaviour.calls["ensure_defined"] == 2, "of the boot, and the one that failed"
    hypervisor.fail_host(host)
    admin.cloud.advance(20)
    assert there(hypervisor.guests.get(server_id)).spec.host == host
    hypervisor.recover_host(host)
    admin.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), host_of(admin, server_id), found.spec.host) == ("ACTIVE", host, host)
    assert found.power is Power.RUNNING and found.log.startswith(made.log)


def test_a_guest_whose_disks_are_volumes_arrives_though_its_host_dies_on_the_way(
    admin: Asking, hypervisor: FakeHypervisor
) -> None:
    """It is off by then, and nothing of it is lost with the host."""
    root = {"uuid": admin.image, "source_type": "image", "destination_type": "volume", "volume_size": 1}
    server_id = admin.boot(imageRef=None, block_device_mapping_v2=[{**root, "boot_index": 0}])
    host = host_of(admin, server_id)
    hypervisor.behaviour.fail("ensure_defined", times=1, error=Unreachable("the way is cut"))
    assert admin.act(server_id, {"migrate": None}).status == 202
    admin.cloud.advance(0.1)
    hypervisor.fail_host(host)
    admin.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), host_of(admin, server_id)) == ("VERIFY_RESIZE", found.spec.host)
    assert found.power is Power.RUNNING and found.spec.host != host


MOVES: list[tuple[str, Any]] = [
    ("ensure_stopped", {"migrate": None}),
    ("ensure_stopped", {"resize": {"flavorRef": "2"}}),
    ("ensure_running", {"migrate": None}),
    ("ensure_migrated", {"os-migrateLive": {"host": None, "block_migration": "auto"}}),
]
WORK = [*MOVES, ("ensure_stopped", {"shelve": None})]


def under_way(conn: Connection) -> list[TaskRow]:
    return list(queue.listing(conn, states=(*OPEN, HELD)))


def dies_while_it_works(admin: Asking, server_id: str, hypervisor: FakeHypervisor, method: str, work: Any) -> str:
    """The host that the guest is on, which has died in the midst of this method. `work` names its path if no action."""
    hypervisor.behaviour.delay(method, 5.0)
    path, body = work if isinstance(work, tuple) else ("action", work)
    assert admin.post(f"/servers/{server_id}/{path}", body, "2.30").status in (200, 202)
    admin.cloud.advance(2)
    host = there(hypervisor.guests.get(server_id)).spec.host
    hypervisor.fail_host(host)
    admin.cloud.advance(60)
    hypervisor.behaviour.delay(method, 0.0)
    return host


@pytest.mark.parametrize(("method", "work"), WORK)
def test_an_evacuation_does_not_wait_for_work_to_be_undone_on_the_dead_host(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor, method: str, work: Any
) -> None:
    """It began when the undo was given up, after eleven minutes, and two places were held for ever."""
    host = dies_while_it_works(admin, server_id, hypervisor, method, work)
    assert admin.act(server_id, {"evacuate": {}}, "2.30").status == 200
    admin.cloud.advance(10)
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), host_of(admin, server_id)) == ("ACTIVE", found.spec.host)
    assert (found.power, used(admin)) == (Power.RUNNING, 1) and found.spec.host != host
    assert not admin.cloud.transact(under_way)


def attaching(admin: Asking, method: str, volume_id: str) -> tuple[str, Any]:
    if method == "ensure_volume_attached":
        return "os-volume_attachments", {"volumeAttachment": {"volumeId": volume_id}}
    return "os-interface", {"interfaceAttachment": {"net_id": admin.network}}


ATTACHING = ["ensure_volume_attached", "ensure_port_attached"]


@pytest.mark.parametrize("method", ATTACHING)
def test_what_was_being_attached_when_the_host_died_is_free(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor, method: str
) -> None:
    volume_id, before = admin.volume(), len(admin.ports)
    dies_while_it_works(admin, server_id, hypervisor, method, attaching(admin, method, volume_id))
    assert admin.act(server_id, {"evacuate": {}}, "2.30").status == 200
    admin.cloud.advance(10)
    assert (admin.status(server_id), admin.volume_status(volume_id)) == ("ACTIVE", "available")
    spec = there(hypervisor.guests.get(server_id)).spec
    assert (len(spec.volumes), len(spec.ports), len(admin.ports)) == (0, 1, before)
    assert not admin.cloud.transact(under_way)


@pytest.mark.parametrize(("method", "work"), [*WORK, *((method, None) for method in ATTACHING)])
def test_a_deletion_does_not_wait_for_work_to_be_undone_on_the_dead_host(
    admin: Asking, hypervisor: FakeHypervisor, network: FakeNetworkBackend, method: str, work: Any
) -> None:
    """It began when the undo was given up, after eleven minutes, which was then held for ever."""
    volume_id, other_id = admin.volume(), admin.volume()
    data = {"uuid": volume_id, "source_type": "volume", "destination_type": "volume", "boot_index": -1}
    server_id = admin.boot(block_device_mapping_v2=[data])
    host = dies_while_it_works(admin, server_id, hypervisor, method, work or attaching(admin, method, other_id))
    assert admin.delete(f"/servers/{server_id}").status == 204
    admin.cloud.advance(10)
    assert (admin.status(server_id), used(admin), list(network.ports.values())) == ("gone", 0, [])
    assert (admin.volume_status(volume_id), admin.volume_status(other_id)) == ("available", "available")
    assert not admin.cloud.transact(under_way)
    hypervisor.recover_host(host)
    assert audited(admin.cloud) == ["guest-left-behind"]
    admin.cloud.settle()
    assert hypervisor.guests.get(server_id) is None


@pytest.mark.parametrize(("method", "work"), MOVES)
def test_a_held_undo_of_a_move_does_nothing_to_a_server_that_was_evacuated(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor, method: str, work: Any
) -> None:
    """Retried once the host was back, it recorded the server there, or stopped it and took it there."""
    host = dies_while_it_works(admin, server_id, hypervisor, method, work)
    while (held := admin.cloud.transact(under_way)[0]).state != HELD:
        admin.cloud.advance(30)
    assert admin.act(server_id, {"evacuate": {}}, "2.30").status == 200
    admin.cloud.settle()
    before = there(hypervisor.guests.get(server_id))
    hypervisor.recover_host(host)
    admin.cloud.transact(queue.retry, held.id)
    admin.cloud.settle()
    assert not admin.cloud.transact(under_way)
    assert hypervisor.guests.get(server_id) == before and before.power is Power.RUNNING
    assert (admin.status(server_id), host_of(admin, server_id), used(admin)) == ("ACTIVE", before.spec.host, 1)


@pytest.mark.parametrize("goes_where_it_was_to_go", [True, False])
def test_a_held_live_migration_of_a_server_that_was_evacuated_leaves_nothing_where_it_was_to_go(
    admin: Asking,
    hypervisor: FakeHypervisor,
    network: FakeNetworkBackend,
    volumes: FakeVolumeBackend,
    goes_where_it_was_to_go: bool,
) -> None:
    """Its port and its volume were still there, on a host that it had never been on."""
    data = {"uuid": admin.volume(), "source_type": "volume", "destination_type": "volume", "boot_index": -1}
    server_id = admin.boot(block_device_mapping_v2=[data])
    host = dies_while_it_works(admin, server_id, hypervisor, *MOVES[3])
    while (held := admin.cloud.transact(under_way)[0]).state != HELD:
        admin.cloud.advance(30)
    (migration,) = admin.get("/os-migrations").json()["migrations"]
    other = {"fake-1", "fake-2", "fake-3"} - {host, migration["dest_compute"]}
    chosen = migration["dest_compute"] if goes_where_it_was_to_go else other.pop()
    assert admin.act(server_id, {"evacuate": {"host": chosen}}, "2.30").status == 200
    admin.cloud.settle()
    hypervisor.recover_host(host)
    admin.cloud.transact(queue.retry, held.id)
    admin.cloud.settle()
    assert host_of(admin, server_id) == chosen and not admin.cloud.transact(under_way)
    assert [each.hosts for each in network.ports.values()] == [(chosen,)]
    assert [each.hosts for each in volumes.volumes.values()] == [(chosen,)]


# -- where a server is recorded whose guest has been lost on its way


def dies_on_the_way(admin: Asking, server_id: str, hypervisor: FakeHypervisor, action: Any, host: str) -> None:
    """`host` dies between the two halves of this move: the guest is off, and still where it was."""
    hypervisor.behaviour.fail("ensure_defined", times=1, error=Unreachable("the way is cut"))
    assert admin.act(server_id, action).status == 202
    admin.cloud.advance(0.1)
    hypervisor.fail_host(host)
    admin.cloud.advance(20)


def is_evacuated(admin: Asking, server_id: str, hypervisor: FakeHypervisor, dead: str) -> None:
    assert host_of(admin, server_id) == dead
    assert admin.act(server_id, {"evacuate": {}}, "2.30").status == 200
    admin.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), host_of(admin, server_id), used(admin)) == ("ACTIVE", found.spec.host, 1)
    assert found.power is Power.RUNNING and found.spec.host != dead
    assert not admin.cloud.transact(under_way)


@pytest.mark.parametrize("action", [{"migrate": None}, {"resize": {"flavorRef": "2"}}])
def test_a_server_can_be_evacuated_whose_old_host_dies_on_the_way(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor, action: Any
) -> None:
    """It was recorded where its guest had never come to, on a host that lives, so it was refused, 400."""
    host = host_of(admin, server_id)
    dies_on_the_way(admin, server_id, hypervisor, action, host)
    assert admin.server(server_id)["flavor"]["original_name"] == "m1.tiny"
    is_evacuated(admin, server_id, hypervisor, host)


def test_a_server_can_be_evacuated_that_arrived_on_a_host_that_then_died(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    """Nobody was told that it had arrived: it was recorded on its old host, which has no guest of it any more."""
    hypervisor.behaviour.fail("ensure_migrated", after=True, error=Unreachable("the answer is lost"))
    assert admin.act(server_id, {"os-migrateLive": {"host": None, "block_migration": "auto"}}, "2.30").status == 202
    admin.cloud.advance(0.1)
    host = there(hypervisor.guests.get(server_id)).spec.host
    assert host != host_of(admin, server_id)
    hypervisor.fail_host(host)
    admin.cloud.advance(20)
    is_evacuated(admin, server_id, hypervisor, host)


@pytest.fixture
def resized(admin: Asking, server_id: str) -> tuple[str, str]:
    """The two hosts of a server that was resized: the one that it has left, and the one where it waits."""
    source = host_of(admin, server_id)
    assert admin.act(server_id, {"resize": {"flavorRef": "2"}}).status == 202
    admin.cloud.settle()
    return source, host_of(admin, server_id)


def test_a_server_can_be_evacuated_whose_new_host_dies_while_it_goes_back(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor, resized: tuple[str, str]
) -> None:
    dies_on_the_way(admin, server_id, hypervisor, {"revertResize": None}, resized[1])
    assert admin.status(server_id) == "ERROR"
    assert admin.server(server_id)["flavor"]["original_name"] == "m1.small"
    is_evacuated(admin, server_id, hypervisor, resized[1])


def test_a_server_whose_old_host_dies_while_it_goes_back_is_where_it_was(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor, resized: tuple[str, str]
) -> None:
    """It was recorded on the dead host, though its guest was whole on another one."""
    before = there(hypervisor.guests.get(server_id))
    dies_on_the_way(admin, server_id, hypervisor, {"revertResize": None}, resized[0])
    assert (admin.status(server_id), host_of(admin, server_id), used(admin)) == ("ERROR", resized[1], 1)
    assert admin.act(server_id, {"reboot": {"type": "HARD"}}).status == 202
    admin.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), found.spec.host, found.power) == ("ACTIVE", resized[1], Power.RUNNING)
    assert found.log.startswith(before.log)


@pytest.mark.parametrize("dead", [0, 1])
def test_a_resize_is_not_reverted_while_one_of_the_hosts_is_down(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor, resized: tuple[str, str], dead: int
) -> None:
    """It ended in ERROR. The guest has to be stopped on the one, and taken to the other."""
    hypervisor.fail_host(resized[dead])
    admin.cloud.advance(11)
    refused = admin.act(server_id, {"revertResize": None})
    assert refusal(refused) == (409, "conflictingRequest", "Service is unavailable at this time.")
    assert admin.status(server_id) == "VERIFY_RESIZE"
    hypervisor.recover_host(resized[dead])
    admin.cloud.advance(11)
    assert admin.act(server_id, {"revertResize": None}).status == 202
    admin.cloud.settle()
    assert (admin.status(server_id), host_of(admin, server_id), used(admin)) == ("ACTIVE", resized[0], 1)
