"""What S3 says of bodies, and of headers about them, that are not as they should be."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import HOST, Response, request
from tests.object_store.signing import S3, UNSIGNED, bare, code, hashed
from tests.object_store.signing import chunked as signed_chunks

BODY = b"how much wood would a woodchuck chuck"
TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
MD5 = base64.b64encode(hashlib.md5(BODY).digest()).decode()
CRC = base64.b64encode(zlib.crc32(BODY).to_bytes(4, "big")).decode()
SEVERAL = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
CUT = ("IncompleteBody", "The request body terminated unexpectedly")


@pytest.fixture
def s3(cloud: MemoryCloud) -> S3:
    made = S3(cloud, cloud.client("demo"))
    made.put("bucket")
    return made


def told(answer: Response) -> tuple[str, str]:
    root = bare(answer)
    return root.findtext("Code") or "", root.findtext("Message") or ""


HEADERS: dict[str, tuple[dict[str, str], str, str]] = {
    "md5": ({"Content_MD5": "invalid"}, "InvalidDigest", "The Content-MD5 you specified was invalid."),
    "no such sum": (
        {"x_amz_checksum_bad": CRC},
        "InvalidRequest",
        "The algorithm type you specified in x-amz-checksum- header is invalid.",
    ),
    "two sums": ({"x_amz_checksum_crc32": CRC, "x_amz_checksum_crc32c": CRC}, "InvalidRequest", SEVERAL),
    "a sum here and behind": (
        {"x_amz_checksum_crc32": CRC, "x_amz_trailer": "x-amz-checksum-crc32"},
        "InvalidRequest",
        "Expecting a single x-amz-checksum- header",
    ),
    "no sum": ({"x_amz_checksum_crc32": "bad"}, "InvalidRequest", "Value for x-amz-checksum-crc32 header is invalid."),
    "a sum in another way": (
        {"x_amz_checksum_crc32": "AAAAAB=="},
        "InvalidRequest",
        "Value for x-amz-checksum-crc32 header is invalid.",
    ),
    "another algorithm": (
        {"x_amz_sdk_checksum_algorithm": "CRC32C", "x_amz_checksum_crc32": CRC},
        "InvalidRequest",
        "Value for x-amz-sdk-checksum-algorithm header is invalid.",
    ),
    "no trailer": (
        {"x_amz_trailer": "x-amz-checksum-crc32"},
        "MalformedTrailerError",
        "The request contained trailing data that was not well-formed or did not conform to our published schema.",
    ),
    "trailer": (
        {"x_amz_trailer": "foo"},
        "InvalidRequest",
        "The value specified in the x-amz-trailer header is not supported",
    ),
}


@pytest.mark.parametrize("what", HEADERS)
def test_headers_about_a_body_that_are_wrong(s3: S3, what: str) -> None:
    headers, kind, message = HEADERS[what]
    assert told(s3.ask("PUT", "bucket/o", body=BODY, **headers)) == (kind, message)
    assert s3.get("bucket/o").status == 404


def test_a_body_that_is_another_is_told_with_what_it_is(s3: S3) -> None:
    other = base64.b64encode(hashlib.md5(b"x").digest()).decode()
    refused = bare(s3.ask("PUT", "bucket/o", body=BODY, Content_MD5=other))
    assert refused.findtext("Code") == "BadDigest"
    assert refused.findtext("ExpectedDigest") == hashlib.md5(b"x").hexdigest()
    assert refused.findtext("CalculatedDigest") == MD5
    refused = bare(s3.ask("PUT", "bucket/o", body=BODY, payload=hashed(b"x")))
    assert refused.findtext("Code") == "XAmzContentSHA256Mismatch"
    assert refused.findtext("ClientComputedContentSHA256") == hashed(b"x")
    assert refused.findtext("S3ComputedContentSHA256") == hashed(BODY)
    assert s3.ask("PUT", "bucket/o", body=BODY, payload=hashed(BODY).upper()).status == 200


@pytest.mark.parametrize("payload", ["invalid", "unsigned-payload", "0" * 63])
def test_what_is_said_of_a_body_is_a_hash_or_why_there_is_none(s3: S3, payload: str) -> None:
    for method in ("GET", "PUT"):
        refused = bare(s3.ask(method, "bucket/o", body=BODY if method == "PUT" else b"", payload=payload))
        assert (refused.findtext("Code"), refused.findtext("ArgumentValue")) == ("InvalidArgument", payload)


def chunked(s3: S3, body: bytes, size: int = len(BODY), payload: str = TRAILER, **headers: Any) -> Response:
    return s3.ask("PUT", "bucket/o", body=body, payload=payload, x_amz_decoded_content_length=str(size), **headers)


def in_chunks(*chunks: bytes, line: bytes = b"\r\n") -> bytes:
    return b"".join(b"%x%s%s%s" % (len(chunk), line, chunk, line) for chunk in chunks)


WHOLE = in_chunks(BODY)
SUM = f"x-amz-checksum-crc32:{CRC}".encode()


@pytest.mark.parametrize(
    "body",
    [
        BODY,
        in_chunks(BODY, b"", line=b"\n"),
        in_chunks(BODY, b"", line=b"\r"),
        WHOLE,
        WHOLE + b"0\r\n\r",
        WHOLE[:-5],
        b"4" * 100_000,
        WHOLE.replace(b"\r\n", b" \r\n"),
    ],
)
def test_a_body_of_chunks_that_ends_before_its_end(s3: S3, body: bytes) -> None:
    assert told(chunked(s3, body)) == CUT


@pytest.mark.parametrize("line", [b"\n", b"\r", b""])
def test_a_trailer_without_an_end(s3: S3, line: bytes) -> None:
    assert told(chunked(s3, WHOLE + b"0\r\n" + SUM + line, x_amz_trailer="x-amz-checksum-crc32")) == CUT


@pytest.mark.parametrize(
    ("chunks", "provided"), [((BODY, BODY, b""), 2 * len(BODY)), ((BODY[:4], b"", BODY[4:], b""), 4)]
)
def test_more_or_less_data_than_was_said(s3: S3, chunks: tuple[bytes, ...], provided: int) -> None:
    refused = bare(chunked(s3, in_chunks(*chunks)))
    assert refused.findtext("Code") == "IncompleteBody"
    assert refused.findtext("NumberBytesExpected") == str(len(BODY))
    assert refused.findtext("NumberBytesProvided") == str(provided)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (SUM + b"\r\n", ""),
        (SUM + b"\r\n\r\n", ""),
        (SUM + b"\r\n\r\nanything: else\r\n", ""),
        (b"x-amz-checksum-crc32:AAAAAA==\r\n" + SUM + b"\r\n\r\n", ""),
        (SUM + b"\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "BadDigest"),
        (b"\r\n", "MalformedTrailerError"),
        (b"\r\n" + SUM + b"\r\n", "MalformedTrailerError"),
        (SUM + b"\r\nbonus: trailer\r\n\r\n", "MalformedTrailerError"),
        (b"x-amz-checksum-crc32c:" + CRC.encode() + b"\r\n\r\n", "MalformedTrailerError"),
        (b"x-amz-checksum-crc32:no sum\r\n\r\n", "InvalidRequest"),
    ],
)
def test_trailers(s3: S3, lines: bytes, expected: str) -> None:
    answer = chunked(s3, WHOLE + b"0\r\n" + lines, x_amz_trailer="x-amz-checksum-crc32")
    assert (told(answer)[0] if answer.status != 200 else "") == expected


def by_url(s3: S3, payload: str, body: bytes = BODY, more: Mapping[str, str] | None = None, **sign: Any) -> Response:
    """A PUT to an address that was signed with what is said of the body."""
    headers = {"x-amz-content-sha256": payload, "x-amz-decoded-content-length": str(len(BODY)), **(more or {})}
    url = s3.key.url("PUT", "/s3/bucket/o", headers=headers)
    if sign:
        body = signed_chunks(s3.key, url.rpartition("=")[2], body, **sign)
    return request(s3.cloud.site, "PUT", url, headers={"Host": HOST, **headers}, body=body)


def test_chunks_to_a_signed_address(s3: S3) -> None:
    assert told(by_url(s3, SIGNED))[0] == "XAmzContentSHA256Mismatch"
    assert code(by_url(s3, TRAILER, more={"x-amz-decoded-content-length": "-1"})) == (411, "MissingContentLength")
    assert told(by_url(s3, TRAILER, in_chunks(BODY))) == CUT
    trailer = {"x-amz-trailer": "x-amz-checksum-crc32"}
    assert by_url(s3, TRAILER, WHOLE + b"0\r\n" + SUM + b"\r\n\r\n", trailer).status == 200
    assert s3.get("bucket/o").body == BODY
    behind = ("x-amz-checksum-crc32", CRC)
    assert by_url(s3, f"{SIGNED}-TRAILER", BODY, trailer, size=2**16, trailer=behind).status == 200
    forged = by_url(s3, f"{SIGNED}-TRAILER", BODY, trailer, size=2**16, trailer=("x-amz-checksum-crc32", "AAAAAA=="))
    assert told(forged)[0] == "BadDigest"
    s3.key.secret, secret = "another", s3.key.secret
    assert told(by_url(s3, f"{SIGNED}-TRAILER", BODY, trailer, size=2**16))[0] == "SignatureDoesNotMatch"
    s3.key.secret = secret
    unsigned = by_url(s3, f"{SIGNED}-TRAILER", WHOLE + b"0\r\n" + SUM + b"\r\n\r\n", trailer)
    assert told(unsigned) == CUT


def test_chunks_that_say_no_length(s3: S3) -> None:
    for size in ("", "no number", "-1"):
        headers = {"x_amz_decoded_content_length": size} if size else {}
        refused = s3.ask("PUT", "bucket/o", body=WHOLE + b"0\r\n\r\n", payload=TRAILER, **headers)
        assert code(refused) == (411, "MissingContentLength")


def test_a_signature_that_is_not_right_is_told_with_what_was_to_be_signed(s3: S3) -> None:
    s3.key.secret = "another"
    refused = bare(s3.get("bucket"))
    assert refused.findtext("Code") == "SignatureDoesNotMatch"
    assert (refused.findtext("StringToSign") or "").startswith("AWS4-HMAC-SHA256\n")
    assert (refused.findtext("CanonicalRequest") or "").startswith("GET\n/s3/bucket\n")
    assert bytes.fromhex(refused.findtext("StringToSignBytes") or "").decode() == refused.findtext("StringToSign")


def test_which_objects_go_is_summed(s3: S3) -> None:
    s3.put("bucket/o")
    body = b"<Delete><Object><Key>o</Key></Object></Delete>"
    refused = s3.ask("POST", "bucket", "delete&x=1", body=body)
    assert told(refused) == (
        "InvalidRequest",
        "Missing required header for this request: Content-MD5 OR x-amz-checksum-*",
    )
    assert s3.get("bucket/o").status == 200
    crc = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    assert s3.ask("POST", "bucket", "delete=", body=body, x_amz_checksum_crc32=crc).status == 200
    assert s3.get("bucket/o").status == 404


def test_numbers_of_parts(s3: S3) -> None:
    s3.put("bucket/o", BODY)
    for number in ("0", "-1", "10001", "x", "9" * 30):
        assert code(s3.get("bucket/o", f"partNumber={number}")) == (400, "InvalidArgument")
    assert code(s3.get("bucket/o", "partNumber=2")) == (416, "InvalidPartNumber")
    assert s3.get("bucket/o", "partNumber=1").body == BODY
    assert code(s3.get("bucket/o", "partNumber=1", Range="bytes=0-1")) == (400, "InvalidRequest")
    s3.put("bucket/empty")
    for method in ("GET", "HEAD"):
        empty = s3.ask(method, "bucket/empty", "partNumber=1")
        assert (empty.status, empty.headers["Content-Length"], empty.headers["Content-Range"]) == (200, "0", None)
    assert code(s3.get("bucket/empty", "partNumber=2"))[1] == "InvalidPartNumber"


def test_an_error_has_the_id_of_its_request(s3: S3) -> None:
    refused = s3.get("bucket/nothing")
    assert bare(refused).findtext("RequestId") == refused.headers["x-amz-request-id"]


def test_an_error_names_what_there_is_not(s3: S3) -> None:
    for path, query, named in (
        ("bucket/no/key", "", {"Key": "no/key", "BucketName": "bucket"}),
        ("bucket/key", "versionId=1", {"Key": "key", "BucketName": "bucket", "VersionId": "1"}),
        ("none/key", "", {"BucketName": "none"}),
        ("none", "acl", {"BucketName": "none"}),
    ):
        answer = bare(s3.get(path, query))
        assert {each.tag: each.text for each in answer}.items() >= named.items(), path


def test_markers_of_versions(s3: S3) -> None:
    assert told(s3.get("bucket", "versions&version-id-marker=null"))[1].endswith("without a key marker.")
    assert told(s3.get("bucket", "versions&key-marker=&version-id-marker=bogus"))[1] == "Invalid version id specified"


def test_buckets_are_listed_and_not_looked_at(s3: S3) -> None:
    assert s3.ask("HEAD", "").status == 405
    assert s3.ask("PUT", "other", x_amz_acl="bogus").status == 400
    assert s3.ask("PUT", "bucket/o", body=b"x", payload=UNSIGNED, x_amz_tagging="foo=bar&bar").status == 200
    assert s3.xml("bucket/o", "tagging").findtext("TagSet/Tag[2]/Key") == "bar"


def test_several_ranges_are_all_of_it(s3: S3) -> None:
    s3.put("bucket/o", BODY)
    every = s3.get("bucket/o", Range="bytes=0-1,4-5")
    assert (every.status, every.body, every.headers["Content-Range"]) == (200, BODY, None)


def test_a_copy_has_the_checksum_that_is_asked_for(s3: S3) -> None:
    s3.put("bucket/o", BODY, x_amz_checksum_crc32=CRC)
    kept = bare(s3.put("bucket/same", x_amz_copy_source="bucket/o"))
    assert (kept.findtext("ChecksumCRC32"), kept.findtext("ChecksumType")) == (CRC, "FULL_OBJECT")
    sha256 = base64.b64encode(hashlib.sha256(BODY).digest()).decode()
    made = bare(s3.put("bucket/other", x_amz_copy_source="bucket/o", x_amz_checksum_algorithm="SHA256"))
    assert (made.findtext("ChecksumSHA256"), made.findtext("ChecksumCRC32")) == (sha256, None)
    shown = s3.get("bucket/other", x_amz_checksum_mode="ENABLED")
    assert (shown.body, shown.headers["x-amz-checksum-sha256"]) == (BODY, sha256)
    assert shown.headers["x-amz-checksum-crc32"] is None
    refused = s3.ask("PUT", "bucket/other", x_amz_copy_source="bucket/o", x_amz_checksum_algorithm="MD2")
    assert code(refused) == (400, "InvalidRequest")


def test_a_part_is_told_with_its_own_checksum(s3: S3) -> None:
    begun = bare(s3.ask("POST", "bucket/big", "uploads", x_amz_checksum_algorithm="CRC32"))
    upload = begun.findtext("UploadId") or ""
    answer = s3.ask("PUT", "bucket/big", f"partNumber=7&uploadId={upload}", body=BODY, x_amz_checksum_crc32=CRC)
    part = f"<PartNumber>7</PartNumber><ETag>{answer.headers['ETag']}</ETag><ChecksumCRC32>{CRC}</ChecksumCRC32>"
    body = f"<CompleteMultipartUpload><Part>{part}</Part></CompleteMultipartUpload>".encode()
    assert s3.ask("POST", "bucket/big", f"uploadId={upload}", body=body).status == 200
    shown = s3.get("bucket/big", "partNumber=1", x_amz_checksum_mode="ENABLED")
    assert (shown.status, shown.headers["x-amz-checksum-crc32"]) == (206, CRC)
    assert shown.headers["x-amz-checksum-type"] == "COMPOSITE"
