"""Automatic removal of expired objects, a while after nobody can see them any more, and of old ones."""

from __future__ import annotations

from datetime import datetime

from twisted.logger import Logger

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.errors import CloudError
from cloudctl.object_store import ageing, objects
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.tables import Container
from cloudctl.tasks.rounds import Rounds

log = Logger()

BATCH = 200


class Expiry(Rounds):
    def __init__(self, intake: Intake, period: float) -> None:
        super().__init__(intake.db.clock, period, "expired objects could not be taken away", at_once=False)
        self.intake = intake

    async def look(self) -> None:
        """One round. Raises the database's errors."""
        more = True
        while more:
            count, freed = await self.intake.db.run(self._some)
            await self.intake.remove(freed)
            more = count == BATCH

    def _some(self, conn: Connection) -> tuple[int, list[str]]:
        return objects.expire(conn, utc(self.intake.db.now(conn)), BATCH)


class Ageing(Rounds):
    """Applies the rules of containers: to each container once a day, and when its rules are new."""

    def __init__(self, intake: Intake, period: float) -> None:
        super().__init__(intake.db.clock, period, "old objects could not be taken away", at_once=False)
        self.intake = intake
        self._done: dict[str, tuple[datetime, str]] = {}  # container id → the day and the rules

    async def look(self) -> None:
        """One round. Raises the database's errors."""
        now, done = utc(self.clock.seconds()), dict[str, tuple[datetime, str]]()
        after = ""
        while some := await self.intake.db.scan(ageing.some_containers, after):
            after = some[-1].id
            for container in some:
                if ageing.KEPT in container.headers:
                    today = (ageing.midnight(now), container.headers[ageing.KEPT])
                    if self._done.get(container.id) == today or await self._is_walked(container, now):
                        done[container.id] = today
        self._done = done

    async def _is_walked(self, container: Container, now: datetime) -> bool:
        """Apply the rules of one container. What its owner has to put right does not keep others waiting."""
        try:
            await self._walk(container, now)
        except CloudError as error:
            log.warn("the rules of container {id} cannot be applied: {error}", id=container.id, error=error)
            return False
        return True

    async def _walk(self, container: Container, now: datetime) -> None:
        rules = [rule for rule in ageing.kept(container.headers) if rule.is_on]
        walk = ageing.Walk(container, rules, now)
        while not walk.is_over:
            due = await self.intake.db.scan(walk.page)
            for start in range(0, len(due), BATCH):
                await self.intake.change(ageing.remove, container, due[start : start + BATCH], now)
        await self.intake.change(ageing.abort_uploads, container, rules, now)
