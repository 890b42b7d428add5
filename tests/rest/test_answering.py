"""One answer: at once where nothing waits, later where something does, and never to a client that is gone."""

from __future__ import annotations

from typing import Any, cast

import pytest
from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import ILogObserver, globalLogPublisher
from twisted.python.failure import Failure

from cloudctl import context
from cloudctl.compute.api import FAULTS as OF_COMPUTE
from cloudctl.identity.api.faults import FAULTS as OF_IDENTITY
from cloudctl.rest.app import ApiApp, Tree
from cloudctl.rest.call import Call
from cloudctl.rest.metrics import Metrics
from cloudctl.rest.pipeline import Http, Pipeline
from cloudctl.rest.policy import Policy
from cloudctl.rest.route import Routes
from cloudctl.rest.site import CloudSite
from cloudctl.testing.http import Response, encode, parse


class Waits:
    """Handlers that wait for what a test gives them."""

    routes = Routes("Waits")

    def __init__(self) -> None:
        self.given: list[Deferred[Any]] = []
        self.seen: list[Any] = []

    @routes.get("/now", policy=None)
    async def now(self, call: Call) -> dict[str, Any]:
        return {"now": [await succeed(1), await succeed(2)]}

    @routes.get("/later", policy=None)
    async def later(self, call: Call) -> dict[str, Any]:
        """Notes the request id before and after each wait."""
        self.seen.append(context.request_id.get())
        found = []
        for waiting in self.given:
            found.append(await waiting)
            self.seen.append(context.request_id.get())
        return {"later": found}

    @routes.get("/stubborn", policy=None)
    async def stubborn(self, call: Call) -> dict[str, Any]:
        """Goes on when it is cancelled."""
        try:
            await self.given[0]
        except CancelledError:
            self.seen.append("cancelled")
            self.seen.append(await self.given[1])
        return {}

    @routes.delete("/later", policy=None)
    async def delete(self, call: Call) -> None:
        await self.given[0]

    @routes.get("/exit", policy=None)
    async def exit(self, call: Call) -> None:
        if self.given:
            await self.given[0]
        raise Unusual


class Unusual(BaseException):
    """What not even the pipeline makes an error body of."""


@define
class Client:
    """One connection to the site."""

    site: CloudSite
    channel: Any = field(init=False)
    transport: StringTransport = field(init=False)

    def __attrs_post_init__(self) -> None:
        address = IPv4Address("TCP", "127.0.0.1", 54321)
        self.channel = self.site.buildProtocol(address)
        self.transport = StringTransport(hostAddress=IPv4Address("TCP", "127.0.0.1", 8780), peerAddress=address)
        self.channel.makeConnection(self.transport)

    def send(self, method: str, path: str) -> None:
        self.channel.dataReceived(encode(method, path, {}, b""))

    def answer(self, method: str = "GET") -> Response:
        return parse(self.transport.value(), method)

    def hang_up(self) -> None:
        self.channel.connectionLost(Failure(ConnectionDone()))


class World:
    def __init__(self) -> None:
        self.waits = Waits()
        http = Http(Nobody(), Policy({}), Clock(), Metrics())
        api = ApiApp(Pipeline(http, "waits", OF_COMPUTE), [("", self.waits)])
        self.site = CloudSite(
            Tree({"waits": lambda: api}, ApiApp(Pipeline(http, "root", OF_IDENTITY), [])), Clock(), None
        )

    def send(self, method: str, path: str) -> Client:
        client = Client(self.site)
        client.send(method, path)
        return client


class Nobody:
    async def authenticate(self, token: str) -> Any:
        raise AssertionError("no Operation here wants a token")

    authenticate_again = authenticate


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def statuses() -> Any:
    """Those of the access log."""
    found: list[int] = []

    def observe(event: dict[str, Any]) -> None:
        if "status" in event:
            found.append(event["status"])

    globalLogPublisher.addObserver(cast(ILogObserver, observe))
    yield found
    globalLogPublisher.removeObserver(cast(ILogObserver, observe))


