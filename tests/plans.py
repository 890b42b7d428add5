"""Every statement of the suite is compared with SQLAlchemy: when a plan first runs, so does SQLAlchemy itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from weakref import WeakSet

from cloudctl.db.connection import CLOCK, Connection, Rows
from cloudctl.db.plans import Plan, Unplanned
from cloudctl.db.records import UNREAD, Record

checked: WeakSet[Plan] = WeakSet()
# While statements are being counted, none is added.
_unchecked = 0


@contextmanager
def unchecked() -> Iterator[None]:
    """In this context no statement is run a second time."""
    global _unchecked
    _unchecked += 1
    try:
        yield
    finally:
        _unchecked -= 1


def is_unchecked() -> bool:
    return _unchecked > 0


def check_plans() -> None:
    """Check from now on. A difference fails the test in which the statement first ran."""
    execute = Connection.execute

    def checking(self: Connection, statement: Any, parameters: Any = None) -> Rows[Any]:
        rows: Rows[Any] = execute(self, statement, parameters)
        if not (_unchecked or isinstance(parameters, list) or statement is CLOCK):
            compare(self, statement, parameters or {}, rows)
        return rows

    cast(Any, Connection).execute = checking


def compare(conn: Connection, statement: Any, parameters: Any, rows: Rows[Any]) -> None:
    """Raises AssertionError if a statement's plan gives other rows, or another text, than SQLAlchemy."""
    try:
        plan = conn._plans.bind(statement, parameters, False).plan
    except Unplanned:
        return
    if plan in checked:
        return
    checked.add(plan)
    if plan.writes is None:
        # On PostgreSQL another transaction may commit between the two; nothing keeps changing that many times.
        for _ in range(50):
            expected = [tuple(row) for row in conn.alchemy.execute(statement, parameters)]
            found = [tuple(flat(row)) for row in rows]
            if found == expected:
                break
            rows = conn.execute(statement, parameters)
        assert found == expected, statement
        assert [list(map(type, row)) for row in found] == [list(map(type, row)) for row in expected], statement
    elif plan.pieces is None:
        compiled = statement.compile(dialect=conn.dialect, column_keys=sorted(parameters))
        assert plan.text == compiled.string
        assert [parameter.name for parameter in plan.parameters] == list(compiled.positiontup or ())


def flat(row: Any) -> Iterator[Any]:
    """The columns of a row, in order, whether they are parts of records or not."""
    for item in row:
        if isinstance(item, Record):
            yield from flat(item)
        elif item is not UNREAD:
            yield item
