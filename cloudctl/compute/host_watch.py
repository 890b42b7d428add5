"""Which hosts there are and which of them answer: asked at the start and every few seconds. So it is said that
this process is there, which schedules and conducts.

Reference: compute-scheduling.md, section 9.
"""

from __future__ import annotations

from collections.abc import Sequence

from twisted.application.service import Service
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cloudctl.compute import services
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.placing import promises
from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.drivers.interfaces import IHypervisor
from cloudctl.drivers.specs import HostInventory
from cloudctl.placement import hosts

log = Logger()

PERIOD = 10.0  # seconds


class HostWatch(Service):
    def __init__(self, clock: IReactorTime, db: Database, hypervisor: IHypervisor, options: ComputeOptions) -> None:
        self.clock = clock
        self.db = db
        self.hypervisor = hypervisor
        self.options = options
        self._calls: LoopingCall | None = None
        self._round: Deferred[None] | None = None

    def startService(self) -> None:
        super().startService()
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
        self._round.addErrback(lambda failure: log.failure("the hypervisor's hosts could not be read", failure))
        return self._round

    async def look(self) -> None:
        """One round. Raises what the driver raises."""
        found = await self.hypervisor.hosts()
        await self.db.run(self._write, found)

    def _write(self, conn: Connection, found: Sequence[HostInventory]) -> None:
        now = utc(self.db.now(conn))
        hosts.sync(conn, found, now, promises(self.options))
        services.beat(conn, self.options.host, now)
