"""`/healthcheck` and `/metrics`. Reference: discovery.md, «Health check»."""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from cloudctl.db import Connection, Database
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.metrics import Metrics
from cloudctl.rest.route import Routes


def reachable(conn: Connection) -> None:
    conn.execute(text("SELECT 1"))


@frozen
class Health:
    """Whether this cloud can work: the database answers."""

    routes = Routes("Health")

    db: Database

    @routes.get("/healthcheck", policy=None)
    async def show(self, call: Call) -> Reply:
        """200 `OK`, or 503 with the reasons."""
        problems = await self._problems()
        status = 503 if problems else 200
        if "application/json" in (call.header("accept") or ""):
            return Reply({"detailed": False, "reasons": problems or ["OK"]}, status)
        text = "\n".join(problems or ["OK"])
        return Reply(text.encode(), status, (("Content-Type", "text/plain; charset=UTF-8"),))

    @routes.head("/healthcheck", policy=None)
    async def check(self, call: Call) -> Reply:
        """204 or 503, without a body."""
        return Reply(None, 503 if await self._problems() else 204)

    async def _problems(self) -> list[str]:
        try:
            await self.db.read(reachable)
        except SQLAlchemyError as error:
            return [f"The database does not answer: {type(error).__name__}."]
        return []


@frozen
class MetricsPage:
    """For Prometheus to scrape."""

    routes = Routes("Metrics")

    metrics: Metrics

    @routes.get("/metrics", policy=None)
    async def show(self, call: Call) -> Reply:
        """All metrics in Prometheus' text format."""
        text, content_type = await self.metrics.page()
        return Reply(text, headers=(("Content-Type", content_type),))
