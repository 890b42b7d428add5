"""The metadata service at 169.254.169.254, listening in the namespace of each network."""

from __future__ import annotations

import socket
from collections.abc import Callable
from io import BytesIO
from typing import Any

from attrs import define, field
from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IListeningPort, IReactorTime
from twisted.protocols.policies import WrappingFactory
from twisted.web.resource import IResource
from twisted.web.server import Request, Site

from cloudctl.drivers.netns import inside
from cloudctl.drivers.netns.names import METADATA_ADDRESS
from cloudctl.http_turns import TurnChannel

METADATA_PORT = 80
IDLE_SECONDS = 15.0  # an open connection keeps the namespace of a deleted network alive
BODY_LIMIT = 1 << 16  # bytes of a request: guests have little to say, and must not fill this machine's disk
GUEST_CONNECTIONS = 16  # at a time, from one guest
NETWORK_CONNECTIONS = 256  # from all guests on a network: they take this process's descriptors
TOO_LARGE = b"HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class GuestRequest(Request):
    """A request whose body stays in memory, since it is small."""

    refused = False

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()
        if (length or 0) > BODY_LIMIT:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:
        if self.refused:
            return
        super().handleContentChunk(data)
        if self.content is not None and self.content.tell() > BODY_LIMIT:
            self._refuse()

    def _refuse(self) -> None:
        self.refused = True
        self.channel.write(TOO_LARGE)
        self.channel.loseConnection()

    def process(self) -> None:
        if not self.refused:
            super().process()


class GuestSite(Site):
    """A guest that asks for much at once does not hold up this process."""

    protocol: Any = TurnChannel


class Limited(WrappingFactory):
    """Closes connections beyond those that one guest, or one network, may have at a time."""

    noisy = False  # one per network; not worth two log lines each

    def buildProtocol(self, addr: Any) -> Any:
        same = sum(1 for each in self.protocols if each.getPeer().host == addr.host)
        if same >= GUEST_CONNECTIONS or len(self.protocols) >= NETWORK_CONNECTIONS:
            return None
        return super().buildProtocol(addr)


def site(resource: IResource, clock: IReactorTime) -> Limited:
    made = GuestSite(resource, requestFactory=GuestRequest, reactor=clock, timeout=IDLE_SECONDS)
    made.noisy = False
    return Limited(made)


@define(eq=False)
class MetadataService:
    """Nothing listens until `site_of` is set."""

    reactor: Any  # an IReactorSocket
    site_of: Callable[[str], IResource] | None = None
    listening: dict[str, IListeningPort] = field(factory=dict)

    def ensure(self, network_id: str, namespace: str) -> None:
        """Guests on the network, whose namespace has the address, are answered. Raises Unreachable."""
        if self.site_of is None or network_id in self.listening:
            return
        with inside.listening(namespace, METADATA_ADDRESS, METADATA_PORT) as made:
            # The reactor duplicates the descriptor.
            factory = site(self.site_of(network_id), self.reactor)
            self.listening[network_id] = self.reactor.adoptStreamPort(made.fileno(), socket.AF_INET, factory)

    def is_served(self, network_id: str) -> bool:
        """Whether guests on the network are answered, or nobody can be answered yet."""
        return self.site_of is None or network_id in self.listening

    async def ensure_absent(self, network_id: str) -> None:
        port = self.listening.pop(network_id, None)
        if port is not None:
            await maybeDeferred(port.stopListening)

    async def close(self) -> None:
        for network_id in list(self.listening):
            await self.ensure_absent(network_id)
