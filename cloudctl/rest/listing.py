"""Lists: filters, sort keys, marker and limit, isolation, and next links, written once.

A page costs the same wherever it is in the table: it starts after the marker's own sort values (keyset paging), and
reads one row more than it shows to know whether there is a next page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen
from sqlalchemy import Column, ColumnElement, Select, Table, and_, false, func, select, union, union_all

from cloudctl.db import Connection
from cloudctl.errors import CloudError, Invalid
from cloudctl.rest.body import truth
from cloudctl.rest.call import Call
from cloudctl.rest.ways import USUAL, Order, Way, behind, unusual, varying, ways

Condition = ColumnElement[bool]
Filter = Callable[[Sequence[str]], Condition]
MARKER_LENGTH = 255
MOST_WORDS = 50


# -- filters: the values of one query parameter → a condition. They raise Invalid.


def equals(column: Column[Any]) -> Filter:
    """The last value given."""
    return lambda values: column == values[-1]


def any_of(column: Column[Any]) -> Filter:
    """Any of the values given, as networking reads a repeated parameter."""
    return lambda values: _among(column, values)


def _among(column: Column[Any], values: Sequence[Any]) -> Condition:
    found = column.in_(values)
    # The index of unusual values is used if only such values are asked for.
    rare = column.info.get(USUAL) is not None and column.info[USUAL] not in values
    return and_(found, unusual(column)) if rare else found


def flag(column: Column[bool]) -> Filter:
    def test(values: Sequence[str]) -> Condition:
        wanted = truth(values[-1])
        if wanted is None:
            raise Invalid(f"Invalid value {values[-1][:64]!r} for the filter {column.name!r}: a boolean is expected.")
        return column.is_(wanted)

    return test


def number(column: Column[Any]) -> Filter:
    """Any of the numbers given. No record has one that the database cannot hold."""

    def test(values: Sequence[str]) -> Condition:
        numbers = [_number(column.name, value) for value in values]
        held = [each for each in numbers if abs(each) < 2**31]
        return _among(column, held) if held else false()

    return test


def _number(name: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise Invalid(f"Invalid value {text[:64]!r} for the filter {name!r}: a number is expected.")
    # Python refuses to read thousands of digits.
    return 2**31 if len(digits) > 10 else int(text)


def contains(column: Column[str]) -> Filter:
    return lambda values: column.contains(values[-1], autoescape=True)


def words(name: str, values: Sequence[str]) -> list[str]:
    """The parts of comma lists, sorted. Raises Invalid: see `few`."""
    found = sorted({word for value in values for word in value.split(",") if word})
    few(name, found)
    return found


def few(name: str, found: Collection[object]) -> None:
    """Raises Invalid for more values of one filter than the database takes in one condition."""
    if len(found) > MOST_WORDS:
        raise Invalid(f"The filter {name!r} has more than {MOST_WORDS} values.")


@frozen
class Listing:
    """How the rows of one table are listed.

    `sort_keys`: name in the API → column (never NULL: wrap it in `func.coalesce`). `order`: the default order; `id` is
    always added last, so that the order is total.
    """

    table: Table
    sort_keys: Mapping[str, ColumnElement[Any]]
    order: tuple[tuple[str, str], ...] = (("created_at", "desc"),)
    filters: Mapping[str, Filter] = field(factory=dict)
    columns: tuple[ColumnElement[Any], ...] = ()
    marker: Column[str] | None = None
    in_ways: bool = False  # see `ways`

    def __attrs_post_init__(self) -> None:
        unknown = [name for name, _ in self.order if name not in self.sort_keys]
        if unknown:
            raise ValueError(f"{self.table.name} is listed by what is no sort key: {', '.join(unknown)}")

    @property
    def id(self) -> Column[str]:
        return self.marker if self.marker is not None else self.table.c.id


@frozen
class Paging:
    """What a client asked for. `limit` None: no limit."""

    limit: int | None
    marker: str | None = None
    order: tuple[tuple[str, str], ...] = ()
    reverse: bool = False
    offset: int = 0  # rows to leave out after the marker
    after: tuple[Any, ...] | None = None  # in place of a marker: see `following`


@frozen
class Page:
    """`rows` in the order asked for; `more` whether others follow (precede, if the page was asked in reverse)."""

    rows: Sequence[Any]
    more: bool = False


@frozen
class Limits:
    """The limits of one API's pages: at most `most` items; `default` when none is asked (None: no limit)."""

    most: int | None = 1000
    default: int | None = 1000
    zero: str = "empty"  # "empty": limit=0 is an empty page; "most": it is no limit


def paging(call: Call, limits: Limits, order: Iterable[tuple[str, str]] | None = None) -> Paging:
    """`limit`, `marker`, `sort_key` and `sort_dir` of the query. Raises Invalid."""
    limit = call.query.integer("limit")
    if limit is None:
        limit = limits.default
    elif limit == 0 and limits.zero == "most":
        limit = limits.most
    elif limits.most is not None:
        limit = min(limit, limits.most)
    marker = call.query.get("marker") or None
    if marker is not None and len(marker) > MARKER_LENGTH:
        raise Invalid(f"The marker has more than {MARKER_LENGTH} characters.")
    return Paging(limit, marker, tuple(order) if order is not None else sorting(call))


