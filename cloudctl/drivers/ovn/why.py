"""Why a connection to a database fails, in words: the library passes on an error number, which is 1 for all that TLS
has to say, and tells its own log alone.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
from collections.abc import Callable
from typing import Any

from ovs import stream


class Tls(stream.SSLStream):  # type: ignore[misc]  # ovs has no types
    """A connection by TLS that knows why it failed."""

    why = ""
    _is_shaken = False  # hands were

    @staticmethod
    def check_connection_completion(sock: Any) -> int:
        """0 once there is a connection, or an error number. That of the library speaks TLS to find out."""
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        return int(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)) if poll.poll(0) else errno.EAGAIN

    def connect(self) -> int:
        """0, or an error number. That of the library shakes hands before each word: it hears no last one."""
        pending = int(stream.Stream.connect(self))
        if pending or self._is_shaken:
            return pending
        try:
            self.socket.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return errno.EAGAIN
        except OSError as error:
            return self._failed(error)
        self._is_shaken = True
        return 0

    def recv(self, n: int) -> tuple[int, Any]:
        try:
            found: tuple[int, Any] = self._recv(n)
        except ssl.SSLWantReadError:
            return errno.EAGAIN, ""
        except ssl.SSLZeroReturnError:
            return 0, ""
        except OSError as error:
            return self._failed(error), ""
        return found

    def send(self, buf: str | bytes) -> int:
        try:
            return int(self._send(buf))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return -errno.EAGAIN
        except OSError as error:
            try:
                # Why it hung up has not been read yet.
                self.socket.recv(1)
            except OSError as last:
                return -self._failed(last)
            return -self._failed(error)

    def _failed(self, error: OSError) -> int:
        self.why = _told(error)
        return error.errno or errno.EPROTO


def _told(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        words = (error.reason or "it closed the connection").replace("_", " ").lower()
        # Its side may find fault with ours only after the handshake.
        return f"it does not accept our certificate: {words}" if "alert" in words else f"TLS fails: {words}"
    return os.strerror(error.errno) if error.errno else str(error)


def noted(session: Any, failed: Callable[[str, str], object]) -> None:
    """From now on `failed(server, why)` is called whenever a connection of the session fails."""
    disconnected = session.reconnect.disconnected

    def noting(now: int, error: int) -> None:
        if error:  # 0: we have closed it ourselves
            carrier = session.stream or (session.rpc and session.rpc.stream)
            words = os.strerror(error) if error > 0 else "it closed the connection"
            failed(session.get_name(), getattr(carrier, "why", "") or words)
        disconnected(now, error)

    session.reconnect.disconnected = noting
