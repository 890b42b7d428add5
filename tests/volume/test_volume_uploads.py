"""Images of volumes through the API. Reference: volume.md, section 3, os-volume_upload_image."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.errors import DriverError
from cloudctl.image.store import ImageStore
from tests.volume.asking import LATEST, V3, act, volume

IMAGES = "/image/v2/images"
UNKNOWN = "6f1d2c3b-0000-4000-8000-000000000000"


def fill(backend: Any, volume_id: str, text: str) -> None:
    backend.volumes.put(volume_id, evolve(backend.volumes.get(volume_id), head=text))


def upload(client: Any, volume_id: str, version: str = "3.71", **wish: Any) -> Any:
    return act(client, volume_id, "os-volume_upload_image", {"image_name": "exported", **wish}, version)


def image(client: Any, image_id: str) -> Any:
    answer = client.get(f"{IMAGES}/{image_id}")
    return None if answer.status == 404 else answer.json()


def attach(cloud: Any, demo: Any, volume_id: str) -> None:
    body = {"instance_uuid": UNKNOWN, "mountpoint": "/dev/vdb"}
    assert act(demo, volume_id, "os-attach", body).status == 202
    cloud.settle()


def test_the_image_has_what_the_volume_holds(make: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make(size=2)["id"]
    fill(backend, id, "what it holds")
    answer = upload(demo, id)
    told = answer.json()["os-volume_upload_image"]
    assert answer.status == 202
    assert {name: told[name] for name in told.keys() - {"updated_at", "volume_type", "image_id"}} == {
        "id": id, "status": "uploading", "display_description": None, "size": 2, "container_format": "bare",
        "disk_format": "raw", "image_name": "exported", "protected": False, "visibility": "private",
    }  # fmt: skip
    assert told["volume_type"]["name"] == "__DEFAULT__"
    assert (volume(demo, id)["status"], image(demo, told["image_id"])["status"]) == ("uploading", "saving")
    cloud.settle()
    assert volume(demo, id)["status"] == "available"
    found = image(demo, told["image_id"])
    assert (found["status"], found["name"], found["visibility"]) == ("active", "exported", "private")
    assert found["checksum"] == hashlib.md5(b"what it holds").hexdigest()
    assert demo.get(f"{IMAGES}/{found['id']}/file").body == b"what it holds"


def test_it_is_written_in_the_format_that_was_asked_for(make: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make(size=2)["id"]
    fill(backend, id, "what it holds")
    image_id = upload(demo, id, disk_format="qcow2").json()["os-volume_upload_image"]["image_id"]
    cloud.settle()
    found = image(demo, image_id)
    assert (found["status"], found["disk_format"], found["virtual_size"]) == ("active", "qcow2", 2 << 30)
    assert b"what it holds" in demo.get(f"{IMAGES}/{image_id}/file").body
    assert upload(demo, id, disk_format="vhdx").status == 400


def test_a_volume_made_of_the_image_has_it_too(make: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make()["id"]
    fill(backend, id, "what it holds")
    image_id = upload(demo, id).json()["os-volume_upload_image"]["image_id"]
    cloud.settle()
    made = demo.post(f"{V3}/volumes", {"volume": {"imageRef": image_id, "size": 1}}).json()["volume"]["id"]
    cloud.settle()
    assert backend.volumes.get(made).head == "what it holds"


def test_what_the_volumes_own_image_said_of_guests_goes_along(make: Any, demo: Any, cloud: Any) -> None:
    id = make()["id"]
    metadata = {"hw_disk_bus": "scsi", "min_disk": "2", "min_ram": "x" * 20, "checksum": "c", "image_name": "old"}
    reserved = {"os_glance_import_task": "x", "locations": "x"}
    assert act(demo, id, "os-set_image_metadata", {"metadata": {**metadata, **reserved}}).status == 200
    found = image(demo, upload(demo, id).json()["os-volume_upload_image"]["image_id"])
    assert (found["hw_disk_bus"], found["min_disk"], found["min_ram"], found["name"]) == ("scsi", 2, 0, "exported")
    assert "image_name" not in found


def test_visibility_and_protection_come_with_3_1(make: Any, demo: Any, admin: Any, cloud: Any) -> None:
    id = make()["id"]
    assert upload(demo, id, "3.0", protected=True).status == 400
    told = upload(demo, id, "3.0").json()["os-volume_upload_image"]
    assert told.keys().isdisjoint({"protected", "visibility"})
    cloud.settle()
    assert upload(demo, id, visibility="public").status == 403
    told = upload(admin, id, visibility="public", protected=True).json()["os-volume_upload_image"]
    cloud.settle()
    found = image(demo, told["image_id"])
    assert (found["visibility"], found["protected"], found["status"]) == ("public", True, "active")


def test_a_volume_in_use_needs_force_and_is_frozen_first(make: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make()["id"]
    fill(backend, id, "what it holds")
    attach(cloud, demo, id)
    assert upload(demo, id).status == 409
    told = upload(demo, id, force=True).json()["os-volume_upload_image"]
    cloud.settle()
    assert (volume(demo, id)["status"], image(demo, told["image_id"])["status"]) == ("in-use", "active")
    assert backend.behaviour.calls["ensure_snapshot"] == 1 and backend.frozen.values() == []


def test_an_upload_that_fails_leaves_no_image(make: Any, demo: Any, cloud: Any, backend: Any) -> None:
    id = make()["id"]
    backend.behaviour.fail("ensure_exported", error=DriverError("it is broken"))
    told = upload(demo, id, protected=True).json()["os-volume_upload_image"]
    cloud.settle()
    assert (volume(demo, id)["status"], image(demo, told["image_id"])) == ("available", None)
    (message,) = demo.get(f"{V3}/messages", headers=LATEST).json()["messages"]
    assert message["event_id"] == "VOLUME_VOLUME_003_004"
    assert not cloud.cloud.made(ImageStore).path(told["image_id"]).exists()


def test_what_is_over_the_limit_of_images_is_not_kept(
    make: Any, demo: Any, admin: Any, cloud: Any, backend: Any
) -> None:
    service = admin.get("/identity/v3/services?type=image").json()["services"][0]["id"]
    limit = {"service_id": service, "resource_name": "image_size_total", "default_limit": 0}
    assert admin.post("/identity/v3/registered_limits", {"registered_limits": [limit]}).status == 201
    id = make()["id"]
    fill(backend, id, "what it holds")
    image_id = upload(demo, id).json()["os-volume_upload_image"]["image_id"]
    cloud.settle()
    assert (volume(demo, id)["status"], image(demo, image_id)) == ("available", None)


def test_a_volume_that_is_uploaded_is_left_alone(make: Any, demo: Any) -> None:
    id = make()["id"]
    assert upload(demo, id).status == 202
    assert upload(demo, id).status == 409
    assert demo.delete(f"{V3}/volumes/{id}").status == 409
    assert demo.put(f"{V3}/volumes/{id}/metadata", {"metadata": {}}).status == 409


def test_another_project_cannot(make: Any, stranger: Any) -> None:
    assert upload(stranger, make()["id"]).status == 404


@pytest.mark.parametrize(
    "wish",
    [
        {"image_name": ""}, {"image_name": "x" * 256}, {"disk_format": "qcow3"}, {"container_format": "box"},
        {"force": "perhaps"}, {"visibility": "secret"}, {"colour": "red"},
        # Not what the backend gives out.
        {"disk_format": "vmdk"},
    ],
)  # fmt: skip
def test_a_wrong_wish_is_refused(make: Any, demo: Any, wish: dict[str, Any]) -> None:
    id = make()["id"]
    assert upload(demo, id, **wish).status == 400
    assert volume(demo, id)["status"] == "available"


# -- the other way round


def test_a_volume_is_filled_with_an_image(make: Any, demo: Any, admin: Any, cloud: Any, backend: Any) -> None:
    origin, id = make()["id"], make()["id"]
    fill(backend, origin, "what it holds")
    made = upload(demo, origin).json()["os-volume_upload_image"]["image_id"]
    cloud.settle()
    assert act(demo, id, "os-reimage", {"image_id": made}, "3.67").status in (400, 404)
    assert act(demo, id, "os-reimage", {"image_id": made}).status == 202
    assert volume(demo, id)["status"] == "downloading"
    assert act(demo, id, "os-reimage", {"image_id": made}).status == 409
    cloud.settle()
    found = volume(demo, id)
    assert (found["status"], found["bootable"]) == ("available", "true")
    assert found["volume_image_metadata"]["image_id"] == made
    assert backend.volumes.get(id).head == "what it holds"
    backend.behaviour.fail("ensure_imported", error=DriverError("it is broken"))
    assert act(demo, id, "os-reimage", {"image_id": made}).status == 202
    cloud.settle()
    assert volume(demo, id)["status"] == "error"
    told = demo.get(f"{V3}/messages?resource_uuid={id}", headers=LATEST).json()["messages"]
    assert [each["event_id"] for each in told] == ["VOLUME_VOLUME_021_028"]
    # An error is no obstacle.
    assert act(demo, id, "os-reimage", {"image_id": made}).status == 202


def test_no_host_is_connected_to_a_volume_that_is_being_filled(make: Any, demo: Any, cloud: Any) -> None:
    """It would see half of the image, and the driver could not write the rest."""
    id = make()["id"]
    made = upload(demo, make()["id"]).json()["os-volume_upload_image"]["image_id"]
    cloud.settle()
    attachments, connector = f"{V3}/attachments", {"connector": {"host": "h1"}}
    assert act(demo, id, "os-reimage", {"image_id": made}).status == 202
    assert demo.post(attachments, {"attachment": {"volume_uuid": id, **connector}}, headers=LATEST).status == 409
    reserved = demo.post(attachments, {"attachment": {"volume_uuid": id}}, headers=LATEST).json()["attachment"]["id"]
    one = f"{attachments}/{reserved}"
    assert demo.put(one, {"attachment": connector}, headers=LATEST).status == 409
    cloud.settle()
    assert volume(demo, id)["status"] == "reserved"
    assert demo.put(one, {"attachment": connector}, headers=LATEST).status == 200


def test_what_is_reserved_is_filled_by_those_who_may(make: Any, demo: Any, admin: Any, cloud: Any) -> None:
    id = make()["id"]
    made = upload(demo, make()["id"]).json()["os-volume_upload_image"]["image_id"]
    cloud.settle()
    demo.post(f"{V3}/attachments", {"attachment": {"volume_uuid": id, "instance_uuid": UNKNOWN}}, headers=LATEST)
    assert act(demo, id, "os-reimage", {"image_id": made}).status == 409
    assert act(demo, id, "os-reimage", {"image_id": made, "reimage_reserved": True}).status == 403
    assert act(admin, id, "os-reimage", {"image_id": UNKNOWN, "reimage_reserved": True}).status == 400
