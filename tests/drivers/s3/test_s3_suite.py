"""The public suite of objects' data against the driver `s3`, whose store is another cloud; and its failures."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from time import time
from typing import Any, cast
from uuid import uuid4

import pytest
from attrs import asdict, evolve
from twisted.internet.task import Clock

from cloudctl.drivers.errors import DriverError, NoCapacity, UnknownContent, Unreachable
from cloudctl.drivers.loader import check
from cloudctl.drivers.s3 import client, documents, parts
from cloudctl.drivers.s3.driver import Config, ObjectsByS3, create
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError
from cloudctl.object_store.store import ObjectStore
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.faults import with_faults
from cloudctl.testing.objects_suite import DATA, ID, OTHER, objects_suite
from tests.live.process import LiveCloud
from tests.live.test_object_store_kill import S3
from tests.object_store.asking import Account, files, rows

# The driver blocks, and so the tests do: nothing is asked of the reactor that the cloud, a process of its own, needs.


class Store:
    """A cloud of its own, with a key for it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cloud = LiveCloud(directory)
        self.cloud.start()
        self.s3 = S3(self.cloud)
        self.secret = directory / "secret"
        self.secret.write_text(f"{self.s3.key.secret}\n")

    def driver(self, **config: Any) -> ObjectsByS3:
        """With an empty bucket, if none is named."""
        bucket = f"bucket-{uuid4()}"
        if "bucket" not in config:
            assert self.s3.ask("PUT", f"/s3/{bucket}")[0] == 200
        clock = Clock()
        clock.advance(time())
        given: dict[str, Any] = {
            "endpoint": f"{self.cloud.url}/s3",
            "bucket": bucket,
            "access_key": self.s3.key.access,
            "secret_file": str(self.secret),
            **config,
        }
        return create(Config(**given), DriverResources(clock=clock, name="s3"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    made = Store(tmp_path_factory.mktemp("store"))
    stores.append(made)
    yield made
    stores.remove(made)
    made.cloud.kill()


stores: list[Store] = []  # the one that `make` uses, whom no fixture reaches


def make(_directory: Path) -> Any:
    from twisted.internet import reactor

    return with_faults(stores[0].driver(prefix="data/ü "), reactor)


def make_in_parts(_directory: Path) -> Any:
    from twisted.internet import reactor

    return with_faults(stores[0].driver(part_size=parts.LEAST), reactor)


@pytest.mark.usefixtures("store")
class TestS3(objects_suite(make)):
    pass


@pytest.mark.usefixtures("store")
class TestS3InParts(objects_suite(make_in_parts, data=DATA * 5 + b"end")):
    pass


def kept(driver: ObjectsByS3, path: Path, id: str = ID, data: bytes = DATA) -> None:
    path.write_bytes(data)
    driver.ensure_kept(id, str(path))


def test_what_is_removed_while_it_is_read_goes_when_it_was_read(store: Store, tmp_path: Path) -> None:
    driver = store.driver()
    kept(driver, tmp_path / "content")
    with driver.open(ID) as first, driver.open(ID) as second:
        assert first.read(10) == DATA[:10]
        driver.ensure_absent(ID)
        with pytest.raises(UnknownContent):
            driver.open(ID)
        assert driver.inventory("") == ()
        second.seek(len(DATA) - 5)
        assert second.read() == DATA[-5:]
        assert first.read() == DATA[10:]
        assert first.read() == b""
    assert driver.inventory("") == ()
    kept(driver, tmp_path / "content", data=b"new")
    assert [each.id for each in driver.inventory("")] == [ID]
    with driver.open(ID) as file:
        assert file.seek(100) == 100 and file.read() == b""


def test_many_contents_are_listed_in_pages(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloudctl.drivers.s3.driver.PAGE", 2)
    driver = store.driver(prefix="of this cloud/")
    wanted = [f"{number:032x}" for number in range(5)]
    for id in wanted:
        kept(driver, tmp_path / "content", id, b"x")
    assert [each.id for each in driver.inventory("")] == wanted[:2]
    assert [each.id for each in driver.inventory(wanted[1])] == wanted[2:4]
    with driver.open(wanted[2]), driver.open(wanted[3]):
        driver.ensure_absent(wanted[2])
        driver.ensure_absent(wanted[3])
        # A page of nothing but these is not the end.
        assert [each.id for each in driver.inventory(wanted[1])] == wanted[4:]


def test_a_part_of_the_cloud_sees_none_of_another(store: Store, tmp_path: Path) -> None:
    objects = store.driver(prefix="a cloud's ")
    images = create(objects.config, evolve(objects.resources, part="images"))
    kept(objects, tmp_path / "content", ID, b"an object")
    kept(images, tmp_path / "content", OTHER, b"an image")
    assert [[each.id for each in part.inventory("")] for part in (objects, images)] == [[ID], [OTHER]]
    with pytest.raises(UnknownContent):
        objects.open(OTHER)
    images.ensure_absent(ID)
    with objects.open(ID) as file:
        assert file.read() == b"an object"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"bucket": "none-there"}, "bucket none-there cannot be used: .* 404"),
        ({"access_key": "wrong"}, "cannot be used: .* 403"),
        ({"region": "elsewhere"}, "cannot be used: .* 400"),
        ({"secret_file": "/nowhere"}, "secret cannot be read"),
        ({"endpoint": "http://127.0.0.1:1", "tries": 1}, "does not answer"),
    ],
)
def test_what_is_wrong_is_told_at_the_start(store: Store, config: dict[str, Any], told: str) -> None:
    driver = store.driver(**config)
    with pytest.raises(ConfigError, match=told) as error:
        check(driver, "driver.objects.s3")
    assert store.s3.key.secret not in f"{error.value}{driver}"


