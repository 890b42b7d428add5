"""Where data is: told to services, and to all where that is switched on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloudctl.rest.outgoing import FetchError, Unreached
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.compute.asking import Asking
from tests.image.asking import IMAGES, create, patch, show, stored
from tests.image.test_image_imports import URL, Origin, origin, task_of
from tests.image.test_image_inspection import qcow2

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


def test_where_it_is_switched_on_they_tell() -> None:
    cloud = MemoryCloud({"image": {"show_multiple_locations": True}})
    demo = cloud.client("demo")
    assert create(demo)["locations"] == []
    shown = stored(demo)
    (told,) = shown["locations"]
    assert set(told) == {"url", "metadata"} and told["metadata"] == {"store": "default"}
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


def added(client: Client, image_id: str, url: str, **wish: Any) -> int:
    return patch(client, image_id, {"op": "add", "path": "/locations/-", "value": {"url": url, **wish}}).status


def test_an_image_is_active_once_a_patch_says_where_its_data_is(shown: MemoryCloud, origin: Origin) -> None:
    demo = shown.client("demo")
    image_id, status = located_by_patch(demo, metadata={"foo": "bar"})
    found = show(demo, image_id)
    assert (status, found["status"], found["stores"]) == (200, "active", "web")
    assert found["locations"] == [{"url": URL, "metadata": {"foo": "bar", "store": "web"}}]
    assert [found[name] for name in ("size", "checksum", "os_hash_algo", "os_hash_value")] == [None] * 4
    shown.settle()
    assert origin.asked == []
    # Whoever wants the data has it looked at, once.
    for _ in range(2):
        assert demo.get(f"{IMAGES}/{image_id}/file").body == b"from the web"
    assert origin.asked == [URL]
    found = show(demo, image_id)
    assert (found["size"], found["os_hash_value"]) == (12, sums(b"from the web")["os_hash_value"])
    assert shown.cloud.drivers.image_path(image_id).read_bytes() == b"from the web"
    assert demo.delete(f"{IMAGES}/{image_id}").status == 204
    shown.settle()
    assert not shown.cloud.drivers.image_path(image_id).exists()


def test_what_is_said_of_the_data_is_shown_and_holds(shown: MemoryCloud, origin: Origin) -> None:
    demo = shown.client("demo")
    said = {"checksum": hashlib.md5(b"from the web").hexdigest(), **sums(b"from the web", "sha256")}
    image_id, _ = located_by_patch(demo, validation_data=said)
    assert {name: show(demo, image_id)[name] for name in said} == said
    assert demo.get(f"{IMAGES}/{image_id}/file").status == 200
    assert {name: show(demo, image_id)[name] for name in said} == said
    for wrong in ({"checksum": "1" * 32}, sums(b"something else")):
        image_id, _ = located_by_patch(demo, validation_data={**said, **wrong})
        assert demo.get(f"{IMAGES}/{image_id}/file").status == 409
        assert (show(demo, image_id)["status"], show(demo, image_id)["size"]) == ("active", None)
    origin.data = qcow2(backing=4096)
    image_id, _ = located_by_patch(demo)
    assert demo.get(f"{IMAGES}/{image_id}/file").status == 409
    origin.data = Unreached("nobody there")
    image_id, _ = located_by_patch(demo)
    assert demo.get(f"{IMAGES}/{image_id}/file").status == 503
    # Nothing of all this was kept.
    assert len(list((shown.cloud.config.data_dir / "images-of-addresses").iterdir())) == 1


def test_the_same_data_may_be_at_more_addresses(shown: MemoryCloud, origin: Origin) -> None:
    demo = shown.client("demo")
    said = {"checksum": "1" * 32, "os_hash_algo": "sha512", "os_hash_value": "deadbeef" * 16}
    image_id, _ = located_by_patch(demo, validation_data=said)
    for name, value in {"checksum": "2" * 32, "os_hash_value": "beefdead" * 16, "os_hash_algo": "sha256"}.items():
        assert added(demo, image_id, f"{URL}#new", validation_data={**said, name: value}) == 409
    assert added(demo, image_id, f"{URL}#new", validation_data=said, metadata={"speed": "88mph"}) == 200
    assert added(demo, image_id, f"{URL}#new") == 400
    assert added(demo, image_id, "http://127.0.0.1/x") == 400
    assert added(demo, image_id, f"{URL}#large", metadata={"x": "x" * 5000}) == 400
    first = {"op": "add", "path": "/locations/0", "value": {"url": f"{URL}#first"}}
    assert patch(demo, image_id, first).status == 200
    there = show(demo, image_id)["locations"]
    assert [each["url"] for each in there] == [f"{URL}#first", URL, f"{URL}#new"]
    # Their metadata and their order may change; an address is removed, not replaced.
    changed = [{**there[1], "metadata": {"date": "2015-10-15"}}, there[0], there[2]]
    replaced = {"op": "replace", "path": "/locations"}
    assert patch(demo, image_id, {**replaced, "value": changed}).status == 200
    found = show(demo, image_id)["locations"]
    assert found == [{"url": URL, "metadata": {"date": "2015-10-15", "store": "web"}}, there[0], there[2]]
    other = {**there[0], "url": f"{URL}#other"}
    wrong: list[Any] = [
        [],
        found[:2],
        [other, *found[1:]],
        [{**found[0], "metadata": {"store": "fast"}}, *found[1:]],
        "x",
    ]
    for value in wrong:
        assert patch(demo, image_id, {**replaced, "value": value}).status == 400
    for path, status in (
        ("/locations/3", 400),
        (f"/locations/{'1' * 5000}", 400),
        ("/locations/-", 400),
        ("/locations", 403),
        ("/locations/1", 200),
        ("/locations/1", 200),
        ("/locations/0", 403),
    ):
        assert patch(demo, image_id, {"op": "remove", "path": path}).status == status
    assert show(demo, image_id)["locations"] == found[:1]
    for number in range(9):
        assert added(demo, image_id, f"{URL}#{number}") == 200
    assert added(demo, image_id, f"{URL}#10") == 413


def test_an_address_that_gives_nothing_is_made_up_for_by_the_next(shown: MemoryCloud, origin: Origin) -> None:
    demo = shown.client("demo")
    image_id, _ = located_by_patch(demo)
    assert added(demo, image_id, f"{URL}2") == 200

    def answer() -> None:
        origin.data = FetchError("The server answered 404.") if origin.asked[-1] == URL else b"from the second"

    origin.during = answer
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"from the second"
    assert origin.asked == [URL, f"{URL}2"]


def test_servers_and_volumes_are_made_of_data_that_nobody_has_looked_at(shown: MemoryCloud, origin: Origin) -> None:
    demo = shown.client("demo")
    image_id, _ = located_by_patch(demo)
    volume = {"volume": {"size": 1, "imageRef": image_id}}
    volume_id = demo.post("/volume/v3/volumes", volume).json()["volume"]["id"]
    shown.settle()
    assert demo.get(f"/volume/v3/volumes/{volume_id}").json()["volume"]["status"] == "available"
    assert (origin.asked, show(demo, image_id)["size"]) == ([URL], 12)
    origin.data = FetchError("The server answered 404.")
    image_id, _ = located_by_patch(demo)
    asking = Asking(demo)
    server_id = asking.create(imageRef=image_id).json()["server"]["id"]
    shown.settle()
    server = asking.get(f"/servers/{server_id}").json()["server"]
    assert server["status"] == "ERROR" and "404" in server["fault"]["message"]


def test_copies_are_made_of_data_that_nobody_has_looked_at(shown: MemoryCloud) -> None:
    demo, admin = shown.client("demo"), shown.client("admin")
    image_id, _ = located_by_patch(demo)
    wish = {"method": {"name": "copy-image"}, "stores": ["fast"]}
    assert admin.post(f"{IMAGES}/{image_id}/import", wish).status == 202
    shown.settle()
    found = show(demo, image_id)
    assert (sorted(found["stores"].split(",")), found["size"]) == (["fast", "web"], 12)
    # The address goes with its store.
    assert patch(demo, image_id, {"op": "remove", "path": f"/locations/{_of(found, URL)}"}).status == 200
    shown.settle()
    (left,) = show(demo, image_id)["locations"]
    assert left["metadata"] == {"store": "fast"}
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"from the web"


def _of(found: dict[str, Any], url: str) -> int:
    return [each["url"] for each in found["locations"]].index(url)


def test_only_an_image_without_data_is_told_where_it_is(shown: MemoryCloud, origin: Origin) -> None:
    demo = shown.client("demo")
    kept = stored(demo)
    assert added(demo, kept["id"], URL) == 400
    replaced = {"op": "replace", "path": "/locations"}
    moved = [{**kept["locations"][0], "metadata": {"store": "default", "date": "2015-10-15"}}]
    assert patch(demo, kept["id"], {**replaced, "value": kept["locations"]}).status == 200
    assert patch(demo, kept["id"], {**replaced, "value": moved}).status == 400
    image_id = create(demo)["id"]
    several = [{"url": URL, "metadata": {}}, {"url": f"{URL}2", "metadata": {}}]
    assert patch(demo, image_id, {**replaced, "value": []}).status == 200
    assert patch(demo, image_id, {**replaced, "value": several}).status == 200
    assert [each["url"] for each in show(demo, image_id)["locations"]] == [URL, f"{URL}2"]
    unformed = create(demo, disk_format=None)["id"]
    assert added(demo, unformed, URL) == 400
    assert origin.asked == []


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
