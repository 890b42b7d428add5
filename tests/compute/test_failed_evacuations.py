"""Servers of dead hosts that cannot be made anew: what is left of them is where they were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import frozen

from cloudctl.drivers.errors import Busy, DriverError, HostDown, NoCapacity, Unreachable
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.drivers.specs import Power
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import Asking, audited
from tests.compute.test_server_images_api import other_image
from tests.compute.test_server_moves_api import evacuate, host, migrations, used
from tests.there import there


@frozen
class Lost:
    """A server with a volume, on a host that has died, and what it was made of."""

    id: str
    host: str
    image: str
    volume: str


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud({"compute": {"reclaim_instance_interval": 600}})
    yield made
    made.close()


@pytest.fixture
def lost(demo: Asking, admin: Asking, hypervisor: FakeHypervisor) -> Lost:
    image, volume = other_image(demo), demo.volume()
    server_id = demo.boot(imageRef=image)
    attaching = {"volumeAttachment": {"volumeId": volume}}
    assert demo.post(f"/servers/{server_id}/os-volume_attachments", attaching).status == 200
    demo.cloud.settle()
    found = Lost(server_id, host(admin, server_id), image, volume)
    hypervisor.fail_host(found.host)
    demo.cloud.advance(60)
    return found


def evacuated(admin: Asking, lost: Lost) -> str:
    assert evacuate(admin, lost.id, "2.94").status == 200
    admin.cloud.settle()
    return admin.status(lost.id)


def test_without_its_image_a_server_stays_where_its_disk_is(
    demo: Asking,
    admin: Asking,
    lost: Lost,
    hypervisor: FakeHypervisor,
    volumes: FakeVolumeBackend,
    network: FakeNetworkBackend,
) -> None:
    """It pointed to a host that had nothing of it, and its disk was out of reach once its host was back."""
    before, taken = there(hypervisor.guests.get(lost.id)), used(admin)
    assert demo.client.delete(f"/image/v2/images/{lost.image}").status == 204
    assert evacuated(admin, lost) == "ERROR"
    found = demo.server(lost.id)
    assert f"image {lost.image} cannot be read" in found["fault"]["message"]
    assert (host(admin, lost.id), used(admin), migrations(admin)) == (lost.host, taken, [("evacuation", "failed")])
    assert there(volumes.volumes.get(lost.volume)).hosts == ()
    assert [each.hosts for each in network.ports.values()] == [(lost.host,)]
    hypervisor.recover_host(lost.host)
    demo.cloud.advance(60)
    assert demo.act(lost.id, {"reboot": {"type": "HARD"}}).status == 202
    demo.cloud.settle()
    guest = there(hypervisor.guests.get(lost.id))
    assert (demo.status(lost.id), guest.power, guest.spec.host) == ("ACTIVE", Power.RUNNING, lost.host)
    assert (guest.head, guest.state.volume_ids) == (before.head, (lost.volume,)) and guest.log.startswith(before.log)
    assert (there(volumes.volumes.get(lost.volume)).hosts, audited(demo.cloud)) == ((lost.host,), [])
    assert [each.hosts for each in network.ports.values()] == [(lost.host,)]


def test_it_can_be_evacuated_again(admin: Asking, lost: Lost, hypervisor: FakeHypervisor) -> None:
    hypervisor.behaviour.fail("ensure_defined", error=NoCapacity("no room for the disk"))
    assert evacuated(admin, lost) == "ERROR" and host(admin, lost.id) == lost.host
    (failed,) = admin.get("/os-migrations", "2.23").json()["migrations"]
    assert evacuated(admin, lost) == "ACTIVE"
    now_on = host(admin, lost.id)
    assert now_on not in (lost.host, failed["dest_compute"]) and used(admin) == {now_on: 1}
    assert there(hypervisor.guests.get(lost.id)).spec.host == now_on


def test_a_host_on_which_it_failed_is_better_than_none(admin: Asking, lost: Lost, hypervisor: FakeHypervisor) -> None:
    hypervisor.behaviour.fail("ensure_defined", times=2, error=NoCapacity("no room for the disk"))
    assert [evacuated(admin, lost) for _ in range(3)] == ["ERROR", "ERROR", "ACTIVE"]


def test_one_that_is_deleted_for_a_while_meanwhile_can_be_restored(
    demo: Asking, admin: Asking, lost: Lost, hypervisor: FakeHypervisor
) -> None:
    before = there(hypervisor.guests.get(lost.id))
    hypervisor.behaviour.delay("ensure_defined", 5.0)
    hypervisor.behaviour.fail("ensure_defined", error=NoCapacity("no room for the disk"))
    assert evacuate(admin, lost.id, "2.94").status == 200
    admin.cloud.advance(1)
    assert demo.delete(f"/servers/{lost.id}").status == 204
    admin.cloud.settle()
    assert (admin.status(lost.id), host(admin, lost.id)) == ("SOFT_DELETED", lost.host)
    hypervisor.behaviour.clear()
    hypervisor.recover_host(lost.host)
    demo.cloud.advance(60)
    assert demo.act(lost.id, {"restore": None}).status == 202
    demo.cloud.settle()
    guest = there(hypervisor.guests.get(lost.id))
    assert (demo.status(lost.id), guest.power, guest.spec.host) == ("ACTIVE", Power.RUNNING, lost.host)
    assert guest.log.startswith(before.log) and used(admin) == {lost.host: 1}


def test_what_was_begun_on_the_new_host_is_gone_on_with_there(
    admin: Asking, lost: Lost, hypervisor: FakeHypervisor
) -> None:
    hypervisor.behaviour.fail("ensure_running", error=NoCapacity("no memory"))
    assert evacuated(admin, lost) == "ERROR"
    assert host(admin, lost.id) == there(hypervisor.guests.get(lost.id)).spec.host != lost.host


@pytest.mark.parametrize("error", [Unreachable("the way is cut"), Busy("not now"), DriverError("no")])
@pytest.mark.parametrize("method", ["observe", "ensure_port_absent", "disconnect"])
def test_a_driver_that_does_not_help_holds_nothing(
    admin: Asking,
    lost: Lost,
    hypervisor: FakeHypervisor,
    network: FakeNetworkBackend,
    volumes: FakeVolumeBackend,
    method: str,
    error: DriverError,
) -> None:
    of: dict[str, Any] = {"observe": hypervisor, "ensure_port_absent": network, "disconnect": volumes}
    hypervisor.behaviour.delay("ensure_defined", 5.0)
    hypervisor.behaviour.fail("ensure_defined", error=NoCapacity("no room for the disk"))
    assert evacuate(admin, lost.id, "2.94").status == 200
    admin.cloud.advance(1)
    of[method].behaviour.fail(method, times=None, error=error)
    admin.cloud.settle()
    assert admin.status(lost.id) == "ERROR"
    of[method].behaviour.clear()
    now_on = host(admin, lost.id)
    assert now_on != lost.host and used(admin) == {now_on: 1}


def test_a_new_host_that_is_silent_for_a_moment_keeps_what_it_has_begun(
    admin: Asking, lost: Lost, hypervisor: FakeHypervisor
) -> None:
    """Its answer to the start is lost, and it is back when all hosts are asked: the old one seems to have the guest."""
    hypervisor.behaviour.fail("ensure_running", error=HostDown("it does not answer"), after=True)
    # The look before anything is made, and the first one afterwards.
    hypervisor.behaviour.fail("observe", times=2, error=HostDown("it does not answer"))
    assert evacuated(admin, lost) == "ERROR"
    assert host(admin, lost.id) == there(hypervisor.guests.get(lost.id)).spec.host != lost.host
