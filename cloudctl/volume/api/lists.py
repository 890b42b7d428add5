"""What all lists of this API share: paging, sorting, scope and filters. Reference: volume.md, section 1.4."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen
from sqlalchemy import Column, false

from cloudctl.db import Connection, Database
from cloudctl.errors import CloudError, Invalid
from cloudctl.rest import listing
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, Listing, Page, Paging
from cloudctl.rest.versions import ALWAYS, Span
from cloudctl.volume import search
from cloudctl.volume.api import gates, links

MOST = 1000
OFFSET_MOST = 2**31 - 1
PAGING = frozenset({"limit", "marker", "offset", "sort", "sort_key", "sort_dir", "all_tenants", "with_count"})

Make = Callable[[Call, Sequence[str]], Condition]


@frozen
class By:
    """A filter: for everyone or for administrators, at some versions. `like` tests for a part of the value (3.34)."""

    make: Make
    admin: bool = False
    span: Span = ALWAYS
    like: Make | None = None


def names(known: Mapping[str, By]) -> dict[str, Span]:
    """Filter → the versions that accept it, for `query` of the Operation that lists."""
    return {name: by.span for name, by in known.items()}


def always(make: Callable[[Sequence[str]], Condition]) -> Make:
    """A filter that is the same at every version."""
    return lambda call, values: make(values)


def text(column: Column[Any], **options: Any) -> By:
    """Equal to the value, or containing it."""
    return By(always(listing.equals(column)), like=always(listing.contains(column)), **options)


def exact(column: Column[Any]) -> By:
    return By(always(listing.equals(column)))


def for_admins(column: Column[Any]) -> By:
    return By(always(listing.equals(column)), admin=True)


def moment(column: Column[Any], **options: Any) -> By:
    """A time; from 3.60 on comparisons, too."""
    return By(lambda call, values: search.moment(column, call.version in gates.TIMES)(values), **options)


def sees_all(call: Call) -> bool:
    return call.may("volume:all_projects")


def scope(call: Call, project_id: Column[str]) -> list[Condition]:
    """The caller's project; everything for an administrator who asks for `all_tenants`."""
    if sees_all(call) and call.query.flag("all_tenants"):
        return []
    return [project_id == call.project_id]


def filters(call: Call, known: Mapping[str, By]) -> list[Condition]:
    """The filters of the query. Raises Invalid for one that is unknown to a member, from 3.31 on."""
    admin = sees_all(call)
    found: list[Condition] = []
    unknown = []
    for name in call.query:
        if name in PAGING:
            continue
        by, make = _chosen(call, known, name)
        if by is not None and make is not None and call.version in by.span and (admin or not by.admin):
            found.append(make(call, call.query.all(name)))
        elif admin:
            found.append(false())
        else:
            unknown.append(name[:64])
    if unknown and call.version in gates.STRICT:
        raise Invalid(f"Invalid filters {', '.join(unknown)} are found in query options.")
    return found


def _chosen(call: Call, known: Mapping[str, By], name: str) -> tuple[By | None, Make | None]:
    if name.endswith("~") and call.version in gates.LIKE:
        by = known.get(name[:-1])
        return by, None if by is None else by.like
    by = known.get(name)
    return by, None if by is None else by.make


def paging(call: Call) -> Paging:
    """Raises Invalid."""
    limit = call.query.get("limit")
    wanted = MOST if limit is None else min(MOST, _whole("limit", limit))
    offset = call.query.get("offset")
    skipped = 0 if offset is None else _whole("offset", offset)
    if skipped > OFFSET_MOST:
        raise Invalid(f"offset param is larger than {OFFSET_MOST}")
    marker = call.query.get("marker") or None
    return Paging(wanted, marker[:64] if marker else None, _order(call), offset=skipped)


def _whole(name: str, value: str) -> int:
    if re.fullmatch(r"\d{1,20}", value, re.ASCII) is None:
        raise Invalid(f"{name} param must be an integer, not negative: {value[:64]!r}")
    return int(value)


def _order(call: Call) -> tuple[tuple[str, str], ...]:
    combined, old = call.query.get("sort"), listing.sorting(call)
    if combined is None:
        return old
    if old or "sort_dir" in call.query:
        raise Invalid("The 'sort_key' and 'sort_dir' parameters are deprecated and cannot be used with 'sort'.")
    pairs = []
    for part in combined.split(","):
        key, _, direction = part.strip().partition(":")
        if not key:
            continue
        direction = direction.strip() or "desc"
        if direction not in ("asc", "desc"):
            raise Invalid(f"Invalid sort direction {direction[:64]!r}: it is asc or desc.")
        pairs.append((key.strip(), direction))
    return tuple(pairs)


def page(
    conn: Connection, call: Call, what: Listing, where: Sequence[Condition], unknown_marker: CloudError
) -> tuple[Page, int | None]:
    """The requested page, and the total number if that was requested, too."""
    found = listing.page(conn, what, paging(call), *where, unknown_marker=unknown_marker)
    counted = call.version in gates.COUNTED and call.query.flag("with_count")
    return found, listing.total(conn, what, *where) if counted else None


@frozen
class Collection:
    """How records of a kind are listed: their key in the answer, their order and their filters.

    `scope`: limits a caller's list; without it the project decides. `filters` None: the scope reads them.
    """

    key: str
    listing: Listing
    filters: Mapping[str, By] | None
    not_found: Callable[[str], CloudError]
    scope: Callable[[Call], list[Condition]] | None = None
    links: str | None = None

    def where(self, call: Call) -> list[Condition]:
        mine = self.scope(call) if self.scope else scope(call, self.listing.table.c.project_id)
        return [*mine, *(() if self.filters is None else filters(call, self.filters))]

    def found(self, conn: Connection, call: Call) -> tuple[Page, int | None]:
        """As `page`."""
        return page(conn, call, self.listing, self.where(call), self.not_found(call.query.get("marker") or ""))

    async def answer(self, db: Database, call: Call, view: Callable[[Call, Any], Any]) -> dict[str, Any]:
        found, total = await db.scan(self.found, call)
        return answer(call, self.key, [view(call, row) for row in found.rows], found, total)


def answer(
    call: Call, key: str, items: list[Any], found: Page, total: int | None = None, links_key: str | None = None
) -> dict[str, Any]:
    """The body of a list. A full page has a next link, as clients of this API expect."""
    body: dict[str, Any] = {key: items}
    limit = paging(call).limit
    if limit and len(found.rows) >= limit:
        body[links_key or f"{key}_links"] = links.next_page(call, found.rows[-1].id, limit)
    if total is not None:
        body["count"] = total
    return body
