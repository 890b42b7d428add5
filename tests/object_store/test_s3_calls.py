"""What clients ask of buckets and objects by S3, and that Swift's API sees the same."""

from __future__ import annotations

import base64
import hashlib
import zlib
from email.utils import parsedate_to_datetime
from math import ceil
from xml.sax.saxutils import escape

import pytest

from cloudctl.object_store.api.s3 import subresources
from cloudctl.object_store.api.s3.ageing import Ageing
from cloudctl.object_store.api.s3.buckets import Buckets
from cloudctl.object_store.api.s3.cross_origin import CrossOrigin
from cloudctl.object_store.api.s3.deletes import Deletes
from cloudctl.object_store.api.s3.objects import Objects
from cloudctl.object_store.api.s3.policies import Policies
from cloudctl.object_store.api.s3.uploads import Uploads
from cloudctl.rest.route import Operation
from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.testing.http import request
from tests.object_store.asking import Account, files
from tests.object_store.signing import NS, S3, bare, chunked, code

DATA = b"0123456789" * 10
MD5 = hashlib.md5(DATA).hexdigest()
MIB = 2**20


@pytest.fixture
def s3(cloud: MemoryCloud) -> S3:
    made = S3(cloud, cloud.client("demo"))
    made.put("bucket")
    return made


def crc32(data: bytes) -> str:
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


# -- buckets


def test_buckets(s3: S3) -> None:
    assert [each.text for each in s3.xml().findall("Buckets/Bucket/Name")] == ["bucket"]
    assert code(s3.ask("PUT", "bucket")) == (409, "BucketAlreadyOwnedByYou")
    for wrong in ("B", "Upper", "a_b", "a..b", "1.2.3.4", "x" * 64):
        assert code(s3.ask("PUT", wrong)) == (400, "InvalidBucketName")
    there = s3.ask("HEAD", "bucket")
    assert (there.status, there.headers["x-amz-bucket-region"]) == (200, "RegionOne")
    assert s3.xml("bucket", "location").text == "RegionOne"
    elsewhere = b"<CreateBucketConfiguration><LocationConstraint>x</LocationConstraint></CreateBucketConfiguration>"
    assert code(s3.ask("PUT", "other", body=elsewhere)) == (400, "InvalidLocationConstraint")
    s3.put("bucket/o", DATA)
    assert code(s3.ask("DELETE", "bucket")) == (409, "BucketNotEmpty")
    assert s3.ask("DELETE", "bucket/o").status == 204
    assert s3.ask("DELETE", "bucket").status == 204
    assert s3.ask("HEAD", "bucket").status == 404
    assert code(s3.get("bucket")) == (404, "NoSuchBucket")


def test_hosts_of_its_own() -> None:
    made = MemoryCloud({"object_store": {"s3_hosts": ["S3.example.com"]}})
    s3 = S3(made, made.client("demo"), root="")
    assert s3.ask("PUT", "bucket", host="s3.example.com").status == 200
    assert s3.ask("PUT", "o", body=DATA * 2000, host="bucket.s3.example.com:8080").status == 200
    assert s3.ask("GET", "bucket/o", host="s3.example.com").body == DATA * 2000
    assert s3.ask("GET", "o", host="bucket.s3.example.com").body == DATA * 2000
    assert s3.ask("GET", "", host="bucket.s3.example.com").body.count(b"<Key>o</Key>") == 1
    assert b"<Name>bucket</Name>" in s3.ask("GET", "", host="s3.example.com").body
    assert made.client("demo").get("/identity/v3").status == 200
    made.close()


def test_what_a_bucket_has_not(s3: S3) -> None:
    for what, told in {**subresources.UNSET, "tagging": "NoSuchTagSet"}.items():
        assert code(s3.get("bucket", what)) == (404, told)
    for what, root in subresources.EMPTY.items():
        assert s3.xml("bucket", what).tag == root


