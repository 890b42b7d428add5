"""An HTTP server for what guests ask of it: their requests are small, and guests are not trusted."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.protocols.policies import WrappingFactory
from twisted.web.resource import IResource
from twisted.web.server import Request, Site

from cloudctl.http_turns import TurnChannel

BODY_LIMIT = 1 << 16  # bytes of a request: guests have little to say, and must not fill this machine's disk
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
    noisy = False  # one per network; not worth two log lines each

    def __init__(self, resource: IResource, clock: IReactorTime, idle_seconds: float) -> None:
        super().__init__(resource, requestFactory=GuestRequest, reactor=clock, timeout=idle_seconds)

    def log(self, request: Any) -> None:
        """Nothing: a guest must not fill this machine's disk with lines either."""


class Limited(WrappingFactory):
    """Closes connections beyond those that one client, or all together, may have at a time."""

    noisy = False

    def __init__(self, site: GuestSite, from_one: int, in_all: int) -> None:
        super().__init__(site)
        self.from_one = from_one
        self.in_all = in_all

    def buildProtocol(self, addr: Any) -> Any:
        same = sum(1 for each in self.protocols if each.getPeer().host == addr.host)
        if same >= self.from_one or len(self.protocols) >= self.in_all:
            return None
        return super().buildProtocol(addr)
