"""Downloads from addresses that a user names, which must not lead into the operator's own networks.

Names are resolved here, and the connection goes to an address that was checked, for the first request and for every
redirect: a name that resolves to another address the second time gains nothing. Reference: image.md, section 9.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import IO, Any

from attrs import frozen
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import URI, Agent, BrowserLikeRedirectAgent, ResponseDone, ResponseFailed
from twisted.web.error import InfiniteRedirection, RedirectWithNoLocation
from twisted.web.iweb import IAgentEndpointFactory, IResponse
from zope.interface import implementer

from cloudctl.drivers.answers import hang_up
from cloudctl.errors import Invalid
from cloudctl.image.imports import address
from cloudctl.image.options import ImageOptions
from cloudctl.rest.outgoing import CONNECT_TIMEOUT, NETWORK, FetchError, Permitted, PublicEndpoint, Unreached, permits

REDIRECTS = 5

# `fetch(uri, path)` writes the data at an address to a file.
Fetch = Callable[[str, Path], Awaitable[None]]


@implementer(IAgentEndpointFactory)
@frozen
class _Endpoints:
    reactor: Any
    options: ImageOptions
    permitted: Permitted

    def endpointForURI(self, uri: URI) -> PublicEndpoint:
        try:
            address(uri.toBytes().decode("ascii"), self.options.import_ports)
        except Invalid as error:
            raise FetchError(error.message) from None
        return PublicEndpoint(self.reactor, uri, self.permitted)


class _Body(Protocol):
    """Writes what arrives to a file. Hangs up beyond `limit` bytes, and after `silence` seconds without any."""

    def __init__(self, file: IO[bytes], limit: int, silence: float, clock: IReactorTime) -> None:
        self._file = file
        self._left = limit
        self._silence = silence
        self._clock = clock
        self._alarm: IDelayedCall = clock.callLater(silence, self._fail, Unreached("The server stopped sending data."))
        self.done: Deferred[None] = Deferred(lambda _: self._hang_up())

    def dataReceived(self, data: bytes) -> None:
        if self.done.called:
            return
        self._alarm.reset(self._silence)
        self._left -= len(data)
        if self._left < 0:
            self._fail(FetchError("The data exceeds the maximum image size."))
            return
        try:
            self._file.write(data)
        except OSError as error:
            self._fail(error)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._alarm.active():
            self._alarm.cancel()
        if self.done.called:
            return
        if reason.check(ResponseDone):
            self.done.callback(None)
        else:
            # PotentialDataLoss too: a body without a length that just ends may have been cut off.
            self.done.errback(Unreached("The connection was lost before the end of the data."))

    def _fail(self, error: Exception) -> None:
        if not self.done.called:
            self.done.errback(error)
        self._hang_up()

    def _hang_up(self) -> None:
        if self._alarm.active():
            self._alarm.cancel()
        hang_up(self)


class _Unwanted(Protocol):
    """Hangs up."""

    def connectionMade(self) -> None:
        hang_up(self)


def _leave(response: IResponse | None) -> None:
    """Want nothing of the answer, nor of those that redirected to it: unread, each would keep its connection open."""
    while response is not None:
        response.deliverBody(_Unwanted())
        response = response.previousResponse


@frozen
class Web:
    """Fetches addresses into files."""

    reactor: Any
    options: ImageOptions
    permitted: Permitted

    async def fetch(self, uri: str, path: Path) -> None:
        """Write the data at the address to `path`, anew. Raises FetchError (Unreached: it may work later), OSError."""
        if not (all(each.providedBy(self.reactor) for each in NETWORK)):
            raise FetchError("This cloud has no network access and cannot fetch images.")
        response = await self._request(uri)
        _leave(response if response.code != 200 else response.previousResponse)
        if response.code != 200:
            wrong = Unreached if response.code >= 500 else FetchError
            raise wrong(f"The server answered {response.code}.")
        with path.open("wb") as file:
            body = _Body(file, self.options.max_size, self.options.import_silence, self.reactor)
            response.deliverBody(body)
            await body.done

    async def _request(self, uri: str) -> IResponse:
        # Imported at the first download, so that start-up does not wait for it.
        from treq.client import HTTPClient

        endpoints = _Endpoints(self.reactor, self.options, self.permitted)
        plain = Agent.usingEndpointFactory(self.reactor, endpoints)
        client = HTTPClient(BrowserLikeRedirectAgent(plain, redirectLimit=REDIRECTS))
        try:
            # treq must not buffer the body in memory, nor redirect: it would follow four times as many redirects.
            asked = client.get(uri, unbuffered=True, allow_redirects=False)
            asked.addTimeout(self.options.import_silence + CONNECT_TIMEOUT, self.reactor)
            return await asked
        except FetchError:
            raise
        except (ConnectError, DNSLookupError, TimeoutError) as error:
            raise Unreached(f"The server cannot be reached: {error}") from error
        except ResponseFailed as error:
            _leave(error.response)
            raise _told(error.reasons) from error


def fetches(reactor: Any, options: ImageOptions) -> Fetch:
    """Over the network of `reactor`."""
    return Web(reactor, options, permits(options.import_networks)).fetch


def _told(reasons: Sequence[Failure]) -> FetchError:
    for reason in reasons:
        if isinstance(reason.value, FetchError):
            return reason.value
        if reason.check(InfiniteRedirection, RedirectWithNoLocation):
            return FetchError("The server redirects without an end.")
    return Unreached("The connection was lost before an answer.")
