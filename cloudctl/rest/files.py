"""Files as a response body: by sendfile(2) where possible, else piece by piece, and in threads where that blocks."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any

from twisted.logger import Logger

from cloudctl.rest import sendfile, stream
from cloudctl.rest.call import Download, Parts, Reply, Run
from cloudctl.rest.download import CHUNK, Producer
from cloudctl.rest.relay import Relay

log = Logger()


async def send(request: Any, reply: Reply, content: Download | Parts, status: int) -> None:
    """Send all of `content` with the headers of `reply`, whose body it is. Raises Unavailable before it sends any."""
    body = content if isinstance(content, Parts) else Parts((content,), content.length)
    if request.method == b"HEAD" or not body.length:
        _begin(request, reply, body, status)
        body.close()
    elif body.run is not None:
        await _relay(request, reply, body, body.run, status)
    else:
        _begin(request, reply, body, status)
        await _send(request, body)


def _begin(request: Any, reply: Reply, body: Parts, status: int) -> None:
    request.setResponseCode(status)
    for name, value in reply.headers:
        request.setHeader(name, value)
    request.setHeader("Content-Length", str(body.length))


async def _send(request: Any, body: Parts) -> None:
    if body.length > CHUNK and (transport := sendfile.plain(request)) is not None:
        await sendfile.Sender(body, request, transport).start()
        return
    with closing(body.chunks(CHUNK)) as chunks:
        await Producer(chunks, request).start()


async def _relay(request: Any, reply: Reply, body: Parts, run: Run, status: int) -> None:
    """Read the first piece before the client is promised any."""
    relay = Relay(body, run)
    try:
        await relay.begin()
        _begin(request, reply, body, status)
        await stream.send(relay.stream(), request)
    finally:
        relay.close().addErrback(partial(log.failure, "a file behind a network was not closed"))
