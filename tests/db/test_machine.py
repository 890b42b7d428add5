"""Moves between states: what a table of them allows is what the rows allow, in Python and in SQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Integer, insert
from twisted.internet.task import Clock

from cloudctl.db import Database, Record
from cloudctl.db.columns import Field, column, identifier, optional_text, text, time, utc
from cloudctl.db.machine import Machine, Move, all_but, sources
from cloudctl.errors import Conflict, NotFound

NOW = utc(1)


class Door(Record, table="test_doors"):
    id: Field[str] = identifier(primary_key=True)
    status: Field[str] = text(8)
    doing: Field[str | None] = optional_text(8)
    hinges: Field[int] = column(Integer)
    updated_at: Field[object | None] = time()


MOVES = {
    "open": Move(sources("shut", "ajar"), "open", "{id} is {status} and cannot {move}."),
    "bang": Move(None, "shut"),
    "paint": Move({"status": sources("open"), "doing": sources(None)}, {"doing": "painting"}),
    "repaint": Move({"doing": sources(None, "painting")}, {"doing": "painting"}),
    "leave": Move({"doing": all_but("painting")}, None),
    "sand": Move({"doing": all_but(None)}, None),
    "oil": Move({"doing": all_but(None, "painting")}, None),
}
DOORS = [(status, doing) for status in ("shut", "ajar", "open") for doing in (None, "painting", "sanding")]


def missing(id: str) -> NotFound:
    return NotFound(f"no door {id}")


MACHINE = Machine(Door, MOVES, missing, "{column} is {value}, so {move} is not possible.", only=Door.hinges > 0)


@pytest.fixture
def db() -> Iterator[Database]:
    db = Database.in_memory(Clock())
    db.transact(False, lambda conn: Door.table.create(conn.alchemy))
    yield db
    db.close()


def put(db: Database, id: str, status: str, doing: str | None = None, hinges: int = 2) -> None:
    values = {"id": id, "status": status, "doing": doing, "hinges": hinges}
    db.transact(False, lambda conn: conn.execute(insert(Door).values(**values)) and None)


@pytest.mark.parametrize("name", MOVES)
def test_a_record_that_passes_the_check_is_one_that_moves(db: Database, name: str) -> None:
    for number, (status, doing) in enumerate(DOORS):
        put(db, str(number), status, doing)
        door = Door(id=str(number), status=status, doing=doing, hinges=2, updated_at=None)
        fits = MOVES[name].wrong(door) is None
        assert db.transact(False, lambda conn, id=door.id: MACHINE.allows(conn, id, name)) is fits
        assert db.transact(False, lambda conn, id=door.id: MACHINE.try_move(conn, id, name, NOW)) is fits


def test_a_move_sets_its_target_and_what_is_given_with_it(db: Database) -> None:
    put(db, "d", "open")
    db.transact(False, lambda conn: MACHINE.move(conn, "d", "paint", NOW, hinges=3))
    (found,) = db.transact(True, lambda conn: conn.execute(Door.table.select()).all())
    assert (found.status, found.doing, found.hinges, found.updated_at) == ("open", "painting", 3, NOW)


def test_a_further_condition_may_forbid_a_move(db: Database) -> None:
    put(db, "d", "shut")
    assert not db.transact(False, lambda conn: MACHINE.try_move(conn, "d", "open", NOW, Door.hinges == 3))
    assert db.transact(False, lambda conn: MACHINE.try_move(conn, "d", "open", NOW, Door.hinges == 2))


@pytest.mark.parametrize(
    ("status", "doing", "name", "said"),
    [
        ("open", None, "open", "d is open and cannot open."),
        ("shut", None, "paint", "status is shut, so paint is not possible."),
        ("open", "sanding", "paint", "doing is sanding, so paint is not possible."),
    ],
)
def test_a_refusal_says_what_is_in_the_way(db: Database, status: str, doing: str, name: str, said: str) -> None:
    put(db, "d", status, doing)
    with pytest.raises(Conflict) as refused:
        db.transact(False, lambda conn: MACHINE.move(conn, "d", name, NOW))
    assert refused.value.message == said
    with pytest.raises(Conflict) as refused:
        MACHINE.check(Door(id="d", status=status, doing=doing, hinges=2, updated_at=None), name)
    assert refused.value.message == said


@pytest.mark.parametrize("hinges", [None, 0])
def test_what_is_not_there_for_the_machine_is_not_found(db: Database, hinges: int | None) -> None:
    if hinges is not None:
        put(db, "d", "shut", hinges=hinges)
    with pytest.raises(NotFound, match="no door d"):
        db.transact(False, lambda conn: MACHINE.move(conn, "d", "open", NOW))
