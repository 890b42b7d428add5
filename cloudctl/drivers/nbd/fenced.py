"""Hosts to which no volume of a directory is offered, and turns at changing what a volume's daemon offers.

A mark is a file, so every process that serves volumes sees it, even one that starts later. A process that makes a
daemon's exports equal to the records holds the turn from reading the marks until the last export exists; the fencer
marks the host first and then takes the turn at each daemon. So what the fencer sees in its turn stays true: whoever
takes the turn later has seen the mark.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool

from cloudctl.drivers.errors import Busy, Unreachable
from cloudctl.drivers.qcow2.records import Records, Volume, put_in_place, room_for, sync

LOOK_SECONDS = 0.01


@frozen
class Fenced:
    """`root`/fenced/<digest of the name>: a host's name is never a path."""

    root: Path
    reactor: Any

    def has(self, host: str) -> bool:
        """Raises Unreachable if this cannot be determined now."""
        try:
            self._mark(host).stat()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise Unreachable(f"cannot see whether {host} is fenced: {error.strerror}") from error
        return True

    async def mark(self, host: str) -> None:
        """The mark is on the disk. Raises NoCapacity, Unreachable."""
        await self._change(f"mark {host} as fenced", _put, self._mark(host), host)

    async def unmark(self, host: str) -> None:
        await self._change(f"take the mark from {host}", _remove, self._mark(host))

    def _mark(self, host: str) -> Path:
        return self.root / "fenced" / sha256(host.encode()).hexdigest()[:32]

    async def _change(self, what: str, function: Any, *args: Any) -> None:
        """In a thread, since fsync(2) may take long."""
        with room_for(what):
            await deferToThreadPool(self.reactor, self.reactor.getThreadPool(), function, *args)


def _put(mark: Path, host: str) -> None:
    mark.parent.mkdir(mode=0o700, exist_ok=True)
    beside = mark.with_name(f"{mark.name}.{uuid4().hex}")
    try:
        beside.write_text(f"{host}\n")
        put_in_place(beside, mark, None)
    finally:
        beside.unlink(missing_ok=True)
    sync(mark.parent.parent)


def _remove(mark: Path) -> None:
    if mark.parent.exists():
        mark.unlink(missing_ok=True)
        sync(mark.parent)


# -- turns


def turn_file(records: Records, volume: Volume | None) -> Path:
    """The file of this volume's daemon; for None: of the daemon that serves all volumes without a place."""
    return records.root / "turn" if volume is None else records.directory(volume.id) / "turn"


@frozen
class Turn:
    """While it lasts, nobody else changes what the daemon offers.

    An export that is being withdrawn is no longer listed while requests of its client are still carried out. A process
    that begins to withdraw notes it here, so that the note remains if it dies or gives up meanwhile. The note is the
    size of the file: it needs no room on the disk.
    """

    descriptor: int

    @property
    def is_withdrawing(self) -> bool:
        return os.fstat(self.descriptor).st_size > 0

    def note(self, is_withdrawing: bool) -> None:
        os.ftruncate(self.descriptor, int(is_withdrawing))


@asynccontextmanager
async def turn(file: Path, clock: IReactorTime, seconds: float) -> AsyncIterator[Turn | None]:
    """None: the volume is gone, so there is nothing to offer. Raises Unreachable; Busy if the turn came too late."""
    with room_for("note whose turn it is"):
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            descriptor = None
    if descriptor is None:
        yield None
        return
    try:
        limit = clock.seconds() + seconds
        while not _locked(descriptor):
            if clock.seconds() >= limit:
                raise Busy("another process is changing what a storage daemon offers")
            await deferLater(clock, LOOK_SECONDS)
        yield Turn(descriptor)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
