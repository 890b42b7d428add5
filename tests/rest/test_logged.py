"""The log says which path was asked for, and holds no token that a path had in it."""

from __future__ import annotations

import pytest
from twisted.logger import capturedLogs

from cloudctl.rest import logged
from cloudctl.testing.cloud import MemoryCloud

TOKEN = "gAAAAA" + "Bq-_7" * 30


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (f"/identity/v2.0/tokens/{TOKEN}/endpoints", "/identity/v2.0/tokens/***/endpoints"),
        ("/identity/v2.0/tokens/5f4dcc3b5aa765d61d8327deb882cf99", "/identity/v2.0/tokens/***"),
        (f"//identity//v3/auth//tokens//{TOKEN}%3D%3D", "//identity//v3/auth//tokens//***"),
        (f"/nowhere/{TOKEN}==/x", "/nowhere/***/x"),
        ("/compute/v2.1/os-console-auth-tokens/6b7e5e0c", "/compute/v2.1/os-console-auth-tokens/***"),
        ("/identity/v3/auth/tokens", "/identity/v3/auth/tokens"),
        ("/identity/v3/auth/tokens/OS-PKI/revoked", "/identity/v3/auth/tokens/OS-PKI/revoked"),
        ("/object-store/v1/AUTH_x/tokens/gAAAAAB", "/object-store/v1/AUTH_x/tokens/gAAAAAB"),
        ("/%00\udcff", "/%00\udcff"),
    ],
)
def test_a_token_is_left_out_and_nothing_else(path: str, told: str) -> None:
    assert logged.path(path.encode("utf-8", "surrogatepass")) == told.replace("\udcff", "\ufffd" * 3)


def test_a_token_in_a_path_that_is_no_route_is_not_in_the_log(cloud: MemoryCloud) -> None:
    admin = cloud.client("admin")
    assert admin.token is not None
    with capturedLogs() as events:
        for path in ("/identity/v2.0/tokens/", "/v3/", "/compute/"):
            assert admin.get(path + admin.token).status == 404
    assert len(events) == 3
    assert admin.token not in repr(events)
