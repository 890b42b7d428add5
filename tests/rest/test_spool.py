"""Uploads on their way to their files: in order, a piece at a time, with a bound on what is in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, cast

import pytest
from attrs import define, field
from twisted.internet.defer import Deferred, execute
from twisted.python.failure import Failure

from cloudctl.rest import spool
from cloudctl.rest.spool import PIECE, ROOM, Memory, Spool


@define
class Hand:
    """Threads that do something when they are told to."""

    waiting: list[tuple[Callable[..., None], tuple[object, ...], Deferred[None]]] = field(factory=list)

    def run(self, fn: Callable[..., None], *args: object) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.waiting.append((fn, args, done))
        return done

    def work(self) -> None:
        fn, args, done = self.waiting.pop(0)
        execute(fn, *args).chainDeferred(done)


@define
class World:
    directory: Path
    hand: Hand = field(factory=Hand)
    memory: Memory = field(factory=Memory)
    rooms: list[None] = field(factory=list)
    failures: list[Failure] = field(factory=list)

    def spool(self, file: IO[bytes] | None = None) -> Spool:
        return Spool(
            file or cast(IO[bytes], tempfile.NamedTemporaryFile(dir=self.directory)),
            self.hand.run,
            self.memory,
            lambda: self.rooms.append(None),
            self.failures.append,
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def read(made: Spool) -> bytes:
    made.file.seek(0)
    return made.file.read()


def test_a_small_upload_needs_no_other_thread(world: World) -> None:
    made = world.spool()
    made.add(b"ab")
    made.add(b"c")
    assert made.end().called
    assert (read(made), world.hand.waiting, world.memory.held) == (b"abc", [], 0)


def test_pieces_are_written_in_order_one_at_a_time(world: World) -> None:
    made, parts = world.spool(), [bytes([number]) * (PIECE // 2) for number in range(9)]
    for part in parts[:4]:
        made.add(part)
    assert len(world.hand.waiting) == 1
    world.hand.work()
    for part in parts[4:]:
        made.add(part)
    ended = made.end()
    while world.hand.waiting:
        assert (len(world.hand.waiting), ended.called) == (1, False)
        world.hand.work()
    assert ended.called
    assert (read(made), world.memory.held) == (b"".join(parts), 0)


def test_who_sends_faster_than_the_disk_waits(world: World) -> None:
    made = world.spool()
    made.add(b"x" * PIECE)
    made.add(b"x" * (ROOM - 1))
    assert not made.is_full
    made.add(b"x")
    assert (made.is_full, world.rooms) == (True, [])
    world.hand.work()
    assert (made.is_full, len(world.rooms), world.memory.held) == (False, 1, ROOM)


def test_what_all_uploads_have_in_memory_is_bounded_and_each_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "ROOM_FOR_ALL", 2 * PIECE)
    first, second = world.spool(), world.spool()
    first.add(b"x" * 2 * PIECE)
    second.add(b"y" * (spool.SMALL + 1))  # less than a piece, and yet it does not wait for more
    assert (first.is_full, second.is_full, len(world.hand.waiting)) == (True, True, 2)
    second.add(b"z")
    world.hand.work()
    world.hand.work()
    assert (first.is_full, second.is_full, len(world.rooms)) == (False, False, 2)
    ended = second.end()
    world.hand.work()
    assert ended.called
    assert (read(second)[-2:], world.memory.held) == (b"yz", 0)


def test_an_upload_that_is_given_up_while_it_is_written_is_gone_afterwards(world: World) -> None:
    made = world.spool()
    made.add(b"x" * PIECE)
    made.add(b"y")
    made.close()
    assert (made.file.closed, len(list(world.directory.iterdir()))) == (False, 1)
    world.hand.work()
    assert made.file.closed
    assert (list(world.directory.iterdir()), world.memory.held, world.rooms) == ([], 0, [])


def test_a_file_that_is_not_done_when_it_is_written_is_waited_for_in_a_thread(world: World) -> None:
    class Watched(BytesIO):
        flushed = 0

        def flush(self) -> None:
            self.flushed += 1

    file = Watched()
    made = world.spool(file)
    made.add(b"x" * PIECE)
    world.hand.work()
    ended = made.end()
    assert (ended.called, file.flushed, len(world.hand.waiting)) == (False, 0, 1)
    world.hand.work()
    assert (ended.called, file.flushed, world.hand.waiting) == (True, 1, [])


class Full(BytesIO):
    def write(self, data: object) -> int:
        raise OSError(28, "No space left on device")


def test_a_write_that_fails_is_told_once_and_ends_it(world: World) -> None:
    made = world.spool(Full())
    made.add(b"x" * PIECE)
    made.add(b"y" * PIECE)
    ended = made.end()
    world.hand.work()
    assert [type(each.value) for each in world.failures] == [OSError]
    assert (ended.called, made.file.closed, world.hand.waiting, world.memory.held) == (True, True, [], 0)
    made.add(b"z" * PIECE)
    assert (world.hand.waiting, world.memory.held) == ([], 0)


def test_what_was_written_stays_in_memory_for_whoever_reads_it_next(world: World) -> None:
    made = world.spool()
    for _ in range(3 * spool.AHEAD // PIECE):
        made.add(b"x" * PIECE)
        world.hand.work()
    descriptor = os.open(made.file.name, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        room = bytearray(PIECE)
        read = [os.preadv(descriptor, [room], at, os.RWF_NOWAIT) for at in range(0, 3 * spool.AHEAD, PIECE)]
    finally:
        os.close(descriptor)
    assert read == [PIECE] * (3 * spool.AHEAD // PIECE)  # it would be BlockingIOError for what is on the disk only


@pytest.mark.parametrize("size", [spool.SMALL // 8, PIECE])
def test_large_pieces_are_written_as_they_came_and_small_ones_together(world: World, size: int) -> None:
    written: list[bytes] = []

    class Watched(BytesIO):
        def write(self, data: object) -> int:
            written.append(cast(bytes, data))
            return len(written[-1])

        def fileno(self) -> int:
            return -1  # nothing to be told of

    made, parts = world.spool(Watched()), [bytes([number]) * size for number in range(2 * PIECE // size)]
    made.memory.held = spool.ROOM_FOR_ALL  # the first goes by itself
    made.add(parts[0])
    made.memory.held -= spool.ROOM_FOR_ALL
    for part in parts[1:]:
        made.add(part)
    made.end()
    while world.hand.waiting:
        world.hand.work()
    assert b"".join(written) == b"".join(parts)
    assert (max(map(len, written)) == size) == (size == PIECE)
