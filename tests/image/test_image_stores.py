"""Several stores: where data goes, and how it gets from one to the other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cloudctl.errors import ConfigError
from cloudctl.image.options import ImageOptions, StoreOptions
from cloudctl.image.store import ImageStore
from cloudctl.image.stores import Stores, configured
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.image.asking import DATA, IMAGES, create, show, stored, upload
from tests.image.test_image_recovery import restart

# Nothing beside what is configured.
BARE = ImageOptions(cache_size=0)
TABLES = {
    "image": {
        "web_store": True,
        "stores": {
            "light": {"directory": "light", "weight": -1},
            "heavy": {"directory": "heavy", "description": "the first", "weight": 5},
        },
    }
}


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud(TABLES)
    yield made
    made.close()


def begin(client: Client, image_id: str, method: str = "glance-direct", **fields: Any) -> int:
    return client.post(f"{IMAGES}/{image_id}/import", {"method": {"name": method}, **fields}).status


def staged(client: Client) -> str:
    image_id: str = create(client)["id"]
    assert client.put(f"{IMAGES}/{image_id}/stage", body=b"data", headers=DATA).status == 204
    return image_id


def where(cloud: MemoryCloud, image_id: str) -> list[str]:
    """The stores that have a file of this image."""
    return [store.id for store in cloud.cloud.made(Stores) if any(image_id in name for name in store.names())]


def lose(cloud: MemoryCloud, store_id: str) -> Path:
    """The disk of a store is gone."""
    directory = cloud.cloud.made(Stores)[store_id].directory
    shutil.rmtree(directory)
    return directory


# -- what there is


def test_stores_are_listed_the_heaviest_first(demo: Client, admin: Client) -> None:
    shown = demo.get("/image/v2/info/stores").json()["stores"]
    assert shown == [
        {"id": "heavy", "description": "the first", "weight": 5},
        {"id": "default", "description": "", "default": "true"},
        {"id": "web", "description": "What is at an address.", "read-only": "true"},
        {"id": "light", "description": "", "weight": -1},
    ]
    detail = admin.get("/image/v2/info/stores/detail").json()["stores"]
    assert [(each["id"], each["type"], each["weight"]) for each in detail] == [
        ("heavy", "file", 5),
        ("default", "file", 0),
        ("web", "http", 0),
        ("light", "file", -1),
    ]


def test_clients_are_told_where_data_may_go(demo: Client) -> None:
    headers = demo.post(IMAGES, {}).headers
    assert headers["OpenStack-image-store-ids"] == "heavy,default,light"
    assert headers["OpenStack-image-import-methods"] == "glance-direct,web-download,glance-download,copy-image"
    assert "copy-image" in demo.get("/image/v2/info/import").json()["import-methods"]["value"]


def test_the_store_default_may_be_elsewhere(tmp_path: Path) -> None:
    assert configured(BARE, tmp_path) == Stores(ImageStore(tmp_path / "images"))
    named = configured(evolve(BARE, stores={"default": StoreOptions("/srv/images")}), tmp_path)
    assert named == Stores(ImageStore(Path("/srv/images")))


@pytest.mark.parametrize("name", ["a,b", "", "-x", "x" * 65])
def test_a_store_has_a_name_that_lists_can_hold(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a store name"):
        MemoryCloud({"image": {"stores": {name: {"directory": "x"}}}})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"cache_directory": "images"}, "image.cache_directory: .*/images is the directory of image.stores.default"),
        ({"stores": {"a": {"directory": "b/../images/"}}}, "image.stores.a: .* is the directory of image.stores.def"),
        ({"stores": {"a": {"directory": "images-of-addresses"}}, "web_store": True}, "image.stores.web: "),
        ({"cache_directory": "."}, "image.cache_directory: must name a directory"),
    ],
)
def test_two_stores_are_never_one_directory_where_each_removes_what_is_the_others(
    options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        MemoryCloud({"image": options})


# -- uploads


def test_an_upload_goes_where_a_header_says(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    assert upload(demo, image_id, b"data", **{"X-Image-Meta-Store": "light"}).status == 204
    assert (show(demo, image_id)["stores"], where(cloud, image_id)) == ("light", ["light"])
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"data"
    assert cloud.cloud.drivers.image_path(image_id).read_bytes() == b"data"


def test_without_a_header_it_goes_to_the_default_store(cloud: MemoryCloud, demo: Client) -> None:
    shown = stored(demo)
    assert (shown["stores"], where(cloud, shown["id"])) == ("default", ["default"])


def test_an_unknown_store_is_400(demo: Client) -> None:
    image_id = create(demo)["id"]
    for store in ("none", "web"):  # the latter takes addresses, not data
        assert upload(demo, image_id, b"data", **{"X-Image-Meta-Store": store}).status == 400
    assert show(demo, image_id)["status"] == "queued"


def test_a_store_that_cannot_be_written_is_503_and_leaves_nothing(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    lose(cloud, "light").write_text("no directory")
    assert upload(demo, image_id, b"data", **{"X-Image-Meta-Store": "light"}).status == 503
    cloud.cloud.made(Stores)["light"].directory.unlink()
    cloud.cloud.made(Stores)["light"].prepare()
    assert show(demo, image_id)["status"] == "queued"
    assert where(cloud, image_id) == []


# -- imports


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "default"),
        ({"stores": ["light"]}, "light"),
        ({"stores": ["light", "heavy", "light"]}, "heavy,light"),
        ({"all_stores": True}, "heavy,default,light"),
        ({"stores": [], "all_stores": False}, "default"),
    ],
)
def test_an_import_goes_where_it_is_asked_to(cloud: MemoryCloud, demo: Client, fields: Any, expected: str) -> None:
    image_id = staged(demo)
    assert begin(demo, image_id, **fields) == 202
    assert show(demo, image_id)["os_glance_importing_to_stores"] == expected
    cloud.settle()
    shown = show(demo, image_id)
    assert (shown["status"], shown["stores"], shown["size"]) == ("active", expected, 4)
    assert (shown["os_glance_importing_to_stores"], shown["os_glance_failed_import"]) == ("", "")
    assert ",".join(where(cloud, image_id)) == expected
    (task,) = demo.get(f"{IMAGES}/{image_id}/tasks").json()["tasks"]
    assert task["input"]["backend"] == expected.split(",")
    assert {name: task["input"]["import_req"].get(name) for name in fields} == fields


@pytest.mark.parametrize("fields", [{"stores": ["none"]}, {"stores": ["light"], "all_stores": True}])
def test_stores_that_cannot_be_meant_are_400(demo: Client, fields: Any) -> None:
    image_id = staged(demo)
    assert begin(demo, image_id, **fields) == 400
    assert show(demo, image_id)["status"] == "uploading"


def test_if_all_must_succeed_one_that_fails_fails_it(cloud: MemoryCloud, demo: Client) -> None:
    image_id = staged(demo)
    lose(cloud, "light")
    assert begin(demo, image_id, all_stores=True) == 202
    cloud.settle()
    shown = show(demo, image_id)
    assert (shown["status"], shown["os_glance_failed_import"]) == ("queued", "heavy,default,light")
    assert "stores" not in shown
    cloud.cloud.made(Stores).prepare()
    assert where(cloud, image_id) == []


def test_otherwise_the_others_have_it_and_it_is_told(cloud: MemoryCloud, demo: Client) -> None:
    image_id = staged(demo)
    lose(cloud, "light")
    assert begin(demo, image_id, all_stores=True, all_stores_must_succeed=False) == 202
    cloud.settle()
    shown = show(demo, image_id)
    assert (shown["status"], shown["stores"]) == ("active", "heavy,default")
    assert (shown["os_glance_importing_to_stores"], shown["os_glance_failed_import"]) == ("", "light")


def test_nothing_works_if_no_store_does(cloud: MemoryCloud, demo: Client) -> None:
    image_id = staged(demo)
    lose(cloud, "light")
    assert begin(demo, image_id, stores=["light"], all_stores_must_succeed=False) == 202
    cloud.settle()
    assert show(demo, image_id)["status"] == "queued"


# -- copies


def test_data_is_copied_to_stores_that_lack_it(cloud: MemoryCloud, demo: Client, admin: Client) -> None:
    image_id = stored(demo)["id"]
    assert begin(admin, image_id, "copy-image", all_stores=True) == 202
    shown = show(demo, image_id)
    assert (shown["status"], shown["os_glance_importing_to_stores"]) == ("active", "heavy,light")
    cloud.settle()
    shown = show(demo, image_id)
    assert (shown["stores"], shown["os_glance_importing_to_stores"]) == ("heavy,default,light", "")
    assert where(cloud, image_id) == ["heavy", "default", "light"]
    # Once more: there is nothing to do.
    assert begin(admin, image_id, "copy-image", all_stores=True) == 202
    cloud.settle()
    assert demo.get(f"{IMAGES}/{image_id}/tasks").json()["tasks"][0]["status"] == "success"


def test_a_copy_that_fails_leaves_the_image_as_it_was(cloud: MemoryCloud, demo: Client, admin: Client) -> None:
    image_id = stored(demo)["id"]
    lose(cloud, "light")
    assert begin(admin, image_id, "copy-image", all_stores=True) == 202
    cloud.settle()
    shown = show(demo, image_id)
    assert (shown["status"], shown["stores"], shown["os_glance_failed_import"]) == ("active", "default", "heavy,light")
    cloud.cloud.made(Stores).prepare()
    assert where(cloud, image_id) == ["default"]


def test_a_copy_is_refused_without_data_to_members_and_twice_at_once(demo: Client, admin: Client) -> None:
    empty, image_id = create(demo)["id"], stored(demo)["id"]
    assert begin(admin, empty, "copy-image", all_stores=True) == 409
    assert begin(demo, image_id, "copy-image", all_stores=True) == 403
    assert begin(admin, image_id, "copy-image", stores=["light"]) == 202
    assert begin(admin, image_id, "copy-image", stores=["heavy"]) == 409
    assert demo.delete(f"/image/v2/stores/default/{image_id}").status == 403


# -- one store less


def test_data_is_removed_from_one_store(cloud: MemoryCloud, demo: Client) -> None:
    image_id = staged(demo)
    begin(demo, image_id, all_stores=True)
    cloud.settle()
    assert demo.delete(f"/image/v2/stores/default/{image_id}").status == 204
    assert show(demo, image_id)["stores"] == "heavy,light"
    assert demo.delete(f"/image/v2/stores/light/{image_id}").status == 409
    cloud.settle()
    assert where(cloud, image_id) == ["heavy", "light"]
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"data"
    assert demo.delete(f"/image/v2/stores/default/{image_id}").status == 404
    assert demo.delete(f"/image/v2/stores/light/{image_id}").status == 204
    assert demo.delete(f"/image/v2/stores/heavy/{image_id}").status == 403


def test_a_deleted_image_is_gone_everywhere(cloud: MemoryCloud, demo: Client) -> None:
    image_id = staged(demo)
    begin(demo, image_id, all_stores=True)
    cloud.settle()
    assert demo.delete(f"{IMAGES}/{image_id}").status == 204
    cloud.settle()
    assert where(cloud, image_id) == []


def test_what_a_killed_process_left_in_a_store_is_removed(cloud: MemoryCloud, demo: Client, admin: Client) -> None:
    image_id = stored(demo)["id"]
    light = cloud.cloud.made(Stores)["light"]
    light.path(image_id).write_bytes(b"nobody says so")
    light.incoming("half").write_bytes(b"half")
    restart(cloud)
    assert (light.names(), where(cloud, image_id)) == ([], ["default"])
    begin(admin, image_id, "copy-image", stores=["light"])
    light.path(image_id).write_bytes(b"data")
    restart(cloud)
    assert light.names() == [image_id]
