"""Files that hash what is written to them, in a thread of their own where it is much."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from io import BytesIO
from threading import current_thread
from typing import Any

import pytest
from twisted.python.threadpool import ThreadPool

from cloudctl.object_store.api.s3.checksums import ALGORITHMS
from cloudctl.object_store.store import WORTH, HashedFile

DATA = bytes(range(256)) * 4096
PIECES = (DATA, b"", DATA[:1], DATA[: WORTH - 1], DATA[:WORTH], DATA)


class Told:
    """A digest that knows who asked it."""

    def __init__(self) -> None:
        self.md5, self.threads = hashlib.md5(usedforsecurity=False), list[str]()

    def update(self, data: bytes) -> None:
        self.threads.append(current_thread().name)
        self.md5.update(data)

    def hexdigest(self) -> str:
        return self.md5.hexdigest()


class Full(BytesIO):
    def write(self, _data: object) -> int:
        raise OSError(28, "No space left on device")


@pytest.fixture
def threads() -> Iterator[ThreadPool]:
    pool = ThreadPool(0, 1, "hashes")
    pool.start()
    yield pool
    pool.stop()


def test_all_that_is_written_is_hashed_in_order_and_what_is_much_in_a_thread(threads: ThreadPool) -> None:
    told: Any = Told()
    crc = ALGORITHMS["crc32"]()
    file = HashedFile(BytesIO(), threads, (crc,), told)
    for piece in PIECES:
        file.write(piece)
    body = b"".join(PIECES)
    assert (file.file.seek(0), file.read()) == (0, body)
    assert (file.size, told.hexdigest()) == (len(body), hashlib.md5(body, usedforsecurity=False).hexdigest())
    assert int.from_bytes(crc.digest(), "big") == zlib.crc32(body)
    mine = current_thread().name
    assert [name == mine for name in told.threads] == [len(piece) < WORTH for piece in PIECES]


def test_what_the_disk_says_is_raised_when_nothing_is_hashed_any_more(threads: ThreadPool) -> None:
    told: Any = Told()
    with pytest.raises(OSError, match="No space"):
        HashedFile(Full(), threads, (), told).write(DATA)
    assert len(told.threads) == 1


def test_what_hashing_raises_is_raised_to_the_writer(threads: ThreadPool) -> None:
    class Broken:
        def update(self, _data: bytes) -> None:
            raise ValueError("broken")

    broken: Any = Broken()
    with pytest.raises(ValueError, match="broken"):
        HashedFile(BytesIO(), threads, (), broken).write(DATA)
