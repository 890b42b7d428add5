"""Which hosts there are and which of them answer: asked at the start and every few seconds. So it is said that
this process is there, which schedules and conducts.

Reference: compute-scheduling.md, section 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IReactorTime

from cloudctl.compute import notices, services
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.placing import promises
from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.drivers.interfaces import IHypervisor
from cloudctl.drivers.specs import HostInventory
from cloudctl.placement import hosts
from cloudctl.tasks.rounds import Rounds

PERIOD = 10.0  # seconds
# So often each record of a host is compared with what is found, although nothing has changed that we know of.
THOROUGH = timedelta(minutes=15)


@frozen
class Written:
    """What this process has written down of all hosts, when, and what they provide since."""

    found: Sequence[HostInventory]
    at: datetime
    provided: tuple[Any, ...]


class HostWatch(Rounds):
    def __init__(self, clock: IReactorTime, db: Database, hypervisor: IHypervisor, options: ComputeOptions) -> None:
        super().__init__(clock, PERIOD, "the hypervisor's hosts could not be read")
        self.db = db
        self.hypervisor = hypervisor
        self.options = options
        self._written: Written | None = None

    async def look(self) -> None:
        """One round. Raises what the driver raises."""
        found = await self.hypervisor.hosts()
        self._written = await self.db.run(self._write, found)

    def _write(self, conn: Connection, found: Sequence[HostInventory]) -> Written:
        now = utc(self.db.now(conn))
        written = self._written
        if written is None or not self._is_as_written(conn, written, found, now):
            self._compare(conn, found, now)
            written = Written(found, now, hosts.summary(conn))
        services.beat(conn, self.options.host, now)
        return written

    def _is_as_written(self, conn: Connection, written: Written, found: Sequence[HostInventory], now: datetime) -> bool:
        """Most rounds find what the last one has found, and nobody else has changed it."""
        return (
            found == written.found
            and now - written.at < THOROUGH
            and hosts.summary(conn) == written.provided
            and hosts.seen_again(conn, found, now)
        )

    def _compare(self, conn: Connection, found: Sequence[HostInventory], now: datetime) -> None:
        before, after = hosts.sync(conn, found, now, promises(self.options))
        were_up = {each.name for each in before if hosts.is_alive(each)}
        for each in after:
            if each.name in were_up and not each.up:
                notices.host_error(conn, each.name, each.id, each.seen_at, now, forced=False)
