"""The bodies of HTTP answers."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from treq.client import HTTPClient
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, wrapClientTLS
from twisted.internet.protocol import Protocol
from twisted.internet.ssl import CertificateOptions
from twisted.internet.threads import deferToThread
from twisted.web.client import Agent
from twisted.web.iweb import IAgentEndpointFactory
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site
from zope.interface import implementer

from cloudctl.drivers.answers import body
from cloudctl.events.webhooks import _Unread
from cloudctl.image.web import _Unwanted


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


@implementer(IAgentEndpointFactory)
class Trusting:
    """Whoever is at the port is believed to be who he says."""

    def __init__(self, reactor: Any, port: int) -> None:
        self.end = wrapClientTLS(CertificateOptions(), TCP4ClientEndpoint(reactor, "127.0.0.1", port))

    def endpointForURI(self, _uri: Any) -> Any:
        return self.end


def begun(listening: socket.socket, pem: Path) -> bytes:
    """Begin an answer by TLS, and say nothing more, not even that TLS ends. Returns at the end of the connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    listening.settimeout(60)
    raw = listening.accept()[0]
    with context.wrap_socket(raw, server_side=True) as tls:
        tls.recv(1 << 16)
        tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
        with socket.socket(fileno=tls.detach()) as plain:
            plain.settimeout(60)
            while plain.recv(1 << 16):
                pass
    return b"left"


def make_certificate(file: Path) -> None:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = builder.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1)).sign(key, hashes.SHA256())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(secret + made.public_bytes(Encoding.PEM))


def given_up(answer: Any) -> None:
    waiting = body(answer)
    waiting.addErrback(lambda failure: failure.trap(CancelledError))
    waiting.cancel()


def unread(kind: type[Protocol]) -> Callable[[Any], None]:
    return lambda answer: answer.deliverBody(kind())


@pytest.mark.parametrize(
    "leave", [given_up, unread(_Unwanted), unread(_Unread)], ids=["given up", "unwanted", "unread"]
)
async def test_a_server_that_never_ends_tls_keeps_no_connection(reactor: Any, tmp_path: Path, leave: Any) -> None:
    make_certificate(tmp_path / "server.pem")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        waiting = deferToThread(begun, listening, tmp_path / "server.pem")
        port = listening.getsockname()[1]
        agent = Agent.usingEndpointFactory(reactor, Trusting(reactor, port))
        leave(await HTTPClient(agent).get(f"https://127.0.0.1:{port}/", unbuffered=True))
        assert await waiting == b"left"
