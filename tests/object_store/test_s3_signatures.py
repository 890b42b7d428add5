"""Signatures: those that AWS publishes are right, and whatever is changed afterwards is not."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from cloudctl.errors import CloudError
from cloudctl.object_store.api.s3 import signature
from cloudctl.object_store.api.s3.chunks import LEAST_SIZE, Chunks, Signing
from cloudctl.object_store.api.s3.faults import S3Error
from cloudctl.object_store.api.s3.signature import Request
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import HOST, parse, request
from tests.image.test_upload_admission import Upload
from tests.object_store.signing import S3, UNSIGNED, Key, chunked, code, hashed
from tests.work import counted

EXAMPLE = Key(
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    calendar.timegm(time.strptime("20130524", "%Y%m%d")),
    "us-east-1",
)
EMPTY = hashed(b"")
HOSTED = {"host": "examplebucket.s3.amazonaws.com"}
# «Authenticating requests: using the Authorization header», Amazon S3 API reference.
PUBLISHED: list[tuple[str, str, str, dict[str, str], str, str]] = [
    (
        "GET", "/test.txt", "", {**HOSTED, "range": "bytes=0-9"}, EMPTY,
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    (
        "PUT", "/test%24file.text", "",
        {**HOSTED, "date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
        "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
    ("GET", "/", "lifecycle", HOSTED, EMPTY, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    (
        "GET", "/", "max-keys=2&prefix=J", HOSTED, EMPTY,
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
]  # fmt: skip


@pytest.mark.parametrize("given", PUBLISHED, ids=[f"{each[0]} {each[1]}?{each[2]}" for each in PUBLISHED])
def test_what_aws_publishes(given: tuple[str, str, str, dict[str, str], str, str]) -> None:
    method, path, query, headers, payload, expected = given
    signed = EXAMPLE.signed(method, path, query, headers, payload)
    assert signed["Authorization"].endswith(expected)
    sent = Request(method, path.encode(), query.encode(), {name.lower(): [value] for name, value in signed.items()})
    found = signature.read(sent, {})
    assert found is not None and found.expected(sent, EXAMPLE.secret) == expected


def test_the_url_that_aws_publishes() -> None:
    url = EXAMPLE.url("GET", "/test.txt", 86400, host=HOSTED["host"])
    expected = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    assert url.endswith(expected)
    sent = Request("GET", b"/test.txt", url.partition("?")[2].encode(), {"host": [HOSTED["host"]]})
    from urllib.parse import parse_qsl

    found = signature.read(sent, dict(parse_qsl(url.partition("?")[2])))
    assert found is not None and found.expected(sent, EXAMPLE.secret) == expected


SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
LAST = b"0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"


def signing() -> Signing:
    return Signing(EXAMPLE.signing, EXAMPLE.when, EXAMPLE.scope, SEED)


def taken(body: bytes, size: int, step: int, **options: Any) -> bytes:
    chunks = Chunks(size, signing(), **options)
    data = b"".join(b"".join(chunks.feed(body[at : at + step])) for at in range(0, len(body), step))
    chunks.finish()
    return data


@pytest.mark.parametrize("step", [1, 7, 1000, 10**6])
def test_the_chunks_that_aws_publishes(step: int) -> None:
    data = b"a" * 66560
    body = chunked(EXAMPLE, SEED, data, 65536)
    assert body.endswith(LAST)
    assert taken(body, len(data), step) == data


SIZE = 10_000  # bytes, in two chunks


def _lies() -> Iterator[tuple[str, bytes]]:
    body = chunked(EXAMPLE, SEED, b"a" * SIZE, LEAST_SIZE)
    yield "cut off", body[:-20]
    yield "the last chunk is missing", body[: -len(LAST)]
    yield "a byte is another", body.replace(b"aaaa", b"aaab", 1)
    yield "a chunk is longer than it says", body.replace(b"a\r\n710;", b"aa\r\n710;")
    yield "a chunk is shorter than it says", body.replace(b"a\r\n710;", b"\r\n710;")
    yield "a size is no number", body.replace(b"2000;", b"2x00;", 1)
    yield "a size is huge", body.replace(b"2000;", b"ffffffffffffffff;", 1)
    yield "no signature", body.replace(b";chunk-signature", b";chunk-signaturx")
    yield "chunks in another order", body[body.index(b"710;") :] + body[: body.index(b"710;")]
    yield "a line without an end", b"4" * 100_000


@pytest.mark.parametrize(("what", "body"), list(_lies()), ids=[what for what, _ in _lies()])
@pytest.mark.parametrize("step", [3, 10**6])
def test_chunks_that_lie(what: str, body: bytes, step: int) -> None:
    with pytest.raises(CloudError):
        taken(body, SIZE, step)


def test_what_follows_the_last_chunk_is_not_of_the_data() -> None:
    assert taken(chunked(EXAMPLE, SEED, b"a" * SIZE, LEAST_SIZE) + b"0;", SIZE, 7) == b"a" * SIZE


@pytest.mark.parametrize("sizes", [(LEAST_SIZE, 1), (1,), (LEAST_SIZE, LEAST_SIZE, LEAST_SIZE - 1)])
def test_the_last_chunk_may_be_small(sizes: tuple[int, ...]) -> None:
    data = b"a" * sum(sizes)
    assert taken(chunked(EXAMPLE, SEED, data, LEAST_SIZE), len(data), 1000) == data


def test_a_small_chunk_that_another_one_follows_is_refused() -> None:
    with pytest.raises(CloudError) as caught:
        taken(chunked(EXAMPLE, SEED, b"a" * LEAST_SIZE, LEAST_SIZE - 1), LEAST_SIZE, 1000)
    why = cast(S3Error, caught.value)
    assert (why.type, why.status) == ("InvalidChunkSizeError", 403)
    assert why.more == {"Chunk": "2", "BadChunkSize": str(LEAST_SIZE - 1)}


def test_chunks_may_not_be_left_out(cloud: MemoryCloud) -> None:
    with pytest.raises(CloudError):
        taken(chunked(EXAMPLE, SEED, b"a" * 64, 64), 100, 1000)


# -- requests


@pytest.fixture
def s3(cloud: MemoryCloud) -> S3:
    made = S3(cloud, cloud.client("demo"))
    made.put("bucket")
    made.put("bucket/a b+c&d=e", b"data")
    return made


def test_who_signs_is_let_in(s3: S3) -> None:
    assert s3.get("bucket/a b+c&d=e").body == b"data"
    assert s3.get("bucket/a b+c&d=e", "response-content-type=text%2Fx").headers["Content-Type"] == "text/x"


CHANGES: dict[str, tuple[dict[str, str], tuple[int, str]]] = {
    "the method": ({"method": "HEAD"}, (403, "")),
    "the path": ({"path": "/s3/bucket/other"}, (403, "SignatureDoesNotMatch")),
    "the query": ({"query": "versionId=null"}, (403, "SignatureDoesNotMatch")),
    "a header": ({"x-amz-content-sha256": hashed(b"x")}, (403, "SignatureDoesNotMatch")),
    "the host": ({"Host": "other.example.com"}, (403, "SignatureDoesNotMatch")),
    "a header that is not signed": ({"x-amz-acl": "public-read"}, (403, "AccessDenied")),
    "an old kind": ({"Authorization": "AWS a:b"}, (400, "InvalidRequest")),
    "nothing in it": ({"Authorization": "AWS4-HMAC-SHA256 x"}, (400, "AuthorizationHeaderMalformed")),
    "a token, too": ({"x-amz-security-token": "x"}, (403, "AccessDenied")),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_signed_may_not_be_changed(s3: S3, what: str) -> None:
    changes, expected = CHANGES[what]
    path = "/s3/bucket/a%20b%2Bc%26d%3De"
    told = s3.key.signed("GET", path, "", {"Host": HOST}, EMPTY)
    changed = {name: value for name, value in changes.items() if name not in ("method", "path", "query")}
    target = changes.get("path", path) + (f"?{changes['query']}" if "query" in changes else "")
    answer = request(s3.cloud.site, changes.get("method", "GET"), target, headers=told | changed)
    assert (answer.status, code(answer)[1] if answer.body else "") == expected


@pytest.mark.parametrize("text", ["a\u00a0b", "a\u2003\u2003b", "a\u0085b"])
def test_only_ascii_spaces_of_a_signed_header_are_one(s3: S3, text: str) -> None:
    assert s3.ask("PUT", "bucket/o", x_amz_meta_text=text).status == 200


def test_wrong_keys(s3: S3, cloud: MemoryCloud) -> None:
    now = cloud.clock.seconds()
    client = cloud.client("demo")
    assert code(S3(cloud, client, Key("nobody", "x", now)).get()) == (403, "InvalidAccessKeyId")
    assert code(S3(cloud, client, Key(s3.key.access, "x", now)).get()) == (403, "SignatureDoesNotMatch")
    elsewhere = S3(cloud, client, Key(s3.key.access, s3.key.secret, now, "eu-west-1")).get()
    assert code(elsewhere) == (400, "AuthorizationHeaderMalformed")
    for skew, expected in ((-1000, 403), (1000, 403), (-800, 200), (800, 200)):
        moved = Key(s3.key.access, s3.key.secret, now + skew)
        assert S3(cloud, client, moved).get().status == expected
    usual = Key(s3.key.access, s3.key.secret, now, "us-east-1")
    assert S3(cloud, client, usual).get().status == 200


def test_a_key_that_was_deleted_opens_nothing(s3: S3, cloud: MemoryCloud) -> None:
    client = cloud.client("demo")
    me = client.get("/identity/v3/auth/tokens", headers={"X-Subject-Token": str(client.token)}).json()["token"]["user"]
    gone = client.delete(f"/identity/v3/users/{me['id']}/credentials/OS-EC2/{s3.key.access}")
    assert gone.status == 204
    assert code(s3.get()) == (403, "InvalidAccessKeyId")


def test_what_a_key_stands_for_is_remembered_until_it_changes(s3: S3, cloud: MemoryCloud) -> None:
    assert s3.get("bucket").status == 200
    with counted(cloud) as work:
        assert s3.get("bucket").status == 200
    # Of who asks, the credential alone.
    assert [each for each in work.statements if "FROM identity_" in each and "identity_credentials" not in each] == []
    admin = cloud.client("admin")
    user = admin.get("/identity/v3/users?name=demo").json()["users"][0]["id"]
    assert admin.patch(f"/identity/v3/users/{user}", {"user": {"enabled": False}}).status == 200
    assert code(s3.get("bucket")) == (403, "AccessDenied")
    assert admin.patch(f"/identity/v3/users/{user}", {"user": {"enabled": True}}).status == 200
    assert s3.get("bucket").status == 200
    project = s3.project_id
    for role in admin.get(f"/identity/v3/projects/{project}/users/{user}/roles").json()["roles"]:
        admin.delete(f"/identity/v3/projects/{project}/users/{user}/roles/{role['id']}")
    assert code(s3.get("bucket")) == (403, "AccessDenied")


def test_signed_urls(s3: S3, cloud: MemoryCloud) -> None:
    anonymous = cloud.anonymous()
    url = s3.key.url("GET", "/s3/bucket/a%20b%2Bc%26d%3De")
    assert anonymous.get(url).body == b"data"
    assert code(anonymous.delete(url))[1] == "SignatureDoesNotMatch"
    cloud.advance(601)
    assert code(anonymous.get(url)) == (403, "AccessDenied")
    for expires in (0, 604_801):
        assert code(anonymous.get(s3.key.url("GET", "/s3/bucket", expires)))[1] == "AuthorizationQueryParametersError"
    to_come = Key(s3.key.access, s3.key.secret, cloud.clock.seconds() + 1000)
    assert code(anonymous.get(to_come.url("GET", "/s3/bucket")))[1] == "AccessDenied"
    put = Key(s3.key.access, s3.key.secret, cloud.clock.seconds()).url("PUT", "/s3/bucket/new")
    assert anonymous.request("PUT", put, body=b"new").status == 200
    assert S3(cloud, cloud.client("demo")).get("bucket/new").body == b"new"


@pytest.mark.parametrize("in_url", [False, True])
def test_a_body_may_take_longer_than_its_signature_is_valid(s3: S3, cloud: MemoryCloud, in_url: bool) -> None:
    path = "/s3/bucket/long"
    headers = {} if in_url else s3.key.signed("PUT", path, "", {"Host": "x"}, UNSIGNED)
    headers.pop("Host", None)
    long = Upload(cloud, s3.key.url("PUT", path, 60, host="x") if in_url else path, None, 40 * 2**16, **headers)
    for _ in range(40):
        cloud.advance(30)
        long.send(b"x" * 2**16)
    cloud.advance(0)
    assert parse(long.transport.value(), "PUT").status == 200
    long.end()


def test_bodies_are_held_against_what_is_said_of_them(s3: S3) -> None:
    assert code(s3.ask("PUT", "bucket/o", body=b"x", payload=hashed(b"y"))) == (400, "XAmzContentSHA256Mismatch")
    assert s3.ask("PUT", "bucket/o", body=b"x", payload=UNSIGNED).status == 200
    assert code(s3.ask("PUT", "bucket/o", body=b"x", payload="nothing")) == (400, "InvalidArgument")
    assert code(s3.ask("PUT", "bucket/o", body=b"x", Content_MD5="AAAA")) == (400, "InvalidDigest")
    assert code(s3.ask("PUT", "bucket/o", body=b"x", Content_MD5="A" * 22 + "==")) == (400, "BadDigest")
    assert s3.get("bucket/o").body == b"x"
