"""The bus `amqp` with a real RabbitMQ; a real oslo.messaging tells where CLOUDCTL_TEST_OSLO is a Python that has it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from pika import frame, spec
from twisted.internet.defer import Deferred, ensureDeferred, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock, deferLater
from twisted.logger import LogLevel, capturedLogs, formatEvent

from cloudctl.app import SECTIONS, Cloud
from cloudctl.config import build
from cloudctl.drivers.amqp.driver import AmqpBus, Config, create
from cloudctl.drivers.amqp.envelope import pack, unpack
from cloudctl.drivers.bus_interface import BusMessage
from cloudctl.drivers.errors import Unreachable
from cloudctl.drivers.specs import DriverResources

Broker = tuple[str, int]
PATIENCE = 60.0

NOTIFY = """
import sys
import oslo_messaging
from oslo_config import cfg
conf = cfg.ConfigOpts()
conf([])
oslo_messaging.set_transport_defaults(sys.argv[2])
transport = oslo_messaging.get_notification_transport(conf, url=sys.argv[1])
notifier = oslo_messaging.Notifier(
    transport, publisher_id="nova-compute:compute-01", driver="messagingv2", topics=["versioned_notifications"])
notifier.error({}, "compute.host.error", {"nova_object.data": {"host": "compute-01", "forced_down": True}})
"""


async def until(is_so: Callable[[], bool]) -> None:
    from twisted.internet import reactor

    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it never comes"
        await deferLater(cast(IReactorTime, reactor), 0.05)


class Heard(list[BusMessage]):
    """What came; it fails as often as it is told to."""

    failures = 0

    async def hear(self, message: BusMessage) -> None:
        self.append(message)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the database is away")


def bus(broker: Broker, name: str, **options: Any) -> AmqpBus:
    from twisted.internet import reactor

    host, port = broker
    config = Config(endpoint=f"tcp:{host}:{port}", exchange=name, queue=f"{name}.heard", **options)
    return sending(config, reactor)


def sending(config: Config, reactor: Any) -> AmqpBus:
    made = create(config, DriverResources(clock=reactor, name="amqp", reactor=reactor))
    assert isinstance(made, AmqpBus)
    return made


def message(number: int) -> BusMessage:
    id = f"m-{number}"
    return BusMessage(id, "error", {"message_id": id, "event_type": "compute.host.error", "priority": "ERROR"})


@pytest.fixture
def name() -> str:
    """Of an exchange that nobody else has."""
    return f"test-{uuid4().hex[:8]}"


def test_the_envelope_is_oslo_messagings() -> None:
    assert unpack(pack({"a": "ü"})) == {"a": "ü"}
    assert unpack(b'{"event_type": "x"}') == {"event_type": "x"}
    for wrong in (b"", b"[]", b"{", b'{"oslo.version": "3.0", "oslo.message": "{}"}', b'{"oslo.message": 7}'):
        with pytest.raises(ValueError):
            unpack(wrong)


@pytest.mark.slow
async def test_what_goes_comes_in_its_order_and_is_kept_while_nobody_hears(broker: Broker, name: str) -> None:
    first, heard = bus(broker, name), Heard()
    await first.listen(heard.hear)
    sender = bus(broker, name, listen=False)
    # A queue is there once it was listened to; what comes before that is for nobody.
    await until(lambda: first.is_hearing)
    await sender.publish(message(0))
    await until(lambda: len(heard) == 1)
    await first.close()
    for number in range(1, 6):
        await sender.publish(message(number))
    second, later = bus(broker, name), Heard()
    await second.listen(later.hear)
    await until(lambda: len(later) == 5)
    assert [each.id for each in (*heard, *later)] == [f"m-{number}" for number in range(6)]
    await second.close()
    await sender.close()


@pytest.mark.slow
async def test_what_could_not_be_taken_comes_again(broker: Broker, name: str, logged_failures: Any) -> None:
    listener, heard = bus(broker, name), Heard()
    heard.failures = 1
    await listener.listen(heard.hear)
    await until(lambda: listener.is_hearing)
    sender = bus(broker, name, listen=False)
    await sender.publish(message(1))
    await sender.publish(message(2))
    await until(lambda: len(heard) == 3)
    assert [each.id for each in heard] == ["m-1", "m-1", "m-2"]
    assert logged_failures.flush(ConnectionError)
    await listener.close()
    await sender.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
async def test_a_broker_that_is_away_is_told_as_such(name: str, host: str) -> None:
    sender = bus((host, 1), name, timeout=5.0)
    with pytest.raises(Unreachable):
        await sender.publish(message(1))
    await sender.close()


class Mute(Factory):
    """Takes connections and never says anything."""

    noisy = False

    def __init__(self) -> None:
        self.made: list[Any] = []

    def buildProtocol(self, _address: object) -> Any:
        self.made.append(Protocol())
        return self.made[-1]


async def test_a_broker_that_says_nothing_is_tried_again(name: str) -> None:
    """Its machine may have gone without a word, or hang: the next connection may lead to one that answers."""
    from twisted.internet import reactor

    factory = Mute()
    door: Any = cast(Any, reactor).listenTCP(0, factory, interface="127.0.0.1")
    listener = bus(("127.0.0.1", door.getHost().port), name, timeout=0.1)
    await listener.listen(Heard().hear)
    await until(lambda: len(factory.made) > 1 and not any(each.transport.connected for each in factory.made))
    await listener.close()
    await maybeDeferred(door.stopListening)


class Refusing(Protocol):
    """A broker that knows no such user."""

    def dataReceived(self, data: bytes) -> None:
        if data.startswith(b"AMQP"):
            self.say(spec.Connection.Start(server_properties={}, mechanisms="PLAIN", locales="en_US"))
        elif b"PLAIN" in data:
            self.say(spec.Connection.Close(403, "ACCESS_REFUSED", 0, 0))
        else:
            cast(Any, self.transport).loseConnection()

    def say(self, method: Any) -> None:
        cast(Any, self.transport).write(frame.Method(0, method).marshal())


async def test_a_broker_that_refuses_is_told_in_its_own_words(name: str) -> None:
    from twisted.internet import reactor

    door: Any = cast(Any, reactor).listenTCP(0, Factory.forProtocol(Refusing), interface="127.0.0.1")
    sender = bus(("127.0.0.1", door.getHost().port), name)
    with capturedLogs() as lines:
        await sender.listen(Heard().hear)
        with pytest.raises(Unreachable, match="ACCESS_REFUSED"):
            await sender.publish(message(1))
    (line,) = (formatEvent(line) for line in lines if line["log_level"] >= LogLevel.warn)
    assert line == "the bus cannot be reached: (403, 'ACCESS_REFUSED')"
    await sender.close()
    await maybeDeferred(door.stopListening)


class Channels:
    """A connection to a broker that answers when it is told to. Its channels, in the order of their opening."""

    is_open = True

    def __init__(self) -> None:
        self.opening: list[Deferred[Any]] = []
        self.opened: list[Any] = []

    def whenConnected(self, failAfterFailures: int) -> Any:
        return succeed(self)

    def channel(self) -> Any:
        self.opening.append(Deferred())
        return self.opening[-1]

    def answer(self, **methods: Any) -> None:
        """Open the channel that was asked for."""
        names = ("exchange_declare", "confirm_delivery", "basic_publish")
        done = {name: lambda *_, **__: succeed(None) for name in names}
        made = SimpleNamespace(is_open=True, **done | methods)
        made.close = lambda: setattr(made, "is_open", False)
        self.opened.append(made)
        self.opening[-1].callback(made)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> Channels:
    made = Channels()
    monkeypatch.setattr(AmqpBus, "_connected", lambda _: made)
    return made


@pytest.mark.parametrize("publish", [True, False])
def test_events_are_kept_for_a_bus_that_they_are_sent_to(clock: Clock, publish: bool) -> None:
    tables = {"drivers": {"bus": "amqp"}, "driver": {"bus": {"amqp": {"publish": publish}}}}
    cloud = Cloud.in_memory(build(tables, SECTIONS, Path("/nonexistent")), clock)
    assert ("instance.create.end" in cloud.db.wishes) is publish


def test_messages_at_once_share_a_channel(clock: Clock, channels: Channels) -> None:
    sender = sending(Config(), clock)
    going = [ensureDeferred(sender.publish(message(number))) for number in range(2)]
    channels.answer()
    assert [each.called for each in going] == [True, True]
    assert len(channels.opening) == 1


@pytest.mark.parametrize("silent", ["channel", "exchange_declare", "confirm_delivery", "basic_publish"])
def test_a_broker_that_stops_answering_is_told_as_such_and_keeps_no_channel(
    clock: Clock, channels: Channels, silent: str
) -> None:
    sender = sending(Config(timeout=5.0), clock)
    told = failure_of(sender.publish(message(1)))
    if silent != "channel":
        channels.answer(**{silent: lambda *_, **__: Deferred()})
    clock.advance(6.0)
    assert told == [Unreachable]
    if silent == "channel":  # it comes when nobody waits for it any more
        channels.answer()
    assert not any(each.is_open for each in channels.opened)
    again = ensureDeferred(sender.publish(message(1)))
    channels.answer()
    assert again.called


def test_a_broker_has_so_long_for_a_message_however_many_answers_that_takes(clock: Clock, channels: Channels) -> None:
    sender = sending(Config(timeout=5.0), clock)
    told = failure_of(sender.publish(message(1)))
    clock.advance(4.0)
    channels.answer(basic_publish=lambda *_, **__: Deferred())
    clock.advance(0.5)
    assert told == []
    clock.advance(0.5)
    assert told == [Unreachable]


def failure_of(going: Any) -> list[type[BaseException]]:
    """What it raises, once it does."""
    told: list[type[BaseException]] = []
    waiting: Any = ensureDeferred(going)
    waiting.addErrback(lambda failure: told.append(failure.type))
    return told


@pytest.mark.slow
async def test_a_real_publisher_is_heard(broker: Broker, name: str) -> None:
    python = os.environ.get("CLOUDCTL_TEST_OSLO")
    if not python:
        pytest.skip("CLOUDCTL_TEST_OSLO names no Python with oslo.messaging")
    listener, heard = bus(broker, name), Heard()
    await listener.listen(heard.hear)
    await until(lambda: listener.is_hearing)
    url = f"rabbit://guest:guest@{broker[0]}:{broker[1]}/"
    telling = subprocess.Popen([python, "-W", "ignore", "-c", NOTIFY, url, name])
    await until(lambda: len(heard) == 1)
    await until(lambda: telling.poll() is not None)
    (found,) = heard
    assert (found.priority, found.body["publisher_id"]) == ("error", "nova-compute:compute-01")
    assert found.body["event_type"] == "compute.host.error" and found.body["message_id"] == found.id
    assert found.body["payload"]["nova_object.data"]["forced_down"] is True
    await listener.close()
