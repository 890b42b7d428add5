"""Connections to a cloud's listeners: how many there may be, and how slowly they may send.

A client that sends nothing, or a byte now and then, costs a connection and the memory of what it has sent so far. So
both are bounded, for one address and for all, and a client that makes too little progress with its request is hung up
on. The check is a walk over the connections every few seconds, and costs a request nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from attrs import define
from twisted.application import strports
from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from cloudctl.config import AdmissionOptions
from cloudctl.http_turns import TurnChannel
from cloudctl.rest.clients import host_of, network_of

log = Logger()

PERIOD = 5.0  # seconds between two walks, at most
SHORTEST = 0.1
# Bytes of each request's body that are not counted, so that filling the room for bodies keeps nobody from logging in.
FREE = 4096
# How a proxy is asked; RFC 9112, section 3.2.2, has every server understand it.
ABSOLUTE = re.compile(rb"https?://([^/?#@]+)(.*)", re.IGNORECASE | re.DOTALL)
NOT_ASCII = re.compile(b"[\x80-\xff]")


class Connections:
    """The connections of one cloud's listeners. `proxies`: addresses that speak for many clients."""

    def __init__(self, clock: IReactorTime, limits: AdmissionOptions, proxies: Collection[str] = ()) -> None:
        self.clock = clock
        self.limits = limits
        # A short limit is not over a whole period later.
        shortest = min(limits.header_timeout, limits.body_patience)
        self.period = min(PERIOD, max(SHORTEST, shortest / 4))
        self.proxies = frozenset(proxies)
        self.open: set[Channel] = set()
        self._of: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._held_by_all = 0
        self._walk: IDelayedCall | None = None
        self.is_ending = False  # each connection is closed after its present request

    def client_of(self, peer: Any) -> str:
        """The client that connects from there; empty for a proxy, which has many, and for a client without address."""
        host = host_of(peer)
        return "" if host in self.proxies else network_of(host)

    def admits(self, client: str) -> bool:
        """Whether this client may open one more connection."""
        if len(self.open) >= self.limits.connections:
            return False
        return not client or self._of[client] < self.limits.connections_per_address

    def add(self, channel: Channel) -> None:
        self.open.add(channel)
        self._of[channel.client] += 1
        if self._walk is None:
            self._walk = self.clock.callLater(self.period, self._look)

    def remove(self, channel: Channel) -> None:
        if channel in self.open:
            self.open.remove(channel)
            _less(self._of, channel.client, 1)
        if not self.open and self._walk is not None:
            self._walk.cancel()
            self._walk = None

    async def end(self) -> None:
        """Let no further request come, and wait until those that are here have been answered."""
        self.is_ending = True
        for channel in tuple(self.open):
            channel.end()
        while any(channel.is_unanswered for channel in self.open):
            await deferLater(self.clock, SHORTEST)

    def hold(self, client: str, size: int) -> bool:
        """Count this many more bytes for a client until `release`. False: there is no room, and none are counted."""
        if self._held_by_all + size > self.limits.body_memory:
            return False
        if client and self._held[client] + size > self.limits.body_memory_per_address:
            return False
        self._held_by_all += size
        self._held[client] += size
        return True

    def release(self, client: str, size: int) -> None:
        if size:
            self._held_by_all -= size
            _less(self._held, client, size)

    def _look(self) -> None:
        self._walk = self.clock.callLater(self.period, self._look)
        now = self.clock.seconds()
        for channel in [each for each in self.open if each.is_late(now, self.limits)]:
            log.info(
                "closed the connection of {client}: its request made no progress",
                client=host_of(channel.getPeer()) or "a client",
            )
            channel.forceAbortClient()


def _less(counter: Counter[str], key: str, amount: int) -> None:
    """Subtract, without keeping an entry for every address that was ever seen."""
    counter[key] -= amount
    if counter[key] <= 0:
        del counter[key]


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


@define(eq=False)
class Answering(Service):
    """Stops once what has been asked is answered: after the listeners, and before all that answers need."""

    connections: Connections

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return ensureDeferred(self.connections.end())


class Listener(MultiService):
    """Serves a factory at an endpoint. If it cannot listen there, the error has a note that names the option."""

    def __init__(self, option: str, endpoint: str, factory: Any, reactor: Any) -> None:
        super().__init__()
        self._named = f"{option}: {endpoint!r}"
        # `strports` raises at once if it cannot listen; an endpoint's service only logs it.
        self.addService(strports.service(endpoint, factory, reactor=reactor))

    def privilegedStartService(self) -> None:
        self._noted(super().privilegedStartService)

    def startService(self) -> None:
        self._noted(super().startService)

    def _noted(self, start: Callable[[], None]) -> None:
        try:
            start()
        except Exception as error:
            error.add_note(self._named)
            raise


