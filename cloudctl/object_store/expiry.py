"""Objects whose time has come are taken away, a while after nobody can see them any more."""

from __future__ import annotations

from twisted.application.service import Service
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.object_store import objects
from cloudctl.object_store.intake import Intake

log = Logger()

BATCH = 200


class Expiry(Service):
    def __init__(self, intake: Intake, period: float) -> None:
        self.intake = intake
        self.period = period
        self._calls: LoopingCall | None = None
        self._round: Deferred[None] | None = None

    def startService(self) -> None:
        super().startService()
        self._calls = LoopingCall(self._look)
        self._calls.clock = self.intake.db.clock
        self._calls.start(self.period, now=False)

    def stopService(self) -> Deferred[None] | None:
        """Fires when the round under way has ended."""
        super().stopService()
        if self._calls is not None and self._calls.running:
            self._calls.stop()
        return self._round

    def _look(self) -> Deferred[None]:
        self._round = ensureDeferred(self.look())
        self._round.addErrback(lambda failure: log.failure("expired objects could not be taken away", failure))
        return self._round

    async def look(self) -> None:
        """One round. Raises what the database raises."""
        more = True
        while more:
            count, freed = await self.intake.db.run(self._some)
            await self.intake.remove(freed)
            more = count == BATCH

    def _some(self, conn: Connection) -> tuple[int, list[str]]:
        return objects.expire(conn, utc(self.intake.db.now(conn)), BATCH)
