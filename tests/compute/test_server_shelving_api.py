"""Shelved servers. Reference: compute-states.md, section 4.9."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import DriverError, NoCapacity
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.specs import Power
from cloudctl.image.store import ImageStore
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking, refusal
from tests.there import there


@pytest.fixture
def server_id(demo: Asking) -> str:
    return demo.boot()


@pytest.fixture
def staying() -> Iterator[MemoryCloud]:
    """A cloud in which shelved servers stay on their hosts."""
    made = MemoryCloud({"compute": {"shelved_offload_time": -1}})
    yield made
    made.close()


def shelve(asking: Asking, server_id: str) -> None:
    answer = asking.act(server_id, {"shelve": None})
    assert answer.status == 202, answer
    asking.cloud.settle()


def unshelve(asking: Asking, server_id: str, body: Any = None, version: str | None = None) -> None:
    answer = asking.act(server_id, {"unshelve": body}, version)
    assert answer.status == 202, answer
    asking.cloud.settle()


def images(demo: Asking) -> list[str]:
    return [each["name"] for each in demo.client.get("/image/v2/images?visibility=private").json()["images"]]


def actions(asking: Asking, server_id: str) -> list[str]:
    found = asking.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"]
    return [each["action"] for each in found]


def root_volume(demo: Asking) -> dict[str, Any]:
    device = {"source_type": "image", "uuid": demo.image, "destination_type": "volume", "boot_index": 0}
    return {"imageRef": None, "block_device_mapping_v2": [{**device, "volume_size": 1}]}


def used(admin: Asking) -> int:
    return sum(each["vcpus_used"] for each in admin.get("/os-hypervisors/detail").json()["hypervisors"])


def test_a_shelved_server_is_an_image_and_on_no_host(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor, network: FakeNetworkBackend
) -> None:
    addresses = demo.server(server_id)["addresses"]
    assert demo.act(server_id, {"shelve": None}).status == 202
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == "shelving"
    demo.cloud.settle()
    found = admin.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("SHELVED_OFFLOADED", None)
    assert (found["OS-EXT-STS:power_state"], found["OS-EXT-SRV-ATTR:host"], found["hostId"]) == (4, None, "")
    assert found["addresses"] == addresses
    assert hypervisor.guests.get(server_id) is None and not network.ports.values()
    assert (images(demo), used(admin)) == (["vm-shelved"], 0)


@pytest.mark.parametrize("way", ["restored", "reset"])
def test_the_image_of_a_shelved_server_goes_when_the_server_runs_without_it(way: str) -> None:
    """It was kept for ever, and a rebuild made the disk from it, whatever image was asked for."""
    cloud = MemoryCloud({"compute": {"shelved_offload_time": -1, "reclaim_instance_interval": 600}})
    demo, admin = Asking(cloud.client("demo")), Asking(cloud.client("admin"))
    server_id = demo.boot()
    shelve(demo, server_id)
    if way == "restored":
        demo.delete(f"/servers/{server_id}")
        cloud.settle()
        demo.act(server_id, {"restore": None})
        cloud.settle()
        assert images(demo) == []
    else:
        admin.act(server_id, {"os-resetState": {"state": "active"}})
        shelve(demo, server_id)
        assert images(demo) == ["vm-shelved"]
        admin.act(server_id, {"os-resetState": {"state": "active"}})
    assert demo.act(server_id, {"rebuild": {"imageRef": demo.image}}).status == 202
    cloud.settle()
    hypervisor = cloud.cloud.drivers.hypervisor
    assert isinstance(hypervisor, FakeHypervisor)
    source = there(there(hypervisor.guests.get(server_id)).spec.image)
    assert (source.id, images(demo), demo.status(server_id)) == (demo.image, [], "ACTIVE")
    cloud.close()


def test_a_server_whose_state_is_reset_while_it_is_unshelved_is_still_shelved(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    """It was active on a host that it had no share of, with neither a guest nor ports there."""
    shelve(demo, server_id)
    hypervisor.behaviour.delay("ensure_defined", 5.0)
    assert demo.act(server_id, {"unshelve": None}).status == 202
    demo.cloud.advance(2)
    assert admin.act(server_id, {"os-resetState": {"state": "active"}}).status == 202
    demo.cloud.settle()
    found = admin.server(server_id)
    assert (found["status"], found["OS-EXT-SRV-ATTR:host"], used(admin)) == ("SHELVED_OFFLOADED", None, 0)
    unshelve(demo, server_id)
    assert (demo.status(server_id), used(admin), images(demo)) == ("ACTIVE", 1, [])


def test_an_unshelved_server_is_what_it_was(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor, network: FakeNetworkBackend
) -> None:
    before = demo.server(server_id)
    shelve(demo, server_id)
    unshelve(demo, server_id)
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    same = ("addresses", "image", "flavor", "name", "key_name")
    assert {key: found[key] for key in same} == {key: before[key] for key in same}
    guest = there(hypervisor.guests.get(server_id))
    assert guest.power is Power.RUNNING and guest.head
    assert [each.hosts for each in network.ports.values()] == [(guest.spec.host,)]
    assert (images(demo), used(admin)) == ([], 1)


def test_the_disk_of_a_shelved_server_comes_back(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    hypervisor.guests.put(server_id, evolve(there(hypervisor.guests.get(server_id)), head="what was written"))
    shelve(demo, server_id)
    unshelve(demo, server_id)
    assert there(hypervisor.guests.get(server_id)).head == "what was written"


def test_a_server_that_boots_from_a_volume_needs_no_image(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id = demo.boot(**root_volume(demo))
    (volume,) = demo.server(server_id)["os-extended-volumes:volumes_attached"]
    shelve(demo, server_id)
    assert (demo.status(server_id), images(demo)) == ("SHELVED_OFFLOADED", [])
    assert demo.volume_status(volume["id"]) == "reserved"
    unshelve(demo, server_id)
    assert (demo.status(server_id), demo.volume_status(volume["id"])) == ("ACTIVE", "in-use")
    assert [each.volume_id for each in there(hypervisor.guests.get(server_id)).spec.volumes] == [volume["id"]]


@pytest.mark.parametrize("before", ["os-stop", "pause", "suspend"])
def test_any_server_that_rests_can_be_shelved(demo: Asking, server_id: str, before: str) -> None:
    demo.act(server_id, {before: None})
    demo.cloud.settle()
    shelve(demo, server_id)
    assert demo.status(server_id) == "SHELVED_OFFLOADED"
    unshelve(demo, server_id)
    assert demo.status(server_id) == "ACTIVE"


def test_a_shelved_server_may_stay_on_its_host(staying: MemoryCloud) -> None:
    demo, admin = Asking(staying.client("demo")), Asking(staying.client("admin"))
    server_id = demo.boot()
    host = admin.server(server_id)["OS-EXT-SRV-ATTR:host"]
    shelve(demo, server_id)
    found = admin.server(server_id)
    assert (found["status"], found["OS-EXT-SRV-ATTR:host"]) == ("SHELVED", host)
    assert demo.act(server_id, {"shelveOffload": None}).status == 403
    said = refusal(demo.act(server_id, {"unshelve": {"availability_zone": "nova"}}, "2.77"))
    assert said[0] == 409 and "must be SHELVED_OFFLOADED" in said[2]
    unshelve(demo, server_id)
    assert (demo.status(server_id), images(demo)) == ("ACTIVE", [])
    hypervisor = staying.cloud.drivers.hypervisor
    assert isinstance(hypervisor, FakeHypervisor)
    # Its disk has been there all the time, and is not that of the image which was made of it.
    assert there(there(hypervisor.guests.get(server_id)).spec.image).id == demo.image
    shelve(demo, server_id)
    assert admin.act(server_id, {"shelveOffload": None}).status == 202
    staying.settle()
    assert admin.server(server_id)["OS-EXT-SRV-ATTR:host"] is None
    assert actions(admin, server_id) == ["shelveOffload", "shelve", "unshelve", "shelve", "create"]


def test_shelved_after_a_rescue_that_failed_a_server_comes_back_with_its_own_disk(staying: MemoryCloud) -> None:
    demo, hypervisor = Asking(staying.client("demo")), staying.cloud.drivers.hypervisor
    assert isinstance(hypervisor, FakeHypervisor)
    server_id = demo.boot()
    hypervisor.behaviour.fail("ensure_rescued", error=DriverError("the answer is lost"), after=True)
    for action in ("rescue", "os-stop"):
        assert demo.act(server_id, {action: None}).status in (200, 202)
        staying.settle()
    shelve(demo, server_id)
    assert there(hypervisor.guests.get(server_id)).rescued
    unshelve(demo, server_id)
    assert demo.status(server_id) == "ACTIVE" and not there(hypervisor.guests.get(server_id)).rescued


def test_a_shelved_server_leaves_its_host_after_a_while() -> None:
    cloud = MemoryCloud({"compute": {"shelved_offload_time": 600}})
    demo = Asking(cloud.client("demo"))
    server_id = demo.boot()
    shelve(demo, server_id)
    assert demo.status(server_id) == "SHELVED"
    cloud.advance(500)
    assert demo.status(server_id) == "SHELVED"
    cloud.advance(200)
    cloud.settle()
    assert demo.status(server_id) == "SHELVED_OFFLOADED"
    assert actions(demo, server_id) == ["shelve", "create"]
    cloud.close()


# -- what goes wrong


def test_a_server_that_cannot_be_captured_goes_on(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    hypervisor.behaviour.fail("ensure_captured", times=None, error=DriverError("it is broken"))
    shelve(demo, server_id)
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"], images(demo)) == ("ACTIVE", None, [])
    assert there(hypervisor.guests.get(server_id)).power is Power.RUNNING


def test_a_paused_server_that_cannot_be_captured_is_off(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    demo.act(server_id, {"pause": None})
    demo.cloud.settle()
    hypervisor.behaviour.fail("ensure_captured", times=None, error=DriverError("it is broken"))
    shelve(demo, server_id)
    assert demo.status(server_id) == "SHUTOFF"


def test_a_guest_that_does_not_leave_stays_shelved(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    hypervisor.behaviour.fail("ensure_absent", times=None, error=DriverError("it is broken"))
    shelve(demo, server_id)
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"], images(demo)) == ("SHELVED", None, ["vm-shelved"])
    hypervisor.behaviour.clear()
    unshelve(demo, server_id)
    assert demo.status(server_id) == "ACTIVE"


def test_a_server_whose_state_is_reset_while_it_leaves_its_host_is_still_shelved(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    """It was active on a host where it had neither a guest nor a share, and its next shelving was held."""
    hypervisor.behaviour.delay("ensure_absent", 5.0)
    assert demo.act(server_id, {"shelve": None}).status == 202
    for _ in range(2):
        demo.cloud.advance(1)
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == "shelving_offloading"
    assert admin.act(server_id, {"os-resetState": {"state": "active"}}).status == 202
    demo.cloud.settle()
    found = admin.server(server_id)
    assert (found["status"], found["OS-EXT-SRV-ATTR:host"], used(admin)) == ("SHELVED_OFFLOADED", None, 0)
    unshelve(demo, server_id)
    assert (demo.status(server_id), used(admin), images(demo)) == ("ACTIVE", 1, [])


def test_a_server_without_a_guest_is_not_shelved(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    hypervisor.guests.delete(server_id)
    shelve(demo, server_id)
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"], images(demo)) == ("ACTIVE", None, [])


def test_a_server_that_left_its_host_in_part_is_unshelved_once_it_has_left(
    demo: Asking, admin: Asking, server_id: str, network: FakeNetworkBackend
) -> None:
    network.behaviour.fail("ensure_port_absent", times=None, error=DriverError("it is broken"))
    shelve(demo, server_id)
    for _ in range(2):
        unshelve(demo, server_id)
        found = demo.server(server_id)
        assert (found["status"], found["OS-EXT-STS:task_state"]) == ("SHELVED", None)
    network.behaviour.clear()
    assert admin.act(server_id, {"shelveOffload": None}).status == 202
    demo.cloud.settle()
    unshelve(demo, server_id)
    assert demo.status(server_id) == "ACTIVE"


def test_a_server_that_finds_no_host_stays_shelved(
    demo: Asking, admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    shelve(demo, server_id)
    hypervisor.behaviour.fail("ensure_running", times=None, error=NoCapacity("no room"))
    unshelve(demo, server_id)
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("SHELVED_OFFLOADED", None)
    assert (images(demo), used(admin)) == (["vm-shelved"], 0) and not hypervisor.guests.values()
    hypervisor.behaviour.clear()
    unshelve(demo, server_id)
    assert demo.status(server_id) == "ACTIVE"


def test_nothing_is_left_of_a_shelved_server_that_is_deleted(demo: Asking, server_id: str) -> None:
    shelve(demo, server_id)
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert (demo.status(server_id), images(demo), demo.ports) == ("gone", [], [])
    store = demo.cloud.cloud.made(ImageStore).directory
    assert {path.name for path in store.iterdir() if path.is_file()} == {demo.image}


WRONG: list[tuple[str, str]] = [
    ("unshelve", "Cannot 'unshelve' instance {} while it is in vm_state active"),
    ("shelveOffload", "Cannot 'shelveOffload' instance {} while it is in vm_state active"),
]


@pytest.mark.parametrize(("action", "said"), WRONG)
def test_an_active_server_is_not_shelved(admin: Asking, demo: Asking, server_id: str, action: str, said: str) -> None:
    assert refusal(admin.act(server_id, {action: None})) == (409, "conflictingRequest", said.format(server_id))


def test_a_shelved_server_takes_few_actions(demo: Asking, server_id: str) -> None:
    shelve(demo, server_id)
    for action in ({"shelve": None}, {"os-start": None}, {"pause": None}, {"resize": {"flavorRef": "2"}}):
        assert refusal(demo.act(server_id, action))[0] == 409
    assert refusal(demo.act(server_id, {"createImage": {"name": "x"}}))[0] == 409


def test_a_locked_server_is_not_shelved(demo: Asking, server_id: str) -> None:
    demo.act(server_id, {"lock": None})
    assert refusal(demo.act(server_id, {"shelve": None})) == (
        409,
        "conflictingRequest",
        f"Instance {server_id} is locked",
    )


# -- where to


def test_a_host_is_an_administrators_to_choose(demo: Asking, admin: Asking, server_id: str) -> None:
    shelve(demo, server_id)
    assert refusal(demo.act(server_id, {"unshelve": {"host": "fake-2"}}, "2.91"))[0] == 403
    assert refusal(admin.act(server_id, {"unshelve": {"host": "fake-9"}}, "2.91"))[0] == 400
    unshelve(admin, server_id, {"host": "fake-2"}, "2.91")
    assert admin.server(server_id)["OS-EXT-SRV-ATTR:host"] == "fake-2"


def test_a_zone_is_kept_from_then_on_and_can_be_given_up(demo: Asking, server_id: str) -> None:
    shelve(demo, server_id)
    unshelve(demo, server_id, {"availability_zone": "nova"}, "2.77")
    assert demo.server(server_id)["pinned_availability_zone"] == "nova"
    shelve(demo, server_id)
    unshelve(demo, server_id, {"availability_zone": None}, "2.91")
    found = demo.server(server_id)
    assert (found["pinned_availability_zone"], found["OS-EXT-AZ:availability_zone"]) == (None, "nova")


@pytest.mark.parametrize(
    ("body", "version", "status"),
    [
        ({"availability_zone": "nowhere"}, "2.77", 400),
        ({"availability_zone": None}, "2.77", 400),
        ({"availability_zone": "nova", "host": "fake-1"}, "2.77", 400),
        ({}, "2.77", 400),
        ({}, "2.91", 400),
        ({"availability_zone": "x" * 256}, LATEST, 400),
    ],
)
def test_a_wrong_destination_is_refused(demo: Asking, server_id: str, body: Any, version: str, status: int) -> None:
    shelve(demo, server_id)
    assert refusal(demo.act(server_id, {"unshelve": body}, version))[0] == status
    assert demo.server(server_id)["OS-EXT-STS:task_state"] is None


def test_other_projects_shelve_nothing(stranger: Asking, reader: Asking, server_id: str) -> None:
    for action in ("shelve", "unshelve", "restore", "forceDelete"):
        assert stranger.act(server_id, {action: None}).status == 404
        assert reader.act(server_id, {action: None}).status == 403