def test_what_is_not_offered_is_refused_and_never_taken_for_the_bucket_or_object_itself(s3: S3) -> None:
    s3.put("bucket/o", DATA)
    s3.put("empty")
    resources = (Buckets, Ageing, CrossOrigin, Deletes, Objects, Policies, Uploads)
    operations = [each for resource in resources for each in resource.routes.operations]
    offered = {(each.method, "/<path:key>" in each.path, name) for each in operations for name in known(each)}
    tried = 0
    for method in ("GET", "PUT", "POST", "DELETE"):
        for name in sorted(subresources.of(each.routes for each in resources)):
            for path in ("empty", "bucket/o"):
                if (method, "/" in path, name) not in offered:
                    answer = s3.ask(method, path, f"{name}&id=x", body=b"<x/>" if method in ("PUT", "POST") else b"")
                    assert code(answer) == (501, "NotImplemented"), (method, path, name)
                    tried += 1
    assert tried > 200
    assert s3.ask("HEAD", "empty").status == 200 and s3.get("bucket/o").body == DATA
    # A page asks whether it may, not for the thing itself.
    assert s3.ask("OPTIONS", "bucket/o", "retention", Origin="http://a.example").status != 501


def known(operation: Operation) -> set[str]:
    return {operation.subresource, *operation.query}


# -- objects


def test_both_apis_see_the_same(s3: S3, mine: Account) -> None:
    s3.put("bucket/a/b", DATA, x_amz_meta_color="blue", Content_Type="text/x", Cache_Control="max-age=1")
    found = mine.get("bucket/a/b")
    assert (found.body, found.headers["X-Object-Meta-Color"], found.headers["ETag"]) == (DATA, "blue", MD5)
    mine.put("bucket/c", b"native", X_Object_Meta_Shape="round")
    told = s3.get("bucket/c")
    assert (told.body, told.headers["x-amz-meta-shape"]) == (b"native", "round")
    head = s3.ask("HEAD", "bucket/a/b").headers
    assert (head["ETag"], head["Content-Length"], head["Cache-Control"]) == (f'"{MD5}"', "100", "max-age=1")
    assert "S3:" not in str(mine.head("bucket/a/b").headers)


def test_ranges_and_conditions(s3: S3) -> None:
    s3.put("bucket/o", DATA)
    one = s3.get("bucket/o", Range="bytes=5-14")
    assert (one.status, one.body, one.headers["Content-Range"]) == (206, DATA[5:15], "bytes 5-14/100")
    assert code(s3.get("bucket/o", Range="bytes=100-")) == (416, "InvalidRange")
    assert s3.get("bucket/o", If_None_Match=f'"{MD5}"').status == 304
    assert code(s3.get("bucket/o", If_Match='"x"')) == (412, "PreconditionFailed")
    assert code(s3.ask("PUT", "bucket/o", body=b"x", If_None_Match="*")) == (412, "PreconditionFailed")
    assert code(s3.ask("PUT", "bucket/o", body=b"x", If_Match='"x"')) == (412, "PreconditionFailed")
    assert code(s3.ask("PUT", "bucket/none", body=b"x", If_Match='"x"')) == (404, "NoSuchKey")
    assert s3.ask("PUT", "bucket/o", body=b"y", If_Match=f'"{MD5}"').status == 200
    assert code(s3.get("bucket/none")) == (404, "NoSuchKey")


def test_conditional_deletions(s3: S3) -> None:
    s3.put("bucket/o", b"data")
    tag = s3.get("bucket/o").headers["ETag"]
    assert code(s3.ask("DELETE", "bucket/o", If_Match='"x"')) == (412, "PreconditionFailed")
    assert code(s3.ask("DELETE", "bucket/none", If_Match="*")) == (412, "PreconditionFailed")
    assert s3.ask("DELETE", "bucket/none", If_Match='"x"').status == 204
    assert s3.get("bucket/o").status == 200
    assert s3.ask("DELETE", "bucket/o", If_Match=str(tag)).status == 204
    s3.put("bucket/o", b"data")
    assert s3.ask("DELETE", "bucket/o", If_Match="*").status == 204
    assert s3.get("bucket/o").status == 404


