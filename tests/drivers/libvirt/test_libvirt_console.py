"""The line between a console and who reads it, where one of them is slow. libvirt's binding is needed, no daemon is."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

libvirt: Any = pytest.importorskip("libvirt")

from cloudctl.drivers.libvirt.console import OVER, READABLE, WAIT, WRITABLE, Line  # noqa: E402 - after the skip


class Guest:
    """libvirt's stream and its connection: it has said `says`, and hears `room` bytes more."""

    def __init__(self, says: bytes = b"", room: int = 0) -> None:
        self.says, self.room, self.heard = says, room, b""
        self.events = 0
        self.hung_up = Event()

    def recv(self, count: int) -> bytes | int:
        found, self.says = self.says[:count], self.says[count:]
        return found or WAIT

    def send(self, data: bytes) -> int:
        taken, self.room = data[: self.room], self.room - len(data[: self.room])
        self.heard += taken
        return len(taken) or WAIT

    def eventAddCallback(self, events: int, _called: Any, _opaque: None) -> None:
        self.events = events

    def eventUpdateCallback(self, events: int) -> None:
        self.events = events

    def eventRemoveCallback(self) -> None:
        self.events = 0

    def abort(self) -> None:
        raise libvirt.libvirtError("it is over already")

    def registerCloseCallback(self, _called: Any, _opaque: None) -> None:
        pass

    def close(self) -> None:
        self.hung_up.set()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What is waited for of the client's end; none once it is closed."""
    found = [0]
    monkeypatch.setattr(libvirt, "virEventAddHandle", lambda _end, events, *_more: found.__setitem__(0, events) or 7)
    monkeypatch.setattr(libvirt, "virEventUpdateHandle", lambda _watch, events: found.__setitem__(0, events))
    monkeypatch.setattr(libvirt, "virEventRemoveHandle", lambda _watch: found.clear())
    return found


@pytest.fixture
def client() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Its end, and the other one, into which not much fits."""
    own, end = socket.socketpair()
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    with own, end:
        own.settimeout(120)
        yield own, end


def begun(guest: Guest, end: socket.socket) -> Line:
    line = Line(guest, guest)
    line.begin(end)
    return line


def test_a_client_that_reads_slowly_gets_all_and_no_more_is_read_of_the_guest_meanwhile(
    client: tuple[socket.socket, socket.socket], watched: list[int]
) -> None:
    own, end = client
    said = bytes(range(256)) * 4096
    guest = Guest(said)
    line = begun(guest, end)
    assert (guest.events, watched) == (READABLE | OVER, [READABLE])
    line._on_stream(guest, READABLE, None)
    assert guest.says, "it has to wait"
    assert (guest.events, watched) == (OVER, [READABLE | WRITABLE])
    got = b""
    while len(got) < len(said):
        got += own.recv(1 << 16)
        line._on_end(7, end.fileno(), WRITABLE, None)
        line._on_stream(guest, guest.events & READABLE, None)
    assert got == said
    assert (guest.events, watched) == (READABLE | OVER, [READABLE])


def test_a_guest_that_listens_slowly_hears_all_and_no_more_is_read_of_the_client_meanwhile(
    client: tuple[socket.socket, socket.socket], watched: list[int]
) -> None:
    own, end = client
    guest = Guest(room=3)
    line = begun(guest, end)
    own.sendall(b"reboot\r")
    line._on_end(7, end.fileno(), READABLE, None)
    assert guest.heard == b"reb"
    assert (guest.events, watched) == (READABLE | WRITABLE | OVER, [0])
    guest.room = 100
    line._on_stream(guest, WRITABLE, None)
    assert guest.heard == b"reboot\r"
    assert (guest.events, watched) == (READABLE | OVER, [READABLE])


@pytest.mark.parametrize("who", ["client", "guest", "host"])
def test_whoever_hangs_up_ends_it(who: str, client: tuple[socket.socket, socket.socket], watched: list[int]) -> None:
    own, end = client
    guest = Guest(b"last words")
    line = begun(guest, end)
    if who == "client":
        own.shutdown(socket.SHUT_WR)
        line._on_end(7, end.fileno(), READABLE, None)
    elif who == "guest":
        line._on_stream(guest, READABLE | libvirt.VIR_STREAM_EVENT_HANGUP, None)
        assert own.recv(100) == b"last words"
    else:
        line._on_close(guest, libvirt.VIR_CONNECT_CLOSE_REASON_KEEPALIVE, None)
    assert guest.hung_up.wait(120) and watched == []
    assert own.recv(100) == b""
    # What libvirt says of it later is not heard.
    line._on_stream(guest, READABLE, None)


class GoneGuest(Guest):
    """The connection broke right after the console was opened."""

    def eventAddCallback(self, events: int, _called: Any, _opaque: None) -> None:
        raise libvirt.libvirtError("the connection is closed")


def test_a_line_that_cannot_begin_keeps_nothing_open(
    client: tuple[socket.socket, socket.socket], watched: list[int]
) -> None:
    guest, (own, end) = GoneGuest(), client
    with pytest.raises(libvirt.libvirtError):
        begun(guest, end)
    assert end.fileno() == -1 and watched == []
    assert guest.hung_up.wait(120)
    assert own.recv(1) == b""
