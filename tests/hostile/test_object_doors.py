"""A caller let into one container of an account gets nothing from another one, whatever the request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product

import pytest
from attrs import define

from cloudctl.testing.cloud import Client, MemoryCloud
from tests.object_store.asking import Account
from tests.object_store.conftest import alt, cloud, mine, persona
from tests.object_store.test_object_access import KEY, signed

__all__ = ["alt", "cloud", "mine", "persona"]

SECRET = b"what nobody else may read"
HIDDEN = "a-name-that-tells"
# Headers that make an object of others, or lead to one.
LEADING: list[dict[str, str]] = [
    {},
    {"X_Object_Manifest": f"secret/{HIDDEN}"},
    {"X_Symlink_Target": f"secret/{HIDDEN}"},
    {"X_Copy_From": f"/secret/{HIDDEN}"},
]
QUERIES = ["", "multipart-manifest=put", "multipart-manifest=delete", "temp_url_sig=x", "symlink=get"]
# These headers mean nothing to the other methods.
REQUESTS = [*product(("PUT", "POST", "COPY"), LEADING, QUERIES), *product(("GET", "DELETE"), LEADING[:1], QUERIES)]
MANIFEST = json.dumps([{"path": f"/secret/{HIDDEN}"}]).encode()


@pytest.fixture
def account(mine: Account) -> Account:
    mine.put("secret")
    mine.put(f"secret/{HIDDEN}", SECRET)
    mine.post(X_Account_Meta_Temp_URL_Key=KEY)
    return mine


@define
class Way:
    """A way into the container `box`: for `who`, with URLs signed by `key` if there is one."""

    name: str
    who: Account
    key: str = ""
    good: int = 0

    def ask(self, account: Account, method: str, name: str, query: str = "", **headers: str) -> bytes:
        if self.key:
            query = f"{signed(account, method, f'box/{name}', self.key)}&{query}"
        body = MANIFEST if method == "PUT" and query.endswith("=put") else b""
        answer = self.who.ask(method, f"box/{name}", query, body=body, **headers)
        assert answer.status < 500, answer
        self.good += answer.status < 300
        return answer.body


def ways(account: Account, theirs: Account, cloud: MemoryCloud) -> Iterator[Way]:
    everybody = f"{theirs.project_id}:*"
    for name, readers in (("grant", everybody), ("writer", "")):
        account.put("box", b"", X_Container_Read=readers, X_Container_Write=everybody)
        yield Way(name, Account(theirs.client, account.project_id))
    account.put("box", b"", X_Container_Write="", X_Container_Meta_Temp_URL_Key="box's")
    nobody = Account(cloud.anonymous(), account.project_id)
    yield Way("the account's key", nobody, KEY)
    yield Way("the container's key", nobody, "box's")


def test_no_way_into_one_container_shows_what_is_in_another(account: Account, alt: Client, cloud: MemoryCloud) -> None:
    theirs = Account(alt)
    theirs.put("own")
    to = {"Destination": "own/copy", "Destination_Account": f"AUTH_{theirs.project_id}"}
    wrong: list[str] = []
    for way in ways(account, theirs, cloud):
        for number, (method, leading, query) in enumerate(REQUESTS):
            name = f"o{number}"
            account.put(f"box/{name}", b"plain")
            told = [way.ask(account, method, name, query, **leading, **(to if method == "COPY" else {}))]
            told += [way.ask(account, "GET", name, more) for more in ("", "multipart-manifest=get")]
            if not way.key:
                told += [way.ask(account, "COPY", name, more, **to) for more in ("", "temp_url_sig=x")]
                told += [theirs.get("own/copy").body]
            if any(SECRET in each for each in told):
                wrong.append(f"{way.name}: {method} {leading} {query}")
        assert way.good > 10, way
    assert wrong == []
    assert account.get(f"secret/{HIDDEN}").body == SECRET


def test_deleting_a_large_object_tells_nobody_of_what_it_is_made(account: Account, alt: Client) -> None:
    account.put("box", b"", X_Container_Write=f"{Account(alt).project_id}:*")
    assert account.ask("PUT", "box/large", "multipart-manifest=put", body=MANIFEST).status == 201
    answer = Account(alt, account.project_id).delete("box/large", "multipart-manifest=delete")
    assert (answer.status, HIDDEN.encode() in answer.body) == (403, False)
    assert account.delete("box/large", "multipart-manifest=delete").status == 200
    assert account.names("secret") == []


def test_a_symlink_does_not_carry_a_signature_to_another_account(account: Account, alt: Client) -> None:
    account.put("box", b"", X_Container_Read=".r:*")
    account.put("box/large", b"", X_Object_Manifest=f"secret/{HIDDEN}")
    theirs = Account(alt)
    theirs.post(X_Account_Meta_Temp_URL_Key="theirs")
    theirs.put("own")
    to = {"X_Symlink_Target": "box/large", "X_Symlink_Target_Account": f"AUTH_{account.project_id}"}
    theirs.put("own/link", b"", **to)
    answer = theirs.get("own/link", signed(theirs, "GET", "own/link", "theirs"))
    assert (answer.status, SECRET in answer.body) == (403, False)
