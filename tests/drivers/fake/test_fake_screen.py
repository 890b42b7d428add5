"""The screens of fake guests, as viewers of all versions see them. Source: RFC 6143."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from cloudctl.drivers.fake.screen import HEIGHT, UNREAD, WIDTH, Screens

UPDATE = struct.pack(">BBHHHH", 3, 0, 0, 0, 65535, 65535)
RECTANGLE = 4 + 12


class Viewer(Protocol):
    transport: Any

    def __init__(self) -> None:
        self.heard = b""
        self.is_gone = False

    def dataReceived(self, data: bytes) -> None:
        self.heard += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.is_gone = True

    def take(self, count: int) -> bytes:
        assert len(self.heard) >= count
        taken, self.heard = self.heard[:count], self.heard[count:]
        return taken

    def nothing(self) -> bool:
        return not self.heard and not self.is_gone


def seen(screens: Screens | None = None) -> Viewer:
    viewer = Viewer()
    (screens or Screens()).open("g1", "süß", viewer)
    assert viewer.take(12) == b"RFB 003.008\n"
    return viewer


def ready(version: bytes = b"RFB 003.008\n") -> Viewer:
    """A viewer for which the guest's name is known."""
    viewer = seen()
    viewer.transport.write(version)
    if version < b"RFB 003.007\n":
        assert viewer.take(4) == b"\0\0\0\1"
    else:
        assert viewer.take(2) == b"\1\1"
        viewer.transport.write(b"\1")
        assert version < b"RFB 003.008\n" or viewer.take(4) == bytes(4)
    viewer.transport.write(b"\1")
    width, height, length = struct.unpack(">HH16xI", viewer.take(24))
    assert (width, height, viewer.take(length).decode()) == (WIDTH, HEIGHT, "süß")
    assert viewer.nothing()
    return viewer


@pytest.mark.parametrize("version", [b"RFB 003.003\n", b"RFB 003.007\n", b"RFB 003.008\n", b"RFB 003.889\n"])
def test_viewers_of_all_versions_see_a_dark_screen(version: bytes) -> None:
    viewer = ready(version)
    viewer.transport.write(UPDATE)
    assert viewer.take(RECTANGLE) == struct.pack(">BxHHHHHi", 0, 1, 0, 0, WIDTH, HEIGHT, 0)
    assert viewer.take(WIDTH * HEIGHT * 4) == bytes(WIDTH * HEIGHT * 4) and viewer.nothing()


def test_it_comes_to_the_same_in_single_bytes() -> None:
    viewer = seen()
    for byte in b"RFB 003.008\n\1\1" + UPDATE:
        viewer.transport.write(bytes([byte]))
    assert len(viewer.heard) == 2 + 4 + 24 + len("süß".encode()) + RECTANGLE + WIDTH * HEIGHT * 4


def test_what_is_typed_and_pointed_at_goes_nowhere() -> None:
    viewer = ready()
    viewer.transport.write(struct.pack(">BxHii", 2, 2, 0, 5))
    viewer.transport.write(struct.pack(">BBxxI", 4, 1, 0xFF0D) + struct.pack(">BBHH", 5, 1, 10, 10))
    # A clipboard of any size is not kept.
    viewer.transport.write(struct.pack(">BxxxI", 6, 1 << 20))
    for _ in range(16):
        viewer.transport.write(bytes(1 << 16))
    # Nothing changes, and nobody is told that it did.
    viewer.transport.write(struct.pack(">BBHHHH", 3, 1, 0, 0, WIDTH, HEIGHT))
    assert viewer.nothing()
    viewer.transport.write(struct.pack(">BBHHHH", 3, 0, WIDTH - 1, HEIGHT - 2, 9, 9))
    assert viewer.take(RECTANGLE)[4:12] == struct.pack(">HHHH", WIDTH - 1, HEIGHT - 2, 1, 2)
    assert viewer.take(8) == bytes(8) and viewer.nothing()


def test_pixels_are_as_large_as_the_viewer_wants_them() -> None:
    viewer = ready()
    viewer.transport.write(struct.pack(">BxxxBBBBHHHBBBxxx", 0, 16, 16, 0, 1, 31, 63, 31, 11, 5, 0) + UPDATE)
    assert len(viewer.heard) == RECTANGLE + WIDTH * HEIGHT * 2


@pytest.mark.parametrize("said", [b"GET / HTTP/1", b"RFB 003.008\n\2", b"RFB 003.008\n\1\1\x63"])
def test_who_makes_no_sense_is_hung_up_on(said: bytes) -> None:
    viewer = seen()
    viewer.transport.write(said + bytes(100))
    assert viewer.is_gone
    viewer.transport.write(bytes(100))


def test_who_asks_for_more_than_he_reads_is_hung_up_on() -> None:
    viewer = ready()
    viewer.transport.pauseProducing()
    for _ in range(UNREAD // (WIDTH * HEIGHT * 4) + 2):
        viewer.transport.write(UPDATE)
    assert viewer.is_gone and not viewer.heard


def test_nothing_is_drawn_any_more_for_who_asked_for_more_than_he_reads_at_once() -> None:
    """One message of a client may hold thousands of requests."""
    viewer = ready()
    viewer.transport.pauseProducing()
    viewer.transport.write(UPDATE * 100)
    assert viewer.is_gone and len(viewer.transport._kept) <= UNREAD + RECTANGLE + WIDTH * HEIGHT * 4


def test_a_guest_that_goes_off_is_seen_by_nobody() -> None:
    screens = Screens()
    first, second = seen(screens), seen(screens)
    first.transport.loseConnection()
    assert first.is_gone and not second.is_gone
    screens.darken("g1")
    screens.darken("g2")
    assert second.is_gone
    third = seen(screens)
    screens.close()
    assert third.is_gone
