"""Consoles in browsers and terminals: a WebSocket on one side, the console of a guest on the other.

    ws://host:port/?token=…

What the client sends is typed into the console. Subprotocols: `binary` (also the default), and `base64` for clients
that can only send text. The token appears in no log, and is worthless once used. Source: RFC 6455.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from twisted.internet.defer import ensureDeferred
from twisted.internet.interfaces import IDelayedCall, IProtocol, IPushProducer, IReactorTime, ITCPTransport
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError
from zope.interface import implementer

from cloudctl.compute.consoles import NEEDS, NOVNC, Right, Rights
from cloudctl.compute.options import ComputeOptions
from cloudctl.drivers.boundary import call as driver_call
from cloudctl.drivers.errors import DriverError, NoCapacity
from cloudctl.drivers.interfaces import IHypervisor
from cloudctl.rest.clients import host_of, network_of
from cloudctl.tasks.rounds import Rounds

log = Logger()

PATIENCE = 10.0  # seconds until a connection must have become a WebSocket, and have ended once it was hung up on
MOST_UNPROVEN = 10  # connections from one address that have not opened a console yet
PERIOD = 10.0  # seconds between two checks of the open consoles
LONGEST = 1 << 16  # characters of a text message that is buffered until it is complete
BINARY, BASE64 = "binary", "base64"


class ConsoleServer(Factory):
    """The consoles of one cloud: those in NEEDS whose interface `hypervisor` provides."""

    noisy = False

    def __init__(self, clock: IReactorTime, rights: Rights, hypervisor: IHypervisor, options: ComputeOptions) -> None:
        self.clock = clock
        self.rights = rights
        self.hypervisor: Any = hypervisor
        self.options = options
        self.open: set[WebConsole] = set()
        self._serial: dict[str, WebConsole] = {}

    def buildProtocol(self, addr: Any) -> Protocol | None:
        """None, which closes the connection, if there are too many already."""
        host = network_of(host_of(addr))
        unproven = sum(each.host == host and each.right is None for each in self.open)
        if len(self.open) >= self.options.console_connections or unproven >= MOST_UNPROVEN:
            return None
        return WebConsole(self, host)

    def doStop(self) -> None:
        super().doStop()
        for each in list(self.open):
            each.close(CloseReason.GOING_AWAY)

    async def take(self, request: Request) -> Callable[[IProtocol, WebConsole], Any] | None:
        """How to open the requested console; None: it may not be opened."""
        (token,) = parse_qs(urlsplit(request.target).query).get("token", [""])[-1:]
        if not token or not self._trusts(request):
            return None
        right = await self.rights.take(token)
        if right is None or not NEEDS[right.console.type].providedBy(self.hypervisor):
            return None
        found = right.console
        log.info("the {kind} console of server {id} is opened", kind=found.type, id=found.server_id)

        async def open(guest: IProtocol, client: WebConsole) -> None:
            # There is only one line: its previous user has left, or is made to.
            before = self._serial.get(found.server_id) if found.type != NOVNC else None
            if self._opened_of(right.project_id, before) >= self.options.console_share:
                raise NoCapacity(f"project {right.project_id} has as many consoles open as it may have")
            client.right = right
            if found.type == NOVNC:
                await driver_call(self.hypervisor.open_vnc, found.server_id, guest)
                return
            if before is not None:
                before.close(CloseReason.GOING_AWAY)
            self._serial[found.server_id] = client
            await driver_call(self.hypervisor.open_serial, found.server_id, guest)

        return open

    def rounds(self) -> Rounds:
        return ConsoleRounds(self.clock, self)

    async def end_what_may_not_be(self) -> None:
        """Hang up on clients whose right to see a console was revoked."""
        for client in [*self.open]:
            if client.right is not None and not await self.rights.holds(client.right):
                client.close(CloseReason.POLICY_VIOLATION)

    def forget(self, client: WebConsole) -> None:
        self.open.discard(client)
        for server_id in [id for id, each in self._serial.items() if each is client]:
            del self._serial[server_id]

    def _opened_of(self, project_id: str, leaving: WebConsole | None) -> int:
        """How many consoles of its servers are open, except one that is about to be closed."""
        staying = [each.right for each in self.open if each is not leaving]
        return sum(right is not None and right.project_id == project_id for right in staying)

    def _trusts(self, request: Request) -> bool:
        """Whether the page that sends the request, if any, is ours. Only browsers name an origin."""
        headers = {name.lower(): value.decode("latin-1") for name, value in request.extra_headers}
        if (origin := headers.get(b"origin")) is None or origin in self.options.console_origins:
            return True
        pages = (f"//{request.host}", self.options.console_url, self.options.console_vnc_page)
        # An origin without a host, such as «null», is not ours.
        return bool(host := _host(origin)) and host in {_host(page) for page in pages if page}


def _host(url: str) -> str:
    """Empty: the URL has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


class ConsoleRounds(Rounds):
    """Closes the consoles whose right was revoked."""

    def __init__(self, clock: IReactorTime, consoles: ConsoleServer) -> None:
        super().__init__(clock, PERIOD, "open consoles could not be looked at")
        self.consoles = consoles

    async def look(self) -> None:
        await self.consoles.end_what_may_not_be()


