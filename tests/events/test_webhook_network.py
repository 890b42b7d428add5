"""Webhooks on a real network, where receivers do as they like and names lead anywhere."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from attrs import define
from twisted.internet.address import IPv4Address
from twisted.internet.defer import ensureDeferred
from twisted.internet.interfaces import IReactorTCP
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock
from zope.interface import implementer

from cloudctl.events.options import WebhookOptions
from cloudctl.events.webhooks import Poster, sign
from cloudctl.rest.outgoing import NETWORK, FetchError, permits

BODY = b"x" * 1_000_000
FINE = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"
ANYWHERE = permits(["127.0.0.0/8", "::1/128"])


@define(eq=False)
class Receiver(Protocol):
    """Answers as soon as somebody is there, and then does what it is told."""

    answer: bytes
    leaves: bool
    met: list[Receiver]

    def connectionMade(self) -> None:
        self.met.append(self)
        assert self.transport is not None
        self.transport.write(self.answer)
        if self.leaves:
            self.transport.abortConnection()  # type: ignore[attr-defined]  # of TCP


@asynccontextmanager
async def receiving(answer: bytes, *, leaves: bool = False) -> AsyncIterator[tuple[str, list[Receiver]]]:
    """Its URL, and the connections that were made."""
    from twisted.internet import reactor

    met: list[Receiver] = []
    factory: Any = Factory.forProtocol(lambda: Receiver(answer, leaves, met))
    port: Any = cast(IReactorTCP, reactor).listenTCP(0, factory, interface="127.0.0.1")
    try:
        yield f"http://127.0.0.1:{port.getHost().port}/hook", met
    finally:
        for each in met:
            each.transport.abortConnection()  # type: ignore[union-attr]  # of TCP
        await port.stopListening()


def post(url: str, body: bytes = b"{}", timeout: float = 60.0) -> Awaitable[int]:
    from twisted.internet import reactor

    return Poster(reactor, ANYWHERE, timeout).post(url, body, {"content-type": "application/json"})


async def test_a_status_is_all_that_is_asked_for() -> None:
    async with receiving(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\nfor ever") as (url, met):
        assert await post(url) == 200
    async with receiving(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n") as (url, met):
        assert await post(url) == 302 and len(met) == 1


@pytest.mark.parametrize("answer", [b"", b"\0" * 100_000, b"HTTP/1.1 204 No", b"HTTP/1.1 2 x\r\n\r\n", b"\r\n" * 10])
async def test_whoever_leaves_or_says_nothing_of_sense_was_not_reached(answer: bytes) -> None:
    for body in (b"{}", BODY):
        async with receiving(answer, leaves=True) as (url, _met):
            with pytest.raises(FetchError):
                await post(url, body)


async def test_whoever_never_answers_was_not_reached() -> None:
    for answer in (b"", b"HTTP/1.1 200 OK\r\nX: y"):
        async with receiving(answer) as (url, _met):
            with pytest.raises(FetchError):
                await post(url, timeout=0.2)


# -- where names lead


@implementer(*NETWORK)
class Net(MemoryReactorClock):
    """Knows names that lead anywhere, a different place each time if there are several."""

    def __init__(self, *answers: list[str]) -> None:
        super().__init__()
        self.answers = list(answers)
        self.nameResolver: Any = self

    def resolveHostName(self, receiver: Any, name: str, portNumber: int = 0, *_: Any, **__: Any) -> None:
        receiver.resolutionBegan(self)
        for host in self.answers.pop(0) if name == NAME else [name]:
            receiver.addressResolved(IPv4Address("TCP", host, portNumber))
        receiver.resolutionComplete()


NAME = "ops.example"
INSIDE = [
    ["127.0.0.1"],
    ["10.1.2.3"],
    ["169.254.169.254"],
    ["0.0.0.0"],
    ["100.64.0.1"],
    ["224.0.0.1"],
    ["::1"],
    ["::"],
    ["::ffff:127.0.0.1"],
    ["::127.0.0.1"],
    ["fe80::1%eth0"],
    ["fd00::1"],
    ["64:ff9b::7f00:1"],
    ["2002:7f00:1::"],
    ["93.184.216.34", "10.0.0.1"],
    [],
]


@pytest.mark.parametrize("found", INSIDE, ids=",".join)
async def test_a_name_that_leads_inside_is_not_followed(found: list[str]) -> None:
    net = Net(found)
    with pytest.raises(FetchError, match="has no public address"):
        await Poster(net, permits(()), 5.0).post(f"http://{NAME}/hook", b"{}", {})
    assert net.tcpClients == []


async def test_the_address_that_was_looked_at_is_the_one_that_is_called() -> None:
    """A name that would lead elsewhere when it is asked for again gains nothing."""
    net = Net(["93.184.216.34"], ["127.0.0.1"])
    asked = ensureDeferred(Poster(net, permits(()), 5.0).post(f"http://{NAME}/hook", b"{}", {}))
    net.advance(1)
    assert [(host, port) for host, port, *_ in net.tcpClients] == [("93.184.216.34", 80)]
    net.advance(60)
    with pytest.raises(FetchError):
        await asked


# -- what is signed


def test_a_signature_is_of_this_body_at_this_time_by_this_key() -> None:
    secret = "whsec_" + b64encode(bytes(range(24))).decode()
    signed = sign(secret, "m-1", 1_800_000_000, b'{"a": 1}')
    digest = hmac.new(bytes(range(24)), b'm-1.1800000000.{"a": 1}', "sha256").digest()
    assert signed.startswith("v1,") and b64decode(signed.removeprefix("v1,")) == digest
    others = {
        sign(secret, "m-2", 1_800_000_000, b'{"a": 1}'),
        sign(secret, "m-1", 1_800_000_001, b'{"a": 1}'),
        sign(secret, "m-1", 1_800_000_000, b'{"a":1}'),
        sign("whsec_" + b64encode(bytes(24)).decode(), "m-1", 1_800_000_000, b'{"a": 1}'),
    }
    assert signed not in others and len(others) == 4


GOOD = "a secret of sixteen or more"


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("ftp://ops.example/hook", GOOD),
        ("http:///hook", GOOD),
        ("http://user:word@ops.example/hook", GOOD),
        ("http://ops.example/hook#part", GOOD),
        ("http://ops.example:99999/hook", GOOD),
        ("http://ops.example:0/hook", GOOD),
        ("http://ops.example/ho ok", GOOD),
        ("http://ops.example/\r\nX: y", GOOD),
        ("http://ops.example/hook", "short"),
        ("http://ops.example/hook", "whsec_" + b64encode(b"much too short").decode()),
    ],
)
def test_what_could_not_be_called_or_be_known_by_is_refused_at_the_start(url: str, secret: str) -> None:
    with pytest.raises(ValueError):
        WebhookOptions(url, secret)
