"""Uploads and downloads: what arrives is kept whole, what fails leaves nothing behind."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import insert
from twisted.logger import ILogObserver, formatEvent, globalLogPublisher

from cloudctl.db import Connection
from cloudctl.image.api.data import ONE_RANGE, byte_range
from cloudctl.image.store import ImageStore
from cloudctl.rest.quota import QuotaLimit
from cloudctl.rest.uploads import Uploads
from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.testing.http import encode, exchange
from tests.image.asking import DATA, IMAGES, create, patch, project_of, show, stored, upload
from tests.image.test_image_inspection import qcow2

BODY = bytes(range(256)) * 40


def files(cloud: MemoryCloud) -> set[str]:
    """The names in the store, without the image that every cloud has."""
    (tiny,) = cloud.client("admin").get(f"{IMAGES}?name=tiny").json()["images"]
    return set(os.listdir(cloud.cloud.made(ImageStore).directory)) - {tiny["id"]}


# -- upload


def test_an_upload_makes_the_image_active(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    answer = upload(demo, image_id, BODY)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["OpenStack-image-import-methods"] == "glance-direct,web-download,glance-download"
    shown = show(demo, image_id)
    assert (shown["status"], shown["size"], shown["virtual_size"]) == ("active", len(BODY), len(BODY))
    assert shown["checksum"] == hashlib.md5(BODY).hexdigest()
    assert (shown["os_hash_algo"], shown["os_hash_value"]) == ("sha512", hashlib.sha512(BODY).hexdigest())
    assert files(cloud) == {image_id}


def test_the_virtual_size_is_that_of_the_disk(demo: Client) -> None:
    shown = stored(demo, qcow2(size=5 * 2**30), disk_format="qcow2")
    assert (shown["size"], shown["virtual_size"]) == (104, 5 * 2**30)


def test_an_empty_upload_is_data(demo: Client) -> None:
    shown = stored(demo, b"")
    assert (shown["status"], shown["size"]) == ("active", 0)
    answer = demo.get(f"{IMAGES}/{shown['id']}/file")
    assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, "0", b"")


def test_a_body_in_chunks_is_kept(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    head = (
        f"PUT {IMAGES}/{image_id}/file HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {demo.token}\r\nConnection: close\r\n"
        "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    answer = exchange(cloud.site, head.encode() + b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 204 ")
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"hello world"


@pytest.mark.parametrize("kind", ["text/plain", "application/json", ""])
def test_another_content_type_is_415(demo: Client, kind: str) -> None:
    image_id = create(demo)["id"]
    assert upload(demo, image_id, b"{}", **{"Content-Type": kind}).status == 415
    assert show(demo, image_id)["status"] == "queued"


def test_an_image_without_formats_takes_no_data(demo: Client) -> None:
    image_id = demo.post(IMAGES, {}).json()["id"]
    assert upload(demo, image_id).status == 400


def test_a_second_upload_is_409(demo: Client) -> None:
    image = stored(demo, b"first")
    assert upload(demo, image["id"], b"second").status == 409
    assert demo.get(f"{IMAGES}/{image['id']}/file").body == b"first"


@pytest.mark.parametrize("name", ["x-openstack-image-size", "x-image-meta-size"])
@pytest.mark.parametrize(
    ("size", "status"), [("4", 204), ("5", 400), ("0", 400), ("-4", 400), ("x", 400), ("9" * 40, 400)]
)
def test_an_announced_size_must_be_met(demo: Client, name: str, size: str, status: int) -> None:
    image_id = create(demo)["id"]
    assert upload(demo, image_id, b"data", **{name: size}).status == status
    assert show(demo, image_id)["status"] == ("active" if status == 204 else "queued")


def test_only_the_store_that_there_is_can_be_chosen(demo: Client) -> None:
    image_id = create(demo)["id"]
    assert upload(demo, image_id, b"data", **{"X-Image-Meta-Store": "other"}).status == 400
    assert upload(demo, image_id, b"data", **{"X-Image-Meta-Store": "default"}).status == 204


@pytest.mark.parametrize(
    ("declared", "body"), [("qcow2", BODY), ("raw", qcow2()), ("qcow2", qcow2(backing=1)), ("iso", qcow2())]
)
def test_data_in_another_format_is_415_and_the_image_is_queued_again(
    cloud: MemoryCloud, demo: Client, declared: str, body: bytes
) -> None:
    image_id = create(demo, disk_format=declared)["id"]
    assert upload(demo, image_id, body).status == 415
    shown = show(demo, image_id)
    assert (shown["status"], shown["size"], shown["checksum"]) == ("queued", None, None)
    assert files(cloud) == set()


def test_formats_can_be_left_unchecked_but_unsafe_data_is_refused() -> None:
    demo = MemoryCloud({"image": {"require_format_match": False}}).client("demo")
    assert stored(demo, BODY, disk_format="qcow2")["virtual_size"] == len(BODY)
    assert upload(demo, create(demo, disk_format="qcow2")["id"], qcow2(backing=1)).status == 415


def test_too_large_data_is_413() -> None:
    cloud = MemoryCloud({"image": {"max_size": 1000}})
    demo = cloud.client("demo")
    image_id = create(demo)["id"]
    headers = {**DATA, "X-Auth-Token": str(demo.token)}
    # The request lets go of its file when the connection ends.
    answer = exchange(cloud.site, encode("PUT", f"{IMAGES}/{image_id}/file", headers, bytes(1001)))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert show(demo, image_id)["status"] == "queued"
    assert upload(demo, image_id, bytes(1000)).status == 204


def test_a_client_that_hangs_up_within_its_body_leaves_nothing(cloud: MemoryCloud, demo: Client) -> None:
    image_id = create(demo)["id"]
    headers = {**DATA, "X-Auth-Token": str(demo.token), "Content-Length": "1000"}
    exchange(cloud.site, encode("PUT", f"{IMAGES}/{image_id}/file", headers, b"only this"))
    assert show(demo, image_id)["status"] == "queued"
    assert files(cloud) == set()
    assert upload(demo, image_id).status == 204


def test_a_store_that_cannot_be_written_is_503(
    cloud: MemoryCloud, demo: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    image_id = create(demo)["id"]
    monkeypatch.setattr(os, "fsync", full)
    assert upload(demo, image_id).status == 503
    monkeypatch.undo()
    assert show(demo, image_id)["status"] == "queued"
    assert files(cloud) == set()


def test_the_directory_that_takes_no_uploads_is_told_to_the_operator(
    cloud: MemoryCloud, demo: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    lines: list[str] = []
    observer = cast(ILogObserver, lambda event: lines.append(formatEvent(event)))
    headers = {**DATA, "X-Auth-Token": str(demo.token), "Content-Length": "100000"}
    request = encode("PUT", f"{IMAGES}/{create(demo)['id']}/file", headers, b"only this")
    monkeypatch.setattr(Uploads, "spool", full)
    globalLogPublisher.addObserver(observer)
    try:
        exchange(cloud.site, request)
    finally:
        globalLogPublisher.removeObserver(observer)
    where = cloud.cloud.uploads["image"].directory
    assert f"an upload cannot be kept in {where}: [Errno 28] No space left on device" in lines


def test_an_image_that_is_deleted_during_its_upload_is_410(
    cloud: MemoryCloud, demo: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_id = create(demo)["id"]
    rename = Path.replace

    def delete_first(path: Path, target: Path) -> Path:
        assert show(demo, image_id)["status"] == "saving"
        assert demo.delete(f"{IMAGES}/{image_id}").status == 204
        cloud.settle()
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", delete_first)
    assert upload(demo, image_id).status == 410
    monkeypatch.undo()
    assert files(cloud) == set()


def test_a_second_upload_during_the_first_is_409(
    cloud: MemoryCloud, demo: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_id = create(demo)["id"]
    rename = Path.replace
    seen: list[int] = []

    def upload_first(path: Path, target: Path) -> Path:
        seen.append(upload(demo, image_id, b"late").status)
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", upload_first)
    assert upload(demo, image_id, b"early").status == 204
    assert seen == [409]
    assert demo.get(f"{IMAGES}/{image_id}/file").body == b"early"


@pytest.mark.parametrize(("where", "drop"), [("file", "drop"), ("stage", "drop_staged")])
def test_what_is_left_of_a_failed_upload_goes_before_the_next_one_may_begin(
    demo: Client, monkeypatch: pytest.MonkeyPatch, where: str, drop: str
) -> None:
    """The next one may be with another process."""
    path = f"{IMAGES}/{create(demo)['id']}/{where}"
    settle, dropped = ImageStore.settle, getattr(ImageStore, drop)
    meanwhile: list[int] = []

    def full(*_: object) -> None:
        monkeypatch.setattr(ImageStore, "settle", settle)
        raise OSError("no space left")

    def slowly(store: ImageStore, image_id: str) -> None:
        meanwhile.append(demo.put(path, body=BODY, headers=DATA).status)
        dropped(store, image_id)

    monkeypatch.setattr(ImageStore, "settle", full)
    monkeypatch.setattr(ImageStore, drop, slowly)
    assert demo.put(path, body=b"first", headers=DATA).status == 503
    assert meanwhile == [409]
    assert demo.put(path, body=BODY, headers=DATA).status == 204


def test_a_quota_of_bytes_counts_what_is_stored(cloud: MemoryCloud, demo: Client) -> None:
    cloud.transact(_limit, project_of(demo), "image_size_total", 1)
    stored(demo, bytes(2**19))
    image_id = create(demo)["id"]
    assert upload(demo, image_id, bytes(2**19 + 1)).status == 413
    assert show(demo, image_id)["status"] == "queued"
    usage = demo.get("/image/v2/info/usage").json()["usage"]
    assert usage["image_size_total"] == {"limit": 1, "usage": 1}
    assert usage["image_count_total"] == {"limit": -1, "usage": 2}


def test_a_quota_of_images_is_413(cloud: MemoryCloud, demo: Client) -> None:
    cloud.transact(_limit, project_of(demo), "image_count_total", 1)
    create(demo)
    assert demo.post(IMAGES, {}).status == 413


def _limit(conn: Connection, project_id: str, resource: str, limit: int) -> None:
    conn.execute(insert(QuotaLimit).values(service="image", project_id=project_id, resource=resource, limit=limit))


# -- download


def test_the_data_comes_back_with_its_checksum(demo: Client) -> None:
    answer = demo.get(f"{IMAGES}/{stored(demo, BODY)['id']}/file")
    assert (answer.status, answer.body) == (200, BODY)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Length"] == str(len(BODY))
    assert answer.headers["Content-MD5"] == hashlib.md5(BODY).hexdigest()


def test_without_data_it_is_204(demo: Client) -> None:
    assert demo.get(f"{IMAGES}/{create(demo)['id']}/file").status == 204


@pytest.mark.parametrize(
    ("wanted", "first", "last"),
    [("bytes=0-0", 0, 0), ("bytes=2-5", 2, 5), ("bytes=7-", 7, 9), ("bytes=-3", 7, 9), ("bytes=-99", 0, 9),
     ("bytes=5-99", 5, 9), ("bytes = 1 - 2", 1, 2)],
)  # fmt: skip
def test_a_range_is_206(demo: Client, wanted: str, first: int, last: int) -> None:
    image_id = stored(demo, b"0123456789")["id"]
    answer = demo.get(f"{IMAGES}/{image_id}/file", headers={"Range": wanted})
    assert (answer.status, answer.headers["Content-Range"]) == (206, f"bytes {first}-{last}/10")
    assert answer.body == b"0123456789"[first : last + 1]
    assert answer.headers["Content-MD5"] is None


def test_the_older_form_of_a_range_is_taken(demo: Client) -> None:
    image_id = stored(demo, b"0123456789")["id"]
    answer = demo.get(f"{IMAGES}/{image_id}/file", headers={"Content-Range": "bytes 3-4/*"})
    assert (answer.status, answer.body) == (206, b"34")


@pytest.mark.parametrize(
    "wanted",
    ["bytes=10-", "bytes=99-100", "bytes=5-2", "bytes=-", "bytes=-0", "bytes=0-1,3-4", "bytes=x-y", "lines=1-2",
     "bytes=1", "", "bytes=" + "9" * 400 + "-", "bytes=1-2/5"],
)  # fmt: skip
def test_a_range_outside_is_416(demo: Client, wanted: str) -> None:
    image_id = stored(demo, b"0123456789")["id"]
    answer = demo.get(f"{IMAGES}/{image_id}/file", headers={"Range": wanted})
    assert (answer.status, answer.headers["Content-Range"]) == (416, "bytes */10")
    assert answer.json()["code"].startswith("416 ")


def test_a_range_of_a_terabyte_is_reckoned_exactly() -> None:
    assert byte_range("bytes=-1", ONE_RANGE, 2**40) == (2**40 - 1, 1)


# -- deactivation


def test_deactivated_data_is_for_administrators(demo: Client, admin: Client) -> None:
    path = f"{IMAGES}/{stored(demo)['id']}"
    assert [demo.post(f"{path}/actions/deactivate").status for _ in range(2)] == [204, 204]
    assert demo.get(path).json()["status"] == "deactivated"
    assert [demo.get(f"{path}/file").status, admin.get(f"{path}/file").status] == [403, 200]
    assert [demo.post(f"{path}/actions/reactivate").status for _ in range(2)] == [204, 204]
    assert demo.get(f"{path}/file").status == 200


@pytest.mark.parametrize("action", ["deactivate", "reactivate"])
def test_an_image_without_data_is_not_deactivated(demo: Client, action: str) -> None:
    assert demo.post(f"{IMAGES}/{create(demo)['id']}/actions/{action}").status == 403


# -- deletion


def test_the_data_goes_after_the_record(cloud: MemoryCloud, demo: Client) -> None:
    image_id = stored(demo)["id"]
    assert files(cloud) == {image_id}
    demo.delete(f"{IMAGES}/{image_id}")
    cloud.settle()
    assert files(cloud) == set()


def test_data_that_cannot_be_removed_now_is_removed_later(
    cloud: MemoryCloud, demo: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_id = stored(demo)["id"]

    def busy(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "unlink", busy)
    assert demo.delete(f"{IMAGES}/{image_id}").status == 204
    cloud.advance(30)
    assert files(cloud) == {image_id}
    monkeypatch.undo()
    cloud.settle()
    assert files(cloud) == set()


def test_the_only_copy_in_the_only_store_is_not_removed(demo: Client) -> None:
    image_id = stored(demo)["id"]
    assert demo.delete(f"/image/v2/stores/default/{image_id}").status == 403
    assert demo.delete(f"/image/v2/stores/other/{image_id}").status == 404
    assert demo.delete(f"/image/v2/stores/default/{create(demo)['id']}").status == 404


def test_a_patch_during_an_upload_keeps_both(cloud: MemoryCloud, demo: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    image_id = create(demo)["id"]
    rename = Path.replace

    def patch_first(path: Path, target: Path) -> Path:
        assert patch(demo, image_id, {"op": "replace", "path": "/name", "value": "new"}).status == 200
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", patch_first)
    upload(demo, image_id)
    shown = show(demo, image_id)
    assert (shown["name"], shown["status"]) == ("new", "active")
