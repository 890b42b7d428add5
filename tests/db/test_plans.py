"""Plans give what SQLAlchemy gives: rows, types, keys, defaults and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from time import sleep
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    Integer,
    LargeBinary,
    String,
    bindparam,
    delete,
    func,
    insert,
    null,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidRequestError, MultipleResultsFound, NoResultFound
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.columns import Field, column, flag, identifier, json, optional_text, time
from cloudctl.db.columns import text as text_column
from cloudctl.db.plans import MOST_PLANS, Plans, Unplanned
from cloudctl.db.records import UNREAD, Record, select_without
from tests.plans import flat

WHEN = datetime(2026, 11, 22, 5, 4, 3, 21)


class Toy(Record, table="test_toys"):
    number: Field[int] = column(Integer, primary_key=True, autoincrement=True)
    name: Field[str] = text_column(64, unique=True)
    made_at: Field[datetime | None] = time()
    is_new: Field[bool] = flag(True)
    parts: Field[dict[str, Any]] = json(dict)
    note: Field[str | None] = optional_text()
    blob: Field[bytes | None] = column(LargeBinary)
    turns: Field[int] = column(Integer, nullable=False, default=0, onupdate=7)


class Owner(Record, table="test_owners"):
    name: Field[str] = identifier(primary_key=True)
    toy: Field[str | None] = column(String(64))


_by_name = select(Toy).where(Toy.name == bindparam("wanted"))


def fill(conn: Connection) -> None:
    Toy.table.create(conn.alchemy)
    Owner.table.create(conn.alchemy)
    for name, note in (("ball", None), ("car", "red"), ("doll", "")):
        conn.execute(insert(Toy).values(name=name, note=note, made_at=WHEN, parts={"é": [1, None]}, blob=b"\0\xff"))
    conn.execute(
        insert(Owner), [{"name": "ann", "toy": "ball"}, {"name": "bob", "toy": "ball"}, {"name": "cat", "toy": None}]
    )


@pytest.fixture(scope="module")
def memory() -> Iterator[Database]:
    db = Database.in_memory(Clock())
    db.transact(False, fill)
    yield db
    db.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def db(request: pytest.FixtureRequest, reactor: Any, tmp_path: Path) -> Iterator[Database]:
    if request.param == "memory":
        db = Database.in_memory(Clock())
    elif request.param == "sqlite":
        db = Database.open(f"sqlite:///{tmp_path / 'cloud.db'}", reactor)
    else:
        db = Database.open(str(request.getfixturevalue("postgresql_url")), reactor)
    db.transact(False, fill)
    yield db
    db.close()


def test_whole_records_are_instances_of_their_class(db: Database) -> None:
    ball = db.transact(True, lambda conn: conn.execute(_by_name, {"wanted": "ball"}).one())
    assert isinstance(ball, Toy)
    assert cast(Any, ball) == (1, "ball", WHEN, True, {"é": [1, None]}, None, b"\0\xff", 0)
    assert (ball.name, ball.made_at, ball.is_new, ball.parts) == ("ball", WHEN, True, {"é": [1, None]})
    assert ball._replace(note="x").note == "x" and ball._asdict()["turns"] == 0
    with pytest.raises(AttributeError):
        ball.name = "other"


def test_records_and_values_share_a_row(db: Database) -> None:
    query = select(Owner, Toy.number, Toy).join_from(Owner, Toy, Toy.name == Owner.toy).order_by(Owner.name)
    rows = db.transact(True, lambda conn: conn.execute(query).all())
    assert [(owner.name, number, toy.name) for owner, number, toy in rows] == [("ann", 1, "ball"), ("bob", 1, "ball")]


def test_a_record_with_holes_has_a_mark_there_that_is_no_json(db: Database) -> None:
    query = select_without(Toy, Toy.blob, Toy.note).where(Toy.name == "car")
    car = db.transact(True, lambda conn: conn.execute(query).one())
    assert isinstance(car, Toy) and car.turns == 0 and car.name == "car"
    assert car.blob is UNREAD and car.note is UNREAD
    whole = db.transact(True, lambda conn: conn.execute(select(Toy).where(Toy.name == "car")).one())
    assert whole.note == "red", "a statement of the same columns has a plan of its own"


@pytest.mark.parametrize(
    ("wanted", "found"), [([], []), (["car"], ["car"]), (["doll", "ball", "none"], ["ball", "doll"])]
)
def test_lists_of_any_length(db: Database, wanted: list[str], found: list[str]) -> None:
    prebuilt = select(Toy.name).where(Toy.name.in_(bindparam("names", expanding=True))).order_by(Toy.name)
    built = select(Toy.name).where(Toy.name.in_(wanted)).order_by(Toy.name)
    others = select(Toy.name).where(Toy.name.not_in(wanted)).order_by(Toy.name)

    def look(conn: Connection) -> list[list[str]]:
        queries = (conn.scalars(prebuilt, {"names": wanted}), conn.scalars(built), conn.scalars(others))
        return [list(each) for each in queries]

    rest = [name for name in ("ball", "car", "doll") if name not in wanted]
    assert db.transact(True, look) == [found, found, rest]
    assert db.transact(True, look) == [found, found, rest]


def test_a_tuple_in_a_list_is_left_to_sqlalchemy(db: Database) -> None:
    query = select(Toy.name).where(tuple_(Toy.number, Toy.name).in_([(1, "ball"), (2, "doll")]))
    with pytest.raises(Unplanned):
        db.transact(True, lambda conn: conn._plans.bind(query, {}, False))
    assert db.transact(True, lambda conn: list(conn.scalars(query))) == ["ball"]


def test_text_is_left_to_sqlalchemy(db: Database) -> None:
    rows = db.transact(True, lambda conn: conn.execute(text("SELECT name FROM test_toys WHERE number = :n"), {"n": 2}))
    assert rows.all() == [("car",)]


def test_a_statement_that_was_made_of_another_has_a_plan_of_its_own(db: Database) -> None:
    every = select(Toy.name).order_by(Toy.name)

    def look(conn: Connection) -> list[list[str]]:
        first = list(conn.scalars(every))
        return [first, list(conn.scalars(every.where(Toy.name > "ball"))), list(conn.scalars(every.limit(1)))]

    assert db.transact(True, look) == [["ball", "car", "doll"], ["car", "doll"], ["ball"]]


def test_the_values_of_a_statement_are_its_own(db: Database) -> None:
    """Two statements of one shape share a plan, and no value."""

    def look(conn: Connection) -> list[str | None]:
        return [conn.scalar(select(Toy.name).where(Toy.name == name)) for name in ("car", "ball", "none", "doll")]

    assert db.transact(True, look) == ["car", "ball", None, "doll"]


def test_a_missing_value_is_an_error_as_it_is_in_sqlalchemy(db: Database) -> None:
    with pytest.raises(InvalidRequestError, match="wanted"):
        db.transact(True, lambda conn: conn.execute(_by_name))


def test_defaults_keys_and_counts(db: Database) -> None:
    def work(conn: Connection) -> None:
        added = conn.execute(insert(Toy).values(name="kite"))
        assert added.key == 4
        kite = conn.execute(_by_name, {"wanted": "kite"}).one()
        assert (kite.parts, kite.is_new, kite.turns, kite.note) == ({}, True, 0, None)
        again = conn.execute(insert(Toy), {"name": "yoyo", "parts": {"a": 1}})
        assert again.key == 5
        changed = conn.execute(update(Toy).where(Toy.number > 3).values(note="new"))
        assert changed.rowcount == 2
        assert conn.scalar(select(Toy.turns).where(Toy.name == "kite")) == 7, "onupdate"
        prebuilt = update(Toy).where(Toy.name == bindparam("wanted"))
        assert conn.execute(prebuilt, {"wanted": "kite", "turns": 1, "parts": {"b": 2}}).rowcount == 1
        assert conn.execute(prebuilt, {"wanted": "none", "turns": 1}).rowcount == 0
        assert conn.execute(_by_name, {"wanted": "kite"}).one().parts == {"b": 2}
        gone = conn.execute(delete(Toy).where(Toy.number > 3).returning(Toy.name))
        assert sorted(gone.scalars()) == ["kite", "yoyo"]
        assert conn.execute(update(Toy).values(turns=Toy.turns + 1).returning(Toy)).all()[0].turns == 1

    db.transact(False, work)


def test_many_at_once(db: Database) -> None:
    def work(conn: Connection) -> list[tuple[str, str | None]]:
        rows = conn.execute(insert(Owner), [{"name": f"n{n}", "toy": None} for n in range(3)])
        assert rows.rowcount == 3
        assert conn.execute(insert(Owner), []).rowcount == 0
        change = update(Owner).where(Owner.name == bindparam("who"))
        conn.execute(change, [{"who": "n0", "toy": "a"}, {"who": "n2", "toy": "b"}])
        return list(conn.execute(select(Owner.name, Owner.toy).where(Owner.name.startswith("n")).order_by(Owner.name)))

    assert db.transact(False, work) == [("n0", "a"), ("n1", None), ("n2", "b")]


def test_errors_are_sqlalchemys_and_hold_no_values(db: Database) -> None:
    with pytest.raises(IntegrityError) as caught:
        db.transact(False, lambda conn: conn.execute(insert(Toy).values(name="ball", note="a secret")))
    assert "a secret" not in str(caught.value)
    with pytest.raises(DBAPIError):
        db.transact(True, lambda conn: conn.execute(select(func.nothing_like_it(Toy.name))))


@pytest.mark.parametrize("value", [{"1": [None, True, 1.5]}, {"big": 2**70}, [], "text"], ids=str)
def test_a_json_value_comes_back_as_it_went(memory: Database, value: Any) -> None:
    def work(conn: Connection) -> Any:
        with conn.begin_nested() as savepoint:
            conn.execute(insert(Toy).values(name="json", parts=value))
            found = conn.scalar(select(Toy.parts).where(Toy.name == "json"))
            conn.execute(delete(Toy).where(Toy.name == "json"))
        return savepoint and found

    assert memory.transact(False, work) == value


def test_what_is_no_json_is_not_written(memory: Database) -> None:
    for value in (WHEN, {"when": WHEN}, object()):
        with pytest.raises(TypeError):
            memory.transact(False, lambda conn, value=value: conn.execute(insert(Toy).values(name="x", parts=value)))


def test_a_savepoint_fails_alone(db: Database) -> None:
    def work(conn: Connection) -> list[str]:
        conn.execute(insert(Owner).values(name="dan"))
        with pytest.raises(IntegrityError), conn.begin_nested():
            conn.execute(insert(Owner).values(name="eve"))
            conn.execute(insert(Owner).values(name="dan"))
        with conn.begin_nested():
            conn.execute(insert(Owner).values(name="fay"))
        return list(conn.scalars(select(Owner.name).where(Owner.name > "cat").order_by(Owner.name)))

    assert db.transact(False, work) == ["dan", "fay"]


def test_a_transaction_that_only_reads_writes_nothing(db: Database) -> None:
    with pytest.raises(RuntimeError, match="test_owners"):
        db.transact(True, lambda conn: conn.execute(insert(Owner).values(name="dan")))


def test_one_row_is_asked_for_and_found(db: Database) -> None:
    def look(conn: Connection, wanted: list[str], how: Callable[[Any], Any]) -> Any:
        return how(conn.execute(select(Toy.name).where(Toy.name.in_(wanted))))

    assert (
        db.transact(True, look, ["car"], lambda rows: (rows.one(), rows.first(), rows.one_or_none())) == (("car",),) * 3
    )
    assert db.transact(True, look, [], lambda rows: (rows.first(), rows.one_or_none(), rows.scalar())) == (None,) * 3
    with pytest.raises(NoResultFound):
        db.transact(True, look, [], lambda rows: rows.scalar_one())
    with pytest.raises(MultipleResultsFound):
        db.transact(True, look, ["car", "ball"], lambda rows: rows.one())


def test_what_changed_can_be_told(db: Database) -> None:
    tables = ["test_owners"]
    before = db.changes(tables)
    db.transact(True, lambda conn: conn.execute(select(Owner)))
    db.transact(False, lambda conn: conn.execute(insert(Toy).values(name="kite")))
    assert db.changes(tables) == before
    db.transact(False, lambda conn: conn.execute(insert(Owner).values(name="dan")))
    assert db.changes(tables) != before or not db.is_sqlite


def test_plans_of_statements_that_are_built_at_the_call_are_bounded(memory: Database) -> None:
    plans = Plans(memory.engine.dialect)
    for number in range(MOST_PLANS + 10):
        plans.bind(select(null().label(f"n{number}")), {}, False)
    assert len(plans._known) == MOST_PLANS


class Slowly(dict[Any, Any]):
    """Its first key is found, and another thread has its turn."""

    def __iter__(self) -> Iterator[Any]:
        found = [next(super().__iter__())]
        sleep(0.02)
        return iter(found)


def test_threads_that_make_room_for_plans_at_once_are_not_in_each_others_way(
    memory: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloudctl.db.plans.MOST_PLANS", 4)
    plans = Plans(memory.engine.dialect)
    plans._known = Slowly()

    def look_up(number: int) -> None:
        plans.bind(select(null().label(f"n{number}")), {}, False)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(look_up, range(24)))
    assert len(plans._known) == 4


# -- property: rows and types are those of SQLAlchemy, whatever is asked

columns = st.sampled_from(
    [Toy, Owner, Toy.name, Toy.number, Toy.made_at, Toy.is_new, Toy.parts, Toy.blob, func.count()]
)
values = st.sampled_from(["ball", "car", "", "none", "b%", None])
conditions = st.one_of(
    st.builds(lambda v: Toy.name == v, values),
    st.builds(lambda v: Toy.note.is_distinct_from(v), values),
    st.builds(lambda vs: Toy.name.in_(vs), st.lists(st.sampled_from(["ball", "car", "x"]), max_size=3)),
    st.builds(lambda vs: Toy.number.not_in(vs), st.lists(st.integers(0, 4), max_size=3)),
    st.builds(lambda v: Toy.made_at >= v, st.sampled_from([WHEN, datetime(2027, 1, 1)])),
    st.builds(lambda v: Toy.is_new.is_(v), st.booleans()),
    st.builds(lambda v: Toy.name.contains(v, autoescape=True), st.sampled_from(["a", "%", "_l"])),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=st.lists(columns, min_size=1, max_size=4, unique_by=str),
    where=st.lists(conditions, max_size=3),
    limit=st.none() | st.integers(0, 3),
)
def test_a_plan_and_sqlalchemy_agree(memory: Database, asked: list[Any], where: list[Any], limit: int | None) -> None:
    query = select(*asked).select_from(Toy).outerjoin(Owner, Owner.toy == Toy.name)
    query = query.where(*where).order_by(Toy.number, Owner.name).limit(limit)

    def both(conn: Connection) -> None:
        expected = [tuple(row) for row in conn.alchemy.execute(query)]
        rows = conn.execute(query).all()
        found = [tuple(flat([row] if isinstance(row, Record) else row)) for row in rows]
        assert found == expected
        assert [list(map(type, row)) for row in found] == [list(map(type, row)) for row in expected]

    memory.transact(True, both)