def test_conditional_deletions_of_versions(s3: S3) -> None:
    enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    assert s3.ask("PUT", "bucket", "versioning", body=enabled).status == 200
    old = str(s3.put("bucket/o", b"old").headers["x-amz-version-id"])
    new = s3.put("bucket/o", b"new").headers
    for version in (old, new["x-amz-version-id"]):
        refused = s3.ask("DELETE", "bucket/o", f"versionId={version}", If_Match='"x"')
        assert code(refused) == (412, "PreconditionFailed")
    assert s3.get("bucket/o", f"versionId={old}").body == b"old"
    query = f"versionId={new['x-amz-version-id']}"
    assert s3.ask("DELETE", "bucket/o", query, If_Match=str(new["ETag"])).status == 204
    assert s3.get("bucket/o").body == b"old"


def test_many_are_deleted_only_if_they_have_the_tags_that_are_named(s3: S3) -> None:
    tag = s3.put("bucket/same", b"data").headers["ETag"]
    s3.put("bucket/other", b"data")
    listed = "".join(
        f"<Object><Key>{name}</Key><ETag>{escape(each)}</ETag></Object>"
        for name, each in (("same", str(tag)), ("other", '"x"'), ("none", "*"))
    )
    told = bare(s3.ask("POST", "bucket", "delete", body=f"<Delete>{listed}</Delete>".encode()))
    assert [each.text for each in told.findall("Deleted/Key")] == ["same"]
    refused = [(each.findtext("Key"), each.findtext("Code")) for each in told.findall("Error")]
    assert refused == [("other", "PreconditionFailed"), ("none", "PreconditionFailed")]
    assert s3.names("bucket") == ["other"]


def test_conditions_that_are_not_offered_are_not_taken_for_none(s3: S3) -> None:
    s3.put("bucket/o", b"data")
    for name in ("LastModifiedTime", "Size"):
        body = f"<Delete><Object><Key>o</Key><{name}>1</{name}></Object></Delete>".encode()
        assert code(s3.ask("POST", "bucket", "delete", body=body)) == (501, "NotImplemented")
    for refused in (
        s3.ask("DELETE", "bucket/o", x_amz_if_match_size="1"),
        s3.ask("DELETE", "bucket/o", x_amz_if_match_last_modified_time="Mon, 02 Jan 2006 15:04:05 GMT"),
        s3.ask("PUT", "bucket/o", body=b"more", x_amz_write_offset_bytes="4"),
    ):
        assert code(refused) == (501, "NotImplemented")
    assert s3.get("bucket/o").body == b"data"


def test_copies(s3: S3, cloud: MemoryCloud) -> None:
    s3.put("bucket/o", DATA, x_amz_meta_a="1", x_amz_tagging="k=v")
    copied = s3.put("bucket/a copy", x_amz_copy_source="/bucket/o")
    assert bare(copied).findtext("ETag") == f'"{MD5}"'
    told = s3.get("bucket/a copy").headers
    assert (told["x-amz-meta-a"], told["x-amz-tagging-count"]) == ("1", "1")
    s3.put("bucket/new", x_amz_copy_source="bucket/o", x_amz_metadata_directive="REPLACE", x_amz_meta_b="2")
    told = s3.get("bucket/new").headers
    assert (told["x-amz-meta-a"], told["x-amz-meta-b"]) == (None, "2")
    assert len(files(cloud)) == 1
    assert code(s3.ask("PUT", "bucket/o", x_amz_copy_source="bucket/o")) == (400, "InvalidRequest")
    refused = s3.ask("PUT", "bucket/x", x_amz_copy_source="bucket/o", x_amz_copy_source_if_match='"x"')
    assert code(refused) == (412, "PreconditionFailed")
    assert code(s3.ask("PUT", "bucket/x", x_amz_copy_source="bucket/none")) == (404, "NoSuchKey")
    assert code(s3.ask("PUT", "bucket/x", x_amz_copy_source="none/o")) == (404, "NoSuchBucket")


