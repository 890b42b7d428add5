"""Copies of images that are near to those who download them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudctl.db.columns import new_id
from cloudctl.image.recovery import recover
from cloudctl.image.stores import Stores
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.image.asking import IMAGES, create, patch, stored
from tests.image.test_image_imports import URL, Origin, origin

__all__ = ["origin"]

CACHE = "/image/v2/cache"


def near(cloud: MemoryCloud, image_id: str) -> Path:
    cache = cloud.cloud.made(Stores).cache
    assert cache is not None
    return cache.path(image_id)


def cached(admin: Client) -> list[str]:
    return [each["image_id"] for each in admin.get(CACHE).json()["cached_images"]]


def put(cloud: MemoryCloud, admin: Client, image_id: str) -> None:
    assert admin.put(f"{CACHE}/{image_id}").status == 202
    cloud.settle()


def test_an_image_is_cached_and_read_from_there(cloud: MemoryCloud, demo: Client, admin: Client) -> None:
    image_id = stored(demo)["id"]
    assert admin.put(f"{CACHE}/{image_id}").status == 202
    assert admin.get(CACHE).json() == {"cached_images": [], "queued_images": [image_id]}
    cloud.settle()
    (shown,) = admin.get(CACHE).json()["cached_images"]
    assert {name: shown[name] for name in ("image_id", "hits", "size", "last_accessed")} == {
        "image_id": image_id, "hits": 0, "size": 4, "last_accessed": 0.0,
    }  # fmt: skip
    assert shown["last_modified"] > 0
    near(cloud, image_id).write_bytes(b"near")  # to be told from the store's
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"near"
    (shown,) = admin.get(CACHE).json()["cached_images"]
    assert shown["hits"] == 1 and shown["last_accessed"] > 0
    assert admin.put(f"{CACHE}/{image_id}").status == 202  # it is there: nothing is done
    # A copy that is lost costs nothing but its nearness; guests never boot from one.
    near(cloud, image_id).unlink()
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"data"
    assert cloud.cloud.drivers.image_path(image_id).read_bytes() == b"data"


@pytest.mark.parametrize(
    ("target", "left"),
    [(None, ([], [])), ("cache", ([], ["waits"])), ("queue", (["there"], []))],
)
def test_the_cache_is_emptied(
    cloud: MemoryCloud, demo: Client, admin: Client, target: str | None, left: tuple[list[str], list[str]]
) -> None:
    ids = {stored(demo)["id"]: "there", stored(demo)["id"]: "waits"}
    there, waits = ids
    put(cloud, admin, there)
    admin.put(f"{CACHE}/{waits}")
    headers = {} if target is None else {"x-image-cache-clear-target": target}
    assert admin.delete(CACHE, headers=headers).status == 204
    found = admin.get(CACHE).json()
    shown = [each["image_id"] for each in found["cached_images"]], found["queued_images"]
    assert tuple([ids[each] for each in part] for part in shown) == left
    cloud.settle()
    assert near(cloud, there).exists() is ("there" in left[0])
    assert near(cloud, waits).exists() is ("waits" in left[1])
    assert admin.delete(CACHE, headers={"x-image-cache-clear-target": "invalid"}).status == 400


def test_one_image_leaves_the_cache(cloud: MemoryCloud, demo: Client, admin: Client) -> None:
    removed, deleted = stored(demo)["id"], stored(demo)["id"]
    for image_id in (removed, deleted):
        put(cloud, admin, image_id)
    assert admin.delete(f"{CACHE}/{removed}").status == 204
    assert admin.delete(f"{CACHE}/{removed}").status == 404
    assert demo.delete(f"{IMAGES}/{deleted}").status == 204
    cloud.settle()
    assert cached(admin) == []
    assert not near(cloud, removed).exists() and not near(cloud, deleted).exists()
    assert demo.get(f"{IMAGES}/{removed}/file").body == b"data"


def test_what_was_not_read_for_longest_makes_room(demo: Client) -> None:
    cloud = MemoryCloud({"image": {"cache_size": 9}})
    demo, admin = cloud.client("demo"), cloud.client("admin")
    read, unread, last = (stored(demo)["id"] for _ in range(3))
    for image_id in (read, unread):
        put(cloud, admin, image_id)
        cloud.advance(1)
    assert demo.get(f"{IMAGES}/{read}/file").status == 200
    cloud.advance(1)
    put(cloud, admin, last)
    assert set(cached(admin)) == {read, last}
    assert not near(cloud, unread).exists()
    put(cloud, admin, stored(demo, b"more than all room")["id"])
    assert set(cached(admin)) == {read, last}
    cloud.close()


def test_an_image_at_an_address_takes_the_room_that_it_needs(origin: Origin) -> None:
    options = {"show_multiple_locations": True, "web_store": True, "cache_size": len(b"from the web")}
    cloud = MemoryCloud({"image": options})
    demo, admin = cloud.client("demo"), cloud.client("admin")
    located = create(demo)["id"]
    assert patch(demo, located, {"op": "add", "path": "/locations/-", "value": {"url": URL}}).status == 200
    put(cloud, admin, located)
    assert [each["size"] for each in admin.get(CACHE).json()["cached_images"]] == [12]
    cloud.advance(1)
    last = stored(demo)["id"]
    put(cloud, admin, last)
    assert cached(admin) == [last]
    cloud.close()


def test_administrators_cache_images_that_have_data(demo: Client, admin: Client) -> None:
    image_id = create(demo)["id"]
    assert admin.put(f"{CACHE}/{image_id}").status == 400
    assert admin.put(f"{CACHE}/nothing").status == 404
    assert [demo.get(CACHE).status, demo.put(f"{CACHE}/{image_id}").status] == [403, 403]
    assert [demo.delete(CACHE).status, demo.delete(f"{CACHE}/{image_id}").status] == [403, 403]


def test_a_start_removes_what_no_row_knows(cloud: MemoryCloud, demo: Client, admin: Client) -> None:
    image_id = stored(demo)["id"]
    put(cloud, admin, image_id)
    left, strange = near(cloud, new_id()), near(cloud, "cloudctl.sqlite")
    for path in (left, strange):
        path.write_bytes(b"half a copy")
    recover(cloud.cloud.db, cloud.cloud.made(Stores))
    assert near(cloud, image_id).exists() and not left.exists()
    assert strange.exists(), "no copy has such a name"


def test_a_cloud_may_have_no_cache() -> None:
    cloud = MemoryCloud({"image": {"cache_size": 0}})
    admin = cloud.client("admin")
    image_id = stored(admin)["id"]
    assert [admin.get(CACHE).status, admin.put(f"{CACHE}/{image_id}").status, admin.delete(CACHE).status] == [404] * 3
    assert admin.get(f"{IMAGES}/{image_id}/file").body == b"data"
    cloud.close()
