"""What clients ask of objects beside putting and getting them."""

from __future__ import annotations

import hashlib
import json
from email.utils import formatdate
from urllib.parse import quote

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud
from tests.object_store.asking import Account, files

DATA = b"0123456789" * 10
MD5 = hashlib.md5(DATA).hexdigest()


@pytest.fixture
def o(mine: Account) -> Account:
    mine.put("c")
    mine.put("c/o", DATA, Content_Type="text/x-test")
    return mine


def test_conditions(o: Account) -> None:
    assert o.get("c/o", If_Match=MD5).status == 200
    assert o.get("c/o", If_Match='"x"').status == 412
    assert o.get("c/o", If_None_Match="*").status == 304
    assert o.get("c/o", If_None_Match="x").status == 200
    assert o.get("c/o", If_Modified_Since=formatdate(1_900_000_000, usegmt=True)).status == 304
    assert o.get("c/o", If_Unmodified_Since=formatdate(1_700_000_000, usegmt=True)).status == 412
    # Who knows the tag is not asked for the time: RFC 9110, 13.2.2.
    before = formatdate(1_700_000_000, usegmt=True)
    assert o.get("c/o", If_Match=MD5, If_Unmodified_Since=before).status == 200
    assert o.get("c/o", If_Match="x", If_Unmodified_Since=formatdate(1_900_000_000, usegmt=True)).status == 412
    assert o.ask("PUT", "c/o", body=b"x", If_None_Match="*").status == 412
    assert o.get("c/o").body == DATA
    assert o.ask("PUT", "c/new", body=b"x", If_None_Match="*").status == 201


def test_times_that_no_clock_shows_are_ignored(o: Account) -> None:
    for never in ("Thu, 1 Jan 99999999999999999999 00:00:00 GMT", f"Thu, 1 Jan 2020 00:00:00 +{'9' * 30}"):
        for answer in (o.get("c/o", If_Modified_Since=never), o.get("c/o", If_Unmodified_Since=never)):
            assert (answer.status, answer.body) == (200, DATA)
        assert o.get("c/o", Range="bytes=0-1", If_Range=never).status == 200


def test_ranges(o: Account) -> None:
    one = o.get("c/o", Range="bytes=5-14")
    assert (one.status, one.body, one.headers["Content-Range"]) == (206, DATA[5:15], "bytes 5-14/100")
    assert o.get("c/o", Range="bytes=-3").body == DATA[-3:]
    assert o.get("c/o", Range="bytes=95-").body == DATA[95:]
    beyond = o.get("c/o", Range="bytes=100-")
    assert (beyond.status, beyond.headers["Content-Range"]) == (416, "bytes */100")
    for ignored in ("bytes=x-y", "lines=1-2", "bytes=9-5"):
        assert (answer := o.get("c/o", Range=ignored)).status == 200 and answer.body == DATA
    several = o.get("c/o", Range="bytes=0-1,98-")
    kind, _, boundary = several.headers["Content-Type"].partition(";boundary=")
    assert (several.status, kind) == (206, "multipart/byteranges")
    parts = several.body.split(f"--{boundary}".encode())
    assert [part.partition(b"\r\n\r\n")[2] for part in parts[1:3]] == [b"01\r\n", b"89\r\n"]
    assert o.get("c/o", Range="bytes=0-1", If_Range='"other"').status == 200


def test_what_is_said_of_an_object(o: Account) -> None:
    o.put("c/o", DATA, X_Object_Meta_A="1", X_Object_Meta_B="2", Content_Encoding="x", Content_Type="text/x-test")
    assert o.post("c/o", X_Object_Meta_A="3").status == 202
    told = o.head("c/o").headers
    assert (told["X-Object-Meta-A"], told["X-Object-Meta-B"], told["Content-Encoding"]) == ("3", None, "x")
    assert told["Content-Type"] == "text/x-test"
    for header, value in (("X_Object_Meta_" + "x" * 129, "1"), ("X_Object_Meta_A", "x" * 257), ("X_Object_Meta_", "1")):
        assert o.post("c/o", **{header: value}).status == 400
    assert o.post("c/o", **{f"X_Object_Meta_{n}": "1" for n in range(91)}).status == 400
    assert o.post("c/o", **{f"X_Object_Meta_{n}": "x" * 250 for n in range(17)}).status == 400