def test_a_copy_of_a_dynamic_large_object_stays_when_its_segments_go(s3: S3, mine: Account) -> None:
    mine.put("bucket/parts/1", b"one, ")
    mine.put("bucket/parts/2", b"two")
    mine.put("bucket/whole", X_Object_Manifest="bucket/parts/")
    copied = bare(s3.put("bucket/copy", x_amz_copy_source="bucket/whole"))
    mine.delete("bucket/parts/1")
    answer = s3.get("bucket/copy")
    assert answer.body == b"one, two"
    assert answer.headers["ETag"] == copied.findtext("ETag")


def test_checksums(s3: S3, cloud: MemoryCloud) -> None:
    told = s3.put("bucket/o", DATA, x_amz_checksum_crc32=crc32(DATA), x_amz_sdk_checksum_algorithm="CRC32")
    assert told.headers["x-amz-checksum-crc32"] == crc32(DATA)
    assert s3.get("bucket/o", x_amz_checksum_mode="ENABLED").headers["x-amz-checksum-crc32"] == crc32(DATA)
    before = files(cloud)
    assert code(s3.ask("PUT", "bucket/p", body=DATA, x_amz_checksum_crc32=crc32(b"x"))) == (400, "BadDigest")
    assert files(cloud) == before
    # As the catalogue of checks has them: of «123456789».
    for name, value in (
        ("crc32c", "4waSgw=="),
        ("crc64nvme", "rosUhgp5mIg="),
        ("sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="),
    ):
        s3.put("bucket/o", b"123456789", **{f"x-amz-checksum-{name}": value})


def streamed(data: bytes, trailer: str = "") -> bytes:
    sent = b"".join(b"%x\r\n%s\r\n" % (len(data[at : at + 64]), data[at : at + 64]) for at in range(0, len(data), 64))
    return sent + b"0\r\n" + (f"{trailer}\r\n" if trailer else "").encode() + b"\r\n"


def test_a_coding_that_is_called_as_chunks_are_is_kept_of_a_body_without_chunks(s3: S3) -> None:
    s3.put("bucket/o", b"data", Content_Encoding="gzip, aws-chunked")
    assert s3.get("bucket/o").headers["Content-Encoding"] == "gzip, aws-chunked"


def test_the_time_of_an_object_is_the_same_wherever_it_is_told(s3: S3, cloud: MemoryCloud) -> None:
    for fraction in (0.0, 0.25, 0.999_999):
        cloud.clock.advance(ceil(cloud.clock.seconds()) + fraction - cloud.clock.seconds())
        s3.put("bucket/o", b"data")
        told = parsedate_to_datetime(str(s3.ask("HEAD", "bucket/o").headers["Last-Modified"]))
        assert s3.xml("bucket").findtext("Contents/LastModified") == f"{told:%Y-%m-%dT%H:%M:%S}.000Z"


