"""Imports by glance-download: images of the image service that the catalog has for a region."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud
from tests.image.asking import IMAGES, create, patch, show, stored, upload
from tests.image.test_image_inspection import qcow2
from tests.image.test_image_limits import service

UNKNOWN = "36d4b546-64a2-4bb9-bdd0-ba676aa48f2c"


def begin(client: Client, image_id: str, origin: str, region: str = "RegionOne", **method: Any) -> int:
    named = {"name": "glance-download", "glance_image_id": origin, "glance_region": region, **method}
    return client.post(f"{IMAGES}/{image_id}/import", {"method": named}).status


def task(client: Client, image_id: str) -> dict[str, Any]:
    (found,) = client.get(f"{IMAGES}/{image_id}/tasks").json()["tasks"]
    assert isinstance(found, dict)
    return found


def failed(cloud: MemoryCloud, client: Client, image_id: str) -> str:
    """Why the import failed; the image is as it was."""
    cloud.settle()
    told = task(client, image_id)
    assert (told["status"], show(client, image_id)["status"]) == ("failure", "queued")
    return str(told["message"])


def test_an_image_is_made_of_another_with_its_formats_and_some_properties(cloud: MemoryCloud, demo: Client) -> None:
    given = {"hw_cpu_cores": "5", "trait:STORAGE_DISK_SSD": "required", "os_distro": "rhel", "speed": "88mph"}
    origin = create(demo, disk_format="qcow2", **given)["id"]
    assert upload(demo, origin, qcow2()).status == 204
    image_id = create(demo, container_format="ovf", disk_format="iso", hw_cpu_cores="1", own="kept")["id"]
    assert begin(demo, image_id, origin) == 202
    cloud.settle()
    shown, source = show(demo, image_id), show(demo, origin)
    same = ("status", "disk_format", "container_format", "size", "checksum", "os_hash_value", "os_distro")
    assert {name: shown[name] for name in same} == {name: source[name] for name in same}
    assert (shown["hw_cpu_cores"], shown["trait:STORAGE_DISK_SSD"], shown["own"]) == ("5", "required", "kept")
    assert "speed" not in shown
    assert demo.get(f"{IMAGES}/{image_id}/file").body == qcow2()
    assert task(demo, image_id)["input"]["import_req"]["method"]["glance_image_id"] == origin


def test_an_image_without_formats_gets_them(cloud: MemoryCloud, demo: Client) -> None:
    origin, image_id = stored(demo)["id"], demo.post(IMAGES, {}).json()["id"]
    assert begin(demo, image_id, origin, glance_service_interface="internal") == 202
    cloud.settle()
    assert (show(demo, image_id)["status"], show(demo, image_id)["disk_format"]) == ("active", "raw")


@pytest.mark.parametrize(
    "method",
    [
        {"glance_image_id": "foo", "glance_region": "RegionOne"},
        {"glance_image_id": UNKNOWN},
        {"glance_region": "RegionOne"},
        {"glance_image_id": UNKNOWN, "glance_region": "RegionOne", "uri": "http://example.com/x"},
    ],
)
def test_what_names_no_image_is_400(demo: Client, method: Any) -> None:
    path = f"{IMAGES}/{create(demo)['id']}/import"
    assert demo.post(path, {"method": {"name": "glance-download", **method}}).status == 400


def test_other_methods_take_no_image(demo: Client) -> None:
    path = f"{IMAGES}/{create(demo)['id']}/import"
    method = {"name": "web-download", "uri": "http://example.com/x", "glance_image_id": UNKNOWN}
    assert demo.post(path, {"method": method}).status == 400


@pytest.mark.parametrize(
    ("region", "interface", "why"),
    [
        ("nowhere", "public", "There is no image service at the interface 'public' of region 'nowhere'."),
        ("RegionOne", "secret", "There is no image service at the interface 'secret' of region 'RegionOne'."),
        ("RegionOne", "public", f"No image found with ID {UNKNOWN}"),
    ],
)
def test_what_is_not_there_is_told_by_the_task(
    cloud: MemoryCloud, demo: Client, region: str, interface: str, why: str
) -> None:
    image_id = create(demo, hw_cpu_cores="1")["id"]
    assert begin(demo, image_id, UNKNOWN, region, glance_service_interface=interface) == 202
    assert failed(cloud, demo, image_id) == why
    assert show(demo, image_id)["hw_cpu_cores"] == "1"


def test_nobody_gets_what_is_not_shown_to_him(cloud: MemoryCloud, demo: Client, alt: Client) -> None:
    origin, image_id = stored(demo, visibility="private")["id"], create(alt)["id"]
    assert begin(alt, image_id, origin) == 202
    assert failed(cloud, alt, image_id) == f"No image found with ID {origin}"


def test_an_image_that_is_blocked_or_gone_by_then_is_not_had(cloud: MemoryCloud, demo: Client) -> None:
    origin, image_id, other = stored(demo)["id"], create(demo)["id"], create(demo)["id"]
    assert begin(demo, image_id, origin) == 202
    assert demo.delete(f"{IMAGES}/{origin}").status == 204
    assert failed(cloud, demo, image_id) == f"No image found with ID {origin}"
    assert begin(demo, other, create(demo)["id"]) == 202
    assert "is queued, not active" in failed(cloud, demo, other)


def test_another_cloud_is_not_asked_in_the_users_name(cloud: MemoryCloud, demo: Client, admin: Client) -> None:
    assert admin.post("/identity/v3/regions", {"region": {"id": "elsewhere"}}).status == 201
    endpoint = {"service_id": service(admin), "interface": "public", "region_id": "elsewhere"}
    body = {"endpoint": {**endpoint, "url": "https://glance.example.com"}}
    assert admin.post("/identity/v3/endpoints", body).status == 201
    image_id = create(demo)["id"]
    assert begin(demo, image_id, UNKNOWN, "elsewhere") == 202
    assert "another cloud's" in failed(cloud, demo, image_id)


def test_it_is_still_patched_as_any_other(demo: Client, cloud: MemoryCloud) -> None:
    origin, image_id = stored(demo)["id"], create(demo)["id"]
    begin(demo, image_id, origin)
    cloud.settle()
    assert patch(demo, image_id, {"op": "add", "path": "/speed", "value": "x"}).status == 200
