"""What compute's lists have in common besides `rest.listing`. Reference: compute.md, section 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cloudctl.compute.api import gates
from cloudctl.compute.options import ComputeOptions
from cloudctl.errors import Invalid
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Limits, Page, next_link
from cloudctl.rest.standing import unexpected
from cloudctl.rest.versions import Span

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
