"""Totals are what the rows say, after whatever was done to the rows, and whoever did it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Boolean, Column, Integer, MetaData, String, Table, delete, func, select, update
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database, schema, totals
from cloudctl.db.totals import Kept, Total, total
from cloudctl.network.tables import SecurityGroup
from cloudctl.testing.cloud import MemoryCloud, empty_database

PROJECTS = ["one", "two", None]


TABLES = MetaData()
SHEEP = Table(
    "sheep",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("owner", String(8)),
    Column("order", Integer),  # a name that must be quoted
    Column("shorn", Boolean, nullable=False),
)
GOATS = Table("goats", TABLES, Column("id", String(8), primary_key=True), Column("owner", String(8), nullable=False))

Total("sheep", SHEEP.c.owner)
Total("wool", SHEEP.c.owner, func.coalesce(SHEEP.c.order, 3), where=SHEEP.c.shorn.is_(False))
Total("animals", SHEEP.c.owner)
Total("animals", GOATS.c.owner)


def opened(url: str | None) -> Database:
    db = Database.in_memory(Clock()) if url is None else Database.open(url, Clock())

    def create(conn: Connection) -> None:
        Kept.table.create(conn.alchemy)
        TABLES.create_all(conn.alchemy)

    db.transact(False, create)
    return db


def put(table: Table, *rows: dict[str, Any]) -> Callable[[Connection], None]:
    def insert(conn: Connection) -> None:
        conn.execute(table.insert(), list(rows))

    return insert


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud()
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    db = opened(None if request.param == "sqlite" else str(request.getfixturevalue("postgresql_url")))
    yield db
    db.close()


def sheep(id: int, owner: str | None, order: int | None = None, shorn: bool = False) -> dict[str, Any]:
    return {"id": id, "owner": owner, "order": order, "shorn": shorn}


def wrong(conn: Connection) -> list[tuple[str, str, int, int]]:
    return totals.differences(conn, TABLES)


def of(db: Database, project: str) -> dict[str, int]:
    return db.transact(True, totals.totals, project, ["sheep", "wool", "animals"])


def test_each_project_has_the_sums_of_its_own_rows(db: Database) -> None:
    db.transact(False, put(SHEEP, sheep(1, "one", 5), sheep(2, "one"), sheep(3, "two", 7, True), sheep(4, None)))
    db.transact(False, put(GOATS, {"id": "g", "owner": "two"}))
    assert of(db, "one") == {"sheep": 2, "wool": 8, "animals": 2}
    assert of(db, "two") == {"sheep": 1, "wool": 0, "animals": 2}
    assert db.transact(True, total("wool", TABLES), "one") == 8
    assert db.transact(True, total("wool", TABLES), "nobody") == 0


def test_what_nobody_sums_cannot_be_read() -> None:
    with pytest.raises(LookupError):
        total("dogs", TABLES)


def test_what_is_undone_counts_for_nothing(db: Database) -> None:
    def fail(conn: Connection) -> None:
        with conn.begin_nested():
            conn.execute(GOATS.insert(), [{"id": "g", "owner": "one"}])
            raise LookupError

    with pytest.raises(LookupError):
        db.transact(False, fail)
    assert of(db, "one")["animals"] == 0


Change = tuple[str, int, str | None, int | None]
IDS, AMOUNTS = st.integers(1, 4), st.none() | st.integers(0, 9)
CHANGES = st.one_of(
    st.tuples(st.just("put"), IDS, st.sampled_from(PROJECTS), AMOUNTS),
    st.tuples(st.just("move"), IDS, st.sampled_from(PROJECTS), st.none()),
    st.tuples(st.just("shear"), IDS, st.none(), st.integers(0, 1)),
    st.tuples(st.just("weigh"), IDS, st.none(), AMOUNTS),
    st.tuples(st.just("drop"), IDS, st.none(), st.none()),
    st.tuples(st.just("move all"), IDS, st.sampled_from(PROJECTS), st.none()),
)


def play(conn: Connection, change: Change) -> None:
    verb, id, owner, number = change
    one = SHEEP.c.id == id
    if verb in ("put", "drop"):
        conn.execute(SHEEP.delete().where(one))
    if verb == "put":
        conn.execute(SHEEP.insert(), [sheep(id, owner, number)])
    elif verb == "move all":
        conn.execute(SHEEP.update().values(owner=owner))
    elif verb != "drop":
        wanted: dict[str, dict[str, Any]] = {
            "move": {"owner": owner},
            "shear": {"shorn": bool(number)},
            "weigh": {"order": number},
        }
        conn.execute(SHEEP.update().where(one).values(wanted[verb]))


@given(st.lists(CHANGES, max_size=12))
@settings(max_examples=40, deadline=None)
def test_whatever_is_done_to_rows_the_totals_follow(changes: list[Change]) -> None:
    db = opened(None)
    for change in changes:
        db.transact(False, play, change)
        assert db.transact(True, wrong) == [], change
    db.close()


STORY: list[Change] = [
    ("put", 1, "one", 5),
    ("put", 2, "two", None),
    ("weigh", 1, None, None),
    ("shear", 2, None, 1),
    ("move", 2, "one", None),
    ("shear", 2, None, 0),
    ("move all", 0, "two", None),
    ("move", 1, None, None),
    ("drop", 2, None, None),
]


def test_they_follow_in_both_databases(db: Database) -> None:
    for change in STORY:
        db.transact(False, play, change)
        assert db.transact(True, wrong) == [], change


def test_a_change_of_what_is_not_summed_writes_no_total(db: Database) -> None:
    trigger = totals.triggers(SHEEP, "UPDATE", db.engine.dialect)[-1]
    assert 'UPDATE OF owner, "order", shorn ON sheep' in trigger
    db.transact(False, put(SHEEP, sheep(1, "one", 5)))
    db.transact(False, lambda conn: conn.execute(delete(Kept)) and None)
    db.transact(False, lambda conn: conn.execute(SHEEP.update().values(order=5, owner="one")) and None)
    assert db.transact(True, lambda conn: conn.execute(select(Kept)).all()) == []


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Database]:
    """All tables of the cloud."""
    if request.param == "sqlite":
        db: Database = empty_database(clock)
    else:
        db = Database.open(str(request.getfixturevalue("postgresql_with_tables")), clock)
    yield db
    db.close()


def group(id: str) -> dict[str, Any]:
    when = datetime(2026, 1, 1)
    return {"id": id, "project_id": "p", "name": id, "description": "", "created_at": when, "updated_at": when}


def test_what_differs_is_put_right_and_told(empty: Database) -> None:
    empty.transact(False, put(SecurityGroup.table, group("a"), group("b")))
    assert empty.transact(False, totals.mend) == []
    empty.transact(False, lambda conn: conn.execute(update(Kept).values(amount=9)) and None)
    assert empty.transact(False, totals.mend) == [("security_groups", "p", 9, 2)]
    assert empty.transact(True, total("security_groups"), "p") == 2


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_an_upgrade_counts_what_was_there(request: pytest.FixtureRequest, tmp_path: Path, database: str) -> None:
    """SQLite loses the triggers of a table that it makes anew."""
    sqlite = database == "sqlite"
    url = f"sqlite:///{tmp_path / 'cloud.sqlite'}" if sqlite else str(request.getfixturevalue("postgresql_url"))
    db = Database.open(url, Clock())
    schema.prepare(db)
    db.transact(False, totals.remove)
    db.transact(False, put(SecurityGroup.table, group("a")))
    assert db.transact(True, total("security_groups"), "p") == 0
    with schema.references_unchecked(db):
        db.transact(False, schema.upgrade)
    db.transact(False, put(SecurityGroup.table, group("b")))
    assert db.transact(True, total("security_groups"), "p") == 2
    db.close()


def test_the_audit_puts_them_right(cloud: MemoryCloud) -> None:
    cloud.db.transact(False, lambda conn: conn.execute(update(Kept).values(amount=Kept.amount + 1)) and None)
    cloud.advance(cloud.config.tasks.audit_period + 1)
    assert {finding.kind for finding in cloud.cloud.audit.latest["totals"]} == {"total-wrong"}
    assert cloud.db.transact(True, totals.differences) == []


def test_the_audit_counts_again_once_anything_has_changed(cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    differences, rounds = totals.differences, list[object]()

    def noting(conn: Connection) -> list[tuple[str, str, int, int]]:
        rounds.append(conn)
        return differences(conn)

    monkeypatch.setattr(totals, "differences", noting)
    found = []
    for wrong in (0, 0, 1, 0, 0, 1):
        if wrong:
            cloud.db.transact(False, lambda conn: conn.execute(update(Kept).values(amount=Kept.amount + 1)) and None)
        cloud.cloud.audit.run()
        found.append((bool(cloud.cloud.audit.latest["totals"]), len(rounds)))
    assert found == [(False, 1), (False, 1), (True, 3), (False, 4), (False, 4), (True, 6)]
