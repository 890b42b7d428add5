"""Files that hash what is written to them, in a thread of their own where it is much."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from threading import Event, Thread, current_thread
from typing import Any, cast

import pytest
from attrs import define, field
from twisted.python.threadpool import ThreadPool

from cloudctl.db.threads import Inline
from cloudctl.object_store import hashing
from cloudctl.object_store.api.s3.checksums import ALGORITHMS
from cloudctl.object_store.hashing import ROOM, SMALL, Digest, HashedFile, Hashing, md5

DATA = bytes(range(256)) * 4096
PIECES = (DATA, b"", DATA[:1], DATA[:SMALL], DATA[: SMALL + 1], DATA)
SOON = 60.0  # seconds


class Told:
    """A digest that knows who asked it."""

    def __init__(self) -> None:
        self.md5, self.threads = md5(), list[str]()

    def update(self, data: bytes) -> None:
        self.threads.append(current_thread().name)
        self.md5.update(data)

    def hexdigest(self) -> str:
        return self.md5.hexdigest()


class Full(BytesIO):
    def write(self, _data: object) -> int:
        raise OSError(28, "No space left on device")


class Broken:
    def update(self, _data: bytes) -> None:
        raise ValueError("broken")


@define
class Later(Inline):
    """A thread that begins when it is told to."""

    waiting: list[Callable[[], None]] = field(factory=list)
    asked: Event = field(factory=Event)

    def callInThread(self, func: Any, *args: Any, **kw: Any) -> None:
        self.waiting.append(lambda: func(*args, **kw))
        self.asked.set()

    def work(self) -> None:
        self.waiting.pop(0)()


@pytest.fixture
def threads() -> Iterator[ThreadPool]:
    pool = ThreadPool(0, 1, "hashes")
    pool.start()
    yield pool
    pool.stop()


def file_of(threads: Any, *others: Any, digest: Any = None) -> HashedFile:
    return HashedFile(BytesIO(), Hashing(threads), others, digest or md5())


def test_all_that_is_written_is_hashed_in_order_and_what_is_much_in_a_thread(threads: ThreadPool) -> None:
    told: Any = Told()
    crc = ALGORITHMS["crc32"]()
    file = file_of(threads, crc, digest=told)
    for piece in PIECES:
        file.write(piece)
    file.flush()
    body = b"".join(PIECES)
    assert (file.file.seek(0), file.read()) == (0, body)
    assert (file.size, told.hexdigest()) == (len(body), hashlib.md5(body, usedforsecurity=False).hexdigest())
    assert int.from_bytes(crc.digest(), "big") == zlib.crc32(body)
    mine = current_thread().name
    assert told.threads[0] != mine
    assert told.threads[-1] != mine


def test_the_writer_goes_on_while_there_is_something_left_to_hash() -> None:
    later = Later()
    file = file_of(later)
    assert 2 * len(DATA) <= ROOM
    file.write(DATA)
    file.write(b"a little, which waits for what came before")
    assert (file.md5.hexdigest(), len(later.waiting)) == (md5().hexdigest(), 1)
    assert file.hashing.held > len(DATA)
    later.work()
    file.flush()
    assert file.md5.hexdigest() == hashlib.md5(cast(BytesIO, file.file).getvalue()).hexdigest()
    assert (file.hashing.held, later.waiting) == (0, [])


@pytest.mark.parametrize("shared", [False, True])
def test_a_writer_waits_while_too_much_is_left(shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of his file; of all files: then for all of his own."""
    monkeypatch.setattr(hashing, "ROOM" if not shared else "ROOM_FOR_ALL", len(DATA) - 1)
    later, ended = Later(), Event()
    file = file_of(later)

    def write() -> None:
        file.write(DATA)
        ended.set()

    writer = Thread(target=write)
    writer.start()
    assert later.asked.wait(SOON)
    assert not ended.is_set()
    later.work()
    writer.join(SOON)
    assert ended.is_set()


def test_each_file_has_its_turn_after_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "TURN", len(DATA))
    later = Later()
    shared = Hashing(later)
    first, second = (HashedFile(BytesIO(), shared) for _ in range(2))
    first.write(DATA)
    second.write(DATA)
    later.waiting.insert(0, lambda: None)
    digest = first.md5

    class Slow:
        """More comes while a piece is hashed."""

        def update(self, data: bytes) -> None:
            digest.update(data)
            if first.size == len(DATA):
                first.write(DATA)

    first._strands[0].digest = cast(Digest, Slow())
    later.work()
    later.work()
    assert first.size == 2 * len(DATA)
    assert len(later.waiting) == 2  # that of the second, then the first again
    later.work()
    assert second.md5.digest() == hashlib.md5(DATA).digest()
    later.work()
    assert first.md5.digest() == hashlib.md5(2 * DATA).digest()


def test_what_the_disk_says_is_raised() -> None:
    with pytest.raises(OSError, match="No space"):
        HashedFile(Full()).write(DATA)


@pytest.mark.parametrize("data", [DATA, b"a little"])
def test_what_hashing_raises_is_raised_to_the_writer(threads: ThreadPool, data: bytes) -> None:
    def written() -> None:
        file = file_of(threads, digest=Broken())
        file.write(data)
        file.flush()

    with pytest.raises(ValueError, match="broken"):
        written()
