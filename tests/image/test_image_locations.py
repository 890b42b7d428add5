"""Where data is: told to services, and to all where that is switched on."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud
from tests.image.asking import IMAGES, create, patch, show, stored

DATA_HASH = hashlib.sha512(b"data").hexdigest()


def test_services_are_told_where_the_data_is(demo: Client, admin: Client, persona: Any) -> None:
    image_id, empty = stored(demo)["id"], create(demo)["id"]
    service = persona("worker", "services", "service")
    for client in (admin, service):
        (told,) = client.get(f"{IMAGES}/{image_id}/locations").json()
        assert told["metadata"] == {"store": "default"}
        assert Path(told["url"].removeprefix("file://")).read_bytes() == b"data"
        assert client.get(f"{IMAGES}/{empty}/locations").json() == []
    assert demo.get(f"{IMAGES}/{image_id}/locations").status == 403
    assert admin.get(f"{IMAGES}/nothing/locations").status == 404


def test_images_do_not_tell(demo: Client) -> None:
    assert "locations" not in stored(demo)


def test_where_it_is_switched_on_they_tell_with_checksums() -> None:
    cloud = MemoryCloud({"image": {"show_multiple_locations": True}})
    demo = cloud.client("demo")
    assert create(demo)["locations"] == []
    shown = stored(demo)
    (told,) = shown["locations"]
    assert told["validation_data"] == {
        "checksum": hashlib.md5(b"data").hexdigest(),
        "os_hash_algo": "sha512",
        "os_hash_value": DATA_HASH,
    }
    listed = {each["id"]: each["locations"] for each in demo.get(IMAGES).json()["images"]}
    assert listed[shown["id"]] == shown["locations"]
    assert patch(demo, shown["id"], {"op": "replace", "path": "/locations", "value": []}).status == 403
    cloud.close()


@pytest.mark.parametrize(
    "validation",
    [
        {"os_hash_value": DATA_HASH},
        {"os_hash_algo": "sha512"},
        {"os_hash_algo": "sha123", "os_hash_value": DATA_HASH},
        {"os_hash_algo": "sha512", "os_hash_value": DATA_HASH[:-1]},
        {"os_hash_algo": "sha256", "os_hash_value": DATA_HASH},
        {"os_hash_algo": "sha512", "os_hash_value": "x" * 128},
    ],
)
def test_what_is_no_hash_is_400(demo: Client, validation: Any) -> None:
    path = f"{IMAGES}/{create(demo)['id']}/locations"
    assert demo.post(path, {"url": "http://example.com/x", "validation_data": validation}).status == 400


def test_data_that_is_elsewhere_is_not_used_there(demo: Client, alt: Client) -> None:
    image_id = create(demo)["id"]
    wish = {
        "url": "http://example.com/x",
        "validation_data": {"os_hash_algo": "sha512", "os_hash_value": DATA_HASH},
    }
    answer = demo.post(f"{IMAGES}/{image_id}/locations", wish)
    assert answer.status == 400 and "web-download" in answer.json()["message"]
    assert show(demo, image_id)["status"] == "queued"
    assert demo.post(f"{IMAGES}/{stored(demo)['id']}/locations", wish).status == 409
    assert alt.post(f"{IMAGES}/{image_id}/locations", wish).status == 404
