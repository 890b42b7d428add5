"""Uploads through the site while their data are being written by others: who waits, who is late, what is left."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.abstract import FileDescriptor
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, execute
from twisted.internet.error import ConnectionLost
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from cloudctl.rest.site import UPLOAD_READ
from cloudctl.rest.spool import ROOM
from cloudctl.testing.http import encode, parse
from tests.rest.test_request_pipeline import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Uploading:
    """An upload whose data are written when a test says so."""

    def __init__(self, world: World, size: int) -> None:
        self.writes: list[tuple[Callable[[], None], Deferred[None]]] = []
        assert world.site.uploads is not None
        uploads = world.site.uploads["compute"]
        uploads.run, uploads.limit = self.run, size
        self.transport = StringTransport()
        self.channel: Any = world.site.buildProtocol(IPv4Address("TCP", "192.0.2.1", 1))
        self.channel.makeConnection(self.transport)
        headers = {"X-Auth-Token": "admin", "Content-Type": "application/octet-stream", "Content-Length": str(size)}
        self.channel.dataReceived(encode("PUT", "/compute/v2.1/file", headers, b""))

    def run(self, fn: Callable[..., None], *args: object) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.writes.append((partial(fn, *args), done))
        return done

    def work(self) -> None:
        write, done = self.writes.pop(0)
        execute(write).chainDeferred(done)


def test_a_client_who_sends_faster_than_the_disk_waits_and_is_not_late(world: World, tmp_path: Path) -> None:
    uploading = Uploading(world, 2 * ROOM)
    uploading.channel.dataReceived(b"x" * ROOM)
    assert uploading.transport.producerState == "producing"
    uploading.channel.dataReceived(b"y" * (ROOM - 1))
    uploading.channel.dataReceived(b"y")
    assert (uploading.transport.value(), len(uploading.writes)) == (b"", 1)
    uploading.work()
    uploading.work()
    assert parse(uploading.transport.value(), "PUT").status == 204
    assert (tmp_path / "kept").read_bytes() == b"x" * ROOM + b"y" * ROOM

    uploading = Uploading(world, 3 * ROOM)
    uploading.channel.dataReceived(b"x" * ROOM)
    uploading.channel.dataReceived(b"y" * ROOM)
    assert uploading.transport.producerState == "paused"
    world.clock.pump([10.0] * 50)
    assert not uploading.transport.disconnecting
    uploading.work()
    assert uploading.transport.producerState == "producing"
    world.clock.pump([10.0] * 50)
    assert uploading.transport.disconnecting  # now it is the client who sends nothing


def test_a_client_who_is_gone_while_data_is_written_leaves_nothing(world: World, tmp_path: Path) -> None:
    uploading = Uploading(world, ROOM)
    uploading.channel.dataReceived(b"x" * ROOM)
    uploading.channel.connectionLost(Failure(ConnectionLost()))
    uploading.work()
    assert (list((tmp_path / "spool").iterdir()), (tmp_path / "kept").exists()) == ([], False)


def test_a_write_that_fails_is_answered(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uploading = Uploading(world, ROOM)
    uploading.channel.dataReceived(b"x" * ROOM)
    _write, done = uploading.writes.pop()
    done.errback(OSError(28, "No space left on device"))
    assert parse(uploading.transport.value(), "PUT").status == 503
    assert list((tmp_path / "spool").iterdir()) == []


def test_more_is_read_at_once_while_an_upload_comes_and_no_longer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloudctl.rest.site.SMALL", 9)
    monkeypatch.setattr("cloudctl.rest.site.plain", lambda request: request.channel.transport)
    uploading = Uploading(world, 10)
    transport: Any = uploading.transport
    assert transport.bufferSize == UPLOAD_READ
    uploading.channel.dataReceived(b"x" * 10)
    assert transport.bufferSize == FileDescriptor.bufferSize
