"""A page that is found in several ways, each in the order of an index and no longer than the page.

A database uses one index for one condition. It sorts what an OR finds before it knows which rows come first, and a
column in which nearly all rows have the same value (no description, no policy) is not worth an index of all of them. So
what a caller sees is looked for separately by each reason to see it, and a page in the order of such a column has two
ways: through the rows that have the usual value, by id, and through the few others, which have an index of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, TypeGuard

from attrs import frozen
from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Index,
    ScalarSelect,
    and_,
    case,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.sql.elements import BinaryExpression, BooleanClauseList
from sqlalchemy.sql.functions import coalesce
from sqlalchemy.sql.operators import and_ as is_and
from sqlalchemy.sql.operators import eq, lt
from sqlalchemy.sql.operators import or_ as is_or

Condition = ColumnElement[bool]
Order = Sequence[tuple[ColumnElement[Any], bool]]
"""(column, ascending) pairs, of which the last is the id."""

LITTLE = 100  # fewer referring rows than this are followed: see `linked`
USUAL = "usual"  # in a column's `info`: the value that nearly all rows have
APART = "apart"  # there, too: whether the others have indexes of their own


@frozen
class Way:
    where: tuple[Condition, ...]
    order: Order
    given: tuple[Condition, ...] = ()  # independent of the row: if one does not hold, there are no rows

    def most(self, limit: int) -> int | ColumnElement[int]:
        """How many rows are looked for. SQLite would check `given` again at each row, so it is checked here."""
        return case((and_(*self.given), limit), else_=0) if self.given else limit


def referred(id: Column[str], refers: Column[str], *met: Condition) -> Condition:
    """As `linked`, but checked for each row. PostgreSQL would join an EXISTS, starting with all rows that refer."""
    return select(refers).where(refers == id, *met).limit(1).scalar_subquery().is_not(None)


def declare_usual(column: Column[Any], value: Any, *indexes: tuple[Any, ...]) -> None:
    """Declare that nearly all rows have `value`. Only the others are in these indexes: for each, name and columns."""
    column.info.update({USUAL: value, APART: bool(indexes)})
    for name, *columns in indexes:
        where = unusual(column)
        Index(name, *columns, sqlite_where=where, postgresql_where=where)


def unusual(column: Column[Any]) -> Condition:
    """The condition that a row has an unusual value, worded as in the index that has only those rows."""
    value = column.info[USUAL]
    if value is None:
        return column.is_not(None)
    if isinstance(column.type, Boolean):
        return column.is_(not value)
    return column != literal_column(f"'{value}'" if isinstance(value, str) else str(value), column.type)


def ways(where: Sequence[Condition], order: Order, place: Sequence[Any] | None) -> list[Way]:
    """How the rows after `place`, the sort values of a marker, are found. `where`: the first is who sees them."""
    return [
        Way((*(each for each in seen if not _is_given(each)), *part.where), part.order, tuple(filter(_is_given, seen)))
        for seen in _reasons(where)
        for part in _parts(*varying(seen, order, place))
    ]


def varying(
    where: Sequence[Condition], order: Order, place: Sequence[Any] | None
) -> tuple[Order, Sequence[Any] | None]:
    """The order, and the place in it, without the columns in which all rows have the one value that `where` asks for.

    SQLite does not treat a row comparison that begins with such a column as a range.
    """
    fixed = {
        each.left
        for each in where
        if isinstance(each, BinaryExpression) and each.operator is eq and isinstance(each.left, Column)
    }
    kept = [number for number, (column, _) in enumerate(order) if column not in fixed or number == len(order) - 1]
    if len(kept) == len(order):
        return order, place
    return [order[number] for number in kept], None if place is None else [place[number] for number in kept]


def linked(id: Column[str], refers: Column[str], *met: Condition) -> Condition:
    """The condition that something which meets `met` refers to the row of this id.

    Two ways, one of which finds nothing: through what refers, if that is little; and row by row, if it is much, as then
    the next row that is looked at is likely to match.
    """
    found = select(refers).where(*met)
    number = select(func.count()).select_from(found.limit(LITTLE).subquery()).scalar_subquery()
    return or_(and_(number < LITTLE, id.in_(found)), and_(number == LITTLE, referred(id, refers, *met)))


def behind(order: Order, place: Sequence[Any]) -> Condition:
    columns = [column for column, _ in order]
    directions = {up for _, up in order}
    if len(directions) == 1:
        # A row comparison is one range of an index.
        pair = tuple_(*columns)
        return pair > tuple(place) if directions.pop() else pair < tuple(place)
    steps = []
    for position, (column, up) in enumerate(order):
        equal = [columns[before] == place[before] for before in range(position)]
        steps.append(and_(*equal, column > place[position] if up else column < place[position]))
    return or_(*steps)


def _reasons(where: Sequence[Condition]) -> Iterator[tuple[Condition, ...]]:
    """Each reason to see a row with each way to find it (see `linked`)."""
    for chosen in product(*(_alternatives(each, place == 0) for place, each in enumerate(where))):
        yield tuple(part for each in chosen for part in (each.clauses if _is_and(each) else (each,)))


def _alternatives(condition: Condition, is_sight: bool) -> Sequence[Condition]:
    if not isinstance(condition, BooleanClauseList) or condition.operator is not is_or:
        return (condition,)
    return tuple(condition.clauses) if is_sight or len(condition.clauses) == 2 else (condition,)


def _is_and(condition: Condition) -> TypeGuard[BooleanClauseList]:
    return isinstance(condition, BooleanClauseList) and condition.operator is is_and


def _is_given(condition: Condition) -> bool:
    """Whether it is one of the conditions of `linked` on the number."""
    is_number = isinstance(condition, BinaryExpression) and isinstance(condition.left, ScalarSelect)
    return is_number and condition.operator in (lt, eq)


def _parts(order: Order, place: Sequence[Any] | None) -> Iterator[Way]:
    first, up = order[0]
    column = next(iter(first.clauses)) if isinstance(first, coalesce) else first
    if len(order) != 2 or not isinstance(column, Column) or USUAL not in column.info:
        yield Way((behind(order, place),) if place is not None else (), order)
        return
    others = [(column, up), order[1]]
    yield Way((unusual(column), *([behind(others, place)] if place is not None else ())), others)
    usual = column.info[USUAL]
    shown = usual if usual is not None else -1 if column.type.python_type is int else ""
    alike = column.is_(usual) if usual is None or isinstance(column.type, Boolean) else column == usual
    if usual is None and column.info[APART]:
        # An index of what refers to something has the nulls, too, but not in the order of a page.
        alike = func.coalesce(column, shown) == shown
    reached = true() if place is None else _reached(column, shown, order, place)
    yield Way((alike, reached), order[1:])


def _reached(column: Column[Any], usual: Any, order: Order, place: Sequence[Any]) -> Condition:
    """The condition that a row with the usual value is after the place."""
    up = order[0][1]
    value, marker = place
    if value == usual:
        return behind(order[1:], (marker,))
    if not isinstance(usual, str):
        return true() if (usual > value) is up else false()
    # Compared in the database's own order of text.
    one, other = literal(usual, column.type), literal(value, column.type)
    return one > other if up else one < other
