"""Where data is: told to services, and to all where that is switched on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud
from tests.image.asking import IMAGES, create, patch, show, stored
from tests.image.test_image_imports import URL, Origin, origin, task_of

__all__ = ["origin"]

DATA_HASH = hashlib.sha512(b"data").hexdigest()


@pytest.fixture(scope="module")
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud({"image": {"web_store": True}})
    yield made
    made.close()


@pytest.fixture
def web(origin: Origin) -> Iterator[MemoryCloud]:
    """A cloud for which the web is `origin`."""
    made = MemoryCloud({"image": {"web_store": True}})
    yield made
    made.close()


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
    cloud.close()


# -- patches of them, where images show them


@pytest.fixture
def shown(origin: Origin) -> Iterator[MemoryCloud]:
    """A cloud that shows locations, has two stores and takes addresses in `origin`."""
    options = {"show_multiple_locations": True, "web_store": True, "stores": {"fast": {"directory": "fast"}}}
    made = MemoryCloud({"image": options})
    yield made
    made.close()


def located_by_patch(client: Client, **wish: Any) -> tuple[str, int]:
    image_id = create(client)["id"]
    answer = patch(client, image_id, {"op": "add", "path": "/locations/-", "value": {"url": URL, **wish}})
    return image_id, answer.status


def test_an_image_gets_its_location_by_a_patch(shown: MemoryCloud) -> None:
    demo = shown.client("demo")
    said = {"validation_data": {"checksum": "0" * 32, **sums(b"from the web", "sha256")}, "metadata": {}}
    image_id, status = located_by_patch(demo, **said)
    assert (status, show(demo, image_id)["status"]) == (200, "importing")
    shown.settle()
    found = show(demo, image_id)
    assert (found["status"], found["stores"], found["os_hash_algo"]) == ("active", "web", "sha256")
    assert [each["url"] for each in found["locations"]] == [URL]
    # What it shows may be said again; nothing else takes its place, and the only one stays.
    replaced = {"op": "replace", "path": "/locations"}
    assert patch(demo, image_id, {**replaced, "value": found["locations"]}).status == 200
    other = {**found["locations"][0], "url": f"{URL}2"}
    moved = {**found["locations"][0], "metadata": {"date": "2015-10-15"}}
    wrong: list[Any] = [[], [other], [moved], [*found["locations"], other], "x", [{"metadata": {}}]]
    for value in wrong:
        assert patch(demo, image_id, {**replaced, "value": value}).status == 400
    for path, status in (
        ("/locations/0", 403),
        ("/locations/1", 400),
        (f"/locations/{'1' * 5000}", 400),
        ("/locations/-", 400),
        ("/locations", 403),
    ):
        assert patch(demo, image_id, {"op": "remove", "path": path}).status == status
    assert patch(demo, image_id, {"op": "remove", "path": f"/locations/{'1' * 5000}"}).status == 400
    assert show(demo, image_id) == found


def test_a_location_that_is_not_as_said_leaves_the_image_without(shown: MemoryCloud) -> None:
    demo = shown.client("demo")
    image_id, _ = located_by_patch(demo, validation_data=sums(b"something else"))
    shown.settle()
    assert (show(demo, image_id)["status"], show(demo, image_id)["locations"]) == ("queued", [])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/locations/-", {"url": "gopher://example.com/x"}),
        ("/locations/-", {"url": "file:///etc/passwd"}),
        ("/locations/-", {"url": URL, "metadata": {"store": "fast"}}),
        ("/locations/-", {"url": URL, "validation_data": {"os_hash_algo": "sha512", "os_hash_value": "x"}}),
        ("/locations/-", {"metadata": {}}),
        ("/locations/1", {"url": URL}),
        ("/locations/x", {"url": URL}),
        (f"/locations/{'9' * 5000}", {"url": URL}),
        ("/locations", {"url": URL}),
    ],
)
def test_what_is_no_location_changes_nothing(shown: MemoryCloud, path: str, value: Any) -> None:
    demo = shown.client("demo")
    before = create(demo)
    operations = {"op": "replace", "path": "/name", "value": "new"}, {"op": "add", "path": path, "value": value}
    assert patch(demo, before["id"], *operations).status == 400
    assert show(demo, before["id"]) == before


def test_one_of_several_locations_is_removed_with_its_data(shown: MemoryCloud) -> None:
    demo, admin = shown.client("demo"), shown.client("admin")
    image_id = stored(demo)["id"]
    wish = {"method": {"name": "copy-image"}, "stores": ["fast"]}
    assert admin.post(f"{IMAGES}/{image_id}/import", wish).status == 202
    shown.settle()
    urls = [each["url"] for each in show(demo, image_id)["locations"]]
    assert len(urls) == 2
    removal = {"op": "remove", "path": "/locations/1"}
    assert patch(demo, image_id, removal).status == 200
    shown.settle()
    assert [each["url"] for each in show(demo, image_id)["locations"]] == urls[:1]
    there = [Path(url.removeprefix("file://")).exists() for url in urls]
    assert there == [True, False]


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


# -- data that is at an address


def sums(data: bytes, algorithm: str = "sha512") -> dict[str, str]:
    return {"os_hash_algo": algorithm, "os_hash_value": hashlib.new(algorithm, data).hexdigest()}


def located(client: Client, cloud: MemoryCloud, **wish: Any) -> dict[str, Any]:
    """An image that was told where its data is, in the end."""
    image_id = create(client)["id"]
    answer = client.post(f"{IMAGES}/{image_id}/locations", {"url": URL, **wish})
    assert (answer.status, answer.body) == (202, b"")
    assert show(client, image_id)["status"] == "importing"
    cloud.settle()
    return show(client, image_id)


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"validation_data": {}},  # stock clients know of none, and say so
        {"validation_data": sums(b"from the web", "sha256")},
        {"validation_data": sums(b"from the web", "sha512")},
    ],
)
def test_an_image_is_told_where_its_data_is(web: MemoryCloud, origin: Origin, wish: dict[str, Any]) -> None:
    demo, admin = web.client("demo"), web.client("admin")
    shown = located(demo, web, **wish)
    assert (shown["status"], shown["stores"], shown["size"]) == ("active", "web", 12)
    found = {name: shown[name] for name in ("os_hash_algo", "os_hash_value")}
    assert found == (wish.get("validation_data") or sums(b"from the web"))
    (told,) = admin.get(f"{IMAGES}/{shown['id']}/locations").json()
    assert told == {"url": URL, "metadata": {"store": "web"}}
    task = task_of(demo, shown["id"])
    assert (task["type"], task["status"], task["input"]["loc_url"]) == ("location_import", "success", URL)
    # What was looked at is what is read, however often, and whatever is there now.
    origin.data = b"something else"
    assert demo.get(f"{IMAGES}/{shown['id']}/file").body == b"from the web"
    assert web.cloud.drivers.image_path(shown["id"]).read_bytes() == b"from the web"
    assert origin.asked == [URL]
    assert demo.delete(f"{IMAGES}/{shown['id']}").status == 204
    web.settle()
    assert not web.cloud.drivers.image_path(shown["id"]).exists()


def test_data_that_is_not_what_was_said_is_not_taken(web: MemoryCloud, origin: Origin) -> None:
    demo = web.client("demo")
    shown = located(demo, web, validation_data=sums(b"what should be there"))
    assert (shown["status"], shown["checksum"], shown["os_hash_value"]) == ("queued", None, None)
    task = task_of(demo, shown["id"])
    assert task["status"] == "failure" and "sha512" in task["message"]
    # It may be tried again.
    again = demo.post(f"{IMAGES}/{shown['id']}/locations", {"url": URL, "validation_data": sums(b"from the web")})
    assert again.status == 202
    web.settle()
    assert show(demo, shown["id"])["status"] == "active"


def test_not_every_address_and_not_every_image(demo: Client, alt: Client, reader: Client) -> None:
    path = f"{IMAGES}/{create(demo)['id']}/locations"
    for url in ("gopher://example.com/x", "file:///etc/passwd", "http://127.0.0.1/x", "http://example.com:22/x"):
        answer = demo.post(path, {"url": url})
        assert answer.status == 400 and "does not pass filtering" in answer.json()["message"]
    assert alt.post(path, {"url": URL}).status == 404
    assert reader.post(path, {"url": URL}).status == 403
    assert demo.post(f"{IMAGES}/{create(demo, disk_format=None)['id']}/locations", {"url": URL}).status == 400
    assert demo.post(f"{IMAGES}/{stored(demo)['id']}/locations", {"url": URL}).status == 409


def test_there_is_no_store_of_addresses_unless_it_is_asked_for() -> None:
    cloud = MemoryCloud()
    demo = cloud.client("demo")
    answer = demo.post(f"{IMAGES}/{create(demo)['id']}/locations", {"url": URL})
    assert answer.status == 400 and "web-download" in answer.json()["message"]
    assert [each["id"] for each in demo.get("/image/v2/info/stores").json()["stores"]] == ["default"]
    cloud.close()
