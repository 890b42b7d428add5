"""Conditional requests and ranges. Reference: object-store.md, A5."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import ceil

from cloudctl.db.columns import seconds
from cloudctl.errors import PreconditionFailed, RangeNotSatisfiable
from cloudctl.rest.call import Call

ONE = re.compile(r"(\d{0,19})\s*-\s*(\d{0,19})", re.ASCII)
MOST_RANGES = 50

Range = tuple[int, int]  # from, and up to


def holds(call: Call, etag: str, updated_at: datetime) -> bool:
    """Whether the object is to be sent; False: the client has it already. Raises PreconditionFailed."""
    changed = ceil(seconds(updated_at))
    if (given := call.header("if-match")) is not None:
        if not matches(given, etag):
            raise PreconditionFailed("", headers={"ETag": etag})
    elif (moment := _moment(call.header("if-unmodified-since"))) is not None and changed > moment:
        # Times are for clients without tags: RFC 9110, 13.2.2.
        raise PreconditionFailed("", headers={"ETag": etag})
    if (given := call.header("if-none-match")) is not None:
        return not matches(given, etag)
    return (moment := _moment(call.header("if-modified-since"))) is None or changed > moment


def hold_for_copy(call: Call, etag: str, updated_at: datetime) -> None:
    """The same for a source, by S3's headers. Raises PreconditionFailed, also if the client would have it already."""
    prefix, changed = "x-amz-copy-source-", ceil(seconds(updated_at))
    match, none = call.header(f"{prefix}if-match"), call.header(f"{prefix}if-none-match")
    before = _moment(call.header(f"{prefix}if-unmodified-since"))
    after = _moment(call.header(f"{prefix}if-modified-since"))
    if (
        (match is not None and not matches(match, etag))
        or (none is not None and matches(none, etag))
        or (before is not None and match is None and changed > before)
        or (after is not None and none is None and changed <= after)
    ):
        raise PreconditionFailed("")


def matches(header: str, etag: str) -> bool:
    """Whether one of the tags is this one. The object must exist."""
    tags = {each.strip().removeprefix("W/").strip('"') for each in header.split(",")}
    return "*" in tags or etag.strip('"') in tags


def _moment(text: str | None) -> float | None:
    if not text:
        return None
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        # The last for numbers that no date can have.
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def ranges(call: Call, size: int, etag: str, updated_at: datetime) -> Sequence[Range]:
    """The requested parts; none: all of it. Raises RangeNotSatisfiable."""
    unit, equals, text = (call.header("range") or "").partition("=")
    if not equals or unit.strip().lower() != "bytes" or not _if_range(call, etag, updated_at):
        return ()
    found, some = [], text.split(",")
    for each in some:
        match = ONE.fullmatch(each.strip())
        if match is None or match.groups() == ("", ""):
            return ()
        first, last = match.groups()
        if first and last and int(last) < int(first):
            return ()
        start, stop = (max(0, size - int(last)), size) if not first else (int(first), size)
        if first and last:
            stop = min(int(last) + 1, size)
        if start < stop:
            found.append((start, stop))
    if not found or len(some) > MOST_RANGES:
        raise RangeNotSatisfiable("", headers={"Content-Range": f"bytes */{size}"})
    return found


def _if_range(call: Call, etag: str, updated_at: datetime) -> bool:
    given = call.header("if-range")
    if given is None:
        return True
    moment = _moment(given)
    return matches(given, etag) if moment is None else ceil(seconds(updated_at)) <= moment
