"""What is done with servers after a while: deletes become final, shelved ones leave their hosts, resizes are confirmed.

Reference: compute-states.md, section 5.4.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import select
from twisted.application.service import Service
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cloudctl.compute import deletion, resizing, shelving
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.states import RESIZED, SHELVED, SOFT_DELETED
from cloudctl.compute.tables import Server
from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc

log = Logger()

PERIOD = 60.0  # seconds
BATCH = 100  # servers in one transaction

Due = Callable[[Connection, Server, datetime], None]


class Overdue(Service):
    def __init__(self, clock: IReactorTime, db: Database, options: ComputeOptions) -> None:
        self.clock = clock
        self.db = db
        # State → after how many seconds what is done.
        wanted: dict[str, tuple[float, Due]] = {
            SOFT_DELETED: (options.reclaim_instance_interval, deletion.overdue),
            SHELVED: (options.shelved_offload_time, shelving.overdue),
            RESIZED: (options.resize_confirm_window, resizing.overdue),
        }
        self.limits = {state: limit for state, limit in wanted.items() if limit[0] > 0}
        self._calls: LoopingCall | None = None
        self._round: Deferred[None] | None = None

    def startService(self) -> None:
        super().startService()
        if self.limits:
            self._calls = LoopingCall(self._look)
            self._calls.clock = self.clock
            self._calls.start(PERIOD, now=True)

    def stopService(self) -> Deferred[None] | None:
        """Fires when the round under way has ended."""
        super().stopService()
        if self._calls is not None and self._calls.running:
            self._calls.stop()
        return self._round

    def _look(self) -> Deferred[None]:
        self._round = ensureDeferred(self.look())
        self._round.addErrback(lambda failure: log.failure("overdue servers could not be found", failure))
        return self._round

    async def look(self) -> None:
        """One round. Raises what the database raises."""
        for state, (seconds, due) in self.limits.items():
            while await self.db.run(self._some, state, seconds, due) == BATCH:
                """There may be more."""

    def _some(self, conn: Connection, state: str, seconds: float, due: Due) -> int:
        """How many were found and were done something with."""
        now = utc(self.db.now(conn))
        since = now - timedelta(seconds=seconds)
        waiting = Server.vm_state == state, Server.task_state.is_(None), Server.deleted_at.is_(None)
        query = select(Server).where(*waiting, Server.waiting_since <= since).order_by(Server.number).limit(BATCH)
        found = conn.execute(query.with_for_update()).all()
        for server in found:
            due(conn, server, now)
        return len(found)
