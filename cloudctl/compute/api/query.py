"""What compute's lists have in common besides `rest.listing`. Reference: compute.md, section 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from cloudctl.compute.api import gates
from cloudctl.compute.options import ComputeOptions
from cloudctl.db import Connection
from cloudctl.errors import Invalid
from cloudctl.rest import listing
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, Limits, Listing, Page, Paging, next_link
from cloudctl.rest.standing import unexpected
from cloudctl.rest.versions import Span

T = TypeVar("T")

PAGING = frozenset({"limit", "marker"})


def only(call: Call, known: Iterable[str], strict: Span = gates.STRICT_QUERY) -> None:
    """Refuse unknown parameters, at these microversions; those of later ones are unknown, too. Raises Invalid."""
    if call.version in strict and (unknown := sorted(set(call.query) - (set(known) - call.query.hidden))):
        raise Invalid(unexpected(unknown))


def limits(options: ComputeOptions) -> Limits:
    return Limits(options.max_limit, options.max_limit)


def offset_page(call: Call, options: ComputeOptions) -> tuple[int, int]:
    """(limit, offset) of the lists without a marker; limit 0 means the maximum. Raises Invalid."""
    limit = call.query.integer("limit") or options.max_limit
    return min(limit, options.max_limit), call.query.integer("offset") or 0


def limit(call: Call, options: ComputeOptions) -> int:
    """As many as are asked for, if the options allow so many. Raises Invalid."""
    asked = call.query.integer("limit")
    return options.max_limit if asked is None else min(asked, options.max_limit)


def no_marker(marker: str | None) -> Invalid:
    return Invalid(f"marker [{(marker or '')[:64]}] not found")


def page(conn: Connection, what: Listing, asked: Paging, *where: Condition) -> Page:
    """As `listing.page`. Raises Invalid."""
    return listing.page(conn, what, asked, *where, unknown_marker=no_marker(asked.marker))


def cut(call: Call, rows: Sequence[T], options: ComputeOptions, name: Callable[[T], str]) -> Page:
    """The page that is asked for of a list that is there as a whole. `name`: as a marker has a row. Raises Invalid."""
    marker = call.query.get("marker")
    if marker is not None:
        place = next((at for at, row in enumerate(rows) if name(row) == marker), None)
        if place is None:
            raise no_marker(marker)
        rows = rows[place + 1 :]
    most = limit(call, options)
    return Page(rows[:most], len(rows) > most > 0)


def check_id(call: Call, id: str) -> None:
    """Raises Invalid for what is no UUID, once services and hypervisors are known by these."""
    if call.version in gates.UUIDS:
        try:
            UUID(id)
        except ValueError:
            raise Invalid(f"Invalid uuid {id[:64]}") from None


def links(call: Call, page: Page, key: str, last_id: str | None = None) -> dict[str, Any]:
    """`{key: [next]}` if there are more. `last_id`: the marker, by default the id of the last row."""
    if not page.more:
        return {}
    marker = page.rows[-1].id if last_id is None else last_id
    return {key: [{"rel": "next", "href": next_link(call, marker)}]}


def resource_links(call: Call, collection: str, id: str) -> list[dict[str, str]]:
    """Both links of one resource."""
    return [
        {"rel": "self", "href": f"{call.root_url}/v2.1/{collection}/{id}"},
        {"rel": "bookmark", "href": f"{call.root_url}/{collection}/{id}"},
    ]


def bookmark(call: Call, collection: str, id: str) -> list[dict[str, str]]:
    return [{"rel": "bookmark", "href": f"{call.root_url}/{collection}/{id}"}]


def sliced(rows: Sequence[Any], limit: int, offset: int) -> Sequence[Any]:
    return rows[offset : offset + limit]
