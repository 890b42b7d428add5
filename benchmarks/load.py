"""A load generator for HTTP/1.1 on keep-alive connections, cheap enough to measure a server on the same machine."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

RECEIVE = 1 << 18


def encode(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    lines = {"Host": "127.0.0.1", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


class Connection:
    """One connection with one request under way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.began = 0.0

    def send(self, request: bytes) -> None:
        self.began = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> tuple[int, bytes] | None:
        """(status, body) once the answer is complete."""
        data = self.socket.recv(RECEIVE)
        if not data:
            raise ConnectionError("the server hung up")
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self.buffer[:end]).lower()
        length = 0
        at = head.find(b"content-length:")
        if at >= 0:
            length = int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(self.buffer) < end + 4 + length:
            return None
        body = bytes(self.buffer[end + 4 : end + 4 + length])
        del self.buffer[: end + 4 + length]
        return int(head[9:12]), body


def rate(
    port: int, request: Callable[[int], bytes], seconds: float, connections: int = 16, expected: int = 200
) -> float:
    """Answers per second over some connections. `request(n)` is the n-th. Raises RuntimeError for another status."""
    selector = selectors.DefaultSelector()
    sent = 0
    for sent in range(connections):
        connection = Connection(port)
        connection.send(request(sent))
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    began = time.perf_counter()
    answers = 0
    while time.perf_counter() - began < seconds:
        for key, _ in selector.select(1.0):
            answer = key.data.receive()
            if answer is None:
                continue
            if answer[0] != expected:
                raise RuntimeError(f"{answer[0]}: {answer[1][:300]!r}")
            answers += 1
            sent += 1
            key.data.send(request(sent))
    spent = time.perf_counter() - began
    for key in list(selector.get_map().values()):
        key.data.socket.close()
    selector.close()
    return answers / spent


class Serial:
    """One request after another over one connection."""

    def __init__(self, port: int) -> None:
        self.connection = Connection(port)

    def ask(self, request: bytes) -> tuple[int, bytes, float]:
        """(status, body, seconds)."""
        self.connection.send(request)
        answer = None
        while answer is None:
            answer = self.connection.receive()
        return *answer, time.perf_counter() - self.connection.began

    def typical(self, request: Callable[[int], bytes], times: int) -> float:
        """The median time of an answer, in seconds."""
        return median(self.ask(request(number))[2] for number in range(times))


def until(test: Callable[[], Any], seconds: float, what: str, pause: float = 0.005) -> Any:
    """The first true value of `test`. Raises TimeoutError."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        found = test()
        if found:
            return found
        time.sleep(pause)
    raise TimeoutError(what)