def test_chunks_with_a_checksum_behind_them(s3: S3) -> None:
    def put(name: str, body: bytes, size: int = 100) -> tuple[int, str]:
        answer = s3.ask(
            "PUT",
            name,
            body=body,
            payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER",
            x_amz_decoded_content_length=str(size),
            x_amz_trailer="x-amz-checksum-crc32",
            Content_Encoding="aws-chunked",
        )
        return (200, "") if answer.status == 200 else code(answer)

    right = streamed(DATA, f"x-amz-checksum-crc32:{crc32(DATA)}")
    assert put("bucket/o", right) == (200, "")
    told = s3.get("bucket/o")
    assert (told.body, told.headers["Content-Encoding"]) == (DATA, None)
    assert put("bucket/o", right[:-2]) == (200, "")
    assert put("bucket/o", streamed(DATA)) == (400, "MalformedTrailerError")
    assert put("bucket/o", streamed(DATA, f"x-amz-checksum-crc32:{crc32(b'x')}")) == (400, "BadDigest")
    assert put("bucket/o", right, 99) == (400, "IncompleteBody")
    assert put("bucket/o", right, 101) == (400, "IncompleteBody")
    assert put("bucket/o", right[:-40]) == (400, "IncompleteBody")
    assert s3.get("bucket/o").body == DATA


@pytest.mark.parametrize("size", [100, 300_000])
def test_chunks_that_are_signed(s3: S3, size: int) -> None:
    data = b"x" * size
    trailer = ("x-amz-checksum-crc32", crc32(data))
    for kind, last in (
        ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", None),
        ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", trailer),
    ):
        headers = {"Host": "cloud.example.com", "x-amz-decoded-content-length": str(size)}
        headers |= {"x-amz-trailer": last[0]} if last else {}
        told = s3.key.signed("PUT", "/s3/bucket/o", "", headers, kind)
        seed = told["Authorization"].rpartition("=")[2]
        body = chunked(s3.key, seed, data, 65536, last)
        assert request(s3.cloud.site, "PUT", "/s3/bucket/o", headers=told, body=body).status == 200
        assert s3.get("bucket/o").body == data
        forged = body.replace(b"xx\r\n", b"xy\r\n", 1)
        assert (
            code(request(s3.cloud.site, "PUT", "/s3/bucket/o", headers=told, body=forged))[1] == "SignatureDoesNotMatch"
        )
    assert s3.get("bucket/o").body == data


# -- listings

NAMES = ["a", "b/1", "b/2", "c", "d/e/f", "ü"]


def test_listings(s3: S3) -> None:
    for name in NAMES:
        s3.put(f"bucket/{name}")
    assert s3.names("bucket") == NAMES
    assert s3.names("bucket", "delimiter=/") == ["a", "c", "ü", "b/", "d/"]
    assert s3.names("bucket", "prefix=b/&delimiter=/") == ["b/1", "b/2"]
    assert s3.names("bucket", "encoding-type=url&prefix=%C3%BC") == ["%C3%BC"]
    assert code(s3.get("bucket", "encoding-type=x")) == (400, "InvalidArgument")
    assert code(s3.get("bucket", "max-keys=x")) == (400, "InvalidArgument")
    assert s3.xml("bucket", "max-keys=0").findtext("IsTruncated") == "false"


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_pages(s3: S3, version: str, most: int) -> None:
    for name in NAMES:
        s3.put(f"bucket/{name}")
    found: list[str] = []
    query = "list-type=2&" if version == "2" else ""
    after = ""
    for _ in range(10):
        root = s3.xml("bucket", f"{query}delimiter=/&max-keys={most}{after}")
        found += [each.text or "" for each in [*root.findall("Contents/Key"), *root.findall("CommonPrefixes/Prefix")]]
        if root.findtext("IsTruncated") == "false":
            break
        following = root.findtext("NextContinuationToken") or root.findtext("NextMarker") or ""
        after = f"&{'continuation-token' if version == '2' else 'marker'}={following.replace('=', '%3D')}"
    assert sorted(found) == sorted(["a", "b/", "c", "d/", "ü"])


@pytest.mark.parametrize("kind", ["1", "3", "x", ""])
def test_kinds_of_listings_that_are_none(s3: S3, kind: str) -> None:
    refused = s3.get("bucket", f"list-type={kind}")
    assert code(refused) == (400, "InvalidArgument")
    assert bare(refused).findtext("ArgumentName") == "list-type"


