"""RabbitMQ by pika's Twisted adapter, on a connection that is reopened whenever it breaks.

Incoming messages are in a durable queue of our own, bound to the exchange of the compute services, so they are kept
while this process is away. A message is acknowledged once its listener is done with it; several processes share the
queue. The broker confirms outgoing messages.
"""

from __future__ import annotations

from typing import Any

import pika
from attrs import define, field, frozen
from attrs.validators import le
from pika.adapters.twisted_connection import TwistedProtocolConnection
from pika.exceptions import AMQPError
from twisted.application.internet import ClientService
from twisted.internet.defer import CancelledError, Deferred, DeferredLock, TimeoutError, ensureDeferred
from twisted.internet.endpoints import clientFromString
from twisted.internet.error import ConnectError, ConnectionClosed, DNSLookupError
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.logger import Logger
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


class _Connections(Factory):
    """One connection after another, each with its channel."""

    noisy = False

    def __init__(self, bus: HearingBus) -> None:
        self.bus = bus

    def buildProtocol(self, _address: object) -> TwistedProtocolConnection:
        config = self.bus.config
        parameters = pika.ConnectionParameters(
            virtual_host=config.virtual_host,
            credentials=pika.PlainCredentials(config.username, config.password),
            heartbeat=HEARTBEAT,
            client_properties={"connection_name": "cloudctl"},
        )
        return TwistedProtocolConnection(parameters, custom_reactor=self.bus.reactor)


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
        await channel.exchange_declare(self.config.exchange, "topic", durable=self.config.durable_exchange)

    def _connected(self) -> ClientService:
        if self._service is None:
            endpoint = clientFromString(self.reactor, self.config.endpoint)
            self._service = ClientService(endpoint, _Connections(self), prepareConnection=self._prepare)
            self._service.startService()
        return self._service

    def _prepare(self, connection: TwistedProtocolConnection) -> Deferred[None]:
        return ensureDeferred(self._begin(connection))

    async def _begin(self, connection: TwistedProtocolConnection) -> None:
        """There is a connection. If this fails, another one is made after a while."""
        try:
            # Heartbeats only begin after this.
            await connection.ready.addTimeout(self.config.timeout, self.reactor)
        except TimeoutError:
            self._away.is_met("its broker says nothing")
            # The service makes another connection once this one is lost.
            connection.transport.abortConnection()
            return
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
        await channel.basic_publish(self.config.exchange, key, pack(message.body), properties)

    async def _open(self) -> Any:
        async with self._opening:
            if self._channel is not None and self._channel.is_open:
                return self._channel
            connection: Any = await self._connected().whenConnected(failAfterFailures=1)
            channel = await connection.channel()
            try:
                await self._declare(channel)
                await channel.confirm_delivery()
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


def _close(channel: Any) -> None:
    """Otherwise it would stay open as long as its connection."""
    if channel is not None and channel.is_open:
        channel.close()


def _told(error: Any) -> str:
    return str(error) or type(error).__name__
