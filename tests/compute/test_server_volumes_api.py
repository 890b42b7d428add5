"""Volumes of servers: booting from them, attaching, detaching. Reference: compute.md, sections 5.3 and 8.4."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from tests.compute.asking import LATEST, Asking, refusal
from tests.there import there

NOWHERE = "11111111-1111-4111-8111-111111111111"


def attach(demo: Asking, server_id: str, volume_id: str, version: str | None = None, **wishes: Any) -> Any:
    body = {"volumeAttachment": {"volumeId": volume_id, **wishes}}
    return demo.post(f"/servers/{server_id}/os-volume_attachments", body, version)


def bdm(**fields: Any) -> list[dict[str, Any]]:
    return [{"boot_index": 0, "delete_on_termination": False, **fields}]


# -- attach and detach


def test_a_volume_is_attached_and_detached(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id, volume_id = demo.boot(), demo.volume()
    answer = attach(demo, server_id, volume_id)
    assert answer.status == 200
    assert answer.json() == {
        "volumeAttachment": {"id": volume_id, "volumeId": volume_id, "serverId": server_id, "device": "/dev/vdb"}
    }
    assert demo.volume_status(volume_id) == "reserved"
    demo.cloud.settle()
    assert demo.volume_status(volume_id) == "in-use"
    assert there(hypervisor.guests.get(server_id)).state.volume_ids == (volume_id,)
    assert demo.server(server_id)["os-extended-volumes:volumes_attached"] == [
        {"id": volume_id, "delete_on_termination": False}
    ]
    path = f"/servers/{server_id}/os-volume_attachments"
    assert demo.get(path).json()["volumeAttachments"][0]["id"] == volume_id
    newest = demo.get(f"{path}/{volume_id}", LATEST).json()["volumeAttachment"]
    assert newest.keys() == {
        "volumeId",
        "serverId",
        "device",
        "tag",
        "delete_on_termination",
        "attachment_id",
        "bdm_uuid",
    }
    assert demo.delete(f"{path}/{volume_id}").status == 202
    assert demo.volume_status(volume_id) == "detaching"
    demo.cloud.settle()
    assert demo.volume_status(volume_id) == "available"
    assert there(hypervisor.guests.get(server_id)).state.volume_ids == ()
    assert demo.get(path).json() == {"volumeAttachments": []}


def test_a_guest_cannot_write_to_a_read_only_volume(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id, volume_id = demo.boot(), demo.volume()
    action = {"os-update_readonly_flag": {"readonly": True}}
    assert demo.client.post(f"/volume/v3/volumes/{volume_id}/action", action).status == 202
    assert attach(demo, server_id, volume_id).status == 200
    demo.cloud.settle()
    (connection,) = there(hypervisor.guests.get(server_id)).spec.volumes
    assert connection.read_only
    # As it was, when the guest is made anew.
    assert demo.act(server_id, {"reboot": {"type": "HARD"}}).status == 202
    demo.cloud.settle()
    assert there(hypervisor.guests.get(server_id)).spec.volumes == (connection,)


def test_devices_are_named_in_turn(demo: Asking) -> None:
    server_id = demo.boot()
    first = attach(demo, server_id, demo.volume(), device="/dev/vdc").json()["volumeAttachment"]["device"]
    demo.cloud.settle()
    second = attach(demo, server_id, demo.volume()).json()["volumeAttachment"]["device"]
    demo.cloud.settle()
    # Named like a part of a disk, as some clients do.
    third = attach(demo, server_id, demo.volume(), device="/dev/sda2").json()["volumeAttachment"]["device"]
    demo.cloud.settle()
    assert (first, second, third) == ("/dev/vdc", "/dev/vdb", "/dev/sda2")
    status, key, message = refusal(attach(demo, server_id, demo.volume(), device="/dev/vdc"))
    assert (status, key) == (409, "conflictingRequest")
    assert "/dev/vdc" in message


@pytest.mark.parametrize(
    ("wishes", "status"),
    [
        ({"device": "vdb"}, 400),
        ({"device": ""}, 400),
        ({"device": "/dev/disk/by-id/1"}, 400),
        ({"device": "/dev/vd" + 58 * "a"}, 400),  # longer than what the database stores
        ({"x": 1}, 400),
    ],
)
def test_a_wrong_attach_is_refused(demo: Asking, wishes: dict[str, Any], status: int) -> None:
    assert attach(demo, demo.boot(), demo.volume(), **wishes).status == status


def test_what_is_not_there_is_not_attached(demo: Asking) -> None:
    server_id, volume_id = demo.boot(), demo.volume()
    assert refusal(attach(demo, server_id, NOWHERE))[:2] == (404, "itemNotFound")
    assert attach(demo, NOWHERE, volume_id).status == 404
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    said = f"Instance {server_id} is not attached to volume {volume_id}"
    assert refusal(demo.delete(path)) == (404, "itemNotFound", said)
    assert refusal(demo.get(path)) == (404, "itemNotFound", said)


def test_a_volume_is_attached_once(demo: Asking) -> None:
    one, two, volume_id = demo.boot(), demo.boot(name="two"), demo.volume()
    attach(demo, one, volume_id)
    demo.cloud.settle()
    assert refusal(attach(demo, one, volume_id))[0] == 400
    assert "already attached" in refusal(attach(demo, one, volume_id))[2]
    status, key, message = refusal(attach(demo, two, volume_id))
    assert (status, key) == (400, "badRequest")
    assert "in-use" in message


def test_a_volume_is_attached_once_its_image_has_been_written(
    demo: Asking, hypervisor: FakeHypervisor, volumes: FakeVolumeBackend
) -> None:
    server_id = demo.boot()
    volumes.behaviour.delay("ensure_created", 5)
    wish = {"size": 1, "imageRef": demo.image}
    volume_id = demo.client.post("/volume/v3/volumes", {"volume": wish}).json()["volume"]["id"]
    demo.cloud.clock.advance(1)
    assert demo.volume_status(volume_id) == "downloading"
    assert attach(demo, server_id, volume_id).status == 200
    demo.cloud.settle()
    assert there(hypervisor.guests.get(server_id)).state.volume_ids == (volume_id,)


def test_a_failed_attach_gives_the_volume_back(
    demo: Asking, hypervisor: FakeHypervisor, volumes: FakeVolumeBackend
) -> None:
    server_id, volume_id = demo.boot(), demo.volume()
    hypervisor.behaviour.fail("ensure_volume_attached", error=Unfit("the bus is full"))
    attach(demo, server_id, volume_id)
    demo.cloud.settle()
    assert demo.volume_status(volume_id) == "available"
    assert demo.server(server_id)["os-extended-volumes:volumes_attached"] == []
    assert demo.status(server_id) == "ACTIVE"
    assert there(volumes.volumes.get(volume_id)).state.hosts == ()


def test_a_failed_detach_leaves_it_in_use(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id, volume_id = demo.boot(), demo.volume()
    attach(demo, server_id, volume_id)
    demo.cloud.settle()
    hypervisor.behaviour.fail("ensure_volume_detached", error=Unfit("the guest holds on"))
    demo.delete(f"/servers/{server_id}/os-volume_attachments/{volume_id}")
    demo.cloud.settle()
    assert demo.volume_status(volume_id) == "in-use"
    assert demo.delete(f"/servers/{server_id}/os-volume_attachments/{volume_id}").status == 202
    demo.cloud.settle()
    assert demo.volume_status(volume_id) == "available"


def test_tag_and_end_are_taken_in_their_microversions(demo: Asking) -> None:
    server_id = demo.boot()
    assert attach(demo, server_id, demo.volume(), "2.48", tag="data").status == 400
    assert attach(demo, server_id, demo.volume(), "2.78", delete_on_termination=True).status == 400
    answer = attach(demo, server_id, demo.volume(), "2.79", tag="data", delete_on_termination=True)
    shown = answer.json()["volumeAttachment"]
    assert (shown["tag"], shown["delete_on_termination"]) == ("data", True)


def test_whether_a_volume_ends_with_its_server_can_be_changed(demo: Asking) -> None:
    server_id, volume_id = demo.boot(), demo.volume()
    attach(demo, server_id, volume_id)
    demo.cloud.settle()
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    body = {"volumeAttachment": {"volumeId": volume_id, "delete_on_termination": True}}
    assert demo.put(path, body, "2.84").status == 400
    assert demo.put(path, body, "2.85").status == 202
    other = {"volumeAttachment": {"volumeId": volume_id, "device": "/dev/vdz", "delete_on_termination": True}}
    assert demo.put(path, other, "2.85").status == 400
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.volume_status(volume_id) == "gone"


def test_a_volume_is_swapped_for_nobody_but_block_storage(demo: Asking, admin: Asking) -> None:
    server_id, volume_id, other = demo.boot(), demo.volume(), demo.volume()
    attach(demo, server_id, volume_id)
    demo.cloud.settle()
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"

    def swap(asking: Asking, wanted: str, version: str, on: str = path) -> tuple[int, str, str]:
        return refusal(asking.put(on, {"volumeAttachment": {"volumeId": wanted}}, version))

    for version in ("2.1", "2.84", LATEST):
        assert swap(demo, other, version)[0] == 403
        assert swap(admin, NOWHERE, version)[0] == 400
        status, _, message = swap(admin, other, version)
        assert (status, "is not being moved by the volume service" in message) == (409, True)
        assert swap(admin, volume_id, version, on=path.replace(volume_id, other))[0] == 404
    assert (demo.volume_status(volume_id), demo.volume_status(other)) == ("in-use", "available")


def test_a_volume_is_kept_when_its_server_goes(demo: Asking) -> None:
    server_id, volume_id = demo.boot(), demo.volume()
    attach(demo, server_id, volume_id)
    demo.cloud.settle()
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.volume_status(volume_id) == "available"


# -- boot


def test_a_server_boots_from_a_volume_that_is_made_from_an_image(demo: Asking, hypervisor: FakeHypervisor) -> None:
    devices = bdm(source_type="image", uuid=demo.image, destination_type="volume", volume_size=3)
    server_id = demo.boot(imageRef=None, block_device_mapping_v2=devices)
    found = demo.server(server_id)
    assert (found["status"], found["image"]) == ("ACTIVE", "")
    (attached,) = found["os-extended-volumes:volumes_attached"]
    assert demo.volume_status(attached["id"]) == "in-use"
    spec = there(hypervisor.guests.get(server_id)).spec
    assert (spec.image, spec.disk_gib, spec.volumes[0].boot_index) == (None, 0, 0)
    assert spec.volumes[0].device == "/dev/vda"
    path = f"/servers/{server_id}/os-volume_attachments/{attached['id']}"
    assert refusal(demo.delete(path)) == (400, "badRequest", "Cannot detach a root device volume")
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.volume_status(attached["id"]) == "available"


def test_a_server_boots_from_a_bootable_volume(demo: Asking) -> None:
    volume_id = demo.volume(imageRef=demo.image)
    devices = bdm(source_type="volume", uuid=volume_id, destination_type="volume")
    server_id = demo.boot(imageRef="", block_device_mapping_v2=devices)
    assert demo.status(server_id) == "ACTIVE"
    assert demo.volume_status(volume_id) == "in-use"


def test_a_volume_made_for_a_server_ends_with_it_if_asked(demo: Asking) -> None:
    devices = [
        *bdm(source_type="image", uuid=demo.image, destination_type="local"),
        {"source_type": "blank", "destination_type": "volume", "volume_size": 2, "delete_on_termination": True},
    ]
    server_id = demo.boot(block_device_mapping_v2=devices)
    (attached,) = demo.server(server_id)["os-extended-volumes:volumes_attached"]
    assert attached["delete_on_termination"] is True
    demo.delete(f"/servers/{server_id}")
    demo.cloud.settle()
    assert demo.volume_status(attached["id"]) == "gone"


def test_a_boot_whose_volume_cannot_be_made_ends_in_error(demo: Asking, volumes: FakeVolumeBackend) -> None:
    volumes.behaviour.fail("ensure_created", error=Unfit("no such format"), times=None)
    devices = bdm(source_type="image", uuid=demo.image, destination_type="volume", volume_size=1)
    server_id = demo.boot(imageRef=None, block_device_mapping_v2=devices)
    found = demo.server(server_id)
    assert found["status"] == "ERROR"
    assert "did not finish being created" in found["fault"]["message"]


def test_a_failed_boot_gives_the_users_volumes_back(demo: Asking, hypervisor: FakeHypervisor) -> None:
    volume_id = demo.volume()
    devices = [{"source_type": "volume", "uuid": volume_id, "destination_type": "volume", "boot_index": None}]
    hypervisor.behaviour.fail("ensure_defined", error=Unfit("no such machine"), times=None)
    server_id = demo.boot(
        block_device_mapping_v2=[*bdm(source_type="image", uuid=demo.image, destination_type="local"), *devices]
    )
    assert demo.status(server_id) == "ERROR"
    assert demo.volume_status(volume_id) == "available"


REFUSED: list[tuple[list[dict[str, Any]], str | None, str]] = [
    (bdm(source_type="image", destination_type="volume", volume_size=1), None, "Missing device UUID."),
    (bdm(source_type="blank", destination_type="volume"), None, "need a size"),
    (bdm(source_type="volume", uuid=NOWHERE, destination_type="volume"), None, NOWHERE),
    (bdm(source_type="volume", uuid="x", destination_type="volume"), None, "not a uuid"),
    (bdm(source_type="volume", uuid=NOWHERE, destination_type="local"), None, "Mapping volume to local"),
    (bdm(source_type="image", uuid=NOWHERE, destination_type="local"), None, "Mapping image to local"),
    (bdm(source_type="tape"), None, "tape"),
    (
        [{"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": 1}],
        None,
        "Boot sequence",
    ),
    (bdm(source_type="volume", uuid=NOWHERE, destination_type="volume", volume_type="x"), "2.67", "volume_type"),
    (bdm(source_type="blank", destination_type="volume", volume_size=1, volume_type="none-such"), "2.67", "none-such"),
    (bdm(source_type="blank", destination_type="volume", volume_size=1, volume_type="x"), "2.66", "unexpected"),
]


@pytest.mark.parametrize(("devices", "version", "said"), REFUSED, ids=[case[2] for case in REFUSED])
def test_a_wrong_disk_is_refused(demo: Asking, devices: list[dict[str, Any]], version: str | None, said: str) -> None:
    networks = [{"uuid": demo.network}]
    answer = demo.create(version, imageRef=None, block_device_mapping_v2=devices, networks=networks)
    status, key, message = refusal(answer)
    assert (status, key) == (400, "badRequest")
    assert said in message
    assert demo.client.get("/volume/v3/volumes").json()["volumes"] == []


def test_a_volume_that_cannot_boot_is_refused_as_root(demo: Asking) -> None:
    volume_id = demo.volume()
    devices = bdm(source_type="volume", uuid=volume_id, destination_type="volume")
    status, _, message = refusal(demo.create(imageRef=None, block_device_mapping_v2=devices))
    assert (status, message) == (400, f"Block Device {volume_id} is not bootable.")
    # Stock clients name an image beside it, and then nobody asks the volume.
    assert demo.server(demo.boot(block_device_mapping_v2=devices))["image"] == ""


def test_two_boot_disks_are_refused(demo: Asking) -> None:
    volume_id = demo.volume(imageRef=demo.image)
    root = bdm(source_type="volume", uuid=volume_id, destination_type="volume")
    local = bdm(source_type="image", uuid=demo.image, destination_type="local")
    other = bdm(source_type="image", uuid=demo.image, destination_type="volume", volume_size=1)
    for devices in ([*root, *local], [*root, *other]):
        status, _, message = refusal(demo.create(block_device_mapping_v2=devices))
        assert (status, "Boot sequence" in message) == (400, True)
    assert demo.volume_status(volume_id) == "available"


def test_a_boot_volume_stands_in_the_place_of_the_image_beside_it(demo: Asking) -> None:
    volume_id = demo.volume(imageRef=demo.image)
    root = bdm(source_type="volume", uuid=volume_id, destination_type="volume")
    found = demo.server(demo.boot(block_device_mapping_v2=root))
    assert (found["status"], found["image"]) == ("ACTIVE", "")
    assert [each["id"] for each in found["os-extended-volumes:volumes_attached"]] == [volume_id]
    # A volume that is not booted from is one more.
    more = [{"source_type": "blank", "destination_type": "volume", "volume_size": 1, "boot_index": -1}]
    found = demo.server(demo.boot(block_device_mapping_v2=more))
    assert (found["status"], found["image"]["id"]) == ("ACTIVE", demo.image)


def test_volume_quota_is_told_as_the_compute_service_tells_it(demo: Asking) -> None:
    devices = bdm(source_type="image", uuid=demo.image, destination_type="volume", volume_size=1001)
    assert refusal(demo.create(imageRef=None, block_device_mapping_v2=devices))[:2] == (413, "entityTooLarge")


def test_a_volume_is_shared_only_from_the_version_on_that_knows_it(demo: Asking, admin: Asking) -> None:
    shared = {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}
    assert admin.client.post("/volume/v3/types", {"volume_type": shared}).status == 200
    volume_id = demo.volume(volume_type="shared")
    devices = bdm(source_type="volume", uuid=volume_id, destination_type="volume", boot_index=-1)
    devices += bdm(source_type="image", uuid=demo.image, destination_type="local")
    demo.boot(block_device_mapping_v2=devices)
    said = "Multiattach volumes are only supported starting with compute API version 2.60."
    other = demo.boot()
    assert refusal(attach(demo, other, volume_id, "2.59")) == (400, "badRequest", said)
    assert refusal(demo.create("2.59", block_device_mapping_v2=devices)) == (400, "badRequest", said)
    assert demo.create("2.60", block_device_mapping_v2=devices).status == 202
    assert attach(demo, other, volume_id, "2.60").status == 200


def test_a_strangers_volume_is_not_there(demo: Asking, stranger: Asking) -> None:
    volume_id = stranger.volume()
    assert attach(demo, demo.boot(), volume_id).status == 404
    devices = bdm(source_type="volume", uuid=volume_id, destination_type="volume")
    assert demo.create(imageRef=None, block_device_mapping_v2=devices).status == 400