def test_a_post_to_a_key_that_names_nothing_to_be_done_is_refused(s3: S3) -> None:
    s3.put("bucket/o", b"data")
    assert code(s3.ask("POST", "bucket/o", body=b"x")) == (405, "MethodNotAllowed")
    assert s3.get("bucket/o").body == b"data"


# -- many at once


@pytest.mark.parametrize("token", ["?", "%3F%3F%3F%3F", "YQ", "%FF", "a", "YQBi"])
def test_tokens_that_are_none(s3: S3, token: str) -> None:
    told = code(s3.get("bucket", f"list-type=2&continuation-token={token}"))
    assert told[0] == 400 and told[1] in ("InvalidArgument", "InvalidRequest")


def test_many_are_deleted(s3: S3) -> None:
    for name in NAMES:
        s3.put(f"bucket/{name}")
    listed = "".join(f"<Object><Key>{escape(name)}</Key></Object>" for name in [*NAMES[:4], "none", "x" * 2000])
    body = f'<Delete xmlns="{NS[1:-1]}">{listed}</Delete>'.encode()
    told = bare(s3.ask("POST", "bucket", "delete", body=body))
    assert [each.text for each in told.findall("Deleted/Key")] == [*NAMES[:4], "none"]
    assert told.findtext("Error/Code") == "KeyTooLongError"
    assert s3.names("bucket") == NAMES[4:]
    many = b"<Delete>" + b"<Object><Key>x</Key></Object>" * 1001 + b"</Delete>"
    assert code(s3.ask("POST", "bucket", "delete", body=many)) == (400, "MalformedXML")


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(8))
    + "]><Delete><Object><Key>&i;</Key></Object></Delete>"
)
BAD_XML = {
    "nothing": b"",
    "no XML": b"\x00\x01",
    "another document": b"<Other/>",
    "not closed": b"<Delete><Object>",
    "entities of entities": BOMB.encode(),
    "in another encoding": BOMB.encode("utf-16"),
    "one that says so": b'<?xml version="1.0" encoding="utf-16"?>' + BOMB.encode(),
    "a file": b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&a;</Key></Object></Delete>',
    "very deep": b"<a>" * 100_000 + b"</a>" * 100_000,
    "huge": b"<Delete>" + b" " * 5_000_000 + b"</Delete>",
}


@pytest.mark.parametrize("what", BAD_XML)
def test_documents_that_are_none(s3: S3, what: str) -> None:
    assert code(s3.ask("POST", "bucket", "delete", body=BAD_XML[what])) == (400, "MalformedXML")


def test_names_are_whatever_bytes_they_are(s3: S3, mine: Account) -> None:
    for name in ("..", "../../etc/passwd", "a//b", "/", " ", "%2F", "a?b#c", "\x01\x1f", "\U0001f600", "x" * 1024):
        s3.put(f"bucket/{name}", name.encode())
        assert s3.get(f"bucket/{name}").body == name.encode()
        assert mine.get(f"bucket/{name}").body == name.encode()
    assert code(s3.ask("PUT", f"bucket/{'x' * 5000}", body=b"x")) == (400, "KeyTooLongError")
    assert code(s3.ask("PUT", "bucket/a\0b", body=b"x")) == (400, "InvalidURI")
    for path in ("%ff:bucket", "%ed%a0%80:bucket/o", "p%00:bucket"):
        assert code(s3.cloud.anonymous().get(f"/s3/{path}")) == (400, "InvalidURI"), path
        assert code(s3.ask("PUT", "bucket/copy", x_amz_copy_source=f"{path}/o")) == (400, "InvalidURI"), path
    assert s3.ask("DELETE", "bucket/..").status == 204
    listed = s3.names("bucket", "encoding-type=url")
    assert "%01%1F" in listed and ".." not in listed
    s3.put("bucket/a\rb\n")
    assert "a\rb\n" in s3.names("bucket")
    keys = b"<Delete><Object><Key>a&#13;b\n</Key></Object></Delete>"
    assert bare(s3.ask("POST", "bucket", "delete", body=keys)).findtext("Deleted/Key") == "a\rb\n"


