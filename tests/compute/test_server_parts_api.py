"""Metadata, addresses and tags of a server. Reference: compute.md, sections 8.1 to 8.3."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compute.asking import Asking, refusal


@pytest.fixture
def here(demo: Asking) -> str:
    return f"/servers/{demo.boot(metadata={'a': '1', 'b': '2'})}"


def test_metadata_is_merged_replaced_and_deleted(demo: Asking, here: str) -> None:
    assert demo.get(f"{here}/metadata").json() == {"metadata": {"a": "1", "b": "2"}}
    merged = demo.post(f"{here}/metadata", {"metadata": {"b": "3", "c": "4"}})
    assert (merged.status, merged.json()) == (200, {"metadata": {"a": "1", "b": "3", "c": "4"}})
    assert demo.put(f"{here}/metadata", {"metadata": {"x": "y"}}).json() == {"metadata": {"x": "y"}}
    assert demo.put(f"{here}/metadata/z", {"meta": {"z": "0"}}).json() == {"meta": {"z": "0"}}
    assert demo.get(f"{here}/metadata/z").json() == {"meta": {"z": "0"}}
    assert demo.delete(f"{here}/metadata/z").status == 204
    assert refusal(demo.delete(f"{here}/metadata/z")) == (404, "itemNotFound", "Metadata item was not found")
    assert demo.get(f"{here}/metadata").json() == {"metadata": {"x": "y"}}


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/metadata/a", {"meta": {"b": "1"}}, "Request body and URI mismatch"),
        ("/metadata/a", {"meta": {"a": "1", "b": "2"}}, "Request body contains too many items"),
        ("/metadata/a", {"meta": {}}, "too many items"),
        ("/metadata/a", {"meta": None}, "object"),
        ("/metadata", {"metadata": {"a": None}}, "string"),
        ("/metadata", {"metadata": {"a/b": "1"}}, "letters"),
        ("/metadata", {"meta": {}}, "'metadata' is a required property"),
    ],
)
def test_wrong_metadata_is_refused(demo: Asking, here: str, path: str, body: Any, said: str) -> None:
    status, _, message = refusal(demo.put(here + path, body))
    assert (status, said in message) == (400, True), message


def test_metadata_has_a_quota(demo: Asking, here: str) -> None:
    items = {f"k{number}": "" for number in range(127)}
    status, key, _ = refusal(demo.post(f"{here}/metadata", {"metadata": items}))
    assert (status, key) == (413, "entityTooLarge")
    assert demo.put(f"{here}/metadata", {"metadata": items}).status == 200


def test_metadata_waits_for_the_build(demo: Asking) -> None:
    server_id = demo.create().json()["server"]["id"]
    status, _, message = refusal(demo.put(f"/servers/{server_id}/metadata", {"metadata": {}}))
    assert (status, message) == (409, f"Cannot 'update metadata' instance {server_id} while it is in vm_state building")


def test_addresses_are_shown_by_network(demo: Asking, here: str) -> None:
    all_of_them = demo.get(f"{here}/ips").json()["addresses"]
    assert list(all_of_them) == ["private"]
    assert all_of_them["private"][0].keys() == {"addr", "version"}
    assert demo.get(f"{here}/ips/private").json() == all_of_them
    assert refusal(demo.get(f"{here}/ips/nowhere")) == (
        404,
        "itemNotFound",
        "Instance is not a member of specified network",
    )


def test_tags_are_set_added_and_deleted(demo: Asking, here: str) -> None:
    version = "2.26"
    assert demo.get(f"{here}/tags", version).json() == {"tags": []}
    assert demo.put(f"{here}/tags", {"tags": ["b", "a", "a"]}, version).json() == {"tags": ["a", "b"]}
    added = demo.put(f"{here}/tags/new%20one", None, version)
    assert (added.status, added.headers["location"]) == (
        201,
        f"http://cloud.example.com/compute/v2.1{here}/tags/new%20one",
    )
    assert demo.put(f"{here}/tags/new%20one", None, version).status == 204
    assert demo.get(f"{here}/tags/b", version).status == 204
    assert demo.delete(f"{here}/tags/b", version).status == 204
    assert demo.get(f"{here}/tags/b", version).status == 404
    assert demo.delete(f"{here}/tags/b", version).status == 404
    assert demo.get(f"{here}/tags", version).json() == {"tags": ["a", "new one"]}
    assert demo.delete(f"{here}/tags", version).status == 204
    assert demo.get(f"{here}/tags", version).json() == {"tags": []}


def test_tags_are_not_there_before_2_26(demo: Asking, here: str) -> None:
    assert demo.get(f"{here}/tags", "2.25").status == 404


@pytest.mark.parametrize("tags", [["a,b"], ["a/b"], [""], ["x" * 61], [1], "a", [f"t{n}" for n in range(51)]])
def test_wrong_tags_are_refused(demo: Asking, here: str, tags: Any) -> None:
    assert demo.put(f"{here}/tags", {"tags": tags}, "2.26").status == 400


def test_a_server_has_at_most_fifty_tags(demo: Asking, here: str) -> None:
    assert demo.put(f"{here}/tags", {"tags": [f"t{n}" for n in range(50)]}, "2.26").status == 200
    assert demo.put(f"{here}/tags/more", None, "2.26").status == 400
    assert demo.put(f"{here}/tags/a,b", None, "2.26").status == 400
    assert demo.put(f"{here}/tags/{'x' * 61}", None, "2.26").status == 400
