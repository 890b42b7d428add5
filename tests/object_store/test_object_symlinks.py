"""Symlinks: to whatever has a name, and to one state of it."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

import orjson
import pytest

from cloudctl.testing.cloud import Client, MemoryCloud
from cloudctl.testing.http import Response
from tests.object_store.asking import ROOT, Account
from tests.object_store.test_object_access import signed

DATA = b"0123456789"
ETAG = hashlib.md5(DATA, usedforsecurity=False).hexdigest()
EMPTY = hashlib.md5(b"", usedforsecurity=False).hexdigest()


@pytest.fixture
def o(mine: Account) -> Account:
    mine.put("c")
    mine.put("c/o", DATA, Content_Type="text/x-target")
    return mine


def entry(o: Account, name: str) -> dict[str, object]:
    return dict(next(each for each in o.get("c", "format=json").json() if each["name"] == name))


def test_symlinks(o: Account) -> None:
    o.put("c/link", b"", X_Symlink_Target="c/o", Content_Type="application/symlink")
    assert o.get("c/link").body == DATA
    itself = o.head("c/link", "symlink=get").headers
    assert (itself["X-Symlink-Target"], itself["Content-Length"]) == ("c/o", "0")
    entry = next(each for each in o.get("c", "format=json").json() if each["name"] == "link")
    assert entry["symlink_path"] == f"/v1/AUTH_{o.project_id}/c/o"
    o.put("c/broken", b"", X_Symlink_Target="c/none")
    assert o.get("c/broken").status == 404
    assert o.ask("PUT", "c/self", X_Symlink_Target="c/self").status == 400
    for number in range(3):
        o.put(f"c/l{number}", b"", X_Symlink_Target=f"c/l{number + 1}")
    o.put("c/l3", b"end")
    assert o.get("c/l1").body == b"end"
    assert o.get("c/l0").status == 409


def test_where_a_link_led_is_said_whatever_comes_of_it(o: Account) -> None:
    o.put("c/link", X_Symlink_Target="c/none%20here")
    path = f"{ROOT}/AUTH_{o.project_id}/c/none%20here"
    assert (o.get("c/link").status, o.get("c/link").headers["Content-Location"]) == (404, path)
    o.put("c/none here", DATA)
    found = o.get("c/link")
    assert (found.status, found.headers["Content-Location"]) == (200, path)
    failed = o.get("c/link", If_Match="x")
    assert (failed.status, failed.headers["Content-Location"], failed.headers["ETag"]) == (412, path, ETAG)
    assert o.head("c/link", "symlink=get").headers["X-Symlink-Target"] == "c/none%20here"
    assert o.get("c/none here").headers["Content-Location"] is None


def test_a_static_link_leads_to_one_state(o: Account) -> None:
    o.put("c/link", X_Symlink_Target="c/o", X_Symlink_Target_Etag=f'"{ETAG}"')
    assert o.get("c/link").body == DATA
    said = entry(o, "link")
    assert (said["symlink_etag"], said["symlink_bytes"], said["content_type"]) == (ETAG, 10, "text/x-target")
    o.put("c/again", X_Symlink_Target="c/link", X_Symlink_Target_Etag=ETAG)
    assert o.get("c/again").body == DATA
    o.put("c/o", b"another")
    for name in ("link", "again"):
        refused = o.get(f"c/{name}")
        assert (refused.status, refused.headers["Content-Location"]) == (409, f"{ROOT}/AUTH_{o.project_id}/c/o")
    o.delete("c/o")
    assert o.get("c/link").status == 404


@pytest.mark.parametrize(
    ("target", "etag", "status", "why"),
    [
        ("c/none", EMPTY, 409, "X-Symlink-Target does not exist"),
        ("c/o", "x", 409, f"Object Etag '{ETAG}' does not match X-Symlink-Target-Etag header 'x'"),
        ("c/loose", ETAG, 409, f"Object Etag '{EMPTY}' does not match X-Symlink-Target-Etag header '{ETAG}'"),
        ("c/static", EMPTY, 409, "X-Symlink-Target-Etag headers do not match"),
    ],
)
def test_a_static_link_is_made_to_what_is_there(o: Account, target: str, etag: str, status: int, why: str) -> None:
    o.put("c/loose", X_Symlink_Target="c/o")
    o.put("c/static", X_Symlink_Target="c/o", X_Symlink_Target_Etag=ETAG)
    refused = o.ask("PUT", "c/link", X_Symlink_Target=target, X_Symlink_Target_Etag=etag)
    assert (refused.status, refused.body.decode()) == (status, why)
    assert o.head("c/link", "symlink=get").status == 404


def test_a_static_link_to_a_link_leads_to_its_name(o: Account) -> None:
    o.put("c/loose", X_Symlink_Target="c/o")
    o.put("c/link", X_Symlink_Target="c/loose", X_Symlink_Target_Etag=EMPTY)
    assert o.get("c/link").body == DATA
    o.put("c/o", b"another")
    assert o.get("c/link").body == b"another"
    o.put("c/loose", b"no link")
    assert o.get("c/link").status == 409


def test_nobody_learns_by_a_static_link_what_he_may_not_read(o: Account, alt: Client) -> None:
    o.put("d", X_Container_Write=f"{Account(alt).project_id}:*")
    theirs = Account(alt, o.project_id)
    for etag in (ETAG, "x"):
        refused = theirs.ask("PUT", "d/link", X_Symlink_Target="c/o", X_Symlink_Target_Etag=etag)
        assert refused.status == 403
    assert theirs.ask("PUT", "d/link", X_Symlink_Target="c/none", X_Symlink_Target_Etag=ETAG).status == 403


def test_what_is_said_of_a_link_stays_with_it(o: Account) -> None:
    o.put("c/link", X_Symlink_Target="c/o", X_Symlink_Target_Etag=ETAG)
    told = o.post("c/link", X_Object_Meta_Color="red", Content_Type="text/x-link")
    path = f"{ROOT}/AUTH_{o.project_id}/c/o"
    assert (told.status, told.headers["Location"], told.headers["X-Symlink-Target-Etag"]) == (307, path, ETAG)
    assert o.head("c/link", "symlink=get").headers["X-Object-Meta-Color"] == "red"
    assert o.head("c/link").headers["X-Object-Meta-Color"] is None
    assert entry(o, "link")["content_type"] == "text/x-link"
    assert o.get("c/link").body == DATA
    refused = o.post("c/o", X_Symlink_Target="c/x")
    assert (refused.status, refused.body) == (400, b"A PUT request is required to set a symlink target")


def test_links_are_copied_as_what_they_lead_to_or_as_links(o: Account) -> None:
    o.put("c/link", X_Symlink_Target="c/o", X_Symlink_Target_Etag=ETAG)
    o.put("c/copy", X_Copy_From="c/link")
    assert o.head("c/copy").headers["Content-Location"] is None
    assert o.ask("COPY", "c/link", "symlink=get", Destination="c/other").status == 201
    assert o.head("c/other", "symlink=get").headers["X-Symlink-Target-Etag"] == ETAG
    o.put("c/o", b"another")
    assert (o.get("c/copy").body, o.get("c/other").status) == (DATA, 409)


def test_names_that_are_not_ascii(o: Account) -> None:
    o.put("c/é 100%", DATA)
    o.put("c/link", X_Symlink_Target=quote("c/é 100%"))
    assert o.get("c/link").body == DATA
    assert o.head("c/link", "symlink=get").headers["X-Symlink-Target"] == quote("c/é 100%")
    assert entry(o, "link")["symlink_path"] == f"/v1/AUTH_{o.project_id}/{quote('c/é 100%')}"


def test_a_signed_address_of_a_link_reaches_as_far_as_its_key(o: Account, cloud: MemoryCloud) -> None:
    nobody = Account(cloud.anonymous(), o.project_id)
    o.put("d")
    for path in ("c/link", "d/link"):
        o.put(path, X_Symlink_Target="c/o")
    o.post("", X_Account_Meta_Temp_URL_Key="account")
    o.post("d", X_Container_Meta_Temp_URL_Key="container")
    o.post("c", X_Container_Meta_Temp_URL_Key="container")
    reached = [("c/link", "account", 200), ("d/link", "account", 200), ("c/link", "container", 200)]
    for path, key, status in [*reached, ("d/link", "container", 401)]:
        assert nobody.get(path, signed(o, "GET", path, key)).status == status, (path, key)


# -- as segments of large objects


def put_large(account: Account, path: str, *segments: str) -> Response:
    body = orjson.dumps([{"path": each} for each in segments])
    return account.ask("PUT", path, "multipart-manifest=put", body=body, Accept="application/json")


def test_a_segment_may_be_a_link(o: Account) -> None:
    o.put("c/link", X_Symlink_Target="c/o")
    o.put("c/fixed", X_Symlink_Target="c/link", X_Symlink_Target_Etag=EMPTY)
    assert put_large(o, "c/all", "c/link", "c/o", "c/fixed").status == 201
    assert put_large(o, "c/nested", "c/all").status == 201
    o.put("c/to-all", X_Symlink_Target="c/all")
    assert put_large(o, "c/by-link", "c/to-all").status == 201
    for path in ("c/all", "c/nested", "c/by-link"):
        assert o.get(path).body == DATA * 3
    shown = o.get("c/all", "multipart-manifest=get").json()
    assert [(each["name"], each["hash"], each["bytes"]) for each in shown] == [
        (f"/c/{name}", ETAG, len(DATA)) for name in ("link", "o", "fixed")
    ]
    o.put("c/o", DATA[::-1])
    assert o.get("c/all").status == o.get("c/nested").status == o.get("c/by-link").status == 409


@pytest.mark.parametrize(
    ("name", "why"), [("broken", "404 Not Found"), ("round", "409 Conflict"), ("stale", "409 Conflict")]
)
def test_a_link_that_leads_nowhere_is_no_segment(o: Account, name: str, why: str) -> None:
    o.put("c/broken", X_Symlink_Target="c/none")
    o.put("c/other", X_Symlink_Target="c/round")
    o.put("c/round", X_Symlink_Target="c/other")
    o.put("c/stale", X_Symlink_Target="c/o", X_Symlink_Target_Etag=ETAG)
    o.put("c/o", b"another")
    assert put_large(o, "c/all", f"c/{name}").json()["Errors"] == [[f"c/{name}", why]]


def test_a_segment_that_is_a_link_opens_nothing(o: Account, alt: Client, cloud: MemoryCloud) -> None:
    o.put("open", X_Container_Read=".r:*", X_Container_Write=f"{Account(alt).project_id}:*")
    o.put("open/link", X_Symlink_Target="c/o")
    assert put_large(o, "open/all", "open/link").status == 201
    theirs, nobody = Account(alt, o.project_id), Account(cloud.anonymous(), o.project_id)
    assert theirs.get("open/all").status == nobody.get("open/all").status == 409
    # Who may not read it is not told whether it is there, or what it is.
    theirs.put("open/guess", X_Symlink_Target="c/none")
    for segment in ("open/link", "open/guess", "c/o", "c/none"):
        assert put_large(theirs, "open/mine", segment).json()["Errors"] == [[segment, "403 Forbidden"]]


def test_a_signed_address_reaches_links_among_segments_as_far_as_its_key(o: Account, cloud: MemoryCloud) -> None:
    nobody = Account(cloud.anonymous(), o.project_id)
    o.put("d", X_Container_Meta_Temp_URL_Key="container")
    o.post("", X_Account_Meta_Temp_URL_Key="account")
    o.put("d/link", X_Symlink_Target="c/o")
    assert put_large(o, "d/all", "d/link").status == 201
    assert nobody.get("d/all", signed(o, "GET", "d/all", "account")).body == DATA
    assert nobody.get("d/all", signed(o, "GET", "d/all", "container")).status == 409


def test_no_signature_reaches_another_account_by_a_link_among_segments(
    o: Account, alt: Client, cloud: MemoryCloud
) -> None:
    theirs, nobody = Account(alt), Account(cloud.anonymous(), o.project_id)
    theirs.put("shared", X_Container_Read=f"{o.project_id}:*")
    theirs.put("shared/o", DATA)
    o.post("", X_Account_Meta_Temp_URL_Key="account")
    o.put("c/link", X_Symlink_Target="shared/o", X_Symlink_Target_Account=f"AUTH_{theirs.project_id}")
    assert put_large(o, "c/all", "c/link").status == 201
    assert o.get("c/all").body == DATA
    assert nobody.get("c/all", signed(o, "GET", "c/all", "account")).status == 409