def test_an_answer_that_never_waits_makes_no_deferred(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    init = Deferred.__init__

    def count(self: Deferred[Any], *arguments: Any, **named: Any) -> None:
        nonlocal made
        made += 1
        init(self, *arguments, **named)

    client = Client(world.site)
    monkeypatch.setattr(Deferred, "__init__", count)
    client.send("GET", "/waits/now")
    monkeypatch.undo()
    assert client.answer().json() == {"now": [1, 2]}
    # The two that the handler itself awaits.
    assert made == 2


def test_an_answer_that_waits_is_sent_when_it_is_there(world: World, statuses: list[int]) -> None:
    world.waits.given = [Deferred(), Deferred()]
    client = world.send("GET", "/waits/later")
    first, second = world.waits.given
    first.callback("a")
    assert (client.transport.value(), statuses) == (b"", [])
    second.callback("b")
    assert client.answer().json() == {"later": ["a", "b"]}
    assert statuses == [200]


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("DELETE", 204)])
def test_an_answer_without_a_body_has_none_if_it_waited_either(world: World, method: str, status: int) -> None:
    answers = []
    for waits in (False, True):
        world.waits.given = [Deferred()]
        if not waits:
            world.waits.given[0].callback(None)
        client = world.send(method, "/waits/later")
        if waits:
            world.waits.given[0].callback(None)
        answer = client.answer(method)
        assert (answer.status, answer.body) == (status, b"")
        assert client.transport.value().endswith(b"\r\n\r\n")
        answers.append(sorted(answer.headers.keys()))
    assert answers[0] == answers[1]


def test_the_request_id_is_of_the_request_before_and_after_it_waits(world: World) -> None:
    one, two = Deferred[None](), Deferred[None]()
    world.waits.given = [one]
    first = world.send("GET", "/waits/later")
    world.waits.given = [two]
    second = world.send("GET", "/waits/later")
    assert context.request_id.get() == ""
    two.callback(None)
    one.callback(None)
    assert context.request_id.get() == ""
    ids = [client.answer().headers["x-openstack-request-id"] for client in (first, second)]
    assert world.waits.seen == [ids[0], ids[1], ids[1], ids[0]]


def test_what_fails_after_a_wait_is_a_500_and_logged(world: World, statuses: list[int], logged_failures: Any) -> None:
    world.waits.given = [Deferred()]
    client = world.send("GET", "/waits/later")
    world.waits.given[0].errback(ZeroDivisionError("a secret"))
    answer = client.answer()
    assert (answer.status, list(answer.json())) == (500, ["computeFault"])
    assert b"secret" not in answer.body
    assert statuses == [500]
    assert len(logged_failures.flush(ZeroDivisionError)) == 1


def test_a_client_that_hangs_up_cancels_what_is_waited_for(world: World, statuses: list[int]) -> None:
    cancelled: list[Any] = []
    world.waits.given = [Deferred(cancelled.append)]
    client = world.send("GET", "/waits/later")
    client.hang_up()
    assert cancelled == world.waits.given
    assert statuses == [499]
    assert client.transport.value() == b""


def test_a_handler_that_goes_on_when_it_is_cancelled_answers_nobody(world: World, statuses: list[int]) -> None:
    world.waits.given = [Deferred(), Deferred()]
    client = world.send("GET", "/waits/stubborn")
    client.hang_up()
    assert world.waits.seen == ["cancelled"]
    world.waits.given[1].callback("more")
    assert world.waits.seen == ["cancelled", "more"]
    assert statuses == [200]
    assert client.transport.value() == b""


def test_a_cancellation_that_is_not_the_clients_is_a_500(world: World, logged_failures: Any) -> None:
    world.waits.given = [Deferred()]
    client = world.send("GET", "/waits/later")
    world.waits.given[0].cancel()
    assert client.answer().status == 500
    assert len(logged_failures.flush(CancelledError)) == 1


@pytest.mark.parametrize("waits", [False, True])
def test_what_not_even_the_pipeline_expects_is_a_500_too(world: World, waits: bool, logged_failures: Any) -> None:
    world.waits.given = [Deferred()] if waits else []
    client = world.send("GET", "/waits/exit")
    for waiting in world.waits.given:
        waiting.callback(None)
    assert client.answer().status == 500
    assert len(logged_failures.flush(Unusual)) == 1


def test_what_fails_for_a_client_that_is_gone_is_logged(world: World, logged_failures: Any) -> None:
    world.waits.given = [Deferred(), Deferred()]
    client = world.send("GET", "/waits/stubborn")
    client.hang_up()
    world.waits.given[1].errback(Failure(Unusual()))
    assert len(logged_failures.flush(Unusual)) == 1
    assert client.transport.value() == b""
