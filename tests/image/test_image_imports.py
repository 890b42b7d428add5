"""Imports: staged data and web addresses become images in the background."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from twisted.internet.defer import Deferred

from cloudctl.app import Cloud
from cloudctl.errors import Invalid
from cloudctl.image import web
from cloudctl.image.imports import Address, address
from cloudctl.image.options import ImageOptions
from cloudctl.image.store import ImageStore
from cloudctl.rest.outgoing import FetchError, Unreached
from cloudctl.testing.cloud import PASSWORDS, Client, MemoryCloud
from tests.image.asking import DATA, IMAGES, create, patch, show, stored, upload
from tests.image.test_image_inspection import qcow2

URL = "http://images.example.com/cirros.img"
DIRECT = {"method": {"name": "glance-direct"}}
WEB = {"method": {"name": "web-download", "uri": URL}}


class Origin:
    """The web as imports see it: what is asked for, and what it gives."""

    def __init__(self) -> None:
        self.data: bytes | Exception = b"from the web"
        self.asked: list[str] = []
        self.during: Callable[[], object] = lambda: None
        self.rest: Deferred[None] | None = None  # what it gives comes with this

    async def fetch(self, uri: str, path: Path) -> None:
        self.asked.append(uri)
        path.write_bytes(b"half of it")
        self.during()
        if self.rest is not None:
            await self.rest
        if isinstance(self.data, Exception):
            raise self.data
        path.write_bytes(self.data)


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> Origin:
    made = Origin()
    monkeypatch.setattr(web, "fetches", lambda *_: made.fetch)
    return made


@pytest.fixture
def cloud(origin: Origin) -> Iterator[MemoryCloud]:
    made = MemoryCloud()
    yield made
    made.close()


def stage(client: Client, image_id: str, body: bytes = b"staged", **headers: str) -> int:
    return client.put(f"{IMAGES}/{image_id}/stage", body=body, headers={**DATA, **headers}).status


def start(client: Client, image_id: str, body: Any) -> int:
    return client.post(f"{IMAGES}/{image_id}/import", body).status


def task_of(client: Client, image_id: str) -> dict[str, Any]:
    (task,) = client.get(f"{IMAGES}/{image_id}/tasks").json()["tasks"]
    assert isinstance(task, dict)
    return task


def files(cloud: Cloud) -> list[str]:
    return sorted(os.listdir(cloud.made(ImageStore).directory))


# -- staged data


def test_staged_data_becomes_the_images(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    before = files(cloud.cloud)
    assert stage(demo, image_id) == 204
    assert show(demo, image_id)["status"] == "uploading"
    answer = demo.post(f"{IMAGES}/{image_id}/import", DIRECT)
    assert (answer.status, answer.body) == (202, b"")
    assert show(demo, image_id)["status"] == "importing"
    assert task_of(demo, image_id)["status"] in ("pending", "processing")
    cloud.settle()
    shown = show(demo, image_id)
    assert (shown["status"], shown["size"]) == ("active", 6)
    assert shown["checksum"] == hashlib.md5(b"staged").hexdigest()
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"staged"
    assert files(cloud.cloud) == sorted([*before, image_id])


@pytest.mark.parametrize("body", [DIRECT, WEB])
def test_what_a_dead_upload_has_left_is_not_taken_for_the_data(
    cloud: MemoryCloud, demo: Client, origin: Origin, body: Any
) -> None:
    """As long as its process has not started again."""
    image_id = create(demo)["id"]
    cloud.cloud.made(ImageStore).path(image_id).write_bytes(b"old")
    if body is DIRECT:
        assert stage(demo, image_id, b"from the web") == 204
    assert demo.post(f"{IMAGES}/{image_id}/import", body).status == 202
    cloud.settle()
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"from the web"


def test_an_import_is_told_by_its_task(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    start(demo, image_id, WEB)
    cloud.settle()
    task = task_of(demo, image_id)
    assert task["id"] != image_id
    assert task["request_id"].startswith("req-")
    assert task["input"] == {"image_id": image_id, "import_req": WEB, "backend": ["default"]}
    assert (task["type"], task["status"], task["message"]) == ("api_image_import", "success", "")
    assert (task["image_id"], task["result"]) == (image_id, {"image_id": image_id})
    assert task["owner"] == show(demo, image_id)["owner"]
    assert task["expires_at"] >= "2027-01-17T08:00:00Z"


def test_staging_twice_is_409(demo: Client) -> None:
    image_id = create(demo)["id"]
    assert [stage(demo, image_id), stage(demo, image_id), upload(demo, image_id).status] == [204, 409, 409]


def test_what_is_not_ready_for_an_import_is_409(demo: Client) -> None:
    queued, active = create(demo)["id"], stored(demo)["id"]
    bare = demo.post(IMAGES, {}).json()["id"]
    staged = create(demo)["id"]
    assert stage(demo, bare) == stage(demo, staged) == 204
    asked = [(queued, DIRECT), (active, DIRECT), (active, WEB), (bare, DIRECT), (staged, WEB)]
    assert [start(demo, image_id, body) for image_id, body in asked] == [409] * 5


@pytest.mark.parametrize(
    "body",
    [
        {}, {"method": "glance-direct"}, {"method": {}}, {"method": {"name": "copy-image"}},
        {"method": {"name": "web-download"}}, {"method": {"name": "glance-direct", "uri": URL}},
        {"method": {"name": "web-download", "uri": ""}}, {**WEB, "stores": ["other"]}, {**WEB, "more": 1},
        {"method": {"name": "web-download", "uri": 5}},
    ],
)  # fmt: skip
def test_a_wrong_import_is_400(demo: Client, body: Any) -> None:
    image_id = create(demo)["id"]
    assert start(demo, image_id, body) == 400
    assert show(demo, image_id)["status"] == "queued"


def test_what_stock_clients_send_along_is_taken(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    more = {"stores": ["default"], "all_stores": False, "all_stores_must_succeed": True}
    assert start(demo, image_id, {**WEB, **more}) == 202


def test_staged_data_in_another_format_fails_and_can_be_brought_again(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    before = files(cloud.cloud)
    stage(demo, image_id, qcow2())
    start(demo, image_id, DIRECT)
    cloud.settle()
    assert show(demo, image_id)["status"] == "queued"
    task = task_of(demo, image_id)
    assert (task["status"], task["result"]) == ("failure", None)
    assert "it looks like qcow2" in task["message"]
    assert files(cloud.cloud) == before
    assert upload(demo, image_id).status == 204


def test_an_image_deleted_while_staged_leaves_nothing(cloud: MemoryCloud, demo: Client) -> None:
    before = files(cloud.cloud)
    image_id = create(demo)["id"]
    stage(demo, image_id)
    demo.delete(f"{IMAGES}/{image_id}")
    cloud.settle()
    assert files(cloud.cloud) == before


# -- web


def test_an_address_is_fetched(cloud: MemoryCloud, demo: Client, origin: Origin) -> None:
    image_id = create(demo)["id"]
    assert start(demo, image_id, WEB) == 202
    cloud.settle()
    assert origin.asked == [URL]
    assert show(demo, image_id)["status"] == "active"
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"from the web"


@pytest.mark.parametrize(("error", "tries"), [(FetchError("The server answered 404."), 1), (Unreached("silence"), 3)])
def test_a_failed_download_is_told_and_may_be_tried_again(
    cloud: MemoryCloud, demo: Client, origin: Origin, error: Exception, tries: int
) -> None:
    origin.data = error
    image_id = create(demo)["id"]
    before = files(cloud.cloud)
    start(demo, image_id, WEB)
    cloud.settle()
    assert len(origin.asked) == tries
    assert show(demo, image_id)["status"] == "queued"
    task = task_of(demo, image_id)
    assert task["status"] == "failure"
    assert str(error) in task["message"]
    assert files(cloud.cloud) == before
    origin.data = b"now"
    assert start(demo, image_id, WEB) == 202
    cloud.settle()
    assert show(demo, image_id)["status"] == "active"


def test_a_download_that_was_given_up_does_not_write_into_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a process that was frozen for so long that another one has its task."""
    frozen: list[IO[bytes]] = []

    async def fetch(uri: str, path: Path) -> None:
        file = path.open("wb", buffering=0)
        if not frozen:
            frozen.append(file)
            raise Unreached("nobody waits for it")
        file.write(b"data")
        file.close()

    monkeypatch.setattr(web, "fetches", lambda *_: fetch)
    cloud = MemoryCloud()
    demo = cloud.client("demo")
    image_id = create(demo)["id"]
    assert start(demo, image_id, WEB) == 202
    cloud.settle()
    frozen[0].write(b"late")
    frozen[0].close()
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"data"
    cloud.close()


