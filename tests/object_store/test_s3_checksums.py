"""Checksums of objects that come in parts, by S3: of all the data, or of the sums of the parts."""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Any

import pytest
from awscrt import checksums

from cloudctl.testing.cloud import MemoryCloud
from tests.object_store.asking import Account
from tests.object_store.signing import S3, bare, code

PART = 5 * 2**20
DATA = b"a" * PART, b"b" * 10
WHOLE = b"".join(DATA)


def raw(algorithm: str, data: bytes) -> bytes:
    if algorithm.startswith("sha"):
        return hashlib.new(algorithm, data).digest()
    reckon: Any = {"crc32": zlib.crc32, "crc32c": checksums.crc32c, "crc64nvme": checksums.crc64nvme}[algorithm]
    return int(reckon(data)).to_bytes(8 if algorithm == "crc64nvme" else 4, "big")


def told(data: bytes) -> str:
    return base64.b64encode(data).decode()


def composite(algorithm: str, *parts: bytes) -> str:
    return f"{told(raw(algorithm, b''.join(raw(algorithm, part) for part in parts)))}-{len(parts)}"


@pytest.fixture
def s3(cloud: MemoryCloud) -> S3:
    made = S3(cloud, cloud.client("demo"))
    made.put("bucket")
    return made


def begin(s3: S3, algorithm: str = "", kind: str = "", path: str = "bucket/big") -> str:
    said: dict[str, Any] = {"x_amz_checksum_algorithm": algorithm, "x_amz_checksum_type": kind}
    answer = s3.ask("POST", path, "uploads", **{name: value for name, value in said.items() if value})
    assert answer.status == 200, answer
    if algorithm:
        assert answer.headers["x-amz-checksum-algorithm"] == algorithm.upper()
    return bare(answer).findtext("UploadId") or ""


def put(s3: S3, upload: str, number: int, data: bytes, **headers: str) -> Any:
    return s3.ask("PUT", "bucket/big", f"partNumber={number}&uploadId={upload}", body=data, **headers)


def complete(s3: S3, upload: str, sums: dict[int, str] | None = None, name: str = "CRC32", **headers: str) -> Any:
    listed = bare(s3.get("bucket/big", f"uploadId={upload}"))
    parts = "".join(
        f"<Part><PartNumber>{(number := int(part.findtext('PartNumber') or 0))}</PartNumber>"
        f"<ETag>{part.findtext('ETag')}</ETag>"
        + (f"<Checksum{name}>{sums[number]}</Checksum{name}>" if sums else "")
        + "</Part>"
        for part in listed.findall("Part")
    )
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    return s3.ask("POST", "bucket/big", f"uploadId={upload}", body=body, **headers)


@pytest.mark.parametrize(
    ("algorithm", "asked", "kind"),
    [
        ("crc32", "", "COMPOSITE"),
        ("crc32", "FULL_OBJECT", "FULL_OBJECT"),
        ("crc32c", "COMPOSITE", "COMPOSITE"),
        ("crc32c", "FULL_OBJECT", "FULL_OBJECT"),
        ("crc64nvme", "", "FULL_OBJECT"),
        ("sha1", "", "COMPOSITE"),
        ("sha256", "COMPOSITE", "COMPOSITE"),
    ],
)
def test_the_sum_of_an_object_in_parts(s3: S3, algorithm: str, asked: str, kind: str) -> None:
    upload, name = begin(s3, algorithm, asked), f"x-amz-checksum-{algorithm}"
    first = told(raw(algorithm, DATA[0]))
    assert put(s3, upload, 1, DATA[0], **{name: first}).headers[name] == first
    # Who says none is told it.
    assert put(s3, upload, 2, DATA[1]).headers[name] == told(raw(algorithm, DATA[1]))
    listed = bare(s3.get("bucket/big", f"uploadId={upload}"))
    assert (listed.findtext("ChecksumAlgorithm"), listed.findtext("ChecksumType")) == (algorithm.upper(), kind)
    assert listed.findtext(f"Part/Checksum{algorithm.upper()}") == first
    on_their_way = bare(s3.get("bucket", "uploads"))
    assert on_their_way.findtext("Upload/ChecksumType") == kind

    done = bare(complete(s3, upload))
    value = told(raw(algorithm, WHOLE)) if kind == "FULL_OBJECT" else composite(algorithm, *DATA)
    assert (done.findtext(f"Checksum{algorithm.upper()}"), done.findtext("ChecksumType")) == (value, kind)
    for answer in (
        s3.ask("HEAD", "bucket/big", x_amz_checksum_mode="ENABLED"),
        s3.get("bucket/big", x_amz_checksum_mode="ENABLED"),
    ):
        assert (answer.headers[name], answer.headers["x-amz-checksum-type"]) == (value, kind)
    # A part has a sum of its own, and a range has none.
    second = s3.get("bucket/big", "partNumber=2", x_amz_checksum_mode="ENABLED")
    assert second.headers[name] == told(raw(algorithm, DATA[1]))
    assert name not in s3.get("bucket/big", x_amz_checksum_mode="ENABLED", Range="bytes=0-5").headers
    shown = bare(s3.get("bucket/big", "attributes", x_amz_object_attributes="Checksum"))
    assert (shown.findtext(f"Checksum/Checksum{algorithm.upper()}"), shown.findtext("Checksum/ChecksumType")) == (
        value,
        kind,
    )


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [("md5", ""), ("sha256", "FULL_OBJECT"), ("crc64nvme", "COMPOSITE"), ("", "COMPOSITE"), ("crc32", "x")],
)
def test_sums_that_cannot_be_are_refused(s3: S3, algorithm: str, kind: str) -> None:
    said: dict[str, Any] = {"x_amz_checksum_algorithm": algorithm, "x_amz_checksum_type": kind}
    asked = {name: value for name, value in said.items() if value}
    assert code(s3.ask("POST", "bucket/big", "uploads", **asked)) == (400, "InvalidRequest")


