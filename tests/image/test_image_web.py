"""Downloads from a real server: redirects, lengths, silence, and addresses that are not public."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Callable
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from attrs import define, evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IListeningPort
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from cloudctl.image.options import ImageOptions
from cloudctl.image.web import Web
from cloudctl.rest.outgoing import GLOBAL, FetchError, Unreached, permits


class Answer(Resource):
    isLeaf = True

    def __init__(self, respond: Callable[[Any], Any]) -> None:
        super().__init__()
        self.respond = respond

    def render_GET(self, request: Any) -> Any:
        return self.respond(request)


@define
class Server:
    port: IListeningPort
    root: Resource
    options: ImageOptions
    reactor: Any

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        address: Any = self.port.getHost()
        return f"http://{host}:{address.port}/{path}"

    def answer(self, path: str, respond: Callable[[Any], Any]) -> None:
        self.root.putChild(path.encode(), Answer(respond))

    async def fetch(self, path: str, target: Path, **options: Any) -> bytes:
        used = evolve(self.options, **options)
        uri = path if path.startswith("http") else self.url(path)
        await Web(self.reactor, used, permits(used.import_networks)).fetch(uri, target)
        return target.read_bytes()


@pytest_twisted.async_yield_fixture
async def server() -> AsyncIterator[Server]:
    from twisted.internet import reactor

    running: Any = reactor
    root = Resource()
    port = running.listenTCP(0, Site(root), interface="127.0.0.1")
    options = ImageOptions(import_networks=("127.0.0.0/8",), import_ports=(port.getHost().port,), import_silence=5.0)
    yield Server(port, root, options, running)
    await port.stopListening()


def redirect(to: str) -> Callable[[Any], bytes]:
    def respond(request: Any) -> bytes:
        request.redirect(to.encode())
        return b""

    return respond


async def test_the_data_is_written(server: Server, tmp_path: Path) -> None:
    server.answer("image", lambda request: b"data" * 100_000)
    assert await server.fetch("image", tmp_path / "a") == b"data" * 100_000


async def test_a_server_that_packs_is_understood_and_the_limit_is_that_of_the_unpacked(
    server: Server, tmp_path: Path
) -> None:
    def packed(request: Any) -> bytes:
        assert request.getHeader("accept-encoding") == "gzip"
        request.setHeader("content-encoding", "gzip")
        return gzip.compress(b"data" * 100_000)

    server.answer("image", packed)
    assert await server.fetch("image", tmp_path / "a") == b"data" * 100_000
    with pytest.raises(FetchError, match="exceeds the maximum"):
        await server.fetch("image", tmp_path / "b", max_size=399_999)


async def test_what_was_there_is_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"an earlier and longer try")
    server.answer("image", lambda request: b"data")
    assert await server.fetch("image", tmp_path / "a") == b"data"


async def test_redirects_are_followed(server: Server, tmp_path: Path) -> None:
    server.answer("image", lambda request: b"data")
    server.answer("moved", redirect(server.url("image")))
    assert await server.fetch("moved", tmp_path / "a") == b"data"


async def test_redirects_without_an_end_are_refused(server: Server, tmp_path: Path) -> None:
    server.answer("loop", redirect(server.url("loop")))
    with pytest.raises(FetchError, match="redirects"):
        await server.fetch("loop", tmp_path / "a")


@pytest.mark.parametrize("to", ["http://127.0.0.1:1/", "ftp://127.0.0.1/", "file:///etc/passwd"])
async def test_redirects_are_looked_at_like_the_first_address(server: Server, tmp_path: Path, to: str) -> None:
    server.answer("moved", redirect(to))
    with pytest.raises(FetchError):
        await server.fetch("moved", tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_an_address_that_is_not_public_is_refused(server: Server, tmp_path: Path, host: str) -> None:
    asked: list[Any] = []
    server.answer("image", asked.append)
    with pytest.raises(FetchError, match="no public address"):
        await server.fetch(server.url("image", host), tmp_path / "a", import_networks=())
    assert asked == []


@pytest.mark.parametrize(("code", "kind"), [(404, FetchError), (403, FetchError), (500, Unreached), (503, Unreached)])
async def test_another_status_is_told(server: Server, tmp_path: Path, code: int, kind: type[Exception]) -> None:
    def respond(request: Any) -> bytes:
        request.setResponseCode(code)
        return b"no"

    server.answer("image", respond)
    with pytest.raises(FetchError, match=str(code)) as raised:
        await server.fetch("image", tmp_path / "a")
    assert type(raised.value) is kind


@pytest.mark.parametrize(("code", "to"), [(404, ""), (302, "image"), (302, "endless")])
async def test_a_body_that_nobody_reads_keeps_no_connection_open(
    server: Server, tmp_path: Path, code: int, to: str
) -> None:
    left: list[Any] = []

    def endless(request: Any) -> int:
        request.setResponseCode(code)
        request.setHeader("location", server.url(to))
        request.write(b"x" * 100_000)
        left.append(request.notifyFinish())
        return NOT_DONE_YET

    server.answer("image", lambda request: b"data")
    server.answer("endless", endless)
    try:
        assert await server.fetch("endless", tmp_path / "a") == b"data"
    except FetchError as error:
        kept = error  # with all that it refers to
        assert to != "image", kept
    for each in left:
        with pytest.raises(ConnectionDone):
            await each.addTimeout(60, server.reactor)


async def test_data_over_the_limit_is_cut_off(server: Server, tmp_path: Path) -> None:
    server.answer("image", lambda request: bytes(100_000))
    assert len(await server.fetch("image", tmp_path / "a", max_size=100_000)) == 100_000
    with pytest.raises(FetchError, match="exceeds the maximum"):
        await server.fetch("image", tmp_path / "b", max_size=99_999)


async def test_a_body_that_ends_early_is_not_taken_for_whole(server: Server, tmp_path: Path) -> None:
    def respond(request: Any) -> int:
        request.setHeader("Content-Length", "1000")
        request.write(b"half")
        request.transport.loseConnection()
        return int(NOT_DONE_YET)

    server.answer("image", respond)
    with pytest.raises(Unreached, match="before the end"):
        await server.fetch("image", tmp_path / "a")


async def test_a_server_that_falls_silent_is_left(server: Server, tmp_path: Path) -> None:
    def respond(request: Any) -> int:
        request.setHeader("Content-Length", "1000")
        request.write(b"half")
        return int(NOT_DONE_YET)

    server.answer("image", respond)
    with pytest.raises(Unreached, match="stopped sending"):
        await server.fetch("image", tmp_path / "a", import_silence=0.2)


async def test_a_port_where_nobody_listens_is_unreached(server: Server, tmp_path: Path) -> None:
    with pytest.raises(Unreached):
        await server.fetch("http://127.0.0.1:1/image", tmp_path / "a", import_ports=(1,))


async def test_a_name_without_an_address_is_unreached(server: Server, tmp_path: Path) -> None:
    address: Any = server.port.getHost()
    with pytest.raises(Unreached):
        await server.fetch(f"http://no-such-host.invalid:{address.port}/", tmp_path / "a")


@pytest.mark.parametrize("text", ["10.0.0.1", "::1", "::ffff:10.0.0.1", "fe80::1", "fc00::1", "224.0.0.1", "0.0.0.0"])
def test_only_public_addresses_are_permitted(text: str) -> None:
    assert not permits(())(ip_address(text))


@pytest.mark.parametrize("text", ["1.1.1.1", "2606:4700::1111"])
def test_public_addresses_are_permitted(text: str) -> None:
    assert permits(())(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "2002:a00:1::",
        "2001:0:a00:1::",
        "::a00:1",
        "::1",
        "fec0::1",
        "::ffff:10.0.0.1",
        "::ffff:0:10.0.0.1",
        "5f00::1",
        "192.88.99.1",
        "192.0.0.170",
    ],
)
def test_what_leads_to_inner_addresses_is_not_public(text: str) -> None:
    assert not permits(())(ip_address(text))
    assert permits(("::/0", "0.0.0.0/0"))(ip_address(text))


@given(st.integers(0, 2**128 - 1).map(IPv6Address).filter(lambda ip: ip not in GLOBAL))
def test_of_version_6_nothing_is_public_but_what_is_given_to_the_internet(ip: IPv6Address) -> None:
    assert not permits(())(ip)


class Names:
    """A reactor's resolver that knows one name of the inside."""

    def resolveHostName(self, receiver: Any, name: str, port: int = 0, *_rest: Any) -> None:
        from twisted.internet.address import IPv4Address

        receiver.resolutionBegan(None)
        if name == "inside.example":
            receiver.addressResolved(IPv4Address("TCP", "10.0.0.5", port))
        receiver.resolutionComplete()


async def test_a_name_of_the_inside_is_told_from_none_by_nothing() -> None:
    from twisted.web.client import URI

    from cloudctl.rest.outgoing import PublicEndpoint

    class Reactor:
        nameResolver = Names()

    told = []
    for host in ("inside.example", "nothing.example"):
        endpoint = PublicEndpoint(Reactor(), URI.fromBytes(f"http://{host}/x".encode()), permits(()))
        with pytest.raises(FetchError) as refused:
            await endpoint.connect(None)
        told.append((type(refused.value), refused.value.message.replace(host, "HOST")))
    assert told[0] == told[1]
