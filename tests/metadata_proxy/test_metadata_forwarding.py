"""A process of the cloud that begins to answer and never comes to the end, and one that does not believe the proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_twisted
from treq.client import HTTPClient
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.web import http
from twisted.web.client import Agent
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from cloudctl.metadata_proxy.forwarding import ANSWER_SECONDS, Answer, Upstream


class Processes(Resource):
    """Three: below `endless`, `stranger` and `well`."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: Deferred[None] = Deferred()
        self.left: Deferred[None] = Deferred()

    def render_GET(self, request: Request) -> Any:
        if request.path == b"/well/":
            return b"here"
        if request.path == b"/stranger/":
            request.setResponseCode(http.FORBIDDEN)
            return b"The signature is another."
        request.write(b"he")
        request.notifyFinish().addErrback(lambda _: self.left.callback(None))
        self.asked.callback(None)
        return NOT_DONE_YET


@pytest_twisted.async_yield_fixture
async def port(reactor: Any) -> AsyncIterator[IListeningPort]:
    found = reactor.listenTCP(0, Site(Processes()), interface="127.0.0.1")
    yield found
    await found.stopListening()


async def test_an_answer_that_does_not_end_is_left_for_that_of_another_process(port: Any, reactor: Any) -> None:
    clock, here, processes = Clock(), f"http://127.0.0.1:{port.getHost().port}", port.factory.resource
    upstream = Upstream(HTTPClient(Agent(reactor)), clock, [f"{here}/endless", f"{here}/well"], "secret")
    answering = ensureDeferred(upstream.ask("network", "10.0.0.9", b"GET", b"/", b""))
    await processes.asked
    clock.advance(ANSWER_SECONDS)
    assert await answering == Answer(200, b"here", "text/html")
    assert upstream.urls[0] == f"{here}/well"
    await processes.left


async def test_a_process_with_another_secret_is_told_of_and_the_next_one_asked(port: Any, reactor: Any) -> None:
    here = f"http://127.0.0.1:{port.getHost().port}"
    upstream = Upstream(HTTPClient(Agent(reactor)), reactor, [f"{here}/stranger", f"{here}/well"], "secret")
    with capturedLogs() as lines:
        assert await upstream.ask("network", "10.0.0.9", b"GET", b"/", b"") == Answer(200, b"here", "text/html")
    told = [formatEvent(each) for each in lines if each["log_namespace"] == "cloudctl.metadata_proxy.forwarding"]
    why = "it refuses us: its [compute] metadata_secret is not our metadata_secret"
    assert told == [f"no guest is answered by {here}/stranger: {why}"]
    assert upstream.urls[0] == f"{here}/well"


async def test_a_process_that_is_away_is_told_of_once_however_many_guests_ask(port: Any, reactor: Any) -> None:
    here = f"http://127.0.0.1:{port.getHost().port}"
    upstream = Upstream(HTTPClient(Agent(reactor)), reactor, [f"{here}/stranger"], "secret")
    with capturedLogs() as lines:
        for _ in range(3):
            assert (await upstream.ask("network", "10.0.0.9", b"GET", b"/", b"")).code == http.SERVICE_UNAVAILABLE
    assert len([each for each in lines if each["log_namespace"] == "cloudctl.metadata_proxy.forwarding"]) == 1