def test_what_is_said_of_parts_and_of_the_whole_is_held_against_what_came(s3: S3) -> None:
    upload = begin(s3, "crc32", "FULL_OBJECT")
    other = put(s3, upload, 1, DATA[0], x_amz_checksum_sha1=told(raw("sha1", DATA[0])))
    assert code(other) == (400, "InvalidRequest")
    assert code(put(s3, upload, 1, DATA[0], x_amz_checksum_crc32=told(raw("crc32", b"x")))) == (400, "BadDigest")
    sums = {1: told(raw("crc32", DATA[0])), 2: told(raw("crc32", DATA[1]))}
    for number, data in enumerate(DATA, 1):
        assert put(s3, upload, number, data).status == 200
    assert code(complete(s3, upload, {**sums, 2: sums[1]})) == (400, "InvalidPart")
    assert code(complete(s3, upload, sums, "CRC32C")) == (400, "InvalidPart")
    assert code(complete(s3, upload, sums, x_amz_checksum_crc32=sums[1])) == (400, "BadDigest")
    assert code(complete(s3, upload, x_amz_checksum_type="COMPOSITE")) == (400, "InvalidRequest")
    assert code(complete(s3, upload, x_amz_checksum_crc32c=sums[1])) == (400, "InvalidRequest")
    assert code(complete(s3, upload, x_amz_mp_object_size="5")) == (400, "InvalidRequest")
    right = {"x_amz_checksum_crc32": told(raw("crc32", WHOLE)), "x_amz_checksum_type": "FULL_OBJECT"}
    assert complete(s3, upload, sums, x_amz_mp_object_size=str(len(WHOLE)), **right).status == 200


def test_the_sum_of_sums_may_be_said_with_and_without_the_number_of_parts(s3: S3) -> None:
    value = composite("sha256", *DATA)
    for said in (value, value.partition("-")[0]):
        upload = begin(s3, "sha256")
        for number, data in enumerate(DATA, 1):
            assert put(s3, upload, number, data).status == 200
        done = bare(complete(s3, upload, x_amz_checksum_sha256=said))
        assert done.findtext("ChecksumSHA256") == value


def test_what_has_not_changed_is_told_without_a_sum(s3: S3) -> None:
    """botocore looks for the data of a sum, and fails."""
    etag = s3.put("bucket/o", b"data", x_amz_checksum_crc32=told(raw("crc32", b"data"))).headers["ETag"]
    answer = s3.get("bucket/o", If_None_Match=etag, x_amz_checksum_mode="ENABLED")
    assert (answer.status, answer.headers["ETag"]) == (304, etag)
    assert not [name for name in answer.headers if name.startswith("x-amz-checksum")]


def test_copied_parts_have_sums_too_and_copies_have_none_of_parts(s3: S3, mine: Account) -> None:
    s3.put("bucket/source", WHOLE)
    upload = begin(s3, "crc32", "FULL_OBJECT")
    asked = f"partNumber=1&uploadId={upload}"
    span: dict[str, Any] = {"x_amz_copy_source": "bucket/source", "x_amz_copy_source_range": f"bytes=0-{PART - 1}"}
    assert bare(s3.ask("PUT", "bucket/big", asked, **span)).findtext("ChecksumCRC32") == told(raw("crc32", DATA[0]))
    put(s3, upload, 2, DATA[1])
    assert bare(complete(s3, upload)).findtext("ChecksumCRC32") == told(raw("crc32", WHOLE))

    def sums(path: str) -> tuple[str | None, str | None]:
        found = s3.ask("HEAD", path, x_amz_checksum_mode="ENABLED").headers
        return found.get("x-amz-checksum-crc32"), found.get("x-amz-checksum-type")

    s3.put("bucket/copy", x_amz_copy_source="bucket/big")
    assert sums("bucket/copy") == (told(raw("crc32", WHOLE)), "FULL_OBJECT")
    upload = begin(s3, "crc32")
    for number, data in enumerate(DATA, 1):
        put(s3, upload, number, data)
    complete(s3, upload)
    s3.put("bucket/copy", x_amz_copy_source="bucket/big")
    assert sums("bucket/copy") == (None, None)
    # By Swift's API, too: what is other data has not the sum of these.
    s3.put("bucket/one", b"123456", x_amz_checksum_crc32=told(raw("crc32", b"123456")))
    assert mine.ask("COPY", "bucket/one", Destination="bucket/two").status == 201
    assert sums("bucket/two") == (told(raw("crc32", b"123456")), "FULL_OBJECT")
    assert mine.ask("COPY", "bucket/one", Destination="bucket/two", Range="bytes=1-2").status == 201
    assert sums("bucket/two") == (None, None)
