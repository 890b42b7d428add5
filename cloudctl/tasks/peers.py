"""The processes that work on the tasks of a shared database; the tasks of a dead one are taken over at once.

Each such process has a row and holds its name on its line to the others: PostgreSQL releases the name when the process
dies, long before the leases of its tasks end. A name that stays free belongs to a dead process. A process without a row
(of an older release, or with its line down) is only missed when its leases end.
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
# Seconds for which a name must have been free: connections break and PostgreSQL restarts without any process dying.
GRACE = 1.5
CHANNEL = "processes"  # never notified: it is heard when the line opens


class Process(Record, table="task_processes"):
    """A process that works on tasks. `owner` is its name in their rows."""

    owner: Field[str] = text(64, primary_key=True)
    host: Field[str] = text()
    pid: Field[int] = column(Integer)
    release: Field[str] = text(64)
    started_at: Field[datetime] = time()


def name(owner: str) -> str:
    """The name that the process holds on its line."""
    return f"process/{owner}"


# A lock that ends with the query's own transaction, so asking does not hold the name.
_is_nobodys = func.pg_try_advisory_xact_lock_shared(func.hashtextextended(func.concat("process/", Process.owner), 0))
_own_and_nobodys = select(Process.owner).where(or_(Process.owner == bindparam("own"), _is_nobodys))


class Peers(Rounds):
    """Shows the others that this process is alive, and takes over the tasks of those that are dead."""

    def __init__(self, db: Database, line: Line, owner: str) -> None:
        super().__init__(db.clock, PERIOD, "looking after the other processes failed")
        self.db = db
        self.owner = owner
        self._there = False  # its row is written, and its name is held
        self._missed: dict[str, float] = {}  # owner → when its name was first found free
        line.hold(name(owner))
        # What it claims before its row is written is only missed when the leases end.
        db.on_commit(CHANNEL, self._opened, elsewhere=self._opened)

    def _opened(self) -> None:
        if not self._there:
            self.look_now()

    async def look(self) -> None:
        if not self.db.is_told:
            # Its name may be free: others then take it for dead and delete its row.
            self._there = False
            self._missed.clear()
            return
        if not self._there:
            await self.db.run(enter, self.owner, utc(self.clock.seconds()))
            self._there = True
        found = set(await self.db.read(_found, self.owner))
        # The others may have taken it for dead while its line was down.
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
    """Write the row of a process, which must already hold its name."""
    row = {"owner": owner, "host": socket.gethostname(), "pid": os.getpid(), "release": __version__, "started_at": now}
    conn.execute(insert(Process.table).values(row).on_conflict_do_nothing())


def leave(conn: Connection, owners: Collection[str]) -> None:
    conn.execute(delete(Process).where(Process.owner.in_(owners)))


def take_over(conn: Connection, owners: Collection[str]) -> int:
    """Make the tasks of these processes due, for whichever process claims them first. Returns how many."""
    leave(conn, owners)
    released = claims.release_owned(conn, owners, conn.now())
    notify(conn, queue.CHANNEL)
    return released


def _found(conn: Connection, owner: str) -> list[str]:
    """`owner` itself, if it has a row, and the owners whose names are free."""
    return list(conn.scalars(_own_and_nobodys, {"own": owner}))
