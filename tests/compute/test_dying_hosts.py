"""What is left when a host dies while it makes, or gives up, a guest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from cloudctl.compute.kinds import UNSHELVE
from cloudctl.compute.states import SHELVED_OFFLOADED, SHUTDOWN
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.drivers.errors import HostDown
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.specs import Power
from cloudctl.tasks.tables import TaskRow
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import Asking, audited, refusal
from tests.compute.test_lost_guests import host_of, under_way, used
from tests.there import there

FROM_VOLUME = {"source_type": "image", "destination_type": "volume", "volume_size": 1, "boot_index": 0}


def dies(admin: Asking, server_id: str, hypervisor: FakeHypervisor) -> str:
    """The host on which the guest is being started, which dies meanwhile."""
    admin.cloud.advance(2)
    host = there(hypervisor.guests.get(server_id)).spec.host
    hypervisor.fail_host(host)
    admin.cloud.advance(3)
    hypervisor.behaviour.delay("ensure_running", 0.0)
    return host


def declare_dead(admin: Asking, host: str) -> None:
    body = {"host": host, "binary": "nova-compute", "forced_down": True}
    assert admin.put("/os-services/force-down", body, "2.11").status == 200


def dies_in_a_boot(admin: Asking, hypervisor: FakeHypervisor, **wishes: Any) -> tuple[str, str]:
    hypervisor.behaviour.delay("ensure_running", 5.0)
    server_id = str(admin.create(**wishes).json()["server"]["id"])
    return server_id, dies(admin, server_id, hypervisor)


def plugged(network: FakeNetworkBackend) -> list[tuple[str, ...]]:
    return [each.hosts for each in network.ports.values()]


@pytest.mark.parametrize("from_volume", [False, True])
def test_a_boot_goes_on_elsewhere_once_its_host_is_dead(
    admin: Asking, hypervisor: FakeHypervisor, network: FakeNetworkBackend, from_volume: bool
) -> None:
    """On a host that is only silent the guest may run, and two of them would write to one disk."""
    device = FROM_VOLUME | {"uuid": admin.image}
    wishes = {"imageRef": None, "block_device_mapping_v2": [device]} if from_volume else {}
    server_id, host = dies_in_a_boot(admin, hypervisor, **wishes)
    admin.cloud.advance(60)
    assert (admin.status(server_id), host_of(admin, server_id)) == ("BUILD", host)
    assert there(hypervisor.guests.get(server_id)).spec.host == host
    declare_dead(admin, host)
    admin.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), host_of(admin, server_id)) == ("ACTIVE", found.spec.host)
    assert found.power is Power.RUNNING and found.spec.host != host
    assert (used(admin), plugged(network)) == (1, [(found.spec.host,)])
    assert not admin.cloud.transact(under_way)


def test_a_boot_goes_on_when_its_host_answers_again(admin: Asking, hypervisor: FakeHypervisor) -> None:
    server_id, host = dies_in_a_boot(admin, hypervisor)
    admin.cloud.advance(6)
    hypervisor.recover_host(host)
    admin.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), host_of(admin, server_id), used(admin)) == ("ACTIVE", found.spec.host, 1)


def test_a_boot_that_is_deleted_then_does_not_wait(admin: Asking, hypervisor: FakeHypervisor) -> None:
    server_id, host = dies_in_a_boot(admin, hypervisor)
    hypervisor.behaviour.fail("ensure_defined", times=None, error=HostDown("all are down"))
    assert admin.delete(f"/servers/{server_id}").status == 204
    admin.cloud.advance(10)
    assert admin.status(server_id) == "gone" and not admin.cloud.transact(under_way)
    hypervisor.recover_host(host)
    assert audited(admin.cloud) == ["guest-left-behind"]
    admin.cloud.settle()
    assert hypervisor.guests.get(server_id) is None


def offloaded(admin: Asking, **wishes: Any) -> str:
    server_id = admin.boot(**wishes)
    assert admin.act(server_id, {"shelve": None}).status == 202
    admin.cloud.settle()
    return server_id


@pytest.mark.parametrize("from_volume", [False, True])
def test_a_server_is_unshelved_elsewhere_once_its_host_is_dead(
    admin: Asking, hypervisor: FakeHypervisor, from_volume: bool
) -> None:
    device = FROM_VOLUME | {"uuid": admin.image}
    wishes = {"imageRef": None, "block_device_mapping_v2": [device]} if from_volume else {}
    server_id = offloaded(admin, **wishes)
    hypervisor.behaviour.delay("ensure_running", 5.0)
    assert admin.act(server_id, {"unshelve": None}).status == 202
    host = dies(admin, server_id, hypervisor)
    admin.cloud.advance(60)
    assert there(hypervisor.guests.get(server_id)).spec.host == host
    declare_dead(admin, host)
    admin.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), host_of(admin, server_id), used(admin)) == ("ACTIVE", found.spec.host, 1)
    assert found.power is Power.RUNNING and found.spec.host != host


@pytest.fixture
def keeping() -> Iterator[tuple[Asking, FakeHypervisor]]:
    """An administrator of a cloud whose shelved servers keep their hosts until they are offloaded."""
    cloud = MemoryCloud({"compute": {"shelved_offload_time": -1}})
    hypervisor = cloud.cloud.drivers.hypervisor
    assert isinstance(hypervisor, FakeHypervisor)
    yield Asking(cloud.client("admin")), hypervisor
    cloud.close()


def test_a_shelved_server_leaves_a_dead_host(keeping: tuple[Asking, FakeHypervisor]) -> None:
    """Its disk is an image, and its guest off. It stayed there, and could be used only when the host was back."""
    admin, hypervisor = keeping
    server_id = offloaded(admin)
    host, made = host_of(admin, server_id), there(hypervisor.guests.get(server_id))
    hypervisor.fail_host(host)
    admin.cloud.advance(11)
    refused = admin.act(server_id, {"unshelve": None})
    assert refusal(refused) == (409, "conflictingRequest", "Service is unavailable at this time.")
    assert admin.act(server_id, {"shelveOffload": None}).status == 202
    admin.cloud.settle()
    assert (admin.status(server_id), host_of(admin, server_id), used(admin)) == ("SHELVED_OFFLOADED", "None", 0)
    hypervisor.recover_host(host)
    admin.cloud.advance(11)
    for other in {f"fake-{number}" for number in (1, 2, 3)} - {host}:
        hypervisor.fail_host(other)
    admin.cloud.advance(11)
    assert admin.act(server_id, {"unshelve": None}).status == 202
    admin.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), host_of(admin, server_id), found.spec.host) == ("ACTIVE", host, host)
    # It has the disk that was kept, not the one that the host had left.
    assert found.spec.image != made.spec.image and not found.log.startswith(made.log)


def dies_in_an_unshelving(admin: Asking, hypervisor: FakeHypervisor) -> str:
    """A server that was being unshelved on the host that it had kept, which is silent now."""
    server_id = offloaded(admin)
    hypervisor.behaviour.delay("ensure_running", 5.0)
    assert admin.act(server_id, {"unshelve": None}).status == 202
    dies(admin, server_id, hypervisor)
    return server_id


def test_a_server_that_cannot_be_unshelved_on_a_dead_host_can_leave_it(keeping: tuple[Asking, FakeHypervisor]) -> None:
    """The undo was held, and nothing could be done with the server until its host was back."""
    admin, hypervisor = keeping
    server_id = dies_in_an_unshelving(admin, hypervisor)
    host = host_of(admin, server_id)
    admin.cloud.advance(60)
    assert admin.server(server_id)["OS-EXT-STS:task_state"] == "unshelving"
    declare_dead(admin, host)
    admin.cloud.settle()
    assert (admin.status(server_id), host_of(admin, server_id)) == ("SHELVED", host)
    assert not admin.cloud.transact(under_way)
    for action in ("shelveOffload", "unshelve"):
        assert admin.act(server_id, {action: None}).status == 202
        admin.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), host_of(admin, server_id), used(admin)) == ("ACTIVE", found.spec.host, 1)
    assert found.power is Power.RUNNING and found.spec.host != host


def test_a_server_that_was_being_unshelved_on_a_silent_host_is_deleted(keeping: tuple[Asking, FakeHypervisor]) -> None:
    admin, hypervisor = keeping
    server_id = dies_in_an_unshelving(admin, hypervisor)
    assert admin.delete(f"/servers/{server_id}").status == 204
    admin.cloud.settle()
    assert admin.status(server_id) == "gone" and not admin.cloud.transact(under_way)


def test_what_a_dead_host_kept_of_a_shelved_server_is_removed(keeping: tuple[Asking, FakeHypervisor]) -> None:
    admin, hypervisor = keeping
    server_id = offloaded(admin)
    host = host_of(admin, server_id)
    hypervisor.fail_host(host)
    assert admin.act(server_id, {"shelveOffload": None}).status == 202
    admin.cloud.settle()
    hypervisor.recover_host(host)
    assert audited(admin.cloud) == ["guest-left-behind"]
    admin.cloud.settle()
    assert hypervisor.guests.get(server_id) is None and audited(admin.cloud) == []


def is_shelved(conn: Connection, server_id: str) -> None:
    """As after the restore of a database in which the server is still shelved."""
    last = select(TaskRow.id).where(TaskRow.kind == UNSHELVE.name).order_by(TaskRow.id.desc()).limit(1)
    conn.execute(delete(TaskRow).where(TaskRow.id == conn.scalar(last)))
    values = {"host": None, "vm_state": SHELVED_OFFLOADED, "power_state": SHUTDOWN}
    conn.execute(update(Server).where(Server.id == server_id).values(**values))


@pytest.mark.parametrize("was_left_before", [False, True])
def test_a_guest_that_nobody_left_behind_is_not_removed(
    admin: Asking, hypervisor: FakeHypervisor, was_left_before: bool
) -> None:
    server_id = admin.boot()
    for _ in range(2):
        if was_left_before:
            hypervisor.behaviour.fail("ensure_absent", error=HostDown("it is silent"))
            was_left_before = False
        for action in ("shelve", "unshelve"):
            assert admin.act(server_id, {action: None}).status == 202
            admin.cloud.settle()
            if action == "shelve":
                audited(admin.cloud)
                admin.cloud.settle()
    assert admin.status(server_id) == "ACTIVE"
    admin.cloud.transact(is_shelved, server_id)
    assert audited(admin.cloud) == ["guest-unexpected"]
    admin.cloud.settle()
    assert there(hypervisor.guests.get(server_id)).power is Power.RUNNING


def test_what_could_not_be_undone_is_not_begun_on_a_dead_host(admin: Asking, hypervisor: FakeHypervisor) -> None:
    """It was held: the volume was being attached, or the server shelved, until an operator saw to it."""
    server_id, volume_id = admin.boot(), admin.volume()
    hypervisor.fail_host(host_of(admin, server_id))
    admin.cloud.advance(11)
    for path, body in (
        ("os-volume_attachments", {"volumeAttachment": {"volumeId": volume_id}}),
        ("os-interface", {"interfaceAttachment": {"net_id": admin.network}}),
        ("action", {"shelve": None}),
    ):
        refused = admin.post(f"/servers/{server_id}/{path}", body)
        assert refusal(refused) == (409, "conflictingRequest", "Service is unavailable at this time."), path
    found = admin.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert (admin.volume_status(volume_id), len(admin.ports)) == ("available", 1)