# -- in parts

LARGE = bytes(range(256)) * 4096 * 11 + b"end"


def uploads(driver: ObjectsByS3) -> list[str]:
    """What is under way in its bucket, by key."""
    page = documents.read(driver._bucket.document("GET", "", "uploads="))
    return [documents.text(each, "Key") for each in page.iterfind("Upload")]


def test_a_large_content_goes_in_parts_and_is_one(store: Store, tmp_path: Path) -> None:
    driver = store.driver(part_size=parts.LEAST, prefix="large ü/")
    kept(driver, tmp_path / "content", data=LARGE)
    assert driver._bucket.get(f"large ü/{ID}", 0).response.headers["etag"].endswith('-3"')
    kept(driver, tmp_path / "content", data=b"else" + LARGE)
    with driver.open(ID) as file:
        file.seek(2 * parts.LEAST - 5)
        assert file.read(10) == LARGE[2 * parts.LEAST - 5 :][:10]
        file.seek(0)
        assert file.read() == LARGE
    assert ([each.id for each in driver.inventory("")], uploads(driver)) == ([ID], [])
    driver.ensure_absent(ID)
    assert driver.inventory("") == ()


def test_two_who_keep_the_same_in_parts_leave_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = store.driver(part_size=parts.LEAST)
    # Neither sees that the other has begun.
    monkeypatch.setattr(client.Bucket, "has", lambda *_: False)
    kept(driver, tmp_path / "content", data=LARGE)
    kept(driver, tmp_path / "content", data=b"else" + LARGE)
    with driver.open(ID) as file:
        assert file.read() == LARGE
    assert uploads(driver) == []


@pytest.mark.parametrize("lost", [False, True])
def test_what_breaks_the_last_word_leaves_all_or_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """`lost`: the answer, not the request."""
    monkeypatch.setattr(client, "PAUSE", 0.0)
    driver = store.driver(part_size=parts.LEAST, tries=2)
    ask = client.Bucket._ask
    failed: list[client.Answer] = []

    def broken(bucket: client.Bucket, method: str, key: str, query: str, *rest: Any) -> client.Answer:
        ends = method == "POST" and query.startswith("uploadId")
        if ends and not lost:
            raise ConnectionResetError("gone")
        answer = ask(bucket, method, key, query, *rest)
        if ends and not failed:
            failed.append(answer)
            answer.close()
            raise ConnectionResetError("gone")
        return answer

    with monkeypatch.context() as breaking:
        breaking.setattr(client.Bucket, "_ask", broken)
        if lost:
            kept(driver, tmp_path / "content", data=LARGE)
        else:
            with pytest.raises(Unreachable):
                kept(driver, tmp_path / "content", data=LARGE)
    assert [each.id for each in driver.inventory("")] == ([ID] if lost else [])
    assert uploads(driver) == []


def test_uploads_that_nobody_ends_are_given_up_at_the_next_start(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = store.driver(prefix="a/")
    monkeypatch.setattr("cloudctl.drivers.s3.parts.PAGE", "1")
    for key in (f"a/{ID}", f"a/{OTHER}", "a/somebody else's", f"b/{ID}"):
        driver._bucket.document("POST", key, "uploads=")
    check(driver, "driver.objects.s3")
    assert len(uploads(driver)) == 4
    assert isinstance(driver.resources.clock, Clock)
    driver.resources.clock.advance(2 * parts.ABANDONED)
    # The store would not take a signature of then.
    parts.sweep(store.driver(bucket=driver.config.bucket)._bucket, "a/", driver.resources.clock.seconds())
    assert uploads(store.driver(bucket=driver.config.bucket)) == ["a/somebody else's", f"b/{ID}"]


class Answering(Thread):
    """A store that gives these answers, one each, and counts who asks; nothing: it hangs up."""

    def __init__(self, *answers: bytes) -> None:
        super().__init__(daemon=True)
        self.answers, self.asked = list(answers), 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.start()

    def run(self) -> None:
        while self.answers:
            connection, _ = self.socket.accept()
            with connection:
                connection.recv(65536)
                self.asked += 1
                connection.sendall(self.answers.pop(0))
        self.socket.close()


def answer(status: int, code: str = "", body: bytes = b"") -> bytes:
    body = body or f"<Error><Code>{code}</Code></Error>".encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(body), body)