def test_deleting_stops_an_import(cloud: MemoryCloud, demo: Client, origin: Origin, admin: Client) -> None:
    image_id = create(demo)["id"]
    before = files(cloud.cloud)
    origin.during = lambda: demo.delete(f"{IMAGES}/{image_id}")
    start(demo, image_id, WEB)
    cloud.settle()
    assert demo.get(f"{IMAGES}/{image_id}").status == 404
    assert files(cloud.cloud) == before
    (task,) = admin.get("/image/v2/tasks").json()["tasks"]
    assert task["status"] == "failure"


def test_a_download_that_takes_hours_ends_when_its_image_is_deleted(
    cloud: MemoryCloud, demo: Client, origin: Origin
) -> None:
    image_id = create(demo)["id"]
    before, stopped = files(cloud.cloud), list[Any]()
    origin.rest = Deferred(stopped.append)
    start(demo, image_id, WEB)
    cloud.advance(60)
    assert demo.delete(f"{IMAGES}/{image_id}").status == 204
    cloud.settle()
    assert len(stopped) == 1 and files(cloud.cloud) == before


def test_a_patch_during_an_import_is_kept(cloud: MemoryCloud, demo: Client, origin: Origin) -> None:
    image_id = create(demo)["id"]
    origin.during = lambda: patch(demo, image_id, {"op": "replace", "path": "/name", "value": "new"})
    start(demo, image_id, WEB)
    cloud.settle()
    shown = show(demo, image_id)
    assert (shown["name"], shown["status"]) == ("new", "active")


