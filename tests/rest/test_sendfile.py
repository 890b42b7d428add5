"""Bodies that the system sends by itself, over a real connection."""

from __future__ import annotations

import os
import socket
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from cloudctl.errors import Unavailable
from cloudctl.rest.call import Download, Parts
from cloudctl.rest.sendfile import Sender, plain

LARGE = os.urandom(3 * 2**20 + 17)


class Page(Resource):
    isLeaf = True

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.parts = parts
        self.gone = 0

    def render_GET(self, request: Any) -> int:
        transport = plain(request)
        assert transport is not None
        request.setHeader("Content-Length", str(self.parts.length))
        sent = Sender(self.parts, request, transport).start()
        request.notifyFinish().addErrback(self._gone, sent)
        sent.addCallbacks(lambda _: request.finish(), lambda _: None)
        return NOT_DONE_YET

    def _gone(self, _why: Failure, sent: Any) -> None:
        self.gone += 1
        sent.cancel()


def ask(port: int, times: int) -> bytes:
    """All that comes, after so many requests at once and one that closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * times)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        received = []
        try:
            while data := connection.recv(65536):
                received.append(data)
        except ConnectionResetError:
            pass
    return b"".join(received)


async def answer(page: Page, times: int = 0) -> list[bytes]:
    """The bodies."""
    from twisted.internet import reactor

    site: Any = Site(page)
    port: Any = reactor.listenTCP(0, site, interface="127.0.0.1")
    try:
        raw: bytes = await deferToThread(ask, port.getHost().port, times)
    finally:
        await port.stopListening()
    return [each.partition(b"\r\n\r\n")[2] for each in raw.split(b"HTTP/1.1 200 OK\r\n")[1:]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_bytes(LARGE)
    return made


async def test_parts_are_sent_in_order_and_the_connection_goes_on(file: Path) -> None:
    first, nothing, whole = Download.of(file, 5, 2**21), Download.of(file, 9, 0), Download.of(file, 0, len(LARGE))
    parts = (b"<", first, b"|", nothing, whole, b">")
    body = b"<" + LARGE[5 : 5 + 2**21] + b"|" + LARGE + b">"
    assert await answer(Page(Parts(parts, len(body))), times=2) == [body] * 3


async def test_data_that_is_no_file_of_the_system_is_sent_as_well(file: Path) -> None:
    parts = (Download(lambda: BytesIO(LARGE), 3, len(LARGE) - 3),)
    assert await answer(Page(Parts(parts, len(LARGE) - 3))) == [LARGE[3:]]


@pytest.mark.parametrize("is_a_file", [True, False])
async def test_a_part_that_is_replaced_meanwhile_breaks_the_connection_off_and_is_no_failure(
    file: Path, is_a_file: bool
) -> None:
    def replaced() -> Any:
        raise Unavailable("the object was replaced")

    whole = Download.of(file, 0, len(LARGE)) if is_a_file else Download(lambda: BytesIO(LARGE), 0, len(LARGE))
    page = Page(Parts((whole, Download(replaced, 0, 1)), len(LARGE) + 1))
    (body,) = await answer(page)
    assert LARGE.startswith(body) and page.gone == 1


async def test_a_file_that_is_too_short_breaks_the_connection_off(file: Path, logged_failures: Any) -> None:
    opened = file.open("rb")
    page = Page(Parts((Download(lambda: file.open("rb"), 0, len(LARGE) + 1, opened),), len(LARGE) + 1))
    (body,) = await answer(page)
    assert LARGE.startswith(body)
    assert (page.gone, opened.closed) == (1, True)
    assert [str(each.value) for each in logged_failures.flush(OSError)] == [f"{file} ends 1 bytes early"]
