"""Files that hash what is written to them, in parallel with the writing and with what follows it.

MD5 is the slowest part of an upload, so it must never idle while there is something to hash: a writer waits only
while too much is left, not for each piece.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from threading import Condition, Lock
from typing import IO, Protocol

from attrs import define, field
from twisted.python.failure import Failure

from cloudctl.db.threads import Inline, Threads

SMALL = 2**16  # up to this many bytes are not worth another thread
ROOM = 2**23  # bytes of one file that may be left unhashed when a writer goes on
ROOM_FOR_ALL = 2**25  # of all files
TURN = 2**23  # bytes after which another file has its turn


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


def md5() -> hashlib._Hash:
    return hashlib.md5(usedforsecurity=False)


@define(eq=False)
class Hashing:
    """`threads` hash. Waiters must be in threads of another pool: within this one they may wait for ever."""

    threads: Threads = field(factory=Inline)
    lock: Lock = field(factory=Lock, init=False)
    held: int = field(default=0, init=False)  # unhashed bytes of all files


@define(eq=False)
class Strand:
    """The data for one digest, fed in order by one thread at a time."""

    hashing: Hashing
    digest: Digest
    _left: deque[bytes] = field(factory=deque, init=False)
    _size: int = field(default=0, init=False)  # of what is left
    _failed: Failure | None = field(default=None, init=False)
    _less: Condition = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._less = Condition(self.hashing.lock)

    def feed(self, data: bytes) -> None:
        """Queue the data if it is large or other data is queued; else hash it at once. Raises what hashing raises."""
        with self._less:
            idle = not self._size
            if not idle or len(data) > SMALL:
                self._left.append(data)
                self._grow(len(data))
        if idle and len(data) <= SMALL:
            self.digest.update(data)
        elif idle:
            self.hashing.threads.callInThread(self._turn)

    def wait(self) -> None:
        """Wait while too much is left. Raises what hashing raised."""
        self._wait(ROOM)

    def join(self) -> None:
        """Wait until nothing is left. Raises what hashing raised."""
        self._wait(0)

    def _grow(self, size: int) -> None:
        self._size += size
        self.hashing.held += size

    def _wait(self, room: int) -> None:
        with self._less:
            self._less.wait_for(
                lambda: not self._size or (self._size <= room and self.hashing.held <= ROOM_FOR_ALL) or self._failed
            )
        if self._failed is not None:
            self._failed.raiseException()

    def _turn(self) -> None:
        """In a thread: hash what is left and what arrives meanwhile, until it is another file's turn."""
        done = 0
        while done < TURN:
            data = self._left.popleft()
            try:
                if self._failed is None:
                    self.digest.update(data)
            except Exception:
                self._failed = Failure()
            done += len(data)
            with self._less:
                self._grow(-len(data))
                self._less.notify_all()
                if not self._size:
                    return
        self.hashing.threads.callInThread(self._turn)


@define(eq=False)
class HashedFile:
    """A file and the digests of what is written to it, which cover all of it once it was flushed.

    `others`: digests that are requested besides its MD5.
    """

    file: IO[bytes]
    hashing: Hashing = field(factory=Hashing)
    others: Sequence[Digest] = ()
    md5: hashlib._Hash = field(factory=md5)
    size: int = field(default=0, init=False)
    _strands: Sequence[Strand] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._strands = [Strand(self.hashing, each) for each in (self.md5, *self.others)]

    def write(self, data: bytes) -> int:
        """Raises OSError, and what hashing raises."""
        if data:
            for strand in self._strands:
                strand.feed(data)
            self.file.write(data)
            self.size += len(data)
            for strand in self._strands:
                strand.wait()
        return len(data)

    def flush(self) -> None:
        """Wait until all is hashed. Raises as `write` does."""
        self.file.flush()
        for strand in self._strands:
            strand.join()

    def read(self, size: int = -1) -> bytes:
        return self.file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        return self.file.name

    def fileno(self) -> int:
        return self.file.fileno()
