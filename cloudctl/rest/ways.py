"""A page that is found in several ways, each in the order of an index and no longer than the page.

A database takes one index for one condition. What an OR finds it sorts before it knows which come first, and a column
in which nearly all rows have the same value (no description, no policy) is not worth an index of all of them. So what
one sees is looked for by each of its reasons, and a page in the order of such a column has two ways: through the rows
that have the usual value, by id, and through the few others, which have an index of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen
from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Index,
    and_,
    false,
    func,
    literal,
    literal_column,
    or_,
    true,
    tuple_,
)
from sqlalchemy.sql.elements import BooleanClauseList
from sqlalchemy.sql.functions import coalesce
from sqlalchemy.sql.operators import or_ as is_or

Condition = ColumnElement[bool]
Order = Sequence[tuple[ColumnElement[Any], bool]]
"""(column, ascending) pairs, of which the last is the id."""

USUAL = "usual"  # in a column's `info`: the value that nearly all rows have
APART = "apart"  # there, too: whether the others have indexes of their own


@frozen
class Way:
    where: tuple[Condition, ...]
    order: Order


def declare_usual(column: Column[Any], value: Any, *indexes: tuple[Any, ...]) -> None:
    """Nearly all rows have `value`. The others alone are in these indexes, each its name and its columns."""
    column.info.update({USUAL: value, APART: bool(indexes)})
    for name, *columns in indexes:
        where = unusual(column)
        Index(name, *columns, sqlite_where=where, postgresql_where=where)


def unusual(column: Column[Any]) -> Condition:
    """That a row has another value than the usual one, in the words of the index that has those rows alone."""
    value = column.info[USUAL]
    if value is None:
        return column.is_not(None)
    if isinstance(column.type, Boolean):
        return column.is_(not value)
    return column != literal_column(f"'{value}'" if isinstance(value, str) else str(value), column.type)


def ways(where: Sequence[Condition], order: Order, place: Sequence[Any] | None) -> list[Way]:
    """How the rows behind `place`, the sort values of a marker, are found. `where`: first who sees them."""
    return [Way((*seen, *part.where), part.order) for seen in _reasons(where) for part in _parts(order, place)]


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
    first, rest = where[:1], where[1:]
    if first and isinstance(first[0], BooleanClauseList) and first[0].operator is is_or:
        for each in first[0].clauses:
            yield each, *rest
    else:
        yield tuple(where)


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
    """That a row with the usual value is behind the place."""
    up = order[0][1]
    value, marker = place
    if value == usual:
        return behind(order[1:], (marker,))
    if not isinstance(usual, str):
        return true() if (usual > value) is up else false()
    # In the order that the database has for text.
    one, other = literal(usual, column.type), literal(value, column.type)
    return one > other if up else one < other
