"""RabbitMQ by pika's Twisted adapter, on a connection that is reopened whenever it breaks.

Incoming messages are in a durable queue of our own, bound to the exchange of the compute services, so they are kept
while this process is away. A message is acknowledged once its listener is done with it; several processes share the
queue. The broker confirms outgoing messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
from attrs import define, field, frozen
from attrs.validators import le
from pika.adapters.twisted_connection import TwistedProtocolConnection
from pika.exceptions import AMQPConnectionError, AMQPError
from twisted.application.internet import ClientService, backoffPolicy
from twisted.internet.defer import CancelledError, Deferred, DeferredLock, TimeoutError, ensureDeferred
from twisted.internet.endpoints import clientFromString
from twisted.internet.error import ConnectError, ConnectionClosed, DNSLookupError
from twisted.internet.protocol import Factory, connectionDone
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from cloudctl.drivers.amqp.envelope import pack, unpack
from cloudctl.drivers.bus_interface import PUBLISH_SECONDS, BusMessage, Hear
from cloudctl.drivers.errors import Unreachable, Unusable
from cloudctl.drivers.interfaces import IBus, IBusListening, IBusPublishing
from cloudctl.drivers.specs import DriverResources
from cloudctl.options import positive
from cloudctl.trouble import Trouble

log = Logger()

HEARTBEAT = 30  # seconds
PAUSES = backoffPolicy()
CONTENT = "application/json"
# A name that does not resolve is an OSError, but not a ConnectError.
TROUBLE = (AMQPError, ConnectError, ConnectionClosed, DNSLookupError, TimeoutError, CancelledError)


@frozen
class Config:
    """`[driver.bus.amqp]`"""

    # A Twisted endpoint of the broker: "tcp:rabbit.example:5672", "tls:rabbit.example:5671".
    endpoint: str = "tcp:127.0.0.1:5672"
    username: str = "guest"
    password: str = field(default="guest", repr=False)
    virtual_host: str = "/"
    # Of the compute services: `control_exchange`, and whether `amqp_durable_queues` makes it durable.
    exchange: str = "nova"
    durable_exchange: bool = False
    # The queue that keeps incoming messages until they were heard, and the routing keys bound to it.
    queue: str = "cloudctl.instance_ha"
    keys: tuple[str, ...] = ("notifications.error", "versioned_notifications.error")
    # Where our own notifications are sent: TOPIC.info and TOPIC.error.
    topic: str = "versioned_notifications"
    # Whether they are sent at all, and whether others' are heard.
    publish: bool = True
    listen: bool = True
    # Seconds in which the broker must take a message.
    timeout: float = field(default=10.0, validator=[positive, le(PUBLISH_SECONDS)])


def create(config: Config, resources: DriverResources) -> HearingBus:
    return (AmqpBus if config.publish else HearingBus)(config, resources.reactor)


class _Connection(TwistedProtocolConnection):  # type: ignore[misc]  # its types are not told to mypy
    """If it is refused, it says why, in the broker's words, which pika forgets when the connection is lost."""

    ready: Any  # a Deferred until it is there or refused, then None
    _said: Any = None

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._said = getattr(self._impl, "_error", None)
        super().connectionLost(reason)

    def _on_connection_failed(self, connection: Any, error: Any = None) -> None:
        refused, self.ready = self.ready, None
        if refused is not None:
            refused.errback(self._said or error or AMQPConnectionError("it was closed"))


class _Connections(Factory):
    """One connection after another, each with its channel."""

    noisy = False

    def __init__(self, bus: HearingBus) -> None:
        self.bus = bus

    def buildProtocol(self, _address: object) -> _Connection:
        config = self.bus.config
        parameters = pika.ConnectionParameters(
            virtual_host=config.virtual_host,
            credentials=pika.PlainCredentials(config.username, config.password),
            heartbeat=HEARTBEAT,
            client_properties={"connection_name": "cloudctl"},
        )
        return _Connection(parameters, custom_reactor=self.bus.reactor)


