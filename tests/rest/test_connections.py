"""Connections that send slowly, or are many: they end, and cost a bounded amount."""

from __future__ import annotations

from typing import Any, cast

import pytest
from attrs import evolve
from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from cloudctl.config import AdmissionOptions
from cloudctl.rest.connections import FREE, Answering, Connections
from cloudctl.rest.site import CloudSite

LIMITS = AdmissionOptions(
    connections=5,
    connections_per_address=3,
    header_timeout=20.0,
    body_rate=1000.0,
    body_patience=30.0,
    body_memory=5000,
    body_memory_per_address=3000,
)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
MANY = b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 1000) for n in range(20))


class Page(Resource):
    isLeaf = True

    def render(self, request: Any) -> bytes:
        if request.refusal is not None:
            request.setResponseCode(request.refusal.status)
        return request.content.read()[:3]


class Target(Resource):
    isLeaf = True

    def render(self, request: Any) -> bytes:
        return bytes(request.uri + b" of " + request.getHeader(b"host"))


class Wire:
    """One connection from an address."""

    def __init__(self, site: CloudSite, host: str = "192.0.2.1") -> None:
        address = IPv4Address("TCP", host, 1234) if host else UNIXAddress(None)
        self.transport = StringTransport(peerAddress=address)
        self.channel = cast(Any, site.buildProtocol(address))
        if self.channel is not None:
            self.channel.makeConnection(self.transport)

    @property
    def is_open(self) -> bool:
        return not self.transport.disconnecting

    @property
    def answers(self) -> int:
        return self.transport.value().count(b"HTTP/1.1 200 ")

    def send(self, data: bytes) -> None:
        self.channel.dataReceived(data)

    def end(self) -> None:
        self.channel.connectionLost(Failure(ConnectionDone()))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def site(clock: Clock) -> CloudSite:
    return CloudSite(Page(), clock, None, 65.0, Connections(clock, LIMITS, ["192.0.2.99", "2001:db8::99"]))


def drip(wire: Wire, clock: Clock, data: bytes, every: float, seconds: float) -> None:
    """`data` again and again, until the connection is closed from there or the time is over."""
    for _ in range(int(seconds / every)):
        clock.advance(every)
        if not wire.is_open:
            return
        wire.send(data)


