"""Objects that come in parts, and versions of objects, by S3 and by Swift's API."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from sqlalchemy import func, select

from cloudctl.db import Connection
from cloudctl.object_store.api.reading import Reader
from cloudctl.object_store.tables import Upload, UploadPart
from cloudctl.testing.cloud import MemoryCloud
from tests.object_store.asking import Account, files, rows
from tests.object_store.signing import S3, bare, code

PART = 5 * 2**20
DATA = b"a" * PART, b"b" * 10
SHA1 = base64.b64encode(hashlib.sha1(b"data").digest()).decode()


@pytest.fixture
def s3(cloud: MemoryCloud) -> S3:
    made = S3(cloud, cloud.client("demo"))
    made.put("bucket")
    return made


def begin(s3: S3, path: str = "bucket/big", **headers: Any) -> str:
    return bare(s3.ask("POST", path, "uploads", **headers)).findtext("UploadId") or ""


def put(s3: S3, upload: str, number: int, data: bytes, path: str = "bucket/big") -> str:
    answer = s3.ask("PUT", path, f"partNumber={number}&uploadId={upload}", body=data)
    assert answer.status == 200, answer
    return str(answer.headers["ETag"])


def parts_of(etags: dict[int, str]) -> bytes:
    listed = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{etag}</ETag></Part>" for n, etag in etags.items())
    return f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()


def test_an_object_that_comes_in_parts(s3: S3, mine: Account, cloud: MemoryCloud) -> None:
    upload = begin(s3, x_amz_meta_color="blue", Content_Type="text/x")
    assert bare(s3.get("bucket", "uploads")).findtext("Upload/Key") == "big"
    etags = {2: put(s3, upload, 2, DATA[1]), 1: put(s3, upload, 1, b"another"), 7: put(s3, upload, 7, b"left out")}
    etags[1] = put(s3, upload, 1, DATA[0])
    listed = bare(s3.get("bucket/big", f"uploadId={upload}&max-parts=2"))
    assert [each.text for each in listed.findall("Part/PartNumber")] == ["1", "2"]
    assert listed.findtext("IsTruncated") == "true"
    assert code(s3.get("bucket/big")) == (404, "NoSuchKey")
    body = parts_of({1: etags[1], 2: etags[2]})
    done = bare(s3.ask("POST", "bucket/big", f"uploadId={upload}", body=body))
    joined = b"".join(bytes.fromhex(etags[n].strip('"')) for n in (1, 2))
    etag = f'"{hashlib.md5(joined).hexdigest()}-2"'
    assert done.findtext("ETag") == etag
    whole = s3.get("bucket/big")
    assert (whole.body, whole.headers["ETag"], whole.headers["x-amz-meta-color"]) == (b"".join(DATA), etag, "blue")
    assert mine.get("bucket/big", Range=f"bytes={PART - 2}-{PART + 1}").body == b"aabb"
    second = s3.get("bucket/big", "partNumber=2")
    assert (second.status, second.body, second.headers["x-amz-mp-parts-count"]) == (206, DATA[1], "2")
    assert mine.head().headers["X-Account-Bytes-Used"] == str(PART + 10)
    assert len(files(cloud)) == 2
    # A copy is one piece.
    s3.put("bucket/copy", x_amz_copy_source="bucket/big")
    assert s3.get("bucket/copy").headers["ETag"] == f'"{hashlib.md5(b"".join(DATA)).hexdigest()}"'
    # Who did not hear the answer asks again.
    again = s3.ask("POST", "bucket/big", f"uploadId={upload}", body=body)
    assert again.status == 200 and etag.strip('"') in again.body.decode()
    fewer = parts_of({1: etags[1]})
    assert code(s3.ask("POST", "bucket/big", f"uploadId={upload}", body=fewer)) == (404, "NoSuchUpload")
    assert s3.ask("DELETE", "bucket/big").status == 204
    assert code(s3.ask("POST", "bucket/big", f"uploadId={upload}", body=body)) == (404, "NoSuchUpload")
    assert len(files(cloud)) == 1
    assert mine.delete("bucket/copy").status == 204
    assert cloud.transact(_left) == (0, 0)


def test_the_last_part_may_be_empty_and_counts(s3: S3) -> None:
    for data in ((DATA[0], b""), (b"",)):
        upload = begin(s3)
        etags = {number: put(s3, upload, number, each) for number, each in enumerate(data, 1)}
        assert s3.ask("POST", "bucket/big", f"uploadId={upload}", body=parts_of(etags)).status == 200
        last = s3.get("bucket/big", f"partNumber={len(data)}")
        told = last.headers["x-amz-mp-parts-count"], last.headers["content-range"]
        assert (last.status, last.body, told) == (200, b"", (str(len(data)), None))
        assert code(s3.get("bucket/big", f"partNumber={len(data) + 1}")) == (416, "InvalidPartNumber")
        shown = bare(s3.get("bucket/big", "attributes", x_amz_object_attributes="ObjectParts"))
        assert shown.findtext("ObjectParts/PartsCount") == str(len(data))
        assert s3.get("bucket/big").body == b"".join(data)


def _left(conn: Connection) -> tuple[int, ...]:
    return tuple(
        int(conn.execute(select(func.count()).select_from(kind)).scalar_one()) for kind in (Upload, UploadPart)
    )


WRONG = {
    "InvalidPartOrder": {2: 2, 1: 1},
    "InvalidPart": {1: 1, 3: 1},
    "EntityTooSmall": {2: 2, 3: 3},
}


def test_what_an_object_is(s3: S3) -> None:
    def told(path: str, wanted: str = "ETag,Checksum,ObjectParts,StorageClass,ObjectSize", **more: str) -> Any:
        answer = s3.get(path, "attributes", x_amz_object_attributes=wanted, **more)
        return bare(answer) if answer.status == 200 else code(answer)

    s3.put("bucket/o", b"data", x_amz_checksum_sha1=SHA1)
    one = told("bucket/o")
    assert [each.tag for each in one] == ["ETag", "Checksum", "StorageClass", "ObjectSize"]
    assert (one.findtext("ETag"), one.findtext("ObjectSize")) == (hashlib.md5(b"data").hexdigest(), "4")
    assert one.findtext("Checksum/ChecksumSHA1")
    upload = begin(s3)
    etags = {1: put(s3, upload, 1, DATA[0]), 3: put(s3, upload, 3, DATA[1])}
    assert s3.ask("POST", "bucket/big", f"uploadId={upload}", body=parts_of(etags)).status == 200
    first = told("bucket/big", "ObjectParts", x_amz_max_parts="1").find("ObjectParts")
    assert [(each.tag, each.text) for each in first][:2] == [("PartsCount", "2"), ("PartNumberMarker", "0")]
    assert (first.findtext("IsTruncated"), first.findtext("Part/Size")) == ("true", str(PART))
    rest = told("bucket/big", "ObjectParts", x_amz_part_number_marker="1").find("ObjectParts")
    assert [each.text for each in rest.findall("Part/PartNumber")] == ["3"]
    for wanted in ("", "Size"):
        assert told("bucket/o", wanted) == (400, "InvalidArgument")
    assert told("bucket/none") == (404, "NoSuchKey")


@pytest.mark.parametrize("what", WRONG)
def test_lists_of_parts_that_are_wrong(s3: S3, what: str) -> None:
    upload = begin(s3)
    etags = {1: put(s3, upload, 1, DATA[0]), 2: put(s3, upload, 2, b"x"), 3: put(s3, upload, 3, b"y")}
    body = parts_of({number: etags[tag] for number, tag in WRONG[what].items()})
    refused = s3.ask("POST", "bucket/big", f"uploadId={upload}", body=body)
    assert code(refused) == (400, what)
    if what == "InvalidPart":
        told = [bare(refused).findtext(name) for name in ("UploadId", "PartNumber", "ETag")]
        assert told == [upload, "3", etags[1].strip('"')]
    assert code(s3.ask("POST", "bucket/big", f"uploadId={upload}", body=b"<x/>")) == (400, "MalformedXML")
    assert s3.ask("DELETE", "bucket/big", f"uploadId={upload}").status == 204


def test_parts_are_copied(s3: S3) -> None:
    s3.put("bucket/o", b"0123456789")
    upload = begin(s3)
    query = f"partNumber=1&uploadId={upload}"
    told = s3.ask("PUT", "bucket/big", query, x_amz_copy_source="bucket/o", x_amz_copy_source_range="bytes=2-4")
    etag = bare(told).findtext("ETag") or ""
    assert s3.ask("POST", "bucket/big", f"uploadId={upload}", body=parts_of({1: etag})).status == 200
    assert s3.get("bucket/big").body == b"234"
    wrong = s3.ask("PUT", "bucket/big", query, x_amz_copy_source="bucket/o", x_amz_copy_source_range="bytes=2-10")
    assert code(wrong)[0] in (404, 416)


@pytest.mark.parametrize("gone", [False, True])
def test_an_object_in_parts_that_is_replaced_while_it_is_read_is_the_old_or_the_new_one(
    s3: S3, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    data_of = Reader._data
    for copied in (False, True):
        upload = begin(s3)
        body = parts_of({1: put(s3, upload, 1, b"old")})
        assert s3.ask("POST", "bucket/big", f"uploadId={upload}", body=body).status == 200

        def late(*args: Any) -> Any:
            monkeypatch.undo()
            assert s3.ask("DELETE" if gone else "PUT", "bucket/big", body=b"" if gone else b"newer").status < 300
            return data_of(*args)

        monkeypatch.setattr(Reader, "_data", late)
        answer = s3.ask("PUT", "bucket/copy", x_amz_copy_source="bucket/big") if copied else s3.get("bucket/big")
        assert answer.status == (404 if gone else 200)
        if not gone:
            assert s3.get("bucket/copy" if copied else "bucket/big").body == b"newer"
            assert copied or answer.body == b"newer"


def test_uploads_that_are_given_up(s3: S3, cloud: MemoryCloud) -> None:
    first, second = begin(s3), begin(s3, "bucket/other")
    put(s3, first, 1, b"x")
    put(s3, second, 1, b"y", "bucket/other")
    assert code(s3.ask("PUT", "bucket/other", f"partNumber=1&uploadId={first}", body=b"x")) == (404, "NoSuchUpload")
    assert code(s3.ask("PUT", "bucket/big", f"partNumber=0&uploadId={first}", body=b"x")) == (400, "InvalidArgument")
    assert code(s3.ask("PUT", "bucket/big", f"partNumber=10001&uploadId={first}", body=b"x")) == (
        400,
        "InvalidArgument",
    )
    assert s3.ask("DELETE", "bucket/big", f"uploadId={first}").status == 204
    assert code(s3.ask("DELETE", "bucket/big", f"uploadId={first}")) == (404, "NoSuchUpload")
    # The other one vanishes with its bucket.
    assert s3.ask("DELETE", "bucket").status == 204
    assert files(cloud) == set()


def test_uploads_are_listed_in_pages(s3: S3) -> None:
    made = [
        ("a", begin(s3, "bucket/a")),
        *sorted(("b", begin(s3, "bucket/b")) for _ in range(3)),
        ("c/d", begin(s3, "bucket/c/d")),
    ]
    found: list[tuple[str | None, ...]] = []
    query = "uploads&max-uploads=2"
    while True:
        root = bare(s3.get("bucket", query))
        found += [(each.findtext("Key"), each.findtext("UploadId")) for each in root.findall("Upload")]
        if root.findtext("IsTruncated") == "false":
            break
        marker, upload = root.findtext("NextKeyMarker"), root.findtext("NextUploadIdMarker")
        query = f"uploads&max-uploads=2&key-marker={marker}&upload-id-marker={upload}"
    assert found == made
    assert bare(s3.get("bucket", "uploads&delimiter=/")).findtext("CommonPrefixes/Prefix") == "c/"


def test_quotas_count_parts(s3: S3, mine: Account) -> None:
    mine.post("bucket", X_Container_Meta_Quota_Bytes="25")
    upload = begin(s3)
    put(s3, upload, 1, b"x" * 20)
    refused = s3.ask("PUT", "bucket/big", f"partNumber=2&uploadId={upload}", body=b"x" * 20)
    assert code(refused) == (400, "EntityTooLarge")
    # Nor is there room for an object beside them, until they are given up; in other buckets there is.
    assert mine.ask("PUT", "bucket/o", body=b"x" * 20).status == 413
    mine.put("other", b"", X_Container_Meta_Quota_Bytes="25")
    mine.put("other/o", b"x" * 20)
    assert s3.ask("DELETE", "bucket/big", f"uploadId={upload}").status == 204
    mine.put("bucket/o", b"x" * 20)


# -- versions

ON = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
OFF = ON.replace(b"Enabled", b"Suspended")


def versions(s3: S3, query: str = "") -> list[tuple[str, str, bool]]:
    """(kind, id, whether it is the latest one) of each."""
    root = s3.xml("bucket", f"versions&{query}")
    return [
        (each.tag, each.findtext("VersionId") or "", each.findtext("IsLatest") == "true")
        for each in root
        if each.tag in ("Version", "DeleteMarker")
    ]


def test_versions(s3: S3, mine: Account, cloud: MemoryCloud) -> None:
    assert s3.xml("bucket", "versioning").findtext("Status") is None
    s3.put("bucket/o", b"before")
    assert s3.ask("PUT", "bucket", "versioning", body=ON).status == 200
    assert s3.xml("bucket", "versioning").findtext("Status") == "Enabled"
    first = s3.put("bucket/o", b"one").headers["x-amz-version-id"]
    second = mine.put("bucket/o", b"two") and s3.ask("HEAD", "bucket/o").headers["x-amz-version-id"]
    gone = s3.ask("DELETE", "bucket/o")
    marker = gone.headers["x-amz-version-id"]
    assert gone.headers["x-amz-delete-marker"] == "true"
    missing = s3.get("bucket/o")
    assert (missing.status, missing.headers["x-amz-delete-marker"]) == (404, "true")
    assert versions(s3) == [
        ("DeleteMarker", marker, True),
        *(("Version", version, False) for version in (second, first, "null")),
    ]
    for version, data in ((first, b"one"), (second, b"two"), ("null", b"before")):
        assert s3.get("bucket/o", f"versionId={version}").body == data
    assert code(s3.get("bucket/o", f"versionId={marker}"))[0] == 405
    assert code(s3.get("bucket/o", "versionId=nothing")) == (404, "NoSuchVersion")
    for method, body in (("GET", b""), ("PUT", b"<Tagging><TagSet/></Tagging>"), ("DELETE", b"")):
        at = "tagging&versionId="
        assert code(s3.ask(method, "bucket/o", at + marker, body=body)) == (405, "MethodNotAllowed"), method
        assert code(s3.ask(method, "bucket/o", f"{at}nothing", body=body)) == (404, "NoSuchVersion"), method
    for method in ("GET", "DELETE"):  # not the current one, which is not what the client has meant
        assert code(s3.ask(method, "bucket/o", "versionId=")) == (400, "InvalidArgument"), method
    part = f"partNumber=1&uploadId={begin(s3)}"
    for key, query in (("copy", ""), ("big", part)):
        told = [
            code(s3.ask("PUT", f"bucket/{key}", query, x_amz_copy_source=f"bucket/o?versionId={version}"))
            for version in (marker, "nothing", "")
        ]
        assert told == [(400, "InvalidRequest"), (404, "NoSuchVersion"), (400, "InvalidArgument")]
    assert code(s3.ask("DELETE", "bucket")) == (409, "BucketNotEmpty")
    # Without its marker the newest one is there again, and without that the one before.
    assert s3.ask("DELETE", "bucket/o", f"versionId={marker}").headers["x-amz-delete-marker"] == "true"
    assert s3.get("bucket/o").body == b"two"
    assert s3.ask("DELETE", "bucket/o", f"versionId={second}").status == 204
    assert s3.get("bucket/o").body == b"one"
    assert versions(s3) == [("Version", first, True), ("Version", "null", False)]
    assert s3.ask("PUT", "bucket", "versioning", body=OFF).status == 200
    # As in S3: what is made now has no id of its own to be told.
    assert s3.put("bucket/o", b"null again").headers["x-amz-version-id"] is None
    assert s3.get("bucket/o").headers["x-amz-version-id"] == "null"
    assert versions(s3) == [("Version", "null", True), ("Version", first, False)]
    assert s3.ask("DELETE", "bucket/o").headers["x-amz-version-id"] == "null"
    assert versions(s3) == [("DeleteMarker", "null", True), ("Version", first, False)]
    assert len(files(cloud)) == len(rows(cloud)) == 1


def test_versions_are_listed_in_pages(s3: S3) -> None:
    s3.ask("PUT", "bucket", "versioning", body=ON)
    for name in ("a", "b", "b", "b", "c/d"):
        s3.put(f"bucket/{name}", b"x")
    s3.ask("DELETE", "bucket/b")
    every = versions(s3)
    assert [latest for _, _, latest in every] == [True, True, False, False, False, True]
    for most in (1, 2, 4):
        found: list[tuple[str, str, bool]] = []
        after = ""
        while True:
            query = f"max-keys={most}{after}"
            found += versions(s3, query)
            root = s3.xml("bucket", f"versions&{query}")
            if root.findtext("IsTruncated") == "false":
                break
            after = (
                f"&key-marker={root.findtext('NextKeyMarker')}&version-id-marker={root.findtext('NextVersionIdMarker')}"
            )
        assert found == every