@implementer(IPushProducer)
class WebConsole(Protocol):
    """A client's side. It produces what the guest writes, and answers to pings."""

    transport: Any

    def __init__(self, server: ConsoleServer, host: str) -> None:
        self.server = server
        self.host = host  # the address, or the network, that it comes from
        self._socket = WSConnection(ConnectionType.SERVER)
        self._subprotocol: str | None = None
        self.right: Right | None = None  # since a console was opened for it
        self._guest: Any = None  # the transport of the other side
        self._text = ""  # of a message that is not complete
        self._limit: IDelayedCall | None = None
        self._is_behind = False  # it does not read what it was sent
        self._ping: Ping | None = None  # the latest one that came meanwhile
        self._is_over = False

    def connectionMade(self) -> None:
        self.server.open.add(self)
        self._limit = self.server.clock.callLater(PATIENCE, self._too_late)
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpKeepAlive(True)
            self.transport.setTcpNoDelay(True)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._is_over = True
        self._in_time()
        self.server.forget(self)
        self._part()

    # -- from the client

    def dataReceived(self, data: bytes) -> None:
        if self._is_over:
            return
        try:
            self._socket.receive_data(data)
        except RemoteProtocolError as error:
            self._hang_up(error.event_hint or RejectConnection(status_code=400))
            return
        self._look()

    def _look(self) -> None:
        for event in self._socket.events():
            if not self._is_over:
                self._heed(event)

    def _heed(self, event: Event) -> None:
        if isinstance(event, Request):
            # Nothing may arrive before the console is open.
            self.transport.pauseProducing()
            ensureDeferred(self._begin(event)).addErrback(self._failed)
        elif isinstance(event, BytesMessage):
            self._type(bytes(event.data))
        elif isinstance(event, TextMessage):
            self._read(event)
        elif isinstance(event, Ping):
            self._answer(event)
        elif isinstance(event, CloseConnection):
            self._hang_up(event.response())

    async def _begin(self, request: Request) -> None:
        opens = await self.server.take(request)
        if opens is None:
            self._reject(403)
            return
        known = [each for each in request.subprotocols if each in (BINARY, BASE64)]
        self._subprotocol = known[0] if known else None
        try:
            await opens(Guest(self), self)
        except DriverError as error:
            log.info("a console was not opened: {error}", error=error)
            self._reject(503)

    def _read(self, event: TextMessage) -> None:
        if self._subprotocol != BASE64:
            self._type(event.data.encode())
            return
        self._text += event.data
        if len(self._text) > LONGEST:
            self.close(CloseReason.MESSAGE_TOO_BIG)
        elif event.message_finished:
            text, self._text = self._text, ""
            try:
                self._type(base64.b64decode(text, validate=True))
            except (binascii.Error, ValueError):
                self.close(CloseReason.INVALID_FRAME_PAYLOAD_DATA)

    def _type(self, data: bytes) -> None:
        if self._guest is not None:
            self._guest.write(data)

    def _answer(self, ping: Ping) -> None:
        # Only the latest ping needs an answer (RFC 6455, 5.5.3), so those to one that does not read do not pile up.
        if self._is_behind:
            self._ping = ping
        else:
            self._send(ping.response())

    # -- from the guest

    def accept(self, guest: Any) -> None:
        """The guest is connected; `guest` is the transport that leads to it."""
        if self._is_over:
            guest.loseConnection()
            return
        self._in_time()
        self._guest = guest
        self._send(AcceptConnection(subprotocol=self._subprotocol))
        # Whichever side is slower makes the other one wait.
        self.transport.registerProducer(self, True)
        guest.registerProducer(self.transport, True)
        self.transport.resumeProducing()
        # Handle what arrived too early.
        self._look()

    def pauseProducing(self) -> None:
        self._is_behind = True
        if self._guest is not None:
            self._guest.pauseProducing()

    def resumeProducing(self) -> None:
        self._is_behind = False
        if (ping := self._ping) is not None:
            self._ping = None
            self._answer(ping)
        if self._guest is not None and not self._is_behind:
            self._guest.resumeProducing()

    def stopProducing(self) -> None:
        if self._guest is not None:
            self._guest.stopProducing()

    def show(self, data: bytes) -> None:
        if self._subprotocol == BASE64:
            self._send(TextMessage(base64.b64encode(data).decode()))
        else:
            self._send(BytesMessage(data))

    def close(self, reason: CloseReason) -> None:
        """Say why, and hang up."""
        self._hang_up(CloseConnection(reason))

    # -- ends

    def _send(self, event: Event) -> None:
        try:
            data = self._socket.send(event)
        except LocalProtocolError:
            return  # one side has closed already
        self.transport.write(data)

    def _reject(self, status: int) -> None:
        self._hang_up(RejectConnection(status_code=status))

    def _hang_up(self, last_words: Event) -> None:
        if not self._is_over:
            self._is_over = True
            self._send(last_words)
            self._part()
            self.transport.loseConnection()
            # That waits until all was read.
            if self._limit is None:
                self._limit = self.server.clock.callLater(PATIENCE, self._too_late)

    def _part(self) -> None:
        """Disconnect the two sides from each other."""
        guest, self._guest = self._guest, None
        if guest is not None:
            self.transport.unregisterProducer()
            guest.unregisterProducer()
            guest.loseConnection()

    def _failed(self, failure: Failure) -> None:
        log.failure("a console could not be opened", failure)
        self._reject(500)

    def _too_late(self) -> None:
        self._limit = None
        self.transport.abortConnection()

    def _in_time(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


class Guest(Protocol):
    """The guest's side."""

    def __init__(self, client: WebConsole) -> None:
        self.client = client

    def connectionMade(self) -> None:
        self.client.accept(self.transport)

    def dataReceived(self, data: bytes) -> None:
        self.client.show(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.client.close(CloseReason.NORMAL_CLOSURE)
