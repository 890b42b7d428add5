"""Servers that boot from volumes, rescued and rebuilt; volumes of shelved servers; consoles that are not there."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.drivers.specs import Power
from tests.compute.asking import LATEST, Asking, refusal
from tests.compute.test_server_images_api import other_image
from tests.there import there


@pytest.fixture
def server_id(demo: Asking) -> str:
    """One whose root disk is a volume."""
    device = {"source_type": "image", "uuid": demo.image, "destination_type": "volume", "boot_index": 0}
    return demo.boot(imageRef=None, block_device_mapping_v2=[{**device, "volume_size": 1}])


def root(demo: Asking, server_id: str) -> str:
    return str(demo.server(server_id)["os-extended-volumes:volumes_attached"][0]["id"])


def from_image(demo: Asking, **wishes: Any) -> dict[str, Any]:
    """A root volume that is made, and outlives its server."""
    device = {"source_type": "image", "uuid": demo.image, "destination_type": "volume", "boot_index": 0}
    return {"imageRef": None, "block_device_mapping_v2": [{**device, "volume_size": 1}], **wishes}


def volumes_left(demo: Asking) -> list[str]:
    return [each["status"] for each in demo.client.get("/volume/v3/volumes/detail").json()["volumes"]]


# -- boots that fail


def test_a_volume_that_nothing_has_begun_to_make_goes_with_the_boot(demo: Asking, admin: Asking) -> None:
    needs = {"extra_specs": {"trait:CUSTOM_NOWHERE": "required"}}
    assert admin.post("/flavors/1/os-extra_specs", needs).status == 200
    made = demo.create(**from_image(demo)).json()["server"]["id"]
    assert volumes_left(demo) == ["creating"]
    demo.cloud.settle()
    assert demo.status(made) == "ERROR" and volumes_left(demo) == []
    assert demo.server(made)["os-extended-volumes:volumes_attached"] == []


def test_a_volume_that_nothing_has_begun_to_make_goes_with_the_server(demo: Asking) -> None:
    made = demo.create(**from_image(demo)).json()["server"]["id"]
    assert demo.delete(f"/servers/{made}").status == 204
    demo.cloud.settle()
    assert demo.status(made) == "gone" and volumes_left(demo) == []


def test_a_volume_that_is_being_made_outlives_a_boot_that_fails(
    demo: Asking, hypervisor: FakeHypervisor, volumes: FakeVolumeBackend
) -> None:
    volumes.behaviour.delay("ensure_created", 5.0)
    made = demo.create(**from_image(demo)).json()["server"]["id"]
    demo.cloud.advance(1)
    assert demo.delete(f"/servers/{made}").status == 204
    demo.cloud.settle()
    assert demo.status(made) == "gone" and volumes_left(demo) == ["available"]


def test_a_volume_that_has_been_the_servers_is_kept_whatever_its_status_says(
    demo: Asking, admin: Asking, server_id: str
) -> None:
    volume_id = root(demo, server_id)
    reset = {"os-reset_status": {"status": "creating"}}
    assert admin.client.post(f"/volume/v3/volumes/{volume_id}/action", reset).status == 202
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    assert demo.status(server_id) == "gone" and len(volumes_left(demo)) == 1


# -- rescue


def test_from_2_87_on_it_is_rescued(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    assert refusal(demo.act(server_id, {"rescue": None}, "2.86"))[0] == 400
    answer = demo.act(server_id, {"rescue": {"adminPass": "secret"}}, "2.87")
    assert (answer.status, answer.json()) == (200, {"adminPass": "secret"})
    demo.cloud.settle()
    assert demo.status(server_id) == "RESCUE" and there(hypervisor.guests.get(server_id)).rescued
    assert demo.act(server_id, {"unrescue": None}, "2.87").status == 202
    demo.cloud.settle()
    assert demo.status(server_id) == "ACTIVE" and demo.volume_status(root(demo, server_id)) == "in-use"


def test_without_an_image_there_is_no_rescue(demo: Asking) -> None:
    volume_id = demo.volume()
    body = {"os-set_bootable": {"bootable": True}}
    assert demo.client.post(f"/volume/v3/volumes/{volume_id}/action", body).status in (200, 202)
    device = {"source_type": "volume", "uuid": volume_id, "destination_type": "volume", "boot_index": 0}
    server_id = demo.boot(imageRef=None, block_device_mapping_v2=[device])
    assert refusal(demo.act(server_id, {"rescue": None}, LATEST))[0] == 400
    assert demo.act(server_id, {"rescue": {"rescue_image_ref": demo.image}}, LATEST).status == 200


# -- rebuild


def rebuild(demo: Asking, server_id: str, image_id: str, version: str, **more: Any) -> Any:
    answer = demo.act(server_id, {"rebuild": {"imageRef": image_id, **more}}, version)
    demo.cloud.settle()
    return answer


def test_from_2_93_on_its_volume_is_filled_anew(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor, volumes: FakeVolumeBackend
) -> None:
    made, volume_id = other_image(demo), root(demo, server_id)
    said = "Unable to rebuild with a different image for a volume-backed server."
    assert refusal(rebuild(demo, server_id, made, "2.92")) == (400, "badRequest", said)
    assert rebuild(demo, server_id, made, "2.93").status == 202
    found = demo.server(server_id)
    assert (found["status"], found["image"], root(demo, server_id)) == ("ACTIVE", "", volume_id)
    assert there(volumes.volumes.get(volume_id)).head == "other bytes"
    assert [each.volume_id for each in there(hypervisor.guests.get(server_id)).spec.volumes] == [volume_id]
    shown = demo.client.get(f"/volume/v3/volumes/{volume_id}").json()["volume"]
    assert (shown["status"], shown["volume_image_metadata"]["image_id"]) == ("in-use", made)


def test_before_that_its_volume_is_kept(demo: Asking, server_id: str, volumes: FakeVolumeBackend) -> None:
    volume_id = root(demo, server_id)
    before = there(volumes.volumes.get(volume_id))
    assert rebuild(demo, server_id, demo.image, "2.92", name="anew").status == 202
    assert (demo.status(server_id), demo.server(server_id)["name"]) == ("ACTIVE", "anew")
    assert there(volumes.volumes.get(volume_id)) == before


def test_one_that_was_off_stays_off(demo: Asking, server_id: str, hypervisor: FakeHypervisor) -> None:
    demo.act(server_id, {"os-stop": None})
    demo.cloud.settle()
    assert rebuild(demo, server_id, demo.image, "2.93").status == 202
    assert demo.status(server_id) == "SHUTOFF"
    assert there(hypervisor.guests.get(server_id)).power is Power.STOPPED


def test_a_volume_that_cannot_be_filled_is_an_error(demo: Asking, server_id: str, volumes: FakeVolumeBackend) -> None:
    volumes.behaviour.fail("ensure_imported", times=None, error=DriverError("it is broken"))
    rebuild(demo, server_id, demo.image, "2.93")
    assert demo.status(server_id) == "ERROR"
    volumes.behaviour.clear()
    assert rebuild(demo, server_id, demo.image, "2.93").status == 202
    assert demo.status(server_id) == "ACTIVE"


def test_an_image_that_does_not_fit_is_refused(demo: Asking, server_id: str) -> None:
    made = other_image(demo, min_disk=2)
    assert refusal(rebuild(demo, server_id, made, "2.93"))[:2] == (400, "badRequest")


# -- volumes of shelved servers


def test_a_shelved_server_gets_and_loses_volumes(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id, first, second = demo.boot(), demo.volume(), demo.volume()
    path = f"/servers/{server_id}/os-volume_attachments"
    assert demo.post(path, {"volumeAttachment": {"volumeId": first}}).status == 200
    demo.cloud.settle()
    demo.act(server_id, {"shelve": None})
    demo.cloud.settle()
    said = f"Cannot 'attach_volume' instance {server_id} while it is in vm_state shelved_offloaded"
    wanted = {"volumeAttachment": {"volumeId": second}}
    assert refusal(demo.post(path, wanted, "2.19")) == (409, "conflictingRequest", said)
    assert refusal(demo.delete(f"{path}/{first}", "2.19"))[0] == 409
    assert demo.post(path, wanted, "2.20").status == 200
    assert demo.delete(f"{path}/{first}", "2.20").status == 202
    demo.cloud.settle()
    assert (demo.volume_status(first), demo.volume_status(second)) == ("available", "in-use")
    shown = demo.client.get(f"/volume/v3/volumes/{second}").json()["volume"]["attachments"]
    assert [each["server_id"] for each in shown] == [server_id]
    assert [each["volumeId"] for each in demo.get(path, LATEST).json()["volumeAttachments"]] == [second]
    demo.act(server_id, {"unshelve": None})
    demo.cloud.settle()
    assert (demo.status(server_id), demo.volume_status(second)) == ("ACTIVE", "in-use")
    assert [each.volume_id for each in there(hypervisor.guests.get(server_id)).spec.volumes] == [second]


def test_a_volume_may_go_before_its_shelved_server_runs_again(demo: Asking, hypervisor: FakeHypervisor) -> None:
    server_id, volume_id = demo.boot(), demo.volume()
    path = f"/servers/{server_id}/os-volume_attachments"
    demo.act(server_id, {"shelve": None})
    demo.cloud.settle()
    demo.post(path, {"volumeAttachment": {"volumeId": volume_id}}, LATEST)
    demo.cloud.settle()
    assert demo.delete(f"{path}/{volume_id}", LATEST).status == 202
    demo.cloud.settle()
    assert demo.volume_status(volume_id) == "available"
    demo.act(server_id, {"unshelve": None})
    demo.cloud.settle()
    assert not there(hypervisor.guests.get(server_id)).spec.volumes


# -- consoles, topology


@pytest.mark.parametrize(
    ("action", "type"),
    [
        ("os-getVNCConsole", "novnc"),
        ("os-getSPICEConsole", "spice-html5"),
        ("os-getRDPConsole", "rdp-html5"),
        ("os-getSerialConsole", "serial"),
    ],
)
def test_no_console_is_enabled(demo: Asking, admin: Asking, server_id: str, action: str, type: str) -> None:
    said = f"Unavailable console type {type}."
    assert refusal(demo.act(server_id, {action: {"type": type}}, "2.5")) == (400, "badRequest", said)
    assert refusal(demo.act(server_id, {action: {"type": "other"}}, "2.5"))[0] == 400
    assert demo.act(server_id, {action: {"type": type}}, "2.6").status == 404
    protocol = {"novnc": "vnc", "spice-html5": "spice", "rdp-html5": "rdp"}.get(type, type)
    body = {"remote_console": {"protocol": protocol, "type": type}}
    assert refusal(demo.post(f"/servers/{server_id}/remote-consoles", body, "2.6")) == (400, "badRequest", said)
    assert demo.post(f"/servers/{server_id}/remote-consoles", body, "2.5").status == 404
    assert admin.get("/os-console-auth-tokens/x", LATEST).status == 404
    assert demo.get("/os-console-auth-tokens/x", LATEST).status == 403


def test_wrong_consoles_are_refused(demo: Asking, server_id: str) -> None:
    path = f"/servers/{server_id}/remote-consoles"
    body = {"remote_console": {"protocol": "vnc", "type": "serial"}}
    assert "is not a console type of protocol vnc" in refusal(demo.post(path, body, LATEST))[2]
    body = {"remote_console": {"protocol": "mks", "type": "webmks"}}
    assert "is not a console type of protocol mks" in refusal(demo.post(path, body, "2.7"))[2]
    building = demo.create().json()["server"]["id"]
    assert refusal(demo.post(f"/servers/{building}/remote-consoles", body, LATEST))[0] == 409


def test_no_server_has_numa_nodes(demo: Asking, stranger: Asking, server_id: str) -> None:
    path = f"/servers/{server_id}/topology"
    assert demo.get(path, "2.78").json() == {"nodes": [], "pagesize_kb": None}
    assert (demo.get(path, "2.77").status, stranger.get(path, "2.78").status) == (404, 404)


# -- a volume that is about to be attached


OTHERS = {"os-attach": {"instance_uuid": "1f2d3c4b-5a69-4788-9a0b-1c2d3e4f5061", "mountpoint": "/dev/vdb"}}


def booting(demo: Asking, volumes: FakeVolumeBackend) -> tuple[str, str]:
    """A server that boots, and the path of its volume, which its host is being connected to."""
    volume_id = demo.volume(imageRef=demo.image)
    volumes.behaviour.delay("connect", 10.0)
    device = {"source_type": "volume", "uuid": volume_id, "destination_type": "volume", "boot_index": 0}
    made = demo.create(imageRef=None, block_device_mapping_v2=[device])
    demo.cloud.advance(1)
    assert demo.volume_status(volume_id) == "attaching"
    return str(made.json()["server"]["id"]), f"/volume/v3/volumes/{volume_id}"


def test_nobody_else_gets_the_volume_of_a_server_that_boots(demo: Asking, volumes: FakeVolumeBackend) -> None:
    server_id, path = booting(demo, volumes)
    assert demo.client.post(f"{path}/action", OTHERS).status == 409
    demo.cloud.settle()
    assert [each["server_id"] for each in demo.client.get(path).json()["volume"]["attachments"]] == [server_id]


def test_a_server_can_be_deleted_while_somebody_else_has_got_its_volume(
    demo: Asking, admin: Asking, volumes: FakeVolumeBackend
) -> None:
    server_id, path = booting(demo, volumes)
    reset = {"os-reset_status": {"status": "available"}}
    assert admin.client.post(f"{path}/action", reset).status == 202
    assert demo.client.post(f"{path}/action", OTHERS).status == 202
    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.advance(60)
    assert demo.status(server_id) == "gone"
    assert [each["server_id"] for each in demo.client.get(path).json()["volume"]["attachments"]] == [
        OTHERS["os-attach"]["instance_uuid"]
    ]