# -- who may


def test_others_are_let_in_as_the_bucket_says(s3: S3, alt: Client, cloud: MemoryCloud) -> None:
    s3.put("bucket/o", DATA)
    other, anonymous, path = S3(cloud, alt), cloud.anonymous(), f"{s3.project_id}:bucket"
    assert code(other.get("bucket/o")) == (404, "NoSuchBucket")
    assert code(other.get(f"{path}/o")) == (403, "AccessDenied")
    assert code(anonymous.get(f"/s3/{path}/o")) == (403, "AccessDenied")
    assert s3.ask("PUT", "bucket", "acl", x_amz_acl="public-read").status == 200
    assert other.get(f"{path}/o").body == DATA
    assert anonymous.get(f"/s3/{path}/o").body == DATA
    told = s3.get("bucket", "acl")
    assert b'<AccessControlPolicy xmlns="http://s3.amazonaws.com/doc/2006-03-01/">' in told.body
    group = bare(told).findall("AccessControlList/Grant/Grantee")[1]
    assert group.attrib == {"{http://www.w3.org/2001/XMLSchema-instance}type": "Group"}
    assert (group.findtext("URI") or "").endswith("/AllUsers")
    assert code(other.ask("PUT", f"{path}/o", body=b"x")) == (403, "AccessDenied")
    assert code(other.ask("PUT", path, "acl", x_amz_acl="private")) == (403, "AccessDenied")
    assert code(s3.ask("PUT", "bucket", "acl", x_amz_acl="public-read-write")) == (501, "NotImplemented")
    assert s3.ask("PUT", "bucket", "acl", x_amz_acl="private").status == 200
    assert code(anonymous.get(f"/s3/{path}/o")) == (403, "AccessDenied")


def test_a_reader_only_reads(s3: S3, reader: Client, cloud: MemoryCloud) -> None:
    s3.put("bucket/o", DATA)
    looking = S3(cloud, reader)
    assert looking.get("bucket/o").body == DATA
    for method, path in (("PUT", "bucket/o"), ("DELETE", "bucket/o"), ("PUT", "other"), ("DELETE", "bucket")):
        assert code(looking.ask(method, path)) == (403, "AccessDenied")


def test_tags(s3: S3) -> None:
    s3.put("bucket/o", DATA)
    body = b"<Tagging><TagSet><Tag><Key>a</Key><Value>1 &amp; 2</Value></Tag></TagSet></Tagging>"
    for path in ("bucket/o", "bucket"):
        assert s3.ask("PUT", path, "tagging", body=body).status in (200, 204)
        assert s3.xml(path, "tagging").findtext("TagSet/Tag/Value") == "1 & 2"
        assert s3.ask("DELETE", path, "tagging").status == 204
    assert s3.xml("bucket/o", "tagging").findall("TagSet/Tag") == []
    twice = body.replace(b"</Tag>", b"</Tag><Tag><Key>a</Key><Value/></Tag>")
    assert code(s3.ask("PUT", "bucket/o", "tagging", body=twice)) == (400, "InvalidTag")


def test_what_is_not_there_is_refused_clearly(s3: S3) -> None:
    for header in ("x_amz_object_lock_mode", "x_amz_server_side_encryption", "x_amz_grant_read"):
        assert code(s3.ask("PUT", "bucket/o", body=b"x", **{header: "GOVERNANCE"})) == (501, "NotImplemented")
    assert code(s3.ask("PUT", "bucket/o", body=b"x", x_amz_acl="public-read")) == (501, "NotImplemented")
    assert code(s3.ask("PUT", "bucket/o", body=b"x", x_amz_storage_class="GLACIER")) == (400, "InvalidStorageClass")