class Channel(TurnChannel):
    """A connection that knows since when it has been receiving a request."""

    connections: Connections | None = None
    client = ""
    # When the first byte of the present request came, and the last one of its head; None: not yet, or it is complete.
    began: float | None = None
    body_began: float | None = None
    # How much of the body had come when its rate was last looked at, and when that was.
    body_looked = (0.0, 0)
    held = 0
    free = FREE
    # What came is no HTTP; it has been answered.
    is_refused = False

    def connectionMade(self) -> None:
        super().connectionMade()
        if self.connections is not None:
            self.client = self.connections.client_of(self.getPeer())
            self.connections.add(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.began = None
        self._release()
        if self.connections is not None:
            self.connections.remove(self)
        super().connectionLost(reason)

    def dataReceived(self, data: bytes) -> None:
        if self.began is None and not self._handlingRequest and not self.paused and self.connections is not None:
            self.began = self.connections.clock.seconds()
        super().dataReceived(data)

    def headerReceived(self, line: bytes) -> bool:
        """Swift's clients send names in UTF-8. RFC 9110 allows only ASCII, so such a name is percent-encoded.

        RFC 9112, section 3.2, refuses a second Host: a proxy in front may have read the other one.
        """
        name, colon, value = line.partition(b":")
        if not name.isascii() and _is_text(name):
            line = NOT_ASCII.sub(lambda found: b"%%%02X" % found[0][0], name) + colon + value
        try:
            if not super().headerReceived(line):
                return False
        except ValueError:  # a length of more digits than Python reads
            self._respondToBadRequestAndDisconnect()
            return False
        if name.lower() == b"host" and len(self.requests[-1].requestHeaders.getRawHeaders(b"host")) > 1:
            self._respondToBadRequestAndDisconnect()
            return False
        return True

    def allHeadersReceived(self) -> None:
        if self._version == b"HTTP/1.1" and not self.requests[-1].requestHeaders.hasHeader(b"host"):
            # RFC 9112, section 3.2.
            self._respondToBadRequestAndDisconnect()
            return
        if (named := ABSOLUTE.fullmatch(self._path)) is not None:
            host, path = named.groups()
            self._path = path if path.startswith(b"/") else b"/" + path
            self.requests[-1].requestHeaders.setRawHeaders(b"host", [host])
        if self.length != 0 and self.connections is not None:
            self.body_began = self.connections.clock.seconds()
            self.body_looked = self.body_began, 0
        super().allHeadersReceived()

    def allContentReceived(self) -> None:
        if self.is_refused:
            return
        self.began = self.body_began = None
        self._release()
        super().allContentReceived()

    @property
    def is_unanswered(self) -> bool:
        """Whether it has a whole request, and no part of the answer has gone out: not a download, nor a stream."""
        return self._handlingRequest and bool(self.requests) and not self.requests[0].startedWriting

    def end(self) -> None:
        """Close after the answer to the present request; now, if there is none."""
        if self.is_unanswered:
            self.persistent = False
            self.requests[0].responseHeaders.setRawHeaders(b"connection", [b"close"])
        elif not self.requests and self.began is None:
            self.loseConnection()

    def checkPersistence(self, request: Any, version: bytes) -> bool:
        if self.connections is not None and self.connections.is_ending:
            request.responseHeaders.setRawHeaders(b"connection", [b"close"])
            return False
        return bool(super().checkPersistence(request, version))

    def lineLengthExceeded(self, line: bytes) -> None:
        self._respondToBadRequestAndDisconnect()

    def _respondToBadRequestAndDisconnect(self) -> None:
        """It never becomes a request, so it is not in the access log."""
        self.is_refused = True
        log.info("refused a bad request of {client}", client=host_of(self.getPeer()) or "a client")
        super()._respondToBadRequestAndDisconnect()

    def timeoutConnection(self) -> None:
        if self._waits:
            self.setTimeout(self.timeOut)
        else:
            super().timeoutConnection()

    @property
    def _waits(self) -> bool:
        """Whether it is this side, and not the client, that holds up a body."""
        return bool(self.requests) and self.requests[-1].waits

    def hold(self, size: int) -> bool:
        """As `Connections.hold`, until the request is complete."""
        free = min(size, self.free)
        self.free -= free
        if size > free and self.connections is not None:
            if not self.connections.hold(self.client, size - free):
                return False
            self.held += size - free
        return True

    def is_late(self, now: float, limits: AdmissionOptions) -> bool:
        if self.body_began is not None:
            # From look to look: a fast beginning is no credit for a trickle afterwards.
            looked, before = self.body_looked
            received = self.requests[-1].received if self.requests else 0
            if self._waits:
                self.body_looked = now, received
                return False
            if now - looked <= limits.body_patience:
                return False
            self.body_looked = now, received
            return received - before < (now - looked) * limits.body_rate
        return self.began is not None and now - self.began > limits.header_timeout

    def _release(self) -> None:
        if self.held and self.connections is not None:
            self.connections.release(self.client, self.held)
        self.held = 0
        self.free = FREE
