"""Which hosts there are and which of them answer: asked at the start and every few seconds. So it is said that
this process is there, which schedules and conducts.

Reference: compute-scheduling.md, section 9.
"""

from __future__ import annotations

from collections.abc import Sequence

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


class HostWatch(Rounds):
    def __init__(self, clock: IReactorTime, db: Database, hypervisor: IHypervisor, options: ComputeOptions) -> None:
        super().__init__(clock, PERIOD, "the hypervisor's hosts could not be read")
        self.db = db
        self.hypervisor = hypervisor
        self.options = options

    async def look(self) -> None:
        """One round. Raises what the driver raises."""
        found = await self.hypervisor.hosts()
        await self.db.run(self._write, found)

    def _write(self, conn: Connection, found: Sequence[HostInventory]) -> None:
        now = utc(self.db.now(conn))
        before, after = hosts.sync(conn, found, now, promises(self.options))
        were_up = {each.name for each in before if hosts.is_alive(each)}
        for each in after:
            if each.name in were_up and not each.up:
                notices.host_error(conn, each.name, each.id, each.seen_at, now, forced=False)
        services.beat(conn, self.options.host, now)