PORTS = (80, 443)


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("http://example.com/a", Address("http", "example.com", 80)),
        ("https://example.com", Address("https", "example.com", 443)),
        ("HTTP://EXAMPLE.com:80/a?b#c", Address("http", "example.com", 80)),
        ("http://[2001:db8::1]/", Address("http", "2001:db8::1", 80)),
    ],
)
def test_an_address_is_taken_apart(uri: str, found: Address) -> None:
    assert address(uri, PORTS) == found


@pytest.mark.parametrize(
    "uri",
    ["", "x", "ftp://example.com/", "file:///etc/passwd", "http:///x", "http://example.com:8080/", "http://a:b@c/",
     "http://example.com:99999/", "http://example.com:x/", "http://exa mple.com/", "http://example.com/\r\nX: y",
     "http://é.com/", "http://[::1/", "http://example.com/" + "x" * 2100],
)  # fmt: skip
def test_an_address_that_is_none_is_refused(uri: str) -> None:
    with pytest.raises(Invalid):
        address(uri, PORTS)


@pytest.mark.parametrize(
    "host",
    ["localhost", "x.localhost", "127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "[::1]",
     "[::ffff:10.0.0.1]", "[fe80::1]", "100.64.0.1", "224.0.0.1"],
)  # fmt: skip
def test_hosts_of_the_operators_networks_are_400(demo: Client, host: str) -> None:
    body = {"method": {"name": "web-download", "uri": f"http://{host}/image"}}
    assert start(demo, create(demo)["id"], body) == 400


