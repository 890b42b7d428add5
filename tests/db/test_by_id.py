"""Records by their ids: found, not found, and locked on a database that locks rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import insert
from sqlalchemy.dialects import postgresql
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database, Record
from cloudctl.db.by_id import ById
from cloudctl.db.columns import Field, identifier, text
from cloudctl.errors import NotFound


class Lamp(Record, table="test_lamps"):
    id: Field[str] = identifier(primary_key=True)
    colour: Field[str] = text()


LAMPS = ById(Lamp, "No lamp {} here.", "LampNotFound", longest=4)


@pytest.fixture
def db() -> Iterator[Database]:
    db = Database.in_memory(Clock())
    db.transact(False, lambda conn: Lamp.table.create(conn.alchemy))
    db.transact(False, lambda conn: conn.execute(insert(Lamp).values(id="a", colour="red")) and None)
    yield db
    db.close()


def test_a_record_is_found_however_it_is_locked(db: Database) -> None:
    def read(conn: Connection) -> list[Lamp | None]:
        return [LAMPS.find(conn, "a"), LAMPS.find(conn, "a", lock=True), LAMPS.get(conn, "a"), LAMPS.pinned(conn, "a")]

    assert db.transact(False, read) == [Lamp(id="a", colour="red")] * 4


def test_what_is_not_there_is_named_shortly(db: Database) -> None:
    assert db.transact(False, LAMPS.find, "unknown") is None
    for read in (LAMPS.get, LAMPS.pinned):
        with pytest.raises(NotFound) as refused:
            db.transact(False, read, "unknown")
        assert (refused.value.message, refused.value.type) == ("No lamp unkn here.", "LampNotFound")


def test_a_lock_excludes_others_and_a_pin_only_those_who_lock() -> None:
    said = [str(each.compile(dialect=postgresql.dialect())) for each in (LAMPS._plain, LAMPS._locked, LAMPS._pinned)]
    assert [each.partition(" FOR ")[2] for each in said] == ["", "UPDATE", "KEY SHARE"]