@pytest.mark.parametrize(
    ("answers", "raised", "asked"),
    [
        ([b"", answer(204)], None, 2),
        ([answer(503, "SlowDown"), answer(500, "InternalError"), answer(204)], None, 3),
        ([answer(503, "SlowDown")] * 3, Unreachable, 3),
        ([answer(403, "AccessDenied")], DriverError, 1),
        ([answer(403, "QuotaExceeded")], NoCapacity, 1),
        ([answer(507)], NoCapacity, 1),
        ([answer(404, "NoSuchKey")], None, 1),
        ([b"no HTTP\r\n\r\n"] * 3, Unreachable, 3),
    ],
)
def test_what_the_store_cannot_now_is_tried_again(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[bytes],
    raised: type[DriverError] | None,
    asked: int,
) -> None:
    monkeypatch.setattr(client, "PAUSE", 0.0)
    answering = Answering(*answers)
    driver = store.driver(endpoint=f"http://127.0.0.1:{answering.socket.getsockname()[1]}")
    if raised is None:
        driver.ensure_absent(OTHER)
    else:
        with pytest.raises(raised) as error:
            driver.ensure_absent(OTHER)
        assert type(error.value) is raised or raised is DriverError
        assert store.s3.key.secret not in str(error.value)
    assert answering.asked == asked


def test_an_answer_that_ends_early_never_looks_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSE", 0.0)
    answering = Answering(b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\nonly this")
    driver = store.driver(endpoint=f"http://127.0.0.1:{answering.socket.getsockname()[1]}")
    with driver.open(ID) as file, pytest.raises(OSError, match="ends early"):
        file.read()


def test_a_store_that_falls_silent_is_not_asked_on_every_connection_that_was_kept() -> None:
    asked: list[str] = []

    class Kept:
        def request(self, method: str, *_: Any) -> None:
            asked.append(method)
            raise TimeoutError("timed out")

        def close(self) -> None: ...

    account = client.Account("access", "secret", "region", time)
    bucket = client.Bucket("http://127.0.0.1:1", "bucket", account, timeout=60.0, tries=1)
    bucket._idle.extend(cast(Any, Kept()) for _ in range(4))
    with pytest.raises(Unreachable):
        bucket.document("GET", "key")
    assert asked == ["GET"]


# -- a cloud whose objects are there


@pytest.fixture
def cloud(store: Store, tmp_path: Path) -> Iterator[MemoryCloud]:
    config = store.driver(timeout=5.0, tries=1).config
    tables = {"drivers": {"objects": "s3"}, "driver": {"objects": {"s3": asdict(config)}}}
    made = MemoryCloud(tables, start=time(), state_dir=tmp_path)
    yield made
    made.close()


def test_a_cloud_keeps_its_objects_there(cloud: MemoryCloud) -> None:
    mine = Account(cloud.client("demo"))
    mine.put("c")
    large = bytes(range(256)) * 4096
    for name, data in (("small", b"data"), ("large", large), ("empty", b"")):
        mine.put(f"c/{name}", data)
        assert mine.get(f"c/{name}").body == data
        assert mine.head(f"c/{name}").headers["Content-Length"] == str(len(data))
    assert mine.get("c/large", Range="bytes=1000000-1000009").body == large[1_000_000:1_000_010]
    several = mine.get("c/large", Range="bytes=0-1,5-6")
    assert several.status == 206 and several.body.count(b"Content-Range") == 2
    mine.put("c/copy", X_Copy_From="c/large", Range="bytes=0-9")
    assert mine.get("c/copy").body == large[:10]
    manifest = b'[{"path": "/c/small"}, {"path": "/c/large"}]'
    assert mine.ask("PUT", "c/both", "multipart-manifest=put", body=manifest).status == 201
    assert mine.get("c/both").body == b"data" + large
    assert files(cloud) == rows(cloud)
    for name in ("small", "large", "empty", "copy", "both"):
        assert mine.delete(f"c/{name}").status == 204
    assert files(cloud) == set()


def test_a_store_that_is_gone_is_told_before_anything_is_promised(
    cloud: MemoryCloud, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Account(cloud.client("demo"))
    mine.put("c")
    mine.put("c/o", b"data" * 100_000)

    def gone(*_: object) -> None:
        raise ConnectionRefusedError("gone")

    with monkeypatch.context() as broken:
        broken.setattr(client.Bucket, "_ask", gone)
        refused = mine.get("c/o")
        assert refused.status == 503 and "ETag" not in refused.headers
        assert mine.ask("PUT", "c/o", body=b"new").status == 503
        assert mine.head("c/o").status == 200
        mine.put("c/none")
        # What was promised is done, and the data go later.
        mine.put("c/o")
        mine.post("c/o", X_Object_Meta_Color="red")
    assert mine.get("c/o").body == b""
    left = files(cloud) - rows(cloud)
    assert len(left) == 1
    cloud.cloud.made(ObjectStore).remove(left)


def test_an_object_that_the_store_lost_is_not_half_an_answer(cloud: MemoryCloud) -> None:
    mine = Account(cloud.client("demo"))
    mine.put("c")
    mine.put("c/o", b"data")
    cloud.cloud.made(ObjectStore).remove(rows(cloud))
    assert mine.get("c/o").status == 503
