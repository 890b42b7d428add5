"""What a guest may ask of the metadata service: not more than this machine can bear."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.resource import Resource

from cloudctl.drivers.netns import metadata


class Site(Resource):
    isLeaf = True

    def render(self, request: Any) -> Any:
        return b"%d bytes" % len(request.content.read())


def connected(factory: Any, address: Any = "10.0.0.2") -> Any:
    made = factory.buildProtocol(IPv4Address("TCP", address, 40000))
    if made is not None:
        made.makeConnection(StringTransport(peerAddress=IPv4Address("TCP", address, 40000)))
    return made


def said(protocol: Any, data: Any) -> Any:
    protocol.dataReceived(data)
    return protocol.transport.value()


POST = b"POST /x HTTP/1.1\r\nHost: x\r\n"


def test_a_small_body_is_read() -> None:
    site = metadata.site(Site(), Clock())
    assert b"5 bytes" in said(connected(site), POST + b"Content-Length: 5\r\n\r\nhello")


@pytest.mark.parametrize(
    "request_",
    [
        POST + b"Content-Length: 70000\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"8000\r\n" + bytes(0x8000) + b"\r\n8001\r\n" + bytes(0x8001),
    ],
    ids=["told before", "in chunks"],
)
def test_a_body_that_is_too_large_is_refused_as_soon_as_that_is_known(request_: Any) -> None:
    protocol = connected(metadata.site(Site(), Clock()))
    answer = said(protocol, request_)
    assert answer.startswith(b"HTTP/1.1 413 ") and protocol.transport.disconnecting
    assert b"bytes" not in said(protocol, b"\r\n0\r\n\r\n" + bytes(70000))


def test_a_guest_and_a_network_have_so_many_connections_at_a_time() -> None:
    site = metadata.site(Site(), Clock())
    first = [connected(site) for _ in range(metadata.GUEST_CONNECTIONS)]
    assert None not in first and connected(site) is None
    assert connected(site, "10.0.0.3") is not None
    first[0].connectionLost(Failure(ConnectionDone()))
    assert connected(site) is not None
    for number in range(metadata.NETWORK_CONNECTIONS):
        connected(site, f"10.0.1.{number}")
    assert len(site.protocols) == metadata.NETWORK_CONNECTIONS


def test_a_guest_that_asks_for_much_at_once_holds_up_nobody() -> None:
    clock = Clock()
    protocol = connected(metadata.site(Site(), clock))
    asked = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n" * 3
    assert said(protocol, asked).count(b"0 bytes") == 1
    clock.advance(0)
    assert protocol.transport.value().count(b"0 bytes") == 3


def test_an_idle_connection_is_closed() -> None:
    clock = Clock()
    protocol = connected(metadata.site(Site(), clock))
    clock.advance(metadata.IDLE_SECONDS + 1)
    assert protocol.transport.disconnecting


def test_nobody_is_waited_for_who_cannot_be_answered_yet() -> None:
    service = metadata.MetadataService(SimpleNamespace())
    assert service.is_served("n")
    service.site_of = lambda _: Site()
    assert not service.is_served("n")