@implementer(IBus, IBusListening)
@define(eq=False)
class HearingBus:
    """Nothing is sent to it: then nobody need keep events for it."""

    config: Config
    reactor: Any  # None in a cloud in memory
    _service: ClientService | None = None
    _hear: Hear | None = None
    _hearing: Deferred[None] | None = None
    is_hearing: bool = False  # its queue is there
    _failed: int = 0  # connections in a row that were none
    _refusal: str = ""  # why the last one was none
    _away: Trouble = field(
        factory=lambda: Trouble(log, "the bus cannot be reached", "the bus is heard again"), init=False
    )

    async def check(self) -> None:
        """The broker may be away at start-up."""
        if self.reactor is None:
            raise Unusable("a cloud in memory reaches no broker")
        try:
            clientFromString(self.reactor, self.config.endpoint)
        except Exception as error:  # endpoint parsers are plugins and raise what they like
            raise Unusable(f"endpoint: {self.config.endpoint!r}: {error}") from error

    async def close(self) -> None:
        if self._service is not None:
            service, self._service = self._service, None
            # Not from within a callback of the service: it would be stopped in the middle of a step.
            await deferLater(self.reactor, 0, service.stopService)
        if self._hearing is not None:
            self._hearing.cancel()

    # -- connections

    async def _declare(self, channel: Any) -> None:
        asked = channel.exchange_declare(self.config.exchange, "topic", durable=self.config.durable_exchange)
        await _apart(asked)

    def _connected(self) -> ClientService:
        if self._service is None:
            endpoint = clientFromString(self.reactor, self.config.endpoint)
            self._service = ClientService(
                endpoint, _Connections(self), retryPolicy=self._pause, prepareConnection=self._prepare
            )
            self._service.startService()
        return self._service

    def _pause(self, _attempt: int) -> float:
        """Seconds until the next connection. The service has counted none that was made and then refused."""
        self._failed += 1
        return PAUSES(self._failed)

    def _prepare(self, connection: TwistedProtocolConnection) -> Deferred[None]:
        return ensureDeferred(self._begin(connection))

    async def _begin(self, connection: TwistedProtocolConnection) -> None:
        """There is a connection. Another one is made after a while if this one is refused, or its broker is silent."""
        try:
            # Heartbeats only begin after this.
            await connection.ready.addTimeout(self.config.timeout, self.reactor)
        except TROUBLE as error:
            self._refusal = _told(error)
            self._away.is_met(self._refusal)
            # The service makes another connection once this one is lost, and only then: it must not fail before.
            connection.transport.abortConnection()
            return
        self._failed = 0
        if self._hear is not None:
            self._start_hearing(connection)
        else:
            self._away.is_over()

    # -- incoming

    async def listen(self, hear: Hear) -> None:
        if self.config.listen:
            self._hear = hear
            self._connected()

    def _start_hearing(self, connection: TwistedProtocolConnection) -> None:
        self._hearing = ensureDeferred(self._consume(connection))
        self._hearing.addErrback(lambda failure: self._broke_off(connection, failure))

    async def _consume(self, connection: TwistedProtocolConnection) -> None:
        channel = await connection.channel()
        await self._declare(channel)
        await channel.queue_declare(self.config.queue, durable=True)
        for key in self.config.keys:
            await channel.queue_bind(self.config.queue, self.config.exchange, key)
        # One at a time: they are heard in order, and one that is not done with comes again.
        await channel.basic_qos(prefetch_count=1)
        queue, _tag = await channel.basic_consume(self.config.queue)
        self.is_hearing = True
        self._away.is_over()
        while True:
            received = await queue.get()
            tag = received.method.delivery_tag
            try:
                message = _message(received)
            except ValueError as error:
                log.warn("dropped a message on the bus that is not understood: {error}", error=error)
            else:
                assert self._hear is not None, "somebody listens"
                await self._hear(message)
            channel.basic_ack(tag)

    def _broke_off(self, connection: TwistedProtocolConnection, failure: Any) -> None:
        """Whatever the reason: drop the connection; the next one begins again with what was not done."""
        self.is_hearing = False
        if self._service is None:
            return
        if failure.check(*TROUBLE):
            self._away.is_met(failure.value)
        else:
            log.failure("a message on the bus could not be processed; it will be redelivered", failure)
        if connection.transport is not None:
            connection.transport.loseConnection()


@implementer(IBusPublishing)
@define(eq=False)
class AmqpBus(HearingBus):
    _channel: Any = None  # for outgoing messages, while there is a connection
    _opening: DeferredLock = field(factory=DeferredLock)

    async def publish(self, message: BusMessage) -> None:
        """Raises Unreachable."""
        try:
            await ensureDeferred(self._send(message)).addTimeout(self.config.timeout, self.reactor)
        except TROUBLE as error:
            channel, self._channel = self._channel, None
            _close(channel)
            raise Unreachable(_told(error)) from error

    async def _send(self, message: BusMessage) -> None:
        channel = await self._open()
        properties = pika.BasicProperties(
            content_type=CONTENT, content_encoding="utf-8", delivery_mode=2, message_id=message.id, priority=0
        )
        key = f"{self.config.topic}.{message.priority}"
        await _apart(channel.basic_publish(self.config.exchange, key, pack(message.body), properties))

    async def _open(self) -> Any:
        async with self._opening:
            if self._channel is not None and self._channel.is_open:
                return self._channel
            connection: Any = await self._connected().whenConnected(failAfterFailures=1)
            if not connection.is_open:
                raise AMQPConnectionError(self._refusal)
            channel = await _apart(connection.channel(), _close)
            try:
                await self._declare(channel)
                await _apart(channel.confirm_delivery())
            except BaseException:
                _close(channel)
                raise
            self._channel = channel
            return channel


def _message(received: Any) -> BusMessage:
    """Raises ValueError."""
    body = unpack(received.body)
    id = body.get("message_id") or received.properties.message_id
    if not isinstance(id, str) or not id:
        raise ValueError("it has no message_id")
    return BusMessage(id, str(body.get("priority", "")).lower(), body)


def _apart(asked: Any, unwanted: Callable[[Any], object] = lambda _: None) -> Deferred[Any]:
    """What was asked of the broker, which may still answer when nobody waits for it any more: then it is `unwanted`.

    pika does not know of cancelled Deferreds: it fires them once more when the connection is lost, and stops there.
    """
    waiting: Deferred[Any] = Deferred()

    def answered(answer: Any) -> None:
        if not waiting.called:
            waiting.callback(answer)
        elif not isinstance(answer, Failure):
            unwanted(answer)

    asked.addBoth(answered)
    return waiting


def _close(channel: Any) -> None:
    """Otherwise it would stay open as long as its connection."""
    if channel is not None and channel.is_open:
        channel.close()


def _told(error: Any) -> str:
    return "its broker says nothing" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
