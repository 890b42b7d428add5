"""Access lists of accounts."""

from __future__ import annotations

import json

import pytest

from cloudctl.testing.cloud import Client
from tests.object_store.asking import Account, project_of


@pytest.fixture
def shared(mine: Account) -> Account:
    mine.put("c", X_Container_Read=".r:*")
    mine.put("c/o", b"data")
    return mine


@pytest.fixture
def guest(shared: Account, alt: Client) -> Account:
    """The same account, for somebody of another project."""
    return Account(alt, shared.project_id)


def give(shared: Account, guest: Account, level: str, who: str = "{}:*") -> None:
    told = {level: [who.format(project_of(guest.client))]}
    assert shared.post("", X_Account_Access_Control=json.dumps(told)).status == 204


ASKED = {
    "look at the account": ("GET", ""),
    "list": ("GET", "c"),
    "read": ("GET", "c/o"),
    "write": ("PUT", "c/new"),
    "say": ("POST", "c/o"),
    "remove": ("DELETE", "c/o"),
    "make a container": ("PUT", "d"),
    "say of a container": ("POST", "c"),
    "say of the account": ("POST", ""),
}
MAY = {
    "read-only": {"look at the account", "list", "read"},
    "read-write": set(ASKED) - {"say of a container", "say of the account"},
    "admin": set(ASKED),
}


@pytest.mark.parametrize("level", MAY)
@pytest.mark.parametrize("what", ASKED)
def test_each_level(shared: Account, guest: Account, level: str, what: str) -> None:
    shared.post("c", X_Container_Read="")
    method, path = ASKED[what]
    assert guest.ask(method, path).status == 403
    give(shared, guest, level)
    assert (guest.ask(method, path).status != 403) == (what in MAY[level])
    give(shared, guest, level, "{}:somebody-else")
    assert guest.ask(method, path).status == 403


def test_large_objects_are_read_and_made_as_others_are(shared: Account, guest: Account) -> None:
    shared.post("c", X_Container_Read="")
    shared.put("parts")
    shared.put("parts/1", b"one")
    shared.put("c/dynamic", X_Object_Manifest="parts/1")
    manifest = json.dumps([{"path": "/parts/1"}]).encode()
    assert shared.ask("PUT", "c/static", "multipart-manifest=put", body=manifest).status == 201
    give(shared, guest, "read-only", "{}:somebody-else")
    assert {guest.get(f"c/{name}").status for name in ("dynamic", "static")} == {403}
    give(shared, guest, "read-only")
    assert [guest.get(f"c/{name}").body for name in ("dynamic", "static")] == [b"one", b"one"]
    give(shared, guest, "read-write")
    assert guest.ask("PUT", "c/theirs", "multipart-manifest=put", body=manifest).status == 201
    assert shared.get("c/theirs").body == b"one"


def test_who_writes_opens_nothing_to_others(shared: Account, guest: Account) -> None:
    give(shared, guest, "read-write")
    for headers in (
        {"X_Container_Read": ".r:*"},
        {"X_Container_Write": "*:*"},
        {"X_Remove_Container_Read": "x"},
        {"X_Container_Meta_Temp_Url_Key": "key"},
        {"X_Versions_Location": "c"},
    ):
        for path in ("c", "new"):
            assert guest.ask("PUT", path, body=b"", **headers).status == 403
    assert guest.head("c").headers["X-Container-Read"] is None
    give(shared, guest, "admin")
    assert guest.ask("PUT", "c", X_Container_Read="*:*").status == 202


def test_the_list_is_for_the_owners_eyes(shared: Account, guest: Account) -> None:
    give(shared, guest, "admin")
    assert shared.head().headers["X-Account-Access-Control"] is not None
    assert guest.head().headers["X-Account-Access-Control"] is None
    shared.post("", X_Account_Access_Control="")
    assert shared.head().headers["X-Account-Access-Control"] is None
    assert guest.get("").status == 403


@pytest.mark.parametrize(
    "text",
    ["x", "[]", '"read-only"', '{"all": ["*:*"]}', '{"read-only": "*:*"}', '{"read-only": [1]}', '{"read-only": ["a"]}',
     '{"admin": [".r:*,x:y"]}', '{"admin": [":"]}', '{"admin": ["a:b:c"]}', '{"admin": null}'],
)  # fmt: skip
def test_lists_that_are_none(shared: Account, text: str) -> None:
    assert shared.post("", X_Account_Access_Control=text).status == 400


def test_nobody_is_everybody_who_logged_in(shared: Account, guest: Account) -> None:
    give(shared, guest, "read-only", "*:*")
    shared.post("c", X_Container_Read="")
    assert guest.get("c/o").body == b"data"
    anonymous = Account(shared.client.cloud.anonymous(), shared.project_id)
    assert anonymous.get("c/o").status == 401
