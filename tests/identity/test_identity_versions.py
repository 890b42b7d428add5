"""Version documents, and what holds for every call: discovery.md, sections 2 and 5."""

from __future__ import annotations

from typing import Any

import pytest

VERSION = {
    "id": "v3.14",
    "status": "stable",
    "updated": "2020-04-07T00:00:00Z",
    "links": [{"rel": "self", "href": "http://cloud.example.com/identity/v3/"}],
    "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
}


@pytest.mark.parametrize("path", ["/", "/identity", "/identity/"])
def test_the_versions_are_public(keystone: Any, path: str) -> None:
    for token in ("", "nonsense"):
        response = keystone.ask("GET", path, token=token)
        assert (response.status, response.json()) == (300, {"versions": {"values": [VERSION]}})
        assert response.headers["Location"] == "http://cloud.example.com/identity/v3/"


@pytest.mark.parametrize("path", ["/identity/v3", "/identity/v3/", "/identity//v3"])
def test_one_version_is_public(keystone: Any, path: str) -> None:
    response = keystone.ask("GET", path)
    assert (response.status, response.json()) == (200, {"version": VERSION})
    head = keystone.ask("HEAD", path)
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize("path", ["/identity", "/identity/v3"])
def test_other_methods_are_405_with_allow(keystone: Any, path: str) -> None:
    response = keystone.ask("POST", path, {})
    assert response.status == 405
    assert "GET" in response.headers["Allow"]
    assert response.json()["error"]["title"] == "Method Not Allowed"


def test_an_unknown_path_is_404_in_the_envelope_of_identity(keystone: Any) -> None:
    response = keystone.ask("GET", "/nothing", token=keystone.admin())
    assert response.status == 404
    assert response.json()["error"]["code"] == 404
    assert response.headers["x-openstack-request-id"].startswith("req-")
