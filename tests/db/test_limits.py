"""A cloud in memory stores no more than PostgreSQL would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, Text, create_engine, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DataError, OperationalError

from cloudctl.testing.limits import limited

TABLES = MetaData()
THINGS = Table(
    "things",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("name", String(3)),
    Column("size", Integer),
    Column("bytes", BigInteger),
    Column("notes", Text),
)
MOST = {"id": 1, "name": "äöü", "size": -(2**31), "bytes": 2**62, "notes": 5000 * "x"}


@pytest.fixture(params=["sqlite", "postgresql"])
def conn(request: pytest.FixtureRequest) -> Iterator[Connection]:
    is_sqlite = request.param == "sqlite"
    engine = create_engine("sqlite://" if is_sqlite else request.getfixturevalue("postgresql_url"))
    with engine.connect() as made:
        (limited(TABLES) if is_sqlite else TABLES).create_all(made)
        yield made
        made.rollback()
    engine.dispose()


def test_what_fits_is_stored(conn: Connection) -> None:
    conn.execute(insert(THINGS).values(**MOST))
    conn.execute(insert(THINGS).values(id=2))
    stored = conn.execute(select(THINGS).order_by(THINGS.c.id)).mappings()
    assert [dict(each) for each in stored] == [MOST, {**dict.fromkeys(MOST), "id": 2}]


@pytest.mark.parametrize(("name", "value"), [("name", "four"), ("size", 2**31), ("size", -(2**31) - 1)])
@pytest.mark.parametrize("is_new", [True, False])
def test_what_does_not_is_refused(conn: Connection, name: str, value: Any, is_new: bool) -> None:
    if is_new:
        change: Any = insert(THINGS).values(**{**MOST, name: value})
    else:
        conn.execute(insert(THINGS).values(**MOST))
        change = update(THINGS).values(**{name: value})
    with pytest.raises((OperationalError, DataError), match=rf"too much for things.{name}|too long|out of range"):
        conn.execute(change)