def test_an_operator_may_allow_networks_and_ports(origin: Origin) -> None:
    cloud = MemoryCloud({"image": {"import_networks": ["10.0.0.0/8"], "import_ports": [80, 8080]}})
    demo = cloud.client("demo")
    body = {"method": {"name": "web-download", "uri": "http://10.1.2.3:8080/image"}}
    assert start(demo, create(demo)["id"], body) == 202
    body = {"method": {"name": "web-download", "uri": "http://192.168.1.1:8080/image"}}
    assert start(demo, create(demo)["id"], body) == 400
    cloud.close()


def test_a_network_that_is_none_is_refused_at_start() -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        ImageOptions(import_networks=("10.0",))


# -- the older way


def older(**properties: Any) -> dict[str, Any]:
    made = {"container_format": "bare", "disk_format": "raw", "name": "made", **properties}
    return {"type": "import", "input": {"import_from": URL, "import_from_format": "raw", "image_properties": made}}


def test_a_task_makes_an_image(cloud: MemoryCloud, admin: Client) -> None:
    answer = admin.post("/image/v2/tasks", older(visibility="public"))
    assert answer.status == 201
    made = answer.json()
    assert answer.headers["Location"].endswith(made["self"])
    assert (made["type"], made["status"], made["input"]["import_from"]) == ("import", "pending", URL)
    cloud.settle()
    task = admin.get(f"/image/v2/tasks/{made['id']}").json()
    assert task["status"] == "success"
    assert show(admin, task["result"]["image_id"])["status"] == "active"
    listed = admin.get("/image/v2/tasks?status=success").json()
    assert [each["id"] for each in listed["tasks"]] == [made["id"]]
    assert listed["first"] == "/v2/tasks?status=success"


def test_a_task_that_fails_leaves_no_image(cloud: MemoryCloud, admin: Client, origin: Origin) -> None:
    origin.data = FetchError("The server answered 404.")
    before = len(admin.get(IMAGES).json()["images"])
    made = admin.post("/image/v2/tasks", older()).json()
    cloud.settle()
    task = admin.get(f"/image/v2/tasks/{made['id']}").json()
    assert (task["status"], task["message"], task["result"]) == ("failure", "The server answered 404.", None)
    assert len(admin.get(IMAGES).json()["images"]) == before


@pytest.mark.parametrize(
    "body",
    [{}, {"type": "export", "input": {"import_from": URL}}, {"type": "import", "input": {}}, older(visibility="x"),
     {"type": "import", "input": {"import_from": URL}}],
)  # fmt: skip
def test_a_wrong_task_is_400(admin: Client, body: Any) -> None:
    assert admin.post("/image/v2/tasks", body).status == 400


def test_tasks_are_for_administrators(demo: Client) -> None:
    asked = [demo.get("/image/v2/tasks"), demo.get("/image/v2/tasks/x"), demo.post("/image/v2/tasks", older())]
    assert [answer.status for answer in asked] == [403] * 3


def test_an_unknown_task_is_404(admin: Client) -> None:
    assert admin.get("/image/v2/tasks/nothing").status == 404


def test_records_of_imports_expire(cloud: MemoryCloud, admin: Client) -> None:
    task_id = admin.post("/image/v2/tasks", older()).json()["id"]
    cloud.settle()
    assert admin.get(f"/image/v2/tasks/{task_id}").status == 200
    cloud.advance(49 * 3600)
    scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
    later = Client(cloud, cloud.login("admin", PASSWORDS["admin"], scope))
    assert later.get("/image/v2/tasks").json()["tasks"] == []
    assert later.get(f"/image/v2/tasks/{task_id}").status == 404
