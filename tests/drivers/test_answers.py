"""The bodies of HTTP answers."""

from __future__ import annotations

from typing import Any

import pytest
from treq.client import HTTPClient
from twisted.internet.defer import CancelledError, Deferred
from twisted.web.client import Agent
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from cloudctl.drivers.answers import body


class Endless(Resource):
    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.left: Deferred[None] = Deferred()

    def render_GET(self, request: Request) -> int:
        request.write(b"{")
        request.notifyFinish().addErrback(lambda _: self.left.callback(None))
        return NOT_DONE_YET


async def test_a_body_that_nobody_waits_for_any_more_keeps_no_connection(reactor: Any) -> None:
    endless = Endless()
    port = reactor.listenTCP(0, Site(endless), interface="127.0.0.1")
    try:
        url = f"http://127.0.0.1:{port.getHost().port}/"
        waiting = body(await HTTPClient(Agent(reactor)).get(url, unbuffered=True))
        waiting.cancel()
        with pytest.raises(CancelledError):
            await waiting
        await endless.left
    finally:
        await port.stopListening()
