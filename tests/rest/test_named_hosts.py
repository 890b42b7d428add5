"""What a request calls the host of the cloud goes into links, so it must be a host."""

from __future__ import annotations

import pytest

from cloudctl.errors import Invalid
from cloudctl.rest.clients import named
from cloudctl.testing.cloud import PASSWORDS, MemoryCloud


@pytest.mark.parametrize(
    "host", ["a", "a.example:8780", "a_b", "192.0.2.1:", "[2001:db8::1]:99", "[::ffff:1.2.3.4]", "a, b"]
)
def test_what_a_url_can_be_made_from_is_a_host(host: str) -> None:
    assert named(host) == host


@pytest.mark.parametrize("host", ["[", "[]", "[::1", "[:::]", "a:x", "a:999999", "a/b", "a@b", "ä", "a?b", "[v1.x]"])
def test_anything_else_is_not(host: str) -> None:
    with pytest.raises(Invalid):
        named(host)


def test_a_request_for_a_host_that_is_none_is_refused_and_no_error_of_the_cloud() -> None:
    """The catalog of a token, and the URL of a console, take the host out of it."""
    cloud = MemoryCloud()
    user = {"name": "demo", "domain": {"id": "default"}, "password": PASSWORDS["demo"]}
    scope = {"project": {"name": "demo", "domain": {"id": "default"}}}
    auth = {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}
    asked = {host: cloud.anonymous(Host=host).post("/identity/v3/auth/tokens", {"auth": auth}) for host in ("[", "a:1")}
    cloud.close()
    assert [each.status for each in asked.values()] == [400, 201]
