"""A client of one WebSocket, on a UNIX socket, that waits for expected output."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, RejectConnection, Request


class WebSocket:
    def __init__(self, wire: socket.socket, url: str) -> None:
        self.wire = wire
        self.socket = WSConnection(ConnectionType.CLIENT)
        self.seen = b""
        self.accepted = False
        parts = urlsplit(url)
        self.wire.sendall(self.socket.send(Request(host=parts.netloc, target=f"{parts.path}?{parts.query}")))

    def type(self, data: bytes) -> None:
        self.wire.sendall(self.socket.send(BytesMessage(data)))

    def until(self, wanted: bytes, patience: float = 60.0) -> None:
        """Wait until this has come; what came before it is forgotten."""
        end = time.monotonic() + patience
        while wanted not in self.seen:
            assert time.monotonic() < end, f"{wanted!r} has not come: {self.seen[-1000:]!r}"
            self.receive()
        self.seen = self.seen.partition(wanted)[2]

    def receive(self) -> None:
        self.wire.settimeout(1.0)
        try:
            data = self.wire.recv(65536)
        except TimeoutError:
            return
        assert data, f"it has hung up: {self.seen[-1000:]!r}"
        self.socket.receive_data(data)
        for event in self.socket.events():
            assert not isinstance(event, RejectConnection), event.status_code
            self.accepted = self.accepted or isinstance(event, AcceptConnection)
            if isinstance(event, BytesMessage):
                self.seen += bytes(event.data)


@contextmanager
def open_console(listener: Path, url: str) -> Iterator[WebSocket]:
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(str(listener))
        console = WebSocket(wire, url)
        while not console.accepted:
            console.receive()
        yield console
