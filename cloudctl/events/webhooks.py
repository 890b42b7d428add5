"""Events by HTTP: a POST for each, signed as «Standard Webhooks» has it, so that stock libraries verify it.

webhook-id: the event's message_id
webhook-timestamp: seconds since the epoch
webhook-signature: v1,BASE64(HMAC-SHA256(secret, "ID.TIMESTAMP.BODY"))
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from attrs import frozen
from twisted.internet.defer import CancelledError, TimeoutError
from twisted.internet.error import ConnectError, ConnectingCancelledError, ConnectionClosed, DNSLookupError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol
from twisted.web.client import URI, Agent, RequestTransmissionFailed, ResponseFailed
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from cloudctl.drivers.answers import hang_up
from cloudctl.events.delivery import Undelivered
from cloudctl.events.envelope import envelope
from cloudctl.events.options import WebhookOptions, key
from cloudctl.events.tables import Event
from cloudctl.rest.outgoing import NETWORK, FetchError, Permitted, PublicEndpoint

# Statuses by which a receiver says that it will never take an event, however often it is sent.
REFUSALS = frozenset({400, 413, 415, 422})

# The status of the answer to a POST. Raises FetchError: there was none.
Post = Callable[[str, bytes, Mapping[str, str]], Awaitable[int]]


def sign(secret: str, id: str, timestamp: int, body: bytes) -> str:
    digest = hmac.new(key(secret), b"%s.%d.%s" % (id.encode(), timestamp, body), "sha256").digest()
    return "v1," + base64.b64encode(digest).decode()


@frozen
class Webhook:
    """A receiver of events. Redirects are not followed: only the operator decides where events go."""

    options: WebhookOptions
    clock: IReactorTime
    post: Post

    async def send(self, event: Event) -> bool:
        """Whether it took the event; False: it never will. Raises Undelivered."""
        try:
            status = await self._send(event)
        except FetchError as error:
            raise Undelivered(error.message) from error
        if status not in REFUSALS and not 200 <= status < 300:
            raise Undelivered(f"it answers {status}")
        return status not in REFUSALS

    async def _send(self, event: Event) -> int:
        body, now = orjson.dumps(envelope(event)), int(self.clock.seconds())
        headers = {
            "content-type": "application/json",
            "webhook-id": event.id,
            "webhook-timestamp": str(now),
            "webhook-signature": sign(self.options.secret, event.id, now, body),
        }
        return await self.post(self.options.url, body, headers)


@implementer(IAgentEndpointFactory)
@frozen
class _Endpoints:
    reactor: Any
    permitted: Permitted

    def endpointForURI(self, uri: URI) -> PublicEndpoint:
        return PublicEndpoint(self.reactor, uri, self.permitted)


class _Unread(Protocol):
    """An answer's body is of no interest, and may be endless."""

    def connectionMade(self) -> None:
        hang_up(self)


@frozen
class Poster:
    """Sends from this process, to permitted addresses."""

    reactor: Any
    permitted: Permitted
    timeout: float

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        if not all(each.providedBy(self.reactor) for each in NETWORK):
            raise FetchError("This cloud has no network access.")
        from treq.client import HTTPClient  # here, so that startup does not wait for it

        agent = Agent.usingEndpointFactory(self.reactor, _Endpoints(self.reactor, self.permitted))
        sent = Headers({name: [value] for name, value in headers.items()})
        asked = HTTPClient(agent).post(url, data=body, headers=sent, allow_redirects=False, unbuffered=True)
        asked.addTimeout(self.timeout, self.reactor)
        try:
            answer = await asked
        except FetchError:
            raise
        except (ConnectingCancelledError, TimeoutError, CancelledError) as error:
            raise FetchError(f"there was no answer within {self.timeout:g} seconds") from error
        except (ConnectError, ConnectionClosed, DNSLookupError) as error:
            raise FetchError(f"it cannot be reached: {error or type(error).__name__}") from error
        except (ResponseFailed, RequestTransmissionFailed) as error:
            raise FetchError("the connection was lost before an answer") from error
        answer.deliverBody(_Unread())
        return int(answer.code)
