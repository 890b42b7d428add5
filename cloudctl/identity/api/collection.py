"""The envelope of a list: `{"users": [...], "links": {...}}`. Reference: identity.md, section 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from cloudctl.db import Connection
from cloudctl.errors import NotFound
from cloudctl.identity.records import LIMITS
from cloudctl.rest import listing
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, Listing, Page

View = Callable[[Call, Any], dict[str, Any]]
OF_SEGMENTS = "!$&'()*+,;=:@"  # what needs no quoting in a segment of a path: RFC 3986, section 3.3


def page(conn: Connection, call: Call, what: Listing, *where: Condition) -> Page:
    """The rows that meet `where`, the query's filters, limit, marker and order."""
    paging = listing.paging(call, LIMITS)
    conditions = (*listing.conditions(what, call), *where)
    return listing.page(conn, what, paging, *conditions, unknown_marker=NotFound("Could not find the marker."))


def paged(call: Call, key: str, found: Page, view: View) -> dict[str, Any]:
    """With a link to the next page if there is one."""
    following = listing.next_link(call, found.rows[-1].id) if found.more else None
    body = listed(call, key, (view(call, row) for row in found.rows))
    body["links"]["next"] = following
    if found.more and not call.query.integer("limit"):
        body["truncated"] = True
    return body


def listed(call: Call, key: str, views: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Everything on one page."""
    query = call.query.having()
    return {
        key: list(views),
        "links": {"self": f"{call.url}?{query}" if query else call.url, "previous": None, "next": None},
    }


def link(call: Call, *path: str) -> dict[str, str]:
    """`links` of one record. An id may be anything that a client chose, such as that of a region."""
    return {"self": "/".join((f"{call.root_url}/v3", *(quote(each, safe=OF_SEGMENTS) for each in path)))}
