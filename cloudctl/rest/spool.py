"""An upload on its way to its file: data is gathered into larger pieces, which a thread writes one after the other.

So the reactor neither waits for a disk nor hashes, and the next piece comes while one is written. What is in memory is
bounded, for one upload and for all: a client that sends faster than the disk writes has to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import IO, cast

from attrs import define, field
from twisted.internet.defer import Deferred, execute, succeed
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from cloudctl.db.threads import Threads
from cloudctl.rest import write_back

PIECE = 2**20  # bytes that are worth handing to a thread
ROOM = 2**23  # bytes of one upload that may wait while a piece is written
ROOM_FOR_ALL = 2**26  # bytes in memory, of all uploads
SMALL = 2**16  # bytes that are written without a thread, if they are the whole upload
AHEAD = 2**23  # bytes after which the system is told to start writing to the disk
WORTH = 2**18  # bytes that are worth a write of their own: joining such pieces costs more than writing each


Run = Callable[..., Deferred[None]]


def at_once(fn: Callable[..., None], *args: object) -> Deferred[None]:
    return execute(fn, *args)


def in_threads(threads: Threads, reactor: IReactorFromThreads) -> Run:
    return partial(deferToThreadPool, reactor, cast(ThreadPool, threads))


@define(eq=False)
class Memory:
    """The bytes that all uploads of a service have in memory."""

    held: int = 0

    @property
    def is_full(self) -> bool:
        return self.held >= ROOM_FOR_ALL


@define(eq=False)
class Spool:
    """Writes an upload to `file` in threads: `run` calls a function in one.

    `has_room` is called when there is room again; `failed` with what a write raised, after which nothing is written.
    """

    file: IO[bytes]
    run: Run
    memory: Memory
    has_room: Callable[[], None]
    failed: Callable[[Failure], None]
    _waiting: list[bytes] = field(factory=list, init=False)
    _size: int = field(default=0, init=False)  # of what waits
    _busy: bool = field(default=False, init=False)  # the file is written to
    _writing: int = field(default=0, init=False)  # bytes
    _unsynced: int = field(default=0, init=False)
    _beside: bool = field(default=False, init=False)  # threads have written, and the file may not be done with it
    _closed: bool = field(default=False, init=False)
    _ended: Deferred[None] | None = field(default=None, init=False)

    @property
    def is_full(self) -> bool:
        """Never while nothing is written: what waits for room would wait for ever."""
        return self._busy and (self._size >= ROOM or self.memory.is_full)

    def add(self, data: bytes) -> None:
        if self._closed:
            return
        self._waiting.append(data)
        self._size += len(data)
        self.memory.held += len(data)
        if not self._busy and (self._size >= PIECE or self.memory.is_full):
            self._write()

    def end(self) -> Deferred[None]:
        """All has come. Fires when it is written and flushed, or never will be; the file is then the caller's."""
        if not (self._busy or self._size or self._beside):
            return succeed(None)
        self._ended = Deferred()
        if not self._busy:
            self._write()
        return self._ended

    def close(self) -> None:
        """Write nothing more, and close the file, which is its end."""
        self._closed = True
        self.memory.held -= self._size
        self._waiting, self._size = [], 0
        if not self._busy:
            self.file.close()

    def _write(self) -> None:
        pieces, self._waiting = self._waiting, []
        self._writing, self._size = self._size, 0
        self._busy = True
        self._beside = self._beside or self._writing > SMALL
        last = self._ended is not None
        if self._beside:
            self.run(self._put, pieces, last).addCallbacks(self._written, self._broken, callbackArgs=(last,))
            return
        try:
            self._put(pieces, last)
        except Exception:
            self._broken(Failure())
        else:
            self._written(None, last)

    def _put(self, pieces: Sequence[bytes], last: bool) -> None:
        """Runs in a thread. `last`: nothing follows, and a file that hashes alongside has to finish."""
        for piece in pieces if self._writing >= len(pieces) * WORTH else (b"".join(pieces),):
            self.file.write(piece)
        self._unsynced += self._writing
        if self._unsynced >= AHEAD:
            # Else all of it is left for the sync at the end, which the client waits for.
            write_back.begin(self.file.fileno())
            self._unsynced = 0
        if last:
            self.file.flush()

    def _written(self, _: None, last: bool) -> None:
        self._let_go()
        if self._closed:
            self.file.close()
        elif self._size >= PIECE or (self._size and self.memory.is_full) or (self._ended is not None and not last):
            self._write()
        elif self._ended is not None:
            self._ended.callback(None)
        if not self._closed and not self.is_full:
            self.has_room()

    def _broken(self, why: Failure) -> None:
        self._let_go()
        self.close()
        self.failed(why)
        if self._ended is not None:
            self._ended.callback(None)

    def _let_go(self) -> None:
        self.memory.held -= self._writing
        self._writing, self._busy = 0, False
