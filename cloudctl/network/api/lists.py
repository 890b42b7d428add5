"""Lists as the networking API has them: filters, sorting, paging, links, fields. Reference: network.md, section 1.3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

import orjson
from attrs import field, frozen
from sqlalchemy import Column, and_, or_

from cloudctl.db import Connection
from cloudctl.errors import Invalid, NotFound
from cloudctl.rest import listing
from cloudctl.rest.body import truth
from cloudctl.rest.call import Call
from cloudctl.rest.caller import Caller
from cloudctl.rest.formats import parse_time
from cloudctl.rest.listing import Condition, Filter, Limits, Listing, Page, Paging

Json = dict[str, Any]
T = TypeVar("T")

# limit=0 is no limit, and none is the default.
LIMITS = Limits(most=None, default=None, zero="most")
# Without a limit everything is returned, in pieces of this size.
PAGE = 500
RESERVED = frozenset({"fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"})


@frozen
class Collection:
    """A listed resource: its key in bodies, how it is listed, and what an unknown marker raises.

    `of_caller`: filters that depend on the caller, besides those of `listing`.
    """

    key: str
    listing: Listing
    not_found: Callable[[str], NotFound]
    of_caller: Mapping[str, Callable[[Caller], Filter]] = field(factory=dict)


def bad(message: str) -> Invalid:
    """A refusal of the request's form rather than of its content."""
    return Invalid(message, type="HTTPBadRequest")


# -- what a list is made of


def truths(column: Column[bool]) -> Filter:
    """Any of the truth values given."""
    return truths_of(column.name, lambda value: column.is_(value))


def truths_of(name: str, holds: Callable[[bool], Condition]) -> Filter:
    """As `truths`, for anything that is not a column."""

    def test(values: Sequence[str]) -> Condition:
        found = [truth(value) for value in values]
        if None in found:
            raise bad(f"Invalid input for {name}. Reason: a boolean is expected.")
        return or_(*(holds(value) for value in found if value is not None))

    return test


def times(column: Column[datetime]) -> Filter:
    """Within that second: times are shown to the second."""

    def within(when: datetime) -> Condition:
        second = when.replace(microsecond=0)
        return and_(column >= second, column < second + timedelta(seconds=1))

    return _times(within)


def since(column: Column[datetime]) -> Filter:
    """At that time or later."""
    return _times(lambda when: column >= when)


def _times(test: Callable[[datetime], Condition]) -> Filter:
    def at(values: Sequence[str]) -> Condition:
        try:
            return or_(*(test(parse_time(value)) for value in values))
        except (ValueError, OverflowError):
            raise bad("Invalid input for a time. Reason: ISO 8601 is expected.") from None

    return at


# -- one list


def asked(call: Call, collection: Collection) -> Paging:
    """The page that the query requests. Raises Invalid."""
    described = collection.listing
    known = RESERVED | described.filters.keys() | collection.of_caller.keys()
    unknown = [name for name in call.query if name not in known]
    if unknown:
        raise bad(f"{[name[:64] for name in unknown]} is invalid attribute for filtering")
    _check_owner(call)
    wanted = listing.paging(call, LIMITS, _order(call, described))
    reverse = call.query.flag("page_reverse")
    return Paging(wanted.limit, wanted.marker, wanted.order, reverse)


def fetch(
    conn: Connection, call: Call, collection: Collection, *visible: Condition, paging: Paging | None = None
) -> Page:
    """A page (by default the requested one) of the rows that meet `visible`.

    Raises Invalid, NotFound (the marker).
    """
    wanted = paging or asked(call, collection)
    conditions = listing.conditions(collection.listing, call)
    conditions += [
        make(call.caller)(call.query.all(name)) for name, make in collection.of_caller.items() if name in call.query
    ]
    gone = collection.not_found(wanted.marker or "")
    return listing.page(conn, collection.listing, wanted, *visible, *conditions, unknown_marker=gone)


def _check_owner(call: Call) -> None:
    named = set(call.query.all("project_id")), set(call.query.all("tenant_id"))
    if all(named) and named[0] != named[1]:
        raise bad("'project_id' and 'tenant_id' do not match")


def _order(call: Call, described: Listing) -> list[tuple[str, str]]:
    keys, directions = call.query.all("sort_key"), call.query.all("sort_dir")
    if len(keys) != len(directions):
        raise bad("The number of sort_keys and sort_dirs must be same")
    for direction in directions:
        if direction not in ("asc", "desc"):
            raise bad(f"{direction[:64]!r} is invalid value for sort_dirs, valid values are 'asc' and 'desc'")
    unknown = [key[:64] for key in keys if key not in described.sort_keys]
    if unknown:
        raise bad(f"{unknown} is invalid attribute for sort_keys")
    return list(zip(keys, directions, strict=True))


def answer(call: Call, collection: Collection, page: Page, views: Iterable[Json | orjson.Fragment]) -> Json:
    """The body of a list: the records with the requested fields, and the links of its page."""
    made: Json = {collection.key: [narrowed(call, view) for view in views]}
    key = collection.listing.id.key
    links = _links(call, [getattr(row, key) for row in page.rows])
    return {**made, f"{collection.key}_links": links} if links else made


def fields(call: Call) -> list[str]:
    """The fields that the query names. An empty name is none, as for neutron."""
    return [each for each in call.query.all("fields") if each]


def narrowed(call: Call, view: T) -> T:
    """Only the `fields` that the query names, if it names any. A view that is JSON already stays as it is."""
    wanted = fields(call)
    if not wanted or not isinstance(view, dict):
        return view
    return cast(T, {name: value for name, value in view.items() if name in wanted})


def _links(call: Call, ids: Sequence[str]) -> list[dict[str, str]]:
    limit = call.query.integer("limit")
    if not limit:
        return []
    reverse, full = call.query.flag("page_reverse"), len(ids) >= limit
    if not ids and not call.query.get("marker"):
        return []
    # From past the end, the link leads back to the last page; from before the beginning, to the first one.
    last, first = (ids[-1], ids[0]) if ids else (None, None)
    links = []
    if full or reverse:
        links.append({"rel": "next", "href": _link(call, marker=last, page_reverse=None)})
    if full or not reverse:
        links.append({"rel": "previous", "href": _link(call, marker=first, page_reverse="True")})
    return links


def _link(call: Call, **changes: str | None) -> str:
    return f"{call.url}?{call.query.having(**changes)}"
