"""Uploads that are refused by their headers: nothing of their bodies is taken first."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from cloudctl.object_store.large import MOST_BYTES
from cloudctl.rest.site import SMALL
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import encode, parse
from tests.object_store.asking import Account

PAST = {"X-Delete-At": "1"}


@pytest.mark.parametrize(
    ("path", "query", "headers", "status"),
    [
        ("/c/o", "", PAST, 400),
        ("/c/o", "", {"X-Copy-From": "/c/s"}, 400),
        ("/c/o", "multipart-manifest=put", {"Content-Length": str(MOST_BYTES + 1)}, 413),
        *((path, "extract-archive=tar", PAST, 400) for path in ("", "/c", "/c/o")),
        *((path, "extract-archive=zip", {}, 400) for path in ("", "/c", "/c/o")),
    ],
)
def test_what_can_be_known_before_the_body_is_said_before_it(
    mine: Account, cloud: MemoryCloud, path: str, query: str, headers: dict[str, str], status: int
) -> None:
    mine.put("c")
    sent = {
        "X-Auth-Token": str(mine.client.token),
        "Content-Length": str(2 * SMALL),
        "Expect": "100-continue",
        **headers,
    }
    transport = StringTransport()
    channel: Any = cloud.site.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
    channel.makeConnection(transport)
    url = f"{mine.url}{path}" + (f"?{query}" if query else "")
    channel.dataReceived(encode("PUT", url, sent, b""))
    cloud.advance(0)
    channel.connectionLost(Failure(ConnectionDone()))
    assert parse(transport.value(), "PUT").status == status