def test_a_wrong_tag_leaves_nothing(o: Account, cloud: MemoryCloud) -> None:
    before = files(cloud)
    assert o.ask("PUT", "c/o", body=b"other", ETag=MD5).status == 422
    assert o.get("c/o").body == DATA
    assert files(cloud) == before
    assert o.put("c/o", DATA, ETag=MD5).headers["ETag"] == MD5


def test_copies_share_their_data(o: Account, cloud: MemoryCloud) -> None:
    o.post("c/o", X_Object_Meta_A="1")
    copied = o.ask("COPY", "c/o", Destination="/c/copy%20of", X_Object_Meta_B="2")
    assert (copied.status, copied.headers["X-Copied-From"]) == (201, "c/o")
    assert len(files(cloud)) == 1
    told = o.get("c/copy of")
    assert (told.body, told.headers["X-Object-Meta-A"], told.headers["X-Object-Meta-B"]) == (DATA, "1", "2")
    assert o.put("c/o", X_Copy_From="c/o", X_Fresh_Metadata="true").status == 201
    assert o.head("c/o").headers["X-Object-Meta-A"] is None
    assert o.delete("c/o").status == 204
    assert o.get("c/copy of").body == DATA
    o.put("c/part", X_Copy_From="/c/copy%20of", Range="bytes=0-3")
    assert o.get("c/part").body == b"0123"
    assert o.ask("PUT", "c/x", X_Copy_From="c/none").status == 404
    assert o.ask("PUT", "c/x", X_Copy_From="none").status == 412
    assert o.ask("PUT", "c/x", body=b"x", X_Copy_From="c/part").status == 400
    assert o.delete("c/copy of").status == 204
    assert o.delete("c/part").status == 204
    assert files(cloud) == set()


def test_quotas(o: Account) -> None:
    o.post("c", X_Container_Meta_Quota_Bytes="150", X_Container_Meta_Quota_Count="3")
    assert o.ask("PUT", "c/p", body=b"x" * 51).status == 413
    o.put("c/p", b"x" * 50)
    o.put("c/q")
    assert o.ask("PUT", "c/r").status == 413
    assert o.post("c", X_Container_Meta_Quota_Bytes="much").status == 400
    assert o.post(X_Account_Meta_Quota_Bytes="1").status == 403


def test_objects_expire(o: Account, cloud: MemoryCloud) -> None:
    assert o.ask("PUT", "c/o", body=b"x", X_Delete_At="1").status == 400
    for over in ("0", "-5"):
        answer = o.ask("PUT", "c/o", body=b"x", X_Delete_After=over)
        assert (answer.status, b"X-Delete-After in past" in answer.body) == (400, True)
    assert b"Non-integer X-Delete-After" in o.ask("PUT", "c/o", body=b"x", X_Delete_After="a").body
    o.put("c/o", b"x", X_Delete_After="100")
    assert o.head("c/o").headers["X-Delete-At"] == str(int(cloud.clock.seconds()) + 100)
    cloud.advance(101)
    assert o.get("c/o").status == 404
    cloud.advance(60)
    assert o.head("c").headers["X-Container-Object-Count"] == "0"
    assert files(cloud) == set()


def test_a_copy_expires_as_its_source_does_unless_it_starts_afresh(o: Account) -> None:
    o.put("c/o", DATA, X_Delete_At="4102444800")
    for fresh, shown in (("false", "4102444800"), ("true", None)):
        assert o.ask("COPY", "c/o", Destination="c/copy", X_Fresh_Metadata=fresh).status == 201
        assert o.head("c/copy").headers["X-Delete-At"] == shown


