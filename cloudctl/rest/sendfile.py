"""Parts of files as a response body, by sendfile(2): from the system's memory to the connection, not through ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO, Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPullProducer
from twisted.internet.tcp import Connection
from twisted.logger import Logger
from zope.interface import implementer

from cloudctl.errors import CloudError
from cloudctl.rest.call import Download, Parts

log = Logger()

PIECE = 2**21  # bytes that are sent at once
TURN = 2**23  # bytes after which others have their turn
AHEAD = 2**22  # bytes that the system is asked to read before they are sent


def plain(request: Any) -> Connection | None:
    """The transport of a request if its socket carries the bytes as they are; None: it is encrypted, or a test's."""
    transport = getattr(request.channel, "transport", None)
    return transport if isinstance(transport, Connection) and not transport.TLS else None


def is_real(file: IO[bytes]) -> bool:
    """Whether it is a file of the system; a driver may have its data elsewhere."""
    try:
        return file.fileno() >= 0
    except OSError:
        return False


@implementer(IPullProducer)
class Sender:
    """Takes the channel's place as the producer of a transport, which asks whenever it has sent what it was given.

    What a file raises comes too late for a status: the connection is aborted, so that a part of the body never looks
    like all of it.
    """

    def __init__(self, parts: Parts, request: Any, transport: Connection) -> None:
        self._parts = parts
        self._following: Iterator[Download | bytes] = iter(parts.parts)
        self._request = request
        self._channel = request.channel
        self._transport = transport
        self._file: IO[bytes] | None = None
        self._at = self._left = self._read_ahead = 0  # of the file
        self._head = True  # it is on its way
        self._over = False
        self.done: Deferred[None] = Deferred(lambda _: self.stopProducing())

    def start(self) -> Deferred[None]:
        """Fires when all was sent. Cancel it to stop early."""
        self._request.write(b"")  # the head of the answer
        self._transport.unregisterProducer()
        self._transport.registerProducer(self, False)
        return self.done

    def resumeProducing(self) -> None:
        if self._over:
            return
        if self._head:
            # Only this call comes before the transport has sent its buffer, which sendfile would overtake.
            self._head = False
            self._transport.startWriting()
            return
        try:
            self._send()
        except BlockingIOError:
            self._transport.startWriting()
        except ConnectionError:
            self._break_off()
        except CloudError as error:
            log.warn("a download is broken off: {error}", error=error)
            self._break_off()
        except OSError:
            log.failure("a download was interrupted")
            self._break_off()

    def stopProducing(self) -> None:
        """The client is gone; Klein cancels the handler."""
        self._over = True
        if self._file is not None:
            self._file.close()
        self._parts.close()

    def _send(self) -> None:
        """Send some more, after which the transport asks again. Raises OSError, CloudError."""
        if self._left:
            self._send_of(self._file)
        elif (part := next(self._following, None)) is None:
            self._end()
            return
        elif isinstance(part, bytes):
            self._transport.write(part)
        else:
            if self._file is not None:
                self._file.close()
            self._file = part.file or part.open()
            self._at, self._left, self._read_ahead = part.offset, part.length, 0
        self._transport.startWriting()

    def _send_of(self, file: IO[bytes] | None) -> None:
        assert file is not None
        if not is_real(file):
            file.seek(self._at)
            data = file.read(min(self._left, PIECE))
            self._transport.write(data)
            self._went(file, len(data))
            return
        turn = min(self._left, TURN)
        while turn > 0:
            size = min(turn, PIECE)
            if self._at + size > self._read_ahead:
                os.posix_fadvise(file.fileno(), self._at, AHEAD, os.POSIX_FADV_WILLNEED)
                self._read_ahead = self._at + AHEAD
            sent = os.sendfile(self._transport.fileno(), file.fileno(), self._at, size)
            self._went(file, sent)
            # There is no room for the rest: the next call would only say so.
            turn = turn - sent if sent == size else 0

    def _went(self, file: IO[bytes], size: int) -> None:
        """Raises OSError."""
        if not size:
            raise OSError(f"{getattr(file, 'name', 'a file')} ends {self._left} bytes early")
        self._at += size
        self._left -= size

    def _end(self) -> None:
        self.stopProducing()
        self._transport.unregisterProducer()
        self._transport.registerProducer(self._channel, True)
        self.done.callback(None)

    def _break_off(self) -> None:
        self.stopProducing()
        self._transport.abortConnection()
