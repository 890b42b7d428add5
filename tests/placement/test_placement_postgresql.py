"""What SQLite forgives: placement's statements on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cloudctl.db import Database
from cloudctl.db.columns import utc
from cloudctl.errors import NotFound
from cloudctl.placement import aggregates
from cloudctl.placement.aggregates import NewAggregate
from tests.meanwhile import opened


@pytest.fixture
def db(postgresql_with_tables: str) -> Iterator[Database]:
    with opened(postgresql_with_tables) as made:
        yield made


@pytest.mark.parametrize("number", [0, -1, 2**31 - 1, 2**31, -(2**31), 10**17])
def test_an_aggregate_with_a_number_that_there_is_not_is_not_found(db: Database, number: int) -> None:
    made: Any = db.transact(False, aggregates.create, NewAggregate("a"), utc(0))
    assert db.transact(True, aggregates.get, made.number) == made
    with pytest.raises(NotFound):
        db.transact(True, aggregates.get, number)