@pytest.mark.parametrize(
    ("header", "value", "status", "shown"),
    [
        ("X_Delete_At", "1" * 100, 201, "9999999999"),
        ("X_Delete_At", "0" * 90 + "4102444800", 201, "4102444800"),
        ("X_Delete_After", "9" * 30, 201, "9999999999"),
        ("X_Delete_At", "0", 400, "X-Delete-At in past"),
        ("X_Delete_At", "-1", 400, "X-Delete-At in past"),
        ("X_Delete_After", "0", 400, "X-Delete-After in past"),
        ("X_Delete_At", "soon", 400, "Non-integer X-Delete-At"),
    ],
)
def test_times_far_away_and_past(o: Account, header: str, value: str, status: int, shown: str) -> None:
    said = o.ask("PUT", "c/far", body=b"", **{header: value})
    assert said.status == status
    assert (o.head("c/far").headers["X-Delete-At"] if status == 201 else said.body.decode()) == shown


def test_dynamic_large_objects(o: Account) -> None:
    o.put("c/s/1", b"one")
    o.put("c/s/2", b"two")
    o.put("c/all", b"", X_Object_Manifest="c/s/")
    got = o.get("c/all")
    tag = hashlib.md5(b"".join(hashlib.md5(each).hexdigest().encode() for each in (b"one", b"two"))).hexdigest()
    assert (got.body, got.headers["ETag"], got.headers["X-Object-Manifest"]) == (b"onetwo", f'"{tag}"', "c/s/")
    assert o.get("c/all", Range="bytes=2-3").body == b"et"
    o.put("c/joined", X_Copy_From="c/all")
    assert o.head("c/joined").headers["X-Object-Manifest"] is None
    assert o.get("c/joined").body == b"onetwo"


def test_a_dynamic_manifest_is_escaped_as_urls_are(o: Account) -> None:
    for number, data in enumerate((b"one", b"two")):
        o.put(f"c/é 100%/{number}", data)
    o.put("c/all", X_Object_Manifest=quote("c/é 100%/"))
    assert o.get("c/all").body == b"onetwo"
    assert o.head("c/all").headers["X-Object-Manifest"] == quote("c/é 100%/")
    several = o.get("c/all", Range="bytes=0-1,4-5")
    assert (several.status, several.body) == (200, b"onetwo")


def manifest(*segments: object) -> bytes:
    return json.dumps(segments).encode()


def test_a_segment_of_a_dynamic_large_object_may_be_a_static_one(o: Account) -> None:
    o.put("c/part", b"two")
    o.put("c/s/1", b"one")
    made = o.ask("PUT", "c/s/2", "multipart-manifest=put", body=manifest({"path": "/c/part"}, {"data": "LQ=="}))
    o.put("c/all", X_Object_Manifest="c/s/")
    tags = hashlib.md5(b"one").hexdigest(), made.headers["ETag"].strip('"')
    got = o.get("c/all")
    assert (got.body, got.headers["ETag"]) == (b"onetwo-", f'"{hashlib.md5("".join(tags).encode()).hexdigest()}"')
    assert o.head("c/all").headers["Content-Length"] == "7"
    o.delete("c/part")
    assert o.get("c/all").status == 409


