"""Where several processes claim and submit at once, each wish has a task that begins after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloudctl.db import Connection, Database
from cloudctl.tasks import Kind, claims, queue, submit_once
from tests.meanwhile import Meanwhile, opened
from tests.tasks.scene import ANYBODY

WORK = Kind("work", "thing", 3600.0)


@pytest.fixture
def db(postgresql_with_tables: str) -> Iterator[Database]:
    with opened(postgresql_with_tables) as made:
        yield made


def wish(conn: Connection) -> int | None:
    return submit_once(conn, WORK, "1", ANYBODY)


def claim(conn: Connection) -> list[int]:
    return [row.id for row in claims.claim(conn, "another", conn.now(), 60.0, 10).rows]


def test_a_task_that_is_being_claimed_does_not_stand_for_a_newer_wish(db: Database) -> None:
    first = db.transact(False, wish)
    claiming = Meanwhile(db, claim)
    assert claiming.result == [first]
    second = db.transact(False, wish)
    claiming.commit()
    assert second not in (first, None)


def test_a_task_that_stands_for_a_newer_wish_is_claimed_after_its_commit(db: Database) -> None:
    told: list[None] = []
    first = db.transact(False, wish)
    db.on_commit(queue.CHANNEL, lambda: told.append(None))
    wishing = Meanwhile(db, wish)
    assert wishing.result is None and db.transact(False, claim) == [] and not told
    wishing.commit()
    assert told and db.transact(False, claim) == [first]
