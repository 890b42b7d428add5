"""HTTP without sockets: a request's bytes go into the real Site, the answer's bytes come out."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from email.message import Message
from http.client import HTTPResponse
from typing import Any, cast

from attrs import field, frozen
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.server import Site

HOST = "cloud.example.com"


@frozen
class Response:
    status: int
    headers: Message
    body: bytes = field(repr=lambda body: repr(body[:2000]))

    def json(self) -> Any:
        return json.loads(self.body)


class _Socket:
    """What HTTPResponse needs of a socket."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self.data)


def exchange(site: Site, request: bytes) -> bytes:
    """Send these bytes over one connection and close it; returns what came back by then."""
    address = IPv4Address("TCP", "127.0.0.1", 54321)
    channel = cast(Any, site.buildProtocol(address))
    transport = StringTransport(hostAddress=IPv4Address("TCP", "127.0.0.1", 8780), peerAddress=address)
    channel.makeConnection(transport)
    channel.dataReceived(request)
    answer: bytes = transport.value()
    channel.connectionLost(Failure(ConnectionDone()))
    return answer


def encode(method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """An HTTP/1.1 request."""
    lines = {"Host": HOST, "Connection": "close", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def parse(data: bytes, method: str) -> Response:
    """The first response in `data`. Raises EOFError if there is none: the server has not answered yet."""
    if not data:
        raise EOFError("no answer yet")
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("iso-8859-1").split("\r\n")
    status, headers = int(first.split(" ", 2)[1]), Message()
    for line in lines:
        name, _, value = line.partition(":")
        headers[name] = value.strip()
    length = headers.get("content-length")
    if method == "HEAD" or status in (204, 304):
        return Response(status, headers, b"")
    if status >= 200 and length is not None and len(body) >= int(length):
        return Response(status, headers, body[: int(length)])
    # In chunks, cut off, or after another answer: rare, and http.client copes. Most tests wait for this function.
    response = HTTPResponse(cast(Any, _Socket(data)), method=method)
    response.begin()
    return Response(response.status, response.headers, response.read())


def request(
    site: Site, method: str, path: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> Response:
    """One request and its answer, which must not need a turn of the clock."""
    return parse(exchange(site, encode(method, path, headers or {}, body)), method)
