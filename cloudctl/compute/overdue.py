"""What happens to servers after a while: deletions become final, shelved ones leave their hosts, resizes are confirmed.

Reference: compute-states.md, section 5.4.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import select
from twisted.internet.interfaces import IReactorTime

from cloudctl.compute import deletion, resizing, shelving
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.states import RESIZED, SHELVED, SOFT_DELETED
from cloudctl.compute.tables import Server
from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.tasks.rounds import Rounds

PERIOD = 60.0  # seconds
BATCH = 100  # servers in one transaction

Due = Callable[[Connection, Server, datetime], None]


class Overdue(Rounds):
    def __init__(self, clock: IReactorTime, db: Database, options: ComputeOptions) -> None:
        super().__init__(clock, PERIOD, "overdue servers could not be found")
        self.db = db
        # State → after how many seconds something is done, and what.
        wanted: dict[str, tuple[float, Due]] = {
            SOFT_DELETED: (options.reclaim_instance_interval, deletion.overdue),
            SHELVED: (options.shelved_offload_time, shelving.overdue),
            RESIZED: (options.resize_confirm_window, resizing.overdue),
        }
        self.limits = {state: limit for state, limit in wanted.items() if limit[0] > 0}

    def startService(self) -> None:
        """There are no rounds if nothing is ever due."""
        if self.limits:
            super().startService()

    async def look(self) -> None:
        """One round. Raises what the database raises."""
        for state, (seconds, due) in self.limits.items():
            last: int | None = 0
            while last is not None:
                last = await self.db.run(self._some, state, seconds, due, last)

    def _some(self, conn: Connection, state: str, seconds: float, due: Due, after: int) -> int | None:
        """Deal with some, after this one by number. The last one's number; None: there are no more.

        Each is looked at once a round: what is done about it may come later, or not now.
        """
        now = utc(self.db.now(conn))
        since = now - timedelta(seconds=seconds)
        waiting = Server.vm_state == state, Server.task_state.is_(None), Server.deleted_at.is_(None)
        late = Server.waiting_since <= since, Server.number > after
        query = select(Server).where(*waiting, *late).order_by(Server.number).limit(BATCH)
        found = conn.execute(query.with_for_update()).all()
        for server in found:
            due(conn, server, now)
        return found[-1].number if len(found) == BATCH else None
