"""An open serial console of a guest: a libvirt stream on a connection of its own, and a pair of sockets, so that the
client has an ordinary transport.

Bytes are carried in libvirt's event thread, which never waits: bytes that are not taken yet are kept, and no more are
read until they are.
"""

from __future__ import annotations

import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import libvirt
from twisted.internet.interfaces import IProtocol

from cloudctl.drivers.errors import HostDown, InvalidPower
from cloudctl.drivers.libvirt import guests
from cloudctl.drivers.libvirt.fleet import Fleet
from cloudctl.drivers.libvirt.host import Host
from cloudctl.drivers.qemu.console import connect

CHUNK = 1 << 16
WAIT = -2  # what libvirt returns instead of waiting
# libvirt's event numbers are the same for streams and for descriptors.
READABLE, WRITABLE = libvirt.VIR_STREAM_EVENT_READABLE, libvirt.VIR_STREAM_EVENT_WRITABLE
OVER = libvirt.VIR_STREAM_EVENT_ERROR | libvirt.VIR_STREAM_EVENT_HANGUP


async def open_serial(reactor: Any, fleet: Fleet, host: Host, id: str, client: IProtocol) -> None:
    """Raises UnknownGuest, HostDown, InvalidPower."""
    line = await fleet.apart(host, Line.to, id)
    try:
        with tempfile.TemporaryDirectory(prefix="cloudctl-") as directory, socket.socket(socket.AF_UNIX) as door:
            path = Path(directory, "serial")
            door.bind(str(path))
            door.listen(1)
            await connect(reactor, path, client)
            end, _nobody = door.accept()
    except BaseException:
        line.close()
        raise
    try:
        line.begin(end)
    except libvirt.libvirtError as error:
        raise HostDown(f"host {host.name} does not answer") from error


class Line:
    """Joins both ends: when one is closed, so is the other."""

    def __init__(self, connection: Any, stream: Any) -> None:
        self.connection = connection
        self.stream = stream
        self._end: socket.socket | None = None
        self._watch = -1
        self._shown = b""  # output that the client has not taken yet
        self._typed = b""  # input that the guest has not taken yet
        self._lock = Lock()

    @classmethod
    def to(cls, connection: Any, id: str) -> Line:
        """In a thread. Raises UnknownGuest, InvalidPower."""
        guest = guests.get(connection, id)
        if not guest.isActive():
            raise InvalidPower(f"guest {id} is off")
        stream = connection.newStream(libvirt.VIR_STREAM_NONBLOCK)
        # A console has one client: a previous one, which may have died, is disconnected.
        guest.openConsole(None, stream, libvirt.VIR_DOMAIN_CONSOLE_FORCE)
        return cls(connection, stream)

    def begin(self, end: socket.socket) -> None:
        end.setblocking(False)
        with self._lock:
            self._end = end
            self._watch = libvirt.virEventAddHandle(end.fileno(), READABLE, self._on_end, None)
            try:
                self.stream.eventAddCallback(READABLE | OVER, self._on_stream, None)
                self.connection.registerCloseCallback(self._on_close, None)
            except BaseException:
                # The connection has just broken: nobody would hang up on the client.
                self._finish()
                raise

    def close(self) -> None:
        """Hangs up in a thread: libvirtd may not answer, or be gone."""
        Thread(target=self._hang_up, name="libvirt console", daemon=True).start()

    def _hang_up(self) -> None:
        with suppress(libvirt.libvirtError):
            self.stream.eventRemoveCallback()
        with suppress(libvirt.libvirtError):
            self.stream.abort()
        with suppress(libvirt.libvirtError):
            self.connection.close()

    # In the event thread.

    def _on_stream(self, _stream: Any, events: int, _opaque: None) -> None:
        self._carry(events, 0)

    def _on_end(self, _watch: int, _descriptor: int, events: int, _opaque: None) -> None:
        self._carry(0, events)

    def _on_close(self, _connection: Any, _reason: int, _opaque: None) -> None:
        with self._lock:
            self._finish()

    def _carry(self, of_stream: int, of_end: int) -> None:
        with self._lock:
            if self._end is None:
                return
            try:
                going = self._show(of_stream, self._end) and self._type(of_end, self._end)
            except (OSError, libvirt.libvirtError):
                going = False
            if not going or (of_stream | of_end) & OVER:
                self._finish()
                return
            watched = (0 if self._typed else READABLE) | (WRITABLE if self._shown else 0)
            libvirt.virEventUpdateHandle(self._watch, watched)
            wanted = (0 if self._shown else READABLE) | (WRITABLE if self._typed else 0)
            self.stream.eventUpdateCallback(wanted | OVER)

    def _show(self, events: int, end: socket.socket) -> bool:
        """Pass on output; False if the guest has hung up."""
        while events & READABLE and not self._shown:
            found = self.stream.recv(CHUNK)
            if found == WAIT:
                break
            if not found:
                return False
            self._shown = _sent(end, found)
        self._shown = _sent(end, self._shown)
        return True

    def _type(self, events: int, end: socket.socket) -> bool:
        """Pass on input; False if the client has hung up."""
        if events & READABLE and not self._typed:
            self._typed = end.recv(CHUNK)
            if not self._typed:
                return False
        while self._typed:
            count = self.stream.send(self._typed)
            if count == WAIT:
                break
            self._typed = self._typed[count:]
        return True

    def _finish(self) -> None:
        if self._end is not None:
            libvirt.virEventRemoveHandle(self._watch)
            self._end.close()
            self._end = None
            self.close()


def _sent(end: socket.socket, data: bytes) -> bytes:
    """Send what the socket takes; returns the rest."""
    try:
        return data[end.send(data) :] if data else data
    except BlockingIOError:
        return data
