"""Who works on the tasks of a database that several processes share, and whose work is taken over at once.

Each such process has a row and holds its name on its line to the others: PostgreSQL lets go of the name when the
process dies, long before the leases of its tasks end. A name that stays nobody's is one of the dead. What has
no row (a process of an older release, or one whose line is down) is missed by its leases alone.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Integer, bindparam, delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from cloudctl import __version__
from cloudctl.db import Connection, Database, notify
from cloudctl.db.columns import Field, column, text, time, utc
from cloudctl.db.line import Line
from cloudctl.db.records import Record
from cloudctl.tasks import claims, queue
from cloudctl.tasks.rounds import Rounds

log = Logger()

PERIOD = 1.0
# Seconds for which a name must have been nobody's: connections break, and PostgreSQL is started anew, without a death.
GRACE = 1.5
CHANNEL = "processes"  # nobody tells of it: it is heard of when the line opens


class Process(Record, table="task_processes"):
    """One that works on tasks. `owner` is what their rows name."""

    owner: Field[str] = text(64, primary_key=True)
    host: Field[str] = text()
    pid: Field[int] = column(Integer)
    release: Field[str] = text(64)
    started_at: Field[datetime] = time()


def name(owner: str) -> str:
    """What the process holds on its line."""
    return f"process/{owner}"


# In a transaction that ends at once, so the question is no hold.
_is_nobodys = func.pg_try_advisory_xact_lock_shared(func.hashtextextended(func.concat("process/", Process.owner), 0))
_own_and_nobodys = select(Process.owner).where(or_(Process.owner == bindparam("own"), _is_nobodys))


class Peers(Rounds):
    """Tells the others that this process is there, and takes over from those that are not there any more."""

    def __init__(self, db: Database, line: Line, owner: str) -> None:
        super().__init__(db.clock, PERIOD, "looking after the other processes failed")
        self.db = db
        self.owner = owner
        self._there = False  # its row is written, and its name is held
        self._missed: dict[str, float] = {}  # owner → when it was first found to be nobody's
        line.hold(name(owner))
        # What it claims before its row is there is missed by its lease alone.
        db.on_commit(CHANNEL, self._opened, elsewhere=self._opened)

    def _opened(self) -> None:
        if not self._there:
            self.look_now()

    async def look(self) -> None:
        if not self.db.is_told:
            # Its name may be nobody's: others take it for dead, and so its row goes.
            self._there = False
            self._missed.clear()
            return
        if not self._there:
            await self.db.run(enter, self.owner, utc(self.clock.seconds()))
            self._there = True
        found = set(await self.db.read(_found, self.owner))
        # The others may have missed it while its line was down.
        self._there = self.owner in found
        now = self.clock.seconds()
        self._missed = {owner: self._missed.get(owner, now) for owner in found - {self.owner}}
        dead = [owner for owner, since in self._missed.items() if now - since >= GRACE]
        if dead:
            taken = await self.db.run(take_over, dead)
            log.warn("{count} processes died; {taken} of their tasks will be resumed", count=len(dead), taken=taken)

    def stopService(self) -> Deferred[None]:
        return ensureDeferred(self._leave(super().stopService()))

    async def _leave(self, round_: Deferred[None] | None) -> None:
        if round_ is not None:
            await round_
        if self._there:
            await self.db.run(leave, [self.owner])


def enter(conn: Connection, owner: str, now: datetime) -> None:
    """The process is there. That its name is held comes first."""
    row = {"owner": owner, "host": socket.gethostname(), "pid": os.getpid(), "release": __version__, "started_at": now}
    conn.execute(insert(Process.table).values(row).on_conflict_do_nothing())


def leave(conn: Connection, owners: Collection[str]) -> None:
    conn.execute(delete(Process).where(Process.owner.in_(owners)))


def take_over(conn: Connection, owners: Collection[str]) -> int:
    """What these had is due, for whoever claims it first. How many tasks."""
    leave(conn, owners)
    released = claims.release_owned(conn, owners, conn.now())
    notify(conn, queue.CHANNEL)
    return released


def _found(conn: Connection, owner: str) -> list[str]:
    """`owner` itself, if its row is there, and those that are nobody's."""
    return list(conn.scalars(_own_and_nobodys, {"own": owner}))
