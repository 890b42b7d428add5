"""The screens of fake guests: dark, with the name of the guest as their title, served by the RFB protocol.

Versions 3.3, 3.7 and 3.8, the security type None, the encoding Raw. Keyboard and mouse input is ignored. Source: RFC
6143.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IProtocol

from cloudctl.drivers.fake.console import Cable

WIDTH, HEIGHT = 160, 100
VERSION = b"RFB 003.008\n"
# Bits of a pixel and of its colours; little-endian, true colour.
PIXEL = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
NONE = 1  # the security type
SET_PIXEL_FORMAT, SET_ENCODINGS, UPDATE_REQUEST, KEY, POINTER, CUT_TEXT = 0, 2, 3, 4, 5, 6
UNREAD = 1 << 20  # bytes that wait for a client that reads none; one that requests more is disconnected


@define(eq=False)
class Screen:
    """The screen of one viewer. `send` passes bytes to the viewer, `hang_up` disconnects it."""

    name: str
    send: Callable[[bytes], None]
    hang_up: Callable[[], None]
    _heard: bytearray = field(factory=bytearray)
    _pixel: int = 4  # bytes
    _ignored: int = 0  # bytes to come that are skipped
    _is_over: bool = False
    _talk: Iterator[int] = field(init=False)
    _needed: int = field(init=False)

    def begin(self) -> None:
        self._talk = self._conversation()
        self._needed = next(self._talk)

    def hear(self, data: bytes) -> None:
        """Bytes from the viewer."""
        self._heard += data
        while not self._is_over and self._needed >= 0 and self._skip() and len(self._heard) >= self._needed:
            self._needed = next(self._talk, -1)
        if self._is_over or self._needed < 0:
            self._heard.clear()

    def end(self) -> None:
        """The viewer is gone. What it said last may hold any number of requests more, which nobody waits for."""
        self._is_over = True

    def _skip(self) -> bool:
        """Whether all ignored bytes have been skipped."""
        gone = min(self._ignored, len(self._heard))
        del self._heard[:gone]
        self._ignored -= gone
        return not self._ignored

    def _take(self, count: int) -> bytes:
        taken = bytes(self._heard[:count])
        del self._heard[:count]
        return taken

    def _conversation(self) -> Iterator[int]:
        """Yields how many bytes it needs before it goes on; ends when the viewer makes no sense any more."""
        self.send(VERSION)
        yield len(VERSION)
        version = self._take(len(VERSION))
        if not version.startswith(b"RFB 003.") or not version.endswith(b"\n"):
            self.hang_up()
            return
        if version < b"RFB 003.007\n":
            self.send(struct.pack(">I", NONE))
        else:
            self.send(bytes([1, NONE]))
            yield 1
            if self._take(1) != bytes([NONE]):
                self.hang_up()
                return
            if version >= VERSION:
                self.send(struct.pack(">I", 0))
        yield 1
        self._take(1)  # whether others may also watch: they always may
        title = self.name.encode()
        self.send(struct.pack(">HH", WIDTH, HEIGHT) + PIXEL + struct.pack(">I", len(title)) + title)
        while True:
            yield 1
            (kind,) = self._take(1)
            if kind == SET_PIXEL_FORMAT:
                yield 19
                self._pixel = max(1, self._take(19)[3] // 8)
            elif kind == SET_ENCODINGS:
                yield 3
                (count,) = struct.unpack(">xH", self._take(3))
                self._ignored = count * 4
            elif kind == UPDATE_REQUEST:
                yield 9
                self._show(*struct.unpack(">BHHHH", self._take(9)))
            elif kind == KEY:
                self._ignored = 7
            elif kind == POINTER:
                self._ignored = 5
            elif kind == CUT_TEXT:
                yield 7
                (self._ignored,) = struct.unpack(">xxxI", self._take(7))
            else:
                self.hang_up()
                return

    def _show(self, incremental: int, x: int, y: int, width: int, height: int) -> None:
        """Nothing ever changes, so a viewer that requests changes gets no answer."""
        width, height = max(0, min(width, WIDTH - x)), max(0, min(height, HEIGHT - y))
        if not incremental and width and height:
            self.send(struct.pack(">BxHHHHHi", 0, 1, x, y, width, height, 0) + bytes(width * height * self._pixel))


@define(eq=False)
class Screens:
    """The screens that somebody watches, by the ids of their guests."""

    _open: dict[str, list[Cable]] = field(factory=dict)

    def open(self, id: str, name: str, client: IProtocol) -> None:
        screen = Screen(name, lambda data: cable.send(data, UNREAD), lambda: cable.loseConnection())
        cable = Cable(client, screen.hear, lambda: self._left(id, screen, cable))
        self._open.setdefault(id, []).append(cable)
        client.makeConnection(cable)
        screen.begin()

    def _left(self, id: str, screen: Screen, cable: Any) -> None:
        screen.end()
        self._open[id].remove(cable)
        if not self._open[id]:
            del self._open[id]

    def darken(self, id: str) -> None:
        """Disconnect all viewers of the guest."""
        for cable in [*self._open.get(id, ())]:
            cable.loseConnection()

    def close(self) -> None:
        for id in [*self._open]:
            self.darken(id)
