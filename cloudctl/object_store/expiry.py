"""Objects whose time has come are taken away, a while after nobody can see them any more."""

from __future__ import annotations

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.object_store import objects
from cloudctl.object_store.intake import Intake
from cloudctl.tasks.rounds import Rounds

BATCH = 200


class Expiry(Rounds):
    def __init__(self, intake: Intake, period: float) -> None:
        super().__init__(intake.db.clock, period, "expired objects could not be taken away", at_once=False)
        self.intake = intake

    async def look(self) -> None:
        """One round. Raises what the database raises."""
        more = True
        while more:
            count, freed = await self.intake.db.run(self._some)
            await self.intake.remove(freed)
            more = count == BATCH

    def _some(self, conn: Connection) -> tuple[int, list[str]]:
        return objects.expire(conn, utc(self.intake.db.now(conn)), BATCH)
