"""Consoles: reads and shortens the log of a serial console, to which QEMU appends; connects to consoles' sockets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.internet.endpoints import UNIXClientEndpoint, connectProtocol
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IProtocol
from twisted.internet.task import deferLater

from cloudctl.drivers.errors import Unreachable

CONNECT_SECONDS = 5.0
TRIES, PAUSE = 5, 0.1  # seconds between two


async def connect(reactor: Any, path: Path, client: IProtocol) -> None:
    """Connect `client` to a socket of a guest. Raises Unreachable."""
    endpoint = UNIXClientEndpoint(reactor, str(path), timeout=CONNECT_SECONDS)
    for left in reversed(range(TRIES)):
        try:
            await connectProtocol(endpoint, client)
            return
        except ConnectError as error:
            if not left:
                raise Unreachable(f"the console at {path} does not answer: {error}") from error
        # QEMU serves one connection at a time and may not be done with the previous one.
        await deferLater(reactor, PAUSE)


def tail(path: Path, lines: int | None, kept: int) -> str:
    """The last `lines` lines (None: all) of the last `kept` bytes."""
    return last_lines(_end(path, kept), lines)


def last_lines(data: bytes, lines: int | None) -> str:
    """The last `lines` lines (None: all) of what a guest wrote."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if lines is None:
        return text
    return "".join(text.splitlines(keepends=True)[-lines:]) if lines > 0 else ""


def shorten(path: Path, kept: int) -> None:
    """Keep the last `kept` bytes of a log that has grown to twice as many.

    QEMU always appends; what it writes between the truncation and the rewrite comes before the rest.
    """
    try:
        if os.stat(path).st_size <= 2 * kept:
            return
    except FileNotFoundError:
        return
    rest = _end(path, kept)
    with path.open("ab") as file:
        file.truncate(0)
        file.write(rest)


def _end(path: Path, kept: int) -> bytes:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - kept))
            return file.read(kept)
    except FileNotFoundError:
        return b""