def test_a_dynamic_large_object_of_too_many_segments_is_refused(o: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloudctl.object_store.large.MOST_PIECES", 2)
    o.put("c/all", X_Object_Manifest="c/s/")
    for number in range(2):
        o.put(f"c/s/{number}", b"x")
    assert o.get("c/all").body == b"xx"
    o.put("c/s/2")
    assert o.get("c/all").status == o.head("c/all").status == 409


def test_static_large_objects(o: Account, cloud: MemoryCloud) -> None:
    o.put("c/1", b"one")
    o.put("c/2", b"two")
    sent = manifest({"path": "/c/1", "size_bytes": 3}, {"data": "LQ=="}, {"path": "c/2", "range": "1-"})
    made = o.ask("PUT", "c/all", "multipart-manifest=put", body=sent)
    assert made.status == 201, made
    got = o.get("c/all")
    assert (got.body, got.headers["X-Static-Large-Object"]) == (b"one-wo", "True")
    assert got.headers["ETag"] == made.headers["ETag"] and got.headers["ETag"].startswith('"')
    (entry,) = [each for each in o.get("c", "format=json").json() if each["name"] == "all"]
    assert (entry["bytes"], entry["slo_etag"]) == (6, made.headers["ETag"])
    shown = o.get("c/all", "multipart-manifest=get").json()
    assert [each.get("name") for each in shown] == ["/c/1", None, "/c/2"]
    answer = o.get("c/all", "multipart-manifest=get&format=raw")
    raw = answer.body
    assert (
        answer.headers["ETag"]
        == hashlib.md5(raw).hexdigest()
        != o.head("c/all", "multipart-manifest=get").headers["ETag"]
    )
    itself = o.ask("PUT", "c/all", "multipart-manifest=put", body=manifest({"path": "/c/all"}))
    assert (itself.status, b"must not include itself" in itself.body) == (400, True)
    assert o.ask("PUT", "c/again", "multipart-manifest=put", body=raw).headers["ETag"] == made.headers["ETag"]
    nested = manifest({"path": "/c/all"}, {"path": "/c/all", "range": "0-2"})
    assert o.ask("PUT", "c/nested", "multipart-manifest=put", body=nested).status == 201
    assert o.get("c/nested").body == b"one-woone"
    wrong = o.ask(
        "PUT", "c/bad", "multipart-manifest=put", body=manifest({"path": "/c/1", "etag": "x"}, {"path": "/c/none"}),
        Accept="application/json",
    )  # fmt: skip
    assert wrong.status == 400
    assert wrong.json()["Errors"] == [["/c/1", "Etag Mismatch"], ["/c/none", "404 Not Found"]]
    o.put("c/1", b"changed")
    assert o.get("c/all").status == 409
    gone = o.delete("c/all", "multipart-manifest=delete", Accept="application/json").json()
    assert (gone["Number Deleted"], gone["Errors"]) == (3, [])


@pytest.mark.parametrize(
    "body", [b"", b"{", b"{}", b"[]", b"[1]", manifest({"path": "c"}), manifest({"data": "LQ=="}),
             manifest({"path": "/c/o", "size_bytes": 0}), manifest({"path": "/c/o", "x": 1}),
             manifest({"path": "/c/o", "range": "-"}), manifest({"path": 1}), manifest({"data": "!"})],
)  # fmt: skip
def test_manifests_that_are_none(o: Account, body: bytes) -> None:
    assert o.ask("PUT", "c/bad", "multipart-manifest=put", body=body).status == 400
    assert o.head("c/bad").status == 404


def test_who_asks_for_a_heartbeat_finds_the_status_in_the_body(o: Account) -> None:
    query, accept = "multipart-manifest=put&heartbeat=on", {"Accept": "application/json"}
    manifest = b'[{"path": "c/o"}]'
    made = o.ask("PUT", "c/large", query, body=manifest, **accept)
    tag = o.head("c/large").headers["ETag"]
    said = made.json()
    assert (made.status, said["Response Status"], said["Etag"], said["Errors"]) == (202, "201 Created", tag, [])
    missing = o.ask("PUT", "c/other", query, body=b'[{"path": "c/none"}]', **accept)
    said = missing.json()
    assert (missing.status, said["Response Status"]) == (202, "400 Bad Request")
    assert said["Errors"] == [["c/none", "404 Not Found"]]
    other = o.ask("PUT", "c/other", query, body=manifest, ETag=MD5, **accept)
    assert (other.status, other.json()["Response Status"]) == (202, "422 Unprocessable Entity")
    # What is no manifest is refused before it is looked into.
    assert o.ask("PUT", "c/other", query, body=b"x").status == 400
    assert o.get("c/other").status == 404


def test_parts_of_static_large_objects_by_number(o: Account) -> None:
    o.put("c/s", b"0123456789")
    body = manifest({"path": "c/s"}, {"path": "c/s", "range": "2-4"}, {"data": "eHl6"})
    assert o.ask("PUT", "c/large", "multipart-manifest=put", body=body).status == 201
    shown = o.head("c/large").headers
    assert shown["X-Manifest-Etag"] == o.head("c/large", "multipart-manifest=get").headers["ETag"]
    for number, data, span in [(1, b"0123456789", "0-9"), (2, b"234", "10-12"), (3, b"xyz", "13-15")]:
        part = o.get("c/large", f"part-number={number}")
        assert (part.status, part.body, part.headers["Content-Range"]) == (206, data, f"bytes {span}/16")
        assert (part.headers["X-Parts-Count"], part.headers["ETag"]) == ("3", shown["ETag"])
        head = o.head("c/large", f"part-number={number}")
        assert (head.status, head.headers["Content-Length"]) == (206, str(len(data)))
    beyond = o.get("c/large", "part-number=4")
    assert (beyond.status, beyond.headers["Content-Range"]) == (416, "bytes */16")
    assert beyond.body == b"The requested part number is not satisfiable"
    assert (beyond.headers["X-Parts-Count"], beyond.headers["ETag"]) == ("3", shown["ETag"])
    for wrong in ("0", "-1", "x", ""):
        assert o.get("c/large", f"part-number={wrong}").status == 400
    assert o.get("c/large", "part-number=1", Range="bytes=0-1").status == 400
    assert o.ask("COPY", "c/large", "part-number=2", Destination="c/copy").status == 201
    assert o.get("c/copy").body == b"234"
    assert o.get("c/s", "part-number=1").body == b"0123456789"


def test_old_versions(o: Account) -> None:
    o.put("old")
    o.post("c", X_Versions_Location="old")
    o.put("c/o", b"second")
    assert len(o.names("old")) == 1 and o.names("old")[0].startswith("001o/")
    assert o.delete("c/o").status == 204
    assert o.get("c/o").body == DATA
    assert o.names("old") == []
    o.post("c", X_History_Location="old")
    assert o.head("c").headers["X-Versions-Location"] is None
    assert o.delete("c/o").status == 204
    assert o.get("c/o").status == 404
    assert len(o.names("old")) == 2
    o.post("c", X_History_Location="nowhere")
    o.put("c/p", b"1")
    assert o.ask("PUT", "c/p", body=b"2").status == 412


def test_a_body_without_a_length(o: Account, demo: Client) -> None:
    from cloudctl.testing.http import exchange

    raw = exchange(
        o.client.cloud.site,
        f"PUT {o.url}/c/x HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {demo.token}\r\n\r\n".encode(),
    )
    assert raw.startswith(b"HTTP/1.1 411 ")


@pytest.mark.parametrize("header", ["X-Symlink-Target", "X-Copy-From"])
@pytest.mark.parametrize(("chunk", "status"), [(b"4\r\ndata\r\n", 400), (b"", 201)])
def test_a_link_and_a_copy_take_no_data_in_chunks_either(o: Account, header: str, chunk: bytes, status: int) -> None:
    from cloudctl.testing.http import exchange

    head = f"PUT {o.url}/c/x HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {o.client.token}\r\n{header}: c/o\r\n"
    raw = exchange(o.client.cloud.site, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk + b"0\r\n\r\n")
    assert raw.startswith(f"HTTP/1.1 {status} ".encode())
    assert o.get("c/x").status == (404 if chunk else 200)


@pytest.mark.parametrize("path", ["", "c"])
def test_what_is_said_of_nothing_has_no_length(mine: Account, path: str) -> None:
    mine.put("c")
    told = mine.head(path)
    assert (told.status, told.headers["Content-Length"]) == (204, "0")


def test_a_name_that_is_not_ascii_is_kept_percent_encoded(o: Account) -> None:
    assert o.post("c/o", **{"X_Object_Meta_\U0001f44d": "\U0001f44d", "Content_Length\u00e9": "7"}).status == 202
    assert o.head("c/o").headers["X-Object-Meta-%F0%9F%91%8D"] is not None
    assert o.post("c/o", **{"X_Object_Meta_a b\u00e9": "1"}).status == 400