def sorting(call: Call) -> tuple[tuple[str, str], ...]:
    """The repeated `sort_key` and `sort_dir` as pairs. Raises Invalid for an unknown direction."""
    keys, directions = call.query.all("sort_key"), call.query.all("sort_dir")
    if len(directions) > len(keys) and keys:
        raise Invalid("There are more sort_dir than sort_key parameters.")
    for direction in directions:
        if direction not in ("asc", "desc"):
            raise Invalid(f"Invalid value {direction[:64]!r} for 'sort_dir': it is asc or desc.")
    padded = directions + [directions[-1] if directions else "desc"] * len(keys)
    return tuple(zip(keys, padded, strict=False))


def conditions(listing: Listing, call: Call, ignore: Iterable[str] = ()) -> list[Condition]:
    """The filters of the query that the listing knows; others are left to the caller."""
    return [
        make(call.query.all(name))
        for name, make in listing.filters.items()
        if name in call.query and name not in ignore
    ]


def page(
    conn: Connection, listing: Listing, paging: Paging, *where: Condition, unknown_marker: CloudError | None = None
) -> Page:
    """The rows that meet `where`, as the client asked to see them.

    `where` must hold the isolation: a marker that it hides is as unknown as one that does not exist, and raises
    `unknown_marker` (default: Invalid).
    """
    order = _order(listing, paging)
    place: Sequence[Any] | None = paging.after
    if paging.marker is not None:
        place = _place(conn, listing, order, paging.marker, where, unknown_marker)
    found = ways(where, order, place) if listing.in_ways and paging.limit and not paging.offset else ()
    if len(found) > 1:
        query = _in_ways(listing, found, order, paging.limit or 0)
    else:
        query = select(*(listing.columns or (listing.table,))).where(*where)
        order, place = varying(where, order, place)
        if place is not None:
            query = query.where(behind(order, place))
        query = query.order_by(*_directed(order))
    if paging.offset:
        query = query.offset(paging.offset)
    if paging.limit is None:
        rows: Sequence[Any] = conn.execute(query).all()
        more = False
    elif paging.limit == 0:
        return Page(())
    else:
        rows = conn.execute(query.limit(paging.limit + 1)).all()
        more = len(rows) > paging.limit
        rows = rows[: paging.limit]
    return Page(rows[::-1] if paging.reverse else rows, more)


def _in_ways(listing: Listing, found: Sequence[Way], order: Order, limit: int) -> Select[Any]:
    """The first rows of each of the ways, one more than the page may hold, in the order of the page."""
    if not listing.columns:
        firsts = (_first((listing.id,), way, limit) for way in found)
        query = select(listing.table).where(listing.id.in_(union_all(*firsts)))
        return query.order_by(*_directed(order))
    # What is shown, and what it is sorted by, is selected with it: for a few hundred ids PostgreSQL scans a table of
    # ten thousand rows. A row that is found in two ways is the same in both.
    values = [column.label(f"sorted_by_{place}") for place, (column, _) in enumerate(order)]
    rows = union(*(_first((*listing.columns, *values), way, limit) for way in found)).subquery()
    columns = list(rows.c)
    shown, keys = columns[: len(listing.columns)], columns[len(listing.columns) :]
    return select(*shown).order_by(*_directed([(key, up) for key, (_, up) in zip(keys, order, strict=True)]))


def _first(columns: Sequence[ColumnElement[Any]], way: Way, limit: int) -> Select[Any]:
    found = select(*columns).where(*way.where).order_by(*_directed(way.order)).limit(way.most(limit + 1)).subquery()
    return select(*found.c)


def _directed(order: Order) -> list[ColumnElement[Any]]:
    return [column.asc() if up else column.desc() for column, up in order]


def following(conn: Connection, listing: Listing, paging: Paging, last_id: str) -> Paging:
    """The Paging for the page after a row, whatever becomes of that row. Call it in the transaction that read it."""
    order = _order(listing, paging)
    place = conn.execute(select(*(column for column, _ in order)).where(listing.id == last_id)).one()
    return evolve(paging, marker=None, after=tuple(place))


def total(conn: Connection, listing: Listing, *where: Condition) -> int:
    """How many rows meet `where`."""
    query: Select[Any] = select(func.count()).select_from(listing.table).where(*where)
    return int(conn.execute(query).scalar_one())


def _order(listing: Listing, paging: Paging) -> Order:
    """(column, ascending) pairs, ending with the id."""
    found: dict[str, tuple[ColumnElement[Any], bool]] = {}
    up = False
    for name, direction in paging.order or listing.order:
        if name in found:
            # It decides nothing a second time, but the condition of a page grows with the square of the order.
            continue
        if name not in listing.sort_keys:
            known = ", ".join(sorted(listing.sort_keys))
            raise Invalid(f"Invalid value {name[:64]!r} for 'sort_key': it is one of {known}.")
        up = (direction == "asc") is not paging.reverse
        found[name] = listing.sort_keys[name], up
    return [*found.values(), (listing.id, up)]


def _place(
    conn: Connection,
    listing: Listing,
    order: Order,
    marker: str,
    where: Sequence[Condition],
    unknown: CloudError | None,
) -> tuple[Any, ...]:
    """The sort values of the marker."""
    row = conn.execute(select(*(column for column, _ in order)).where(listing.id == marker, *where)).first()
    if row is None:
        raise unknown or Invalid(f"The marker {marker[:64]!r} could not be found.")
    return tuple(row)


def next_link(call: Call, last_id: str, **changes: str | None) -> str:
    """The URL of the page that follows `last_id`."""
    return f"{call.url}?{call.query.having(marker=last_id, **changes)}"