@pytest.mark.parametrize("head", [b"G", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: "])
def test_a_head_that_drips_ends(site: CloudSite, clock: Clock, head: bytes) -> None:
    wire = Wire(site)
    wire.send(head)
    drip(wire, clock, b"a", 10.0, 300.0)
    assert not wire.is_open
    assert clock.seconds() <= LIMITS.header_timeout + 10.0


def test_a_body_that_drips_ends(site: CloudSite, clock: Clock) -> None:
    wire = Wire(site)
    wire.send(POST % 1000)
    drip(wire, clock, b"a", 10.0, 300.0)
    assert not wire.is_open
    assert clock.seconds() <= LIMITS.body_patience + 10.0


@pytest.mark.parametrize("start", [b"GET / HT", POST % 1000], ids=["head", "body"])
def test_a_short_limit_ends_soon(clock: Clock, start: bytes) -> None:
    short = evolve(LIMITS, header_timeout=1.0, body_patience=1.0)
    wire = Wire(CloudSite(Page(), clock, None, 65.0, Connections(clock, short)))
    wire.send(start)
    drip(wire, clock, b"a", 0.25, 10.0)
    assert not wire.is_open
    assert 1.0 < clock.seconds() <= 1.5


def test_a_slow_body_that_gets_on_is_taken(site: CloudSite, clock: Clock) -> None:
    wire = Wire(site, "192.0.2.99")
    wire.send(POST % 2400)
    for _ in range(6):
        clock.advance(0.3)
        wire.send(b"a" * 400)
    assert wire.is_open and wire.transport.value().endswith(b"aaa")


def test_an_idle_connection_between_two_requests_is_not_late(site: CloudSite, clock: Clock) -> None:
    wire = Wire(site)
    for _ in range(3):
        wire.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        clock.pump([5.0] * 11)
        assert wire.is_open


def test_requests_that_come_at_once_let_other_clients_in_between(site: CloudSite, clock: Clock) -> None:
    """Some thousand fit into what is read at once, and took seconds."""
    wire, other = Wire(site), Wire(site, "192.0.2.2")
    wire.send(GET * 3 + b"GET / HT")
    assert wire.answers == 1
    other.send(GET)
    assert other.answers == 1
    wire.send(b"TP/1.1\r\nHost: x\r\n\r\n")
    assert wire.answers == 1
    clock.advance(0)
    assert wire.answers == 4
    wire.send(POST % 6 + b"abcdef" + GET)
    clock.advance(0)
    assert wire.answers == 6


def test_no_request_is_answered_before_the_client_takes_the_answers_to_those_before(
    site: CloudSite, clock: Clock
) -> None:
    wire = Wire(site)
    wire.channel.pauseProducing()  # as the transport does, which has too much to send
    wire.send(GET * 3)
    clock.advance(1)
    assert wire.answers == 1
    assert wire.transport.producerState == "paused"
    wire.channel.resumeProducing()
    clock.advance(0)
    assert wire.answers == 3
    assert wire.transport.producerState == "producing"


def test_what_waits_for_its_turn_goes_with_the_connection(site: CloudSite, clock: Clock) -> None:
    wire = Wire(site)
    wire.send(GET * 2)
    wire.end()
    clock.advance(1)
    assert wire.answers == 1
    closed = Wire(site)
    closed.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + GET)
    clock.advance(1)
    assert (closed.answers, closed.is_open) == (1, False)


def test_a_length_that_python_does_not_read_is_a_bad_request(site: CloudSite) -> None:
    wire = Wire(site)
    wire.send(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n")
    assert wire.transport.value().startswith(b"HTTP/1.1 400 ")
    assert not wire.is_open


@pytest.mark.parametrize("said", [b"422 Unprocessable Entity", b"429 Too Many Requests", b"404 Not Found"])
def test_the_status_of_an_answer_has_its_name(clock: Clock, said: bytes) -> None:
    """Clients repeat it to their users, who were told of a "422 Unknown Status"."""

    class Refusing(Resource):
        isLeaf = True

        def render(self, request: Any) -> bytes:
            request.setResponseCode(int(said[:3]))
            return b""

    wire = Wire(CloudSite(Refusing(), clock, None))
    wire.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert wire.transport.value().startswith(b"HTTP/1.1 %s\r\n" % said)


@pytest.mark.parametrize(
    "hosts", [b"Host: a.example\r\nHost: b.example", b"Host: a.example\r\nX-A: a\r\nhost: a.example"]
)
def test_a_request_for_two_hosts_is_a_bad_request(clock: Clock, hosts: bytes) -> None:
    """It was routed to the first of them, and links in its answer led to the last."""
    wire = Wire(CloudSite(Target(), clock, None))
    wire.send(b"GET / HTTP/1.1\r\n%s\r\nX-B: b\r\n\r\n" % hosts)
    assert wire.transport.value() == b"HTTP/1.1 400 Bad Request\r\n\r\n"
    assert not wire.is_open


def test_a_request_for_no_host_is_a_bad_request(clock: Clock) -> None:
    """RFC 9112, section 3.2, wants one from whoever speaks HTTP/1.1."""
    for head in (b"GET / HTTP/1.1\r\n\r\n", b"POST http://a.example/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n"):
        wire = Wire(CloudSite(Page(), clock, None))
        wire.send(head)
        assert wire.transport.value() == b"HTTP/1.1 400 Bad Request\r\n\r\n"
        assert not wire.is_open
    older = Wire(CloudSite(Page(), clock, None))
    older.send(b"GET / HTTP/1.0\r\n\r\n")
    assert older.transport.value().startswith(b"HTTP/1.0 200 ")


@pytest.mark.parametrize(
    "head",
    [b"GET\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nno header\r\n\r\n", b"GET /" + b"x" * 2**15, MANY],
    ids=["no-request-line", "no-host", "no-header", "too-long", "too-many"],
)
def test_a_bad_request_is_answered_and_logged(clock: Clock, head: bytes) -> None:
    wire = Wire(CloudSite(Page(), clock, None))
    with capturedLogs() as lines:
        wire.send(head)
    assert [formatEvent(line) for line in lines] == ["refused a bad request of 192.0.2.1"]
    assert wire.transport.value() == b"HTTP/1.1 400 Bad Request\r\n\r\n"
    assert not wire.is_open


@pytest.mark.parametrize(
    ("target", "understood"),
    [
        (b"http://a.example:8780/compute/v2.1?x=http://b", b"/compute/v2.1?x=http://b of a.example:8780"),
        (b"HTTPS://a.example", b"/ of a.example"),
        (b"http://a.example?x", b"/?x of a.example"),
        (b"/http://a.example/", b"/http://a.example/ of b.example"),
    ],
)
def test_a_path_may_come_with_the_address_of_the_cloud(clock: Clock, target: bytes, understood: bytes) -> None:
    wire = Wire(CloudSite(Target(), clock, None))
    wire.send(b"GET %s HTTP/1.1\r\nHost: b.example\r\n\r\n" % target)
    assert wire.transport.value().partition(b"\r\n\r\n")[2] == understood


def test_a_client_that_asks_before_it_sends_far_too_much_gets_one_answer(site: CloudSite) -> None:
    wire = Wire(site)
    wire.send(b"POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000000000\r\n\r\n")
    assert wire.transport.value().startswith(b"HTTP/1.1 413 ") and wire.transport.value().count(b"HTTP/1.1") == 1
    assert not wire.is_open


def test_connections_of_one_address_and_in_all_are_limited(site: CloudSite, clock: Clock) -> None:
    first = [Wire(site) for _ in range(4)]
    assert [wire.channel is not None for wire in first] == [True, True, True, False]
    others = [Wire(site, f"192.0.2.{number}") for number in (2, 3, 4)]
    assert [wire.channel is not None for wire in others] == [True, True, False]
    first[0].end()
    assert Wire(site).channel is not None


# Addresses of one client, and those of another one.
CLIENTS = {
    "version 4": ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
    "version 4, on a socket of both": ("::ffff:192.0.2.1", "::ffff:192.0.2.1", "::ffff:192.0.2.2"),
    "version 4, on sockets of both kinds": ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
    "a network of version 6": ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"),
}


@pytest.mark.parametrize("kind", CLIENTS)
def test_one_client_has_so_many_however_its_address_is_told(site: CloudSite, kind: str) -> None:
    one, again, other = CLIENTS[kind]
    wires = [Wire(site, host) for host in (one, again, one)]
    assert Wire(site, again).channel is None
    assert Wire(site, other).channel is not None
    wires[0].end()
    assert Wire(site, again).channel is not None


@pytest.mark.parametrize("host", ["192.0.2.99", "::ffff:192.0.2.99", "2001:db8::99", ""])
def test_a_proxy_and_a_socket_of_this_host_speak_for_many(site: CloudSite, host: str) -> None:
    assert all(Wire(site, host).channel is not None for _ in range(5))


def test_bodies_that_have_not_arrived_take_a_bounded_amount_of_memory(site: CloudSite) -> None:
    head, begun = POST % (FREE + 1500), b"a" * FREE + b"a" * 1400
    wires = [Wire(site) for _ in range(3)]
    for wire in wires:
        wire.send(head + begun)
    kept = [len(wire.channel.requests[-1].body.getvalue()) for wire in wires]
    assert kept == [FREE + 1400, FREE + 1400, 0]
    wires[2].send(b"a" * 100)
    assert wires[2].transport.value().startswith(b"HTTP/1.1 503 ")
    wires[0].send(b"a" * 100)
    assert wires[0].transport.value().startswith(b"HTTP/1.1 200 ")
    # There is room again.
    again = Wire(site, "192.0.2.5")
    again.send(head + begun)
    assert len(again.channel.requests[-1].body.getvalue()) == FREE + 1400


def test_a_small_body_needs_no_room(site: CloudSite) -> None:
    full = [Wire(site) for _ in range(3)]
    for wire in full:
        wire.send(POST % (FREE + 1500) + b"a" * (FREE + 1400))
    login = Wire(site, "192.0.2.7")
    login.send(POST % 500 + b"a" * 500)
    assert login.transport.value().startswith(b"HTTP/1.1 200 ")


def test_bytes_that_came_fast_are_no_credit_for_a_drip(site: CloudSite, clock: Clock) -> None:
    wire = Wire(site)
    wire.send(POST % 100_000 + b"a" * FREE)
    drip(wire, clock, b"a", 5.0, 300.0)
    assert not wire.is_open
    assert clock.seconds() <= 2 * LIMITS.body_patience + 15.0


def test_who_has_asked_is_answered_before_the_end(clock: Clock) -> None:
    asked: list[Any] = []

    class Slow(Resource):
        isLeaf = True

        def render(self, request: Any) -> int:
            asked.append(request)
            return NOT_DONE_YET

    site = CloudSite(Slow(), clock, None, 65.0, Connections(clock, LIMITS))
    waiting, streamed, idle, half = (Wire(site, f"192.0.2.{n}") for n in range(4))
    for wire in (waiting, streamed):
        wire.send(GET)
    asked[1].write(b"the first of many")
    half.send(GET[:10])
    ended: list[object] = []
    assert site.connections is not None
    Answering(site.connections).stopService().addCallback(ended.append)
    assert [wire.is_open for wire in (waiting, streamed, idle, half)] == [True, True, False, True]
    half.send(GET[10:])
    asked[0].finish()
    clock.advance(1)
    assert not ended
    asked[2].finish()
    clock.advance(1)
    assert ended == [None]
    for wire in (waiting, half):
        assert b"\r\nConnection: close\r\n" in wire.transport.value() and not wire.is_open
    assert streamed.is_open
    for wire in (waiting, streamed, idle, half):
        wire.end()


def test_nothing_is_left_of_connections_that_ended(site: CloudSite, clock: Clock) -> None:
    for number in range(100):
        wire = Wire(site, f"198.51.100.{number}")
        wire.send(POST % 100 + b"a" * (50 if number % 2 else 100))
        wire.end()
    connections = site.connections
    assert not connections.open
    assert (dict(connections._of), dict(connections._held), connections._held_by_all) == ({}, {}, 0)
    assert not [call for call in clock.getDelayedCalls() if cast(Any, call).func.__name__ == "_look"]


def test_the_defaults_are_those_of_the_review() -> None:
    """400 connections that send a byte each 10 s, 3,000 half-sent bodies: neither stays, and memory is bounded."""
    limits = AdmissionOptions()
    assert limits.header_timeout <= 30 and limits.body_rate >= 100
    assert limits.body_memory <= 64 * 2**20
    assert evolve(limits, rates=True).rates and not limits.rates
