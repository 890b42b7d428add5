"""Nothing of an upload is kept before it is known that it may be, and all that is under way stays within a budget."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import insert
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from cloudctl.db import Connection
from cloudctl.image.store import ImageStore
from cloudctl.rest.quota import QuotaLimit
from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.testing.http import parse
from tests.image.asking import DATA, IMAGES, create, patch, project_of, show, stored, upload

SOME = b"x" * 300_000
GIB = 2**30
CHUNK = 2**16


class Upload:
    """One that has begun: its head and a part of its body were sent. `length` None: it does not say how long it is."""

    def __init__(
        self, cloud: MemoryCloud, path: str, token: str | None, length: int | None = GIB, **headers: str
    ) -> None:
        address = IPv4Address("TCP", "192.0.2.7", 4000)
        self.cloud = cloud
        self.transport = StringTransport(peerAddress=address)
        self.channel = cast(Any, cloud.site.buildProtocol(address))
        self.channel.makeConnection(self.transport)
        size = {"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}
        told = {"Host": "x", **DATA, **size, **headers}
        if token is not None:
            told["X-Auth-Token"] = token
        head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        self.send(f"PUT {path} HTTP/1.1\r\n{head}\r\n".encode())

    def send(self, data: bytes) -> None:
        self.channel.dataReceived(data)

    def send_chunks(self, count: int, *last: int) -> None:
        """`count` full chunks, and one of each size in `last`; one of 0 ends the body."""
        for size in (*[CHUNK] * count, *last):
            self.send(b"%x\r\n" % size + b"x" * size + b"\r\n")
        self.cloud.advance(0)

    def status(self, others: int = 0) -> int:
        """As it was answered when the client went on sending for a while, and nothing was kept but of `others`."""
        while not self.transport.value() and not self.transport.disconnecting:
            self.send(SOME)
            assert kept(self.cloud) == others
            self.cloud.advance(0)
        return parse(self.transport.value(), "PUT").status

    def end(self) -> None:
        self.channel.connectionLost(Failure(ConnectionDone()))


def spooled(cloud: MemoryCloud) -> list[str]:
    return [name for name in os.listdir(cloud.cloud.made(ImageStore).directory) if name.startswith("upload-")]


def kept(cloud: MemoryCloud) -> int:
    """Bytes on the disk, and in memory, of uploads that are under way."""
    directory = cloud.cloud.made(ImageStore).directory
    on_disk = sum((directory / name).stat().st_size for name in spooled(cloud))
    requests = [each.requests[-1] for each in cloud.site.connections.open if each.requests]
    in_memory = (cloud.site.uploads or {})["image"].memory.held
    return on_disk + in_memory + sum(len(each.body.getvalue()) for each in requests)


def revoked(cloud: MemoryCloud, demo: Client) -> str:
    token = cloud.login("demo", "demo-secret", {"project": {"name": "demo", "domain": {"id": "default"}}})
    gone = {"X-Subject-Token": token}
    assert cloud.client("admin").delete("/identity/v3/auth/tokens", headers=gone).status == 204
    return token


def limited(conn: Connection, project_id: str, resource: str = "image_size_total", limit: int = 5) -> None:
    conn.execute(insert(QuotaLimit).values(service="image", project_id=project_id, resource=resource, limit=limit))


# What is wrong → (path, token, status) of the upload.
WRONG: dict[str, Callable[[MemoryCloud, Client, Any], tuple[str, str | None, int]]] = {
    "no token": lambda cloud, demo, persona: (create(demo)["id"], None, 401),
    "no token at all": lambda cloud, demo, persona: (create(demo)["id"], "x" * 200, 401),
    "a revoked token": lambda cloud, demo, persona: (create(demo)["id"], revoked(cloud, demo), 401),
    "an unscoped token": lambda cloud, demo, persona: (
        create(demo)["id"], cloud.login("other", "demo-secret", "unscoped"), 403,
    ),
    "a reader": lambda cloud, demo, persona: (create(demo)["id"], persona("rita", "demo", "reader").token, 403),
    "a stranger": lambda cloud, demo, persona: (create(demo)["id"], persona("alt", "alt", "member").token, 404),
    "no such image": lambda cloud, demo, persona: ("nothing", demo.token, 404),
    "an active image": lambda cloud, demo, persona: (stored(demo)["id"], demo.token, 409),
    "no formats": lambda cloud, demo, persona: (demo.post(IMAGES, {}).json()["id"], demo.token, 400),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("operation", ["file", "stage"])
def test_what_may_not_be_is_refused_before_it_is_kept(
    cloud: MemoryCloud, demo: Client, persona: Any, what: str, operation: str
) -> None:
    if what == "an unscoped token":
        persona("other", "alone", "member")
    if what == "no formats" and operation == "stage":
        return  # data may wait for an import of an image that has none yet
    image_id, token, status = WRONG[what](cloud, demo, persona)
    assert Upload(cloud, f"{IMAGES}/{image_id}/{operation}", token).status() == status
    assert spooled(cloud) == []


def test_the_quota_is_asked_before(cloud: MemoryCloud, demo: Client) -> None:
    cloud.transact(limited, project_of(demo))
    image_id = create(demo)["id"]
    assert Upload(cloud, f"{IMAGES}/{image_id}/file", demo.token, 6 * 2**20).status() == 413
    assert upload(demo, image_id, b"x" * 2**20).status == 204


@pytest.mark.parametrize(
    "path", ["/", "/compute/v2.1/servers", "/image/v2/images", "/image/v2/nothing", "/nothing", "/volume/v3/volumes"]
)
def test_a_body_that_only_calls_itself_an_upload_is_none(cloud: MemoryCloud, demo: Client, path: str) -> None:
    began = Upload(cloud, path, demo.token)
    assert parse(began.transport.value(), "PUT").status == 413  # at once: it would be too large for any other call
    assert spooled(cloud) == []


def test_a_client_that_waits_for_a_word_gets_the_last_one(cloud: MemoryCloud, demo: Client) -> None:
    began = Upload(cloud, f"{IMAGES}/nothing/file", demo.token, Expect="100-continue")
    cloud.advance(0)
    assert parse(began.transport.value(), "PUT").status == 404
    assert began.transport.disconnecting
    image_id = create(demo)["id"]
    began = Upload(cloud, f"{IMAGES}/{image_id}/file", demo.token, 4, Expect="100-continue")
    assert began.transport.value().startswith(b"HTTP/1.1 100 ")
    began.send(b"data")
    assert show(demo, image_id)["status"] == "active"


def test_a_refusal_in_chunks_is_told_in_the_words_of_the_service(cloud: MemoryCloud, demo: Client) -> None:
    head = f"PUT {IMAGES}/nothing/file HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {demo.token}\r\n"
    head += "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    transport = StringTransport()
    channel = cast(Any, cloud.site.buildProtocol(IPv4Address("TCP", "192.0.2.7", 4000)))
    channel.makeConnection(transport)
    channel.dataReceived(head.encode())
    for _ in range(80):
        channel.dataReceived(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
    channel.dataReceived(b"0\r\n\r\n")
    cloud.advance(0)
    assert parse(transport.value(), "PUT").status == 404
    assert kept(cloud) == 0


def test_what_is_under_way_stays_within_the_budget() -> None:
    cloud = MemoryCloud({"image": {"upload_budget": 1_000_000}})
    demo = cloud.client("demo")
    ids = [create(demo)["id"] for _ in range(4)]
    first = Upload(cloud, f"{IMAGES}/{ids[0]}/file", demo.token, 900_000)
    first.send(SOME + SOME)
    # Announced too large; and grown too large without an announcement.
    second = Upload(cloud, f"{IMAGES}/{ids[1]}/file", demo.token, 900_000, Expect="100-continue")
    cloud.advance(0)
    told = parse(second.transport.value(), "PUT")
    assert (told.status, told.headers["Retry-After"]) == (503, "30")
    third = Upload(cloud, f"{IMAGES}/{ids[2]}/file", demo.token, 400_000)
    third.send(SOME)
    third.send(b"x" * 100_000)
    assert show(demo, ids[2])["status"] == "active"
    uploads = cloud.cloud.uploads["image"]
    assert uploads.in_flight == 600_000
    first.end()
    assert uploads.in_flight == 0 and spooled(cloud) == []
    cloud.close()


def test_one_project_cannot_take_the_whole_budget() -> None:
    cloud = MemoryCloud({"image": {"upload_budget": 1_000_000, "upload_share": 500_000}})
    demo, admin = cloud.client("demo"), cloud.client("admin")
    ids = [create(demo)["id"] for _ in range(3)]
    first = Upload(cloud, f"{IMAGES}/{ids[0]}/file", demo.token, 450_000)
    first.send(SOME)
    # Announced over the share, and grown over it; each is its project's.
    second = Upload(cloud, f"{IMAGES}/{ids[1]}/file", demo.token, 300_000, Expect="100-continue")
    cloud.advance(0)
    assert parse(second.transport.value(), "PUT").status == 503
    third = Upload(cloud, f"{IMAGES}/{ids[2]}/file", demo.token, None)
    third.send_chunks(4, 0)
    told = parse(third.transport.value(), "PUT")
    assert (told.status, told.headers["Retry-After"]) == (503, "30")
    other = Upload(cloud, f"{IMAGES}/{create(admin)['id']}/file", admin.token, 300_000, Expect="100-continue")
    assert other.transport.value().startswith(b"HTTP/1.1 100 ")
    other.end()
    first.send(b"x" * 150_000)
    assert show(demo, ids[0])["status"] == "active"
    uploads = cloud.cloud.uploads["image"]
    assert (uploads.in_flight, uploads.under_way(project_of(demo))) == (0, 0)
    cloud.close()


@pytest.mark.parametrize(("where", "resource"), [("file", "image_size_total"), ("stage", "image_stage_total")])
def test_an_upload_without_a_length_is_held_against_the_quota_as_it_flows(
    cloud: MemoryCloud, demo: Client, where: str, resource: str
) -> None:
    cloud.transact(limited, project_of(demo), resource, 1)
    ids = [create(demo)["id"] for _ in range(2)]
    first, second = (Upload(cloud, f"{IMAGES}/{image_id}/{where}", demo.token, None) for image_id in ids)
    first.send_chunks(12)
    # Both together are over it, which the second one is told, and nothing of it is kept.
    second.send_chunks(12)
    assert kept(cloud) == 12 * CHUNK
    second.send_chunks(0, 0)
    assert parse(second.transport.value(), "PUT").status == 413
    first.send_chunks(0, 0)
    assert parse(first.transport.value(), "PUT").status == 204


@pytest.mark.parametrize(("where", "resource"), [("file", "image_size_total"), ("stage", "image_stage_total")])
def test_an_upload_that_has_arrived_is_held_against_the_quota_once(
    cloud: MemoryCloud, demo: Client, monkeypatch: pytest.MonkeyPatch, where: str, resource: str
) -> None:
    cloud.transact(limited, project_of(demo), resource, 2)
    ids = [create(demo)["id"] for _ in range(2)]
    first = Upload(cloud, f"{IMAGES}/{ids[0]}/{where}", demo.token, None)
    rename = Path.replace
    others: list[Upload] = []

    def upload_another(source: Path, target: Path) -> Path:
        monkeypatch.undo()
        others.append(Upload(cloud, f"{IMAGES}/{ids[1]}/{where}", demo.token, None))
        others[0].send_chunks(12, 0)
        return rename(source, target)

    monkeypatch.setattr(Path, "replace", upload_another)
    first.send_chunks(15, 0)
    assert [parse(each.transport.value(), "PUT").status for each in (first, *others)] == [204, 204]


def test_uploads_that_are_still_flowing_count_as_uploads(cloud: MemoryCloud, demo: Client) -> None:
    cloud.transact(limited, project_of(demo), "image_count_uploading", 1)
    ids = [create(demo)["id"] for _ in range(2)]
    first = Upload(cloud, f"{IMAGES}/{ids[0]}/file", demo.token, 400_000)
    first.send(SOME)
    assert Upload(cloud, f"{IMAGES}/{ids[1]}/file", demo.token).status(len(SOME)) == 413
    first.send(b"x" * 100_000)
    assert show(demo, ids[0])["status"] == "active"
    assert upload(demo, ids[1]).status == 204


def test_an_upload_that_has_arrived_counts_once(
    cloud: MemoryCloud, demo: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.transact(limited, project_of(demo), "image_count_uploading", 2)
    ids = [create(demo)["id"] for _ in range(3)]
    first = Upload(cloud, f"{IMAGES}/{ids[0]}/file", demo.token, None)
    rename = Path.replace
    others: list[Upload] = []

    def upload_others(source: Path, target: Path) -> Path:
        monkeypatch.undo()
        for image_id in ids[1:]:
            others.append(Upload(cloud, f"{IMAGES}/{image_id}/file", demo.token, None))
            others[-1].send_chunks(12)
        return rename(source, target)

    monkeypatch.setattr(Path, "replace", upload_others)
    first.send_chunks(15, 0)
    for each in others:
        each.send_chunks(0, 0)
    assert [parse(each.transport.value(), "PUT").status for each in (first, *others)] == [204, 204, 413]


def test_the_spool_may_be_elsewhere(tmp_path: Any) -> None:
    cloud = MemoryCloud({"image": {"spool_directory": str(tmp_path / "spool")}})
    demo = cloud.client("demo")
    image_id = create(demo)["id"]
    began = Upload(cloud, f"{IMAGES}/{image_id}/file", demo.token, 400_000)
    began.send(SOME)
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700
    assert len(list((tmp_path / "spool").iterdir())) == 1 and spooled(cloud) == []
    began.send(b"x" * 100_000)
    assert show(demo, image_id)["size"] == 400_000
    assert list((tmp_path / "spool").iterdir()) == []
    cloud.close()


def test_an_image_that_changes_meanwhile_is_looked_at_again(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    began = Upload(cloud, f"{IMAGES}/{image_id}/file", demo.token, 400_000)
    began.send(SOME)
    assert patch(demo, image_id, {"op": "replace", "path": "/name", "value": "x"}).status == 200
    assert upload(demo, image_id).status == 204
    began.send(b"x" * 100_000)
    assert parse(began.transport.value(), "PUT").status == 409
    assert show(demo, image_id)["size"] == 4


RATES = {"rates": True, "project_rate": 0.01, "address_rate": 0.01, "address_burst": 1000.0}


def test_an_upload_is_counted_once_and_before_it_is_kept() -> None:
    """By what its project and its address may ask for."""
    cloud = MemoryCloud({"admission": {**RATES, "project_burst": 5.0}})
    demo = cloud.client("demo")
    paths = [f"{IMAGES}/{create(demo)['id']}/file" for _ in range(2)]
    assert demo.put(paths[0], body=b"x" * 100, headers=DATA).status == 204
    assert demo.get(IMAGES).status == 200
    assert demo.get(IMAGES).status == 200
    assert Upload(cloud, paths[1], demo.token).status() == 429
    cloud.close()


def test_an_upload_is_one_request_of_its_address() -> None:
    cloud = MemoryCloud({"admission": {**RATES, "project_burst": 1000.0, "address_burst": 6.0}})
    demo = cloud.client("demo")
    path = f"{IMAGES}/{create(demo)['id']}/file"
    assert demo.put(path, body=b"x" * 100, headers=DATA).status == 204
    # The login, the image and the upload were three.
    assert [demo.get(IMAGES).status for _ in range(4)] == [200, 200, 200, 429]
    cloud.close()
