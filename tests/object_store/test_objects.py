"""Accounts, containers and objects from end to end."""

from __future__ import annotations

import hashlib

import pytest

from cloudctl.testing.cloud import MemoryCloud
from tests.object_store.asking import ROOT, Account


def test_an_object_comes_back_as_it_went(mine: Account) -> None:
    mine.put("c")
    data = bytes(range(256)) * 1000
    made = mine.put("c/a/b.txt", data, X_Object_Meta_Color="blue")
    etag = hashlib.md5(data).hexdigest()
    assert made.headers["ETag"] == etag
    got = mine.get("c/a/b.txt")
    assert (got.status, got.body, got.headers["ETag"]) == (200, data, etag)
    assert got.headers["Content-Type"] == "text/plain"
    assert got.headers["X-Object-Meta-Color"] == "blue"
    told = mine.head("c/a/b.txt")
    assert (told.status, told.headers["Content-Length"]) == (200, str(len(data)))
    assert mine.head("c").headers["X-Container-Bytes-Used"] == str(len(data))
    assert mine.head().headers["X-Account-Object-Count"] == "1"
    assert mine.head().headers["X-Account-Project-Domain-Id"] == "default"
    assert mine.delete("c").status == 409
    assert mine.delete("c/a/b.txt").status == 204
    assert mine.get("c/a/b.txt").status == 404
    assert mine.delete("c").status == 204
    assert mine.head("c").status == 404


def test_names_are_kept_byte_by_byte(mine: Account) -> None:
    mine.put("c")
    names = ["a//b", "..", "../../etc/passwd", "a/", "é😀", " ", "%2f", "a?b", "x" * 1024, "new\nline"]
    for name in names:
        mine.put(f"c/{name}", name.encode())
    for name in names:
        assert mine.get(f"c/{name}").body == name.encode()
    assert mine.names("c") == sorted(names)


def test_paths_that_are_none(cloud: MemoryCloud, mine: Account) -> None:
    client = mine.client
    mine.put("c")
    assert client.put(f"{mine.url}/c/%ff", body=b"").status == 412
    assert client.put(f"{mine.url}/c/a%00b", body=b"").status == 412
    assert client.get(f"{mine.url}/c/").body == b"[]"
    assert client.get(f"{ROOT}").status == 412
    assert client.get("/object-store/v2/x").status == 404
    assert client.put(f"{mine.url}/c/{'x' * 1025}", body=b"").status == 400
    assert client.put(f"{mine.url}/{'x' * 257}", body=b"").status == 400
    assert client.request("PATCH", f"{mine.url}/c/o").status == 405


@pytest.mark.parametrize("value", ["a\x01b", "a\x7f"])
def test_nothing_is_kept_that_no_header_of_an_answer_can_hold(mine: Account, value: str) -> None:
    mine.holding("c", "o")
    for path, name in (("", "X-Account-Meta-A"), ("c", "X-Container-Meta-A"), ("c", "X-Container-Read"),
                       ("c/o", "X-Object-Meta-A"), ("c/o", "Content-Type"), ("c/o", "Content-Encoding")):  # fmt: skip
        assert mine.post(path, **{name: value}).status == 400, name
        assert mine.head(path).headers[name] != value
    assert mine.ask("PUT", "d", X_Container_Meta_A=value).status == 400
    assert mine.ask("PUT", "c/p", X_Object_Meta_A=value).status == 400
    assert (mine.names(), mine.names("c")) == (["c"], ["o"])
