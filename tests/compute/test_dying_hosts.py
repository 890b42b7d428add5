"""What is left when a host dies while it makes, or gives up, a guest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import update

from cloudctl.compute.states import SHELVED_OFFLOADED, SHUTDOWN
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.drivers.errors import HostDown
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.drivers.specs import Power
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


def dies_in_a_boot(admin: Asking, hypervisor: FakeHypervisor, **wishes: Any) -> tuple[str, str]:
    hypervisor.behaviour.delay("ensure_running", 5.0)
    server_id = str(admin.create(**wishes).json()["server"]["id"])
    return server_id, dies(admin, server_id, hypervisor)


def plugged(network: FakeNetworkBackend) -> list[tuple[str, ...]]:
    return [each.hosts for each in network.ports.values()]


def test_a_boot_goes_on_elsewhere(admin: Asking, hypervisor: FakeHypervisor, network: FakeNetworkBackend) -> None:
    """It was held, though there were other hosts."""
    server_id, host = dies_in_a_boot(admin, hypervisor)
    admin.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), host_of(admin, server_id)) == ("ACTIVE", found.spec.host)
    assert found.power is Power.RUNNING and found.spec.host != host
    assert (used(admin), plugged(network)) == (1, [(found.spec.host,)])
    assert not admin.cloud.transact(under_way)


def test_a_guest_that_may_write_to_volumes_is_not_begun_elsewhere_too(
    admin: Asking, hypervisor: FakeHypervisor, volumes: FakeVolumeBackend, network: FakeNetworkBackend
) -> None:
    """Whether it runs where it was begun is unknown. When the host is back, what it had made is removed there."""
    device = FROM_VOLUME | {"uuid": admin.image, "delete_on_termination": True}
    server_id, host = dies_in_a_boot(admin, hypervisor, imageRef=None, block_device_mapping_v2=[device])
    admin.cloud.settle()
    found = admin.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"], host_of(admin, server_id)) == ("ERROR", None, "None")
    assert f"host {host} is down" in found["fault"]["message"]
    assert (used(admin), plugged(network), list(volumes.volumes.values())) == (0, [], [])
    assert not admin.cloud.transact(under_way) and audited(admin.cloud) == []
    hypervisor.recover_host(host)
    assert audited(admin.cloud) == ["guest-left-behind"]
    admin.cloud.settle()
    assert hypervisor.guests.get(server_id) is None and audited(admin.cloud) == []


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


def test_a_server_is_unshelved_elsewhere(admin: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = offloaded(admin)
    hypervisor.behaviour.delay("ensure_running", 5.0)
    assert admin.act(server_id, {"unshelve": None}).status == 202
    host = dies(admin, server_id, hypervisor)
    admin.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), host_of(admin, server_id), used(admin)) == ("ACTIVE", found.spec.host, 1)
    assert found.power is Power.RUNNING and found.spec.host != host


def test_a_server_with_volumes_stays_shelved(admin: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = offloaded(admin, imageRef=None, block_device_mapping_v2=[FROM_VOLUME | {"uuid": admin.image}])
    hypervisor.behaviour.delay("ensure_running", 5.0)
    assert admin.act(server_id, {"unshelve": None}).status == 202
    host = dies(admin, server_id, hypervisor)
    admin.cloud.settle()
    assert (admin.status(server_id), host_of(admin, server_id), used(admin)) == ("SHELVED_OFFLOADED", "None", 0)
    hypervisor.recover_host(host)
    assert audited(admin.cloud) == ["guest-left-behind"]
    admin.cloud.settle()
    assert hypervisor.guests.get(server_id) is None
    assert admin.act(server_id, {"unshelve": None}).status == 202
    admin.cloud.settle()
    assert admin.status(server_id) == "ACTIVE"


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


def test_a_guest_that_nobody_left_behind_is_not_removed(demo: Asking, hypervisor: FakeHypervisor) -> None:
    """As after the restore of a database in which its server is still shelved."""
    server_id = demo.boot()

    def shelved(conn: Connection) -> None:
        values = {"host": None, "vm_state": SHELVED_OFFLOADED, "power_state": SHUTDOWN}
        conn.execute(update(Server).where(Server.id == server_id).values(**values))

    demo.cloud.transact(shelved)
    assert audited(demo.cloud) == ["guest-unexpected"]
    demo.cloud.settle()
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
