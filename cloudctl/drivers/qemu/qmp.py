"""QMP, the protocol that watches and controls a QEMU process, for Twisted.

    monitor = await connect(reactor, clock, "/run/…/guest.qmp", on_event=print)
    await monitor.execute("block_resize", {"node-name": "root", "size": 1 << 30})

Answers are matched to commands by id, so commands can be sent without waiting. Source: QEMU's documents
«QEMU Machine Protocol Specification» and «QEMU QMP Reference Manual».
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import orjson
from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.error import ConnectError, ConnectionDone
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.protocols.basic import LineReceiver
from twisted.python.failure import Failure

from cloudctl.drivers.errors import DriverError, Unreachable

CONNECT_SECONDS = 5.0
Event = Callable[[str, Mapping[str, Any]], None]
Wanted = Callable[[Mapping[str, Any]], bool]

_log = Logger()


class Refused(DriverError):
    """QEMU answered a command with an error. `kind` is its class: GenericError, DeviceNotFound, …"""

    def __init__(self, command: str, kind: str, description: str) -> None:
        super().__init__(f"{command}: {description}")
        self.command = command
        self.kind = kind
        self.description = description


class Silent(Unreachable):
    """QEMU did not answer in time. What became of the command is unknown."""


class Gone(Unreachable):
    """The connection is lost: QEMU has ended, or never listened."""


@define(eq=False)
class _Waiting:
    """A wait for an answer or an event."""

    what: str
    result: Deferred[Any]
    limit: IDelayedCall
    wanted: Wanted | None = None


class Monitor(LineReceiver):
    """One QMP connection. `ready` fires after the handshake, `lost` (with None) when the connection is gone.

    QEMU serves one connection at a time, so one whose handshake fails or is not awaited any more is closed.
    """

    delimiter = b"\r\n"
    MAX_LENGTH = 1 << 24

    def __init__(self, clock: IReactorTime, timeout: float, on_event: Event | None = None) -> None:
        self.clock = clock
        self.timeout = timeout
        self.on_event = on_event
        self.ready: Deferred[None] = Deferred(lambda _: self.close())
        self.lost: Deferred[None] = Deferred()
        self.is_lost = False
        self._numbers = count(1)
        self._answers: dict[int, _Waiting] = {}
        self._events: list[_Waiting] = []
        self._handshake: IDelayedCall | None = None

    # -- called by drivers

    def execute(
        self,
        command: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        descriptor: int | None = None,
    ) -> Deferred[Any]:
        """What QEMU returns. `descriptor`: an open file that is sent with the command (`getfd`).

        Raises Refused, Silent, Gone.
        """
        if self.is_lost:
            return _failed(Gone(f"{command}: QEMU does not listen"))
        number = next(self._numbers)
        result: Deferred[Any] = Deferred(lambda _: self._forget(number))
        limit = self.clock.callLater(self.timeout if timeout is None else timeout, self._too_late, number)
        self._answers[number] = _Waiting(command, result, limit)
        message: dict[str, Any] = {"execute": command, "id": number}
        if arguments:
            message["arguments"] = arguments
        if descriptor is not None:
            self.transport.sendFileDescriptor(descriptor)  # type: ignore[union-attr]  # a UNIX socket's transport
        self.sendLine(orjson.dumps(message))
        return result

    def expect(self, event: str, wanted: Wanted | None = None, timeout: float | None = None) -> Deferred[Any]:
        """The data of the next such event from now on. Cancel it if it is not awaited. Raises Silent, Gone."""
        if self.is_lost:
            return _failed(Gone(f"no {event}: QEMU does not listen"))
        result: Deferred[Any] = Deferred(lambda _: self._ignore(waiting))
        limit = self.clock.callLater(self.timeout if timeout is None else timeout, self._no_event, event, result)
        waiting = _Waiting(event, result, limit, wanted)
        self._events.append(waiting)
        return result

    def close(self) -> None:
        """Close the connection; QEMU goes on."""
        if self.transport is not None and not self.is_lost:
            self.transport.loseConnection()

    # -- what arrives

    def connectionMade(self) -> None:
        self._handshake = self.clock.callLater(self.timeout, self._no_greeting)

    def lineReceived(self, line: bytes) -> None:
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            _log.error("QEMU sent a line that is not JSON: {line!r}", line=line[:200])
            self.close()
            return
        if "QMP" in message:
            self._greeted()
        elif "event" in message:
            self._event(message["event"], message.get("data", {}))
        else:
            self._answer(message)

    def connectionLost(self, reason: Failure = ConnectionDone) -> None:  # type: ignore[assignment]  # as LineReceiver
        self.is_lost = True
        if self._handshake is not None and self._handshake.active():
            self._handshake.cancel()
        waiting = [*self._answers.values(), *self._events]
        self._answers, self._events = {}, []
        for each in waiting:
            _end(each, Failure(Gone(f"{each.what}: QEMU closed the connection")))
        if not self.ready.called:
            self.ready.errback(Failure(Gone("QEMU closed the connection before its greeting")))
        self.lost.callback(None)

    def _greeted(self) -> None:
        if self._handshake is not None and self._handshake.active():
            self._handshake.cancel()
        self.execute("qmp_capabilities").addBoth(self._shaken)

    def _shaken(self, outcome: Any) -> None:
        if isinstance(outcome, Failure):
            self.close()
        if not self.ready.called:
            self.ready.callback(outcome if isinstance(outcome, Failure) else None)

    def _answer(self, message: Mapping[str, Any]) -> None:
        waiting = self._answers.pop(message.get("id", 0), None)
        if waiting is None:
            return  # given up before
        if "error" in message:
            error = message["error"]
            _end(waiting, Failure(Refused(waiting.what, error["class"], error["desc"])))
        else:
            _end(waiting, message["return"])

    def _event(self, name: str, data: Mapping[str, Any]) -> None:
        found = [each for each in self._events if each.what == name and (each.wanted is None or each.wanted(data))]
        self._events = [each for each in self._events if each not in found]
        for each in found:
            _end(each, data)
        if self.on_event is not None:
            self.on_event(name, data)

    # -- what does not arrive

    def _no_greeting(self) -> None:
        if not self.ready.called:
            self.ready.errback(Failure(Silent("QEMU did not greet in time")))
        self.close()

    def _too_late(self, number: int) -> None:
        waiting = self._answers.pop(number)
        waiting.result.errback(Failure(Silent(f"{waiting.what}: QEMU did not answer in time")))

    def _no_event(self, event: str, result: Deferred[Any]) -> None:
        self._events = [each for each in self._events if each.result is not result]
        result.errback(Failure(Silent(f"no {event} in time")))

    def _forget(self, number: int) -> None:
        waiting = self._answers.pop(number, None)
        if waiting is not None:
            waiting.limit.cancel()

    def _ignore(self, waiting: _Waiting) -> None:
        self._events = [each for each in self._events if each is not waiting]
        if waiting.limit.active():
            waiting.limit.cancel()


async def connect(
    reactor: Any, clock: IReactorTime, path: str, timeout: float, on_event: Event | None = None
) -> Monitor:
    """A connection whose handshake is done. QEMU serves one at a time. Raises Gone, Silent."""
    endpoint = UNIXClientEndpoint(reactor, path, timeout=CONNECT_SECONDS)
    factory = Factory.forProtocol(lambda: Monitor(clock, timeout, on_event))
    factory.noisy = False  # otherwise each start and stop of a connection is logged
    try:
        monitor: Monitor = await endpoint.connect(factory)
    except ConnectError as error:
        raise Gone(f"nothing is listening at {path}: {error}") from error
    await monitor.ready
    return monitor


def _end(waiting: _Waiting, result: Any) -> None:
    if waiting.limit.active():
        waiting.limit.cancel()
    waiting.result.callback(result)


def _failed(error: Exception) -> Deferred[Any]:
    failed: Deferred[Any] = Deferred()
    failed.errback(Failure(error))
    return failed


def drop(waiting: Deferred[Any]) -> None:
    """Stop waiting for this, whatever becomes of it."""
    waiting.addErrback(lambda _: None)
    waiting.cancel()
