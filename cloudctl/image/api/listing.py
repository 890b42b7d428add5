"""What the query of a list of images requests. Reference: image.md, section 4."""

from __future__ import annotations

from cloudctl.db import Connection
from cloudctl.errors import Invalid
from cloudctl.image import images as domain
from cloudctl.image.images import Image
from cloudctl.image.listing import FILTERS, LISTING, OTHERS, having, shown
from cloudctl.image.tables import Image as ImageRecord
from cloudctl.rest import listing
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, Limits

LIMITS = Limits(most=1000, default=25)


def conditions(call: Call) -> list[Condition]:
    """All conditions of the query. Raises Invalid."""
    visible = shown(call.caller, call.query.get("visibility"), call.query.get("member_status"))
    found = [visible, *listing.conditions(LISTING, call)]
    if "os_hidden" not in call.query:
        found.append(ImageRecord.os_hidden.is_(False))
    known = {*FILTERS, *OTHERS}
    found += [having(name, call.query.get(name) or "") for name in call.query if name not in known]
    return found


def order(call: Call) -> tuple[tuple[str, str], ...]:
    """`sort`, or `sort_key` and `sort_dir`, as pairs. Raises Invalid."""
    keys, directions = call.query.all("sort_key"), call.query.all("sort_dir")
    if "sort" in call.query:
        if keys or directions:
            raise Invalid("Old and new sorting syntax cannot be combined.")
        pairs = [part.strip().partition(":") for part in (call.query.get("sort") or "").split(",")]
        keys, directions = [key for key, _, _ in pairs], [direction or "desc" for _, _, direction in pairs]
    if len(directions) <= 1:
        directions = (directions or ["desc"]) * max(1, len(keys))
    keys = keys or ["created_at"]
    if len(keys) != len(directions):
        raise Invalid("There must be one sort_dir, or as many as there are sort_key parameters.")
    for direction in directions:
        if direction not in ("asc", "desc"):
            raise Invalid(f"Invalid sort direction: {direction[:64]}. It is asc or desc.")
    # A repeated key orders nothing; dropping it bounds the statement.
    pairs_of = dict(reversed([*zip(keys, directions, strict=True)]))
    return tuple((key, pairs_of[key]) for key in dict.fromkeys(keys))


def page(conn: Connection, call: Call) -> tuple[list[Image], bool]:
    """The images that the query requests, and whether others follow. Raises Invalid."""
    asked = listing.paging(call, LIMITS, order=order(call))
    found = listing.page(conn, LISTING, asked, *conditions(call))
    return domain.full(conn, found.rows), found.more
