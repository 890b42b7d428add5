"""The QMP protocol over a transport in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from cloudctl.drivers.qemu.qmp import Gone, Monitor, Refused, Silent, drop

GREETING = {"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": []}}


class Transport(StringTransport):
    """Remembers the descriptors that were sent, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.descriptors: list[tuple[int, int]] = []

    def sendFileDescriptor(self, descriptor: int) -> None:
        self.descriptors.append((descriptor, len(self.value())))


class Peer:
    """The other end of a monitor."""

    def __init__(self, on_event: Callable[..., None] | None = None) -> None:
        self.clock = Clock()
        self.transport = Transport()
        self.monitor = Monitor(self.clock, 5.0, on_event)
        self.monitor.makeConnection(self.transport)

    def says(self, *messages: Any) -> None:
        for message in messages:
            self.monitor.dataReceived(orjson.dumps(message) + b"\r\n")

    def was_told(self) -> list[Any]:
        told = [orjson.loads(line) for line in self.transport.value().splitlines()]
        self.transport.clear()
        return told

    def hangs_up(self) -> None:
        self.monitor.connectionLost(Failure(ConnectionDone()))


@pytest.fixture
def peer() -> Peer:
    """After the handshake."""
    made = Peer()
    made.says(GREETING, {"return": {}, "id": 1})
    made.was_told()
    return made


def result(deferred: Deferred[Any]) -> Any:
    """What it fired with; raises what it failed with."""
    outcome: list[Any] = []
    deferred.addBoth(outcome.append)
    assert outcome, "it has not fired"
    if isinstance(outcome[0], Failure):
        outcome[0].raiseException()
    return outcome[0]


def test_the_handshake_ends_before_anything_else() -> None:
    peer = Peer()
    assert peer.was_told() == []
    peer.says(GREETING)
    assert peer.was_told() == [{"execute": "qmp_capabilities", "id": 1}]
    assert not peer.monitor.ready.called
    peer.says({"return": {}, "id": 1})
    assert result(peer.monitor.ready) is None


def test_a_qemu_that_does_not_greet_is_given_up() -> None:
    peer = Peer()
    peer.clock.advance(5.0)
    with pytest.raises(Silent):
        result(peer.monitor.ready)
    assert peer.transport.disconnecting
    peer.hangs_up()


def test_one_that_greets_and_says_no_more_is_left_alone() -> None:
    """It serves one connection at a time, so this one would keep the next one from being greeted, for ever."""
    peer = Peer()
    peer.says(GREETING)
    peer.clock.advance(5.0)
    with pytest.raises(Silent):
        result(peer.monitor.ready)
    assert peer.transport.disconnecting


def test_nothing_is_left_of_a_connection_that_nobody_waits_for_any_more() -> None:
    peer = Peer()
    peer.monitor.ready.cancel()
    with pytest.raises(CancelledError):
        result(peer.monitor.ready)
    assert peer.transport.disconnecting
    peer.hangs_up()
    assert peer.clock.getDelayedCalls() == []


def test_answers_find_their_commands_by_id(peer: Peer) -> None:
    first = peer.monitor.execute("query-status")
    second = peer.monitor.execute("block_resize", {"node-name": "n", "size": 1})
    assert peer.was_told() == [
        {"execute": "query-status", "id": 2},
        {"execute": "block_resize", "id": 3, "arguments": {"node-name": "n", "size": 1}},
    ]
    peer.says({"return": {}, "id": 3}, {"return": {"status": "running"}, "id": 2})
    assert (result(first), result(second)) == ({"status": "running"}, {})
    assert peer.clock.getDelayedCalls() == []


def test_an_error_is_refused_with_its_class_and_words(peer: Peer) -> None:
    asked = peer.monitor.execute("device_del", {"id": "x"})
    peer.says({"error": {"class": "DeviceNotFound", "desc": "Device 'x' not found"}, "id": 2})
    with pytest.raises(Refused, match="device_del: Device 'x' not found") as caught:
        result(asked)
    assert caught.value.kind == "DeviceNotFound"


def test_a_command_without_an_answer_is_given_up_and_its_late_answer_dropped(peer: Peer) -> None:
    late = peer.monitor.execute("query-status")
    long = peer.monitor.execute("migrate", timeout=60.0)
    peer.clock.advance(5.0)
    with pytest.raises(Silent):
        result(late)
    peer.says({"return": {}, "id": 2}, {"return": {"done": True}, "id": 3})
    assert result(long) == {"done": True}


def test_all_who_wait_learn_of_the_end(peer: Peer) -> None:
    asked, expected = peer.monitor.execute("query-status"), peer.monitor.expect("SHUTDOWN")
    peer.hangs_up()
    for waiting in (asked, expected, peer.monitor.execute("query-status"), peer.monitor.expect("STOP")):
        with pytest.raises(Gone):
            result(waiting)
    assert result(peer.monitor.lost) is None
    assert peer.clock.getDelayedCalls() == []


def test_events_go_to_who_expects_them_and_to_who_listens() -> None:
    seen: list[Any] = []
    peer = Peer(lambda name, data: seen.append((name, data)))
    peer.says(GREETING, {"return": {}, "id": 1})
    waiting = peer.monitor.expect("DEVICE_DELETED", lambda data: data.get("device") == "b")
    peer.says({"event": "DEVICE_DELETED", "data": {"device": "a"}}, {"event": "STOP"})
    assert not waiting.called
    peer.says({"event": "DEVICE_DELETED", "data": {"device": "b"}})
    assert result(waiting) == {"device": "b"}
    assert seen == [("DEVICE_DELETED", {"device": "a"}), ("STOP", {}), ("DEVICE_DELETED", {"device": "b"})]


def test_an_event_that_does_not_come_is_given_up(peer: Peer) -> None:
    waiting = peer.monitor.expect("SHUTDOWN", timeout=2.0)
    peer.clock.advance(2.0)
    with pytest.raises(Silent):
        result(waiting)
    peer.says({"event": "SHUTDOWN", "data": {}})


def test_what_is_dropped_leaves_nothing_behind(peer: Peer) -> None:
    drop(peer.monitor.expect("SHUTDOWN"))
    drop(peer.monitor.execute("query-status"))
    assert peer.clock.getDelayedCalls() == []
    peer.says({"event": "SHUTDOWN", "data": {}}, {"return": {}, "id": 2})


def test_a_descriptor_goes_before_its_command(peer: Peer) -> None:
    drop(peer.monitor.execute("getfd", {"fdname": "memory"}, descriptor=7))
    assert peer.transport.descriptors == [(7, 0)]
    assert peer.was_told()[0]["execute"] == "getfd"


def test_a_line_that_is_no_json_ends_the_connection(peer: Peer) -> None:
    peer.monitor.dataReceived(b"hello\r\n")
    assert peer.transport.disconnecting
