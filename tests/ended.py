"""A purge as `cloudctl db purge` does it, and what it would remove."""

from __future__ import annotations

from datetime import datetime, timedelta

from cloudctl import app
from cloudctl.db import Database
from cloudctl.db.columns import utc
from cloudctl.db.ended import count, given, purge_of


def purge(db: Database, days: int, now: datetime | None = None) -> dict[str, int]:
    """What → how many rows were removed. Fails if a dry run says anything else."""
    now, age = now or utc(db.clock.seconds()), timedelta(days=days)
    every = [each for service in app.SERVICES for each in service.ended]
    counted = {each.what: db.transact(True, count, each, given(each, now, age)) for each in every}
    removed = {each.what: sum(purge_of(db, each, now, age, lambda _: None)) for each in every}
    assert removed == counted
    return {what: rows for what, rows in removed.items() if rows}
