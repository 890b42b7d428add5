"""Lists of images: filters, sort keys, and which images a list shows. Reference: image.md, section 4."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, and_, false, func, or_, select, true

from cloudctl.errors import Invalid
from cloudctl.image import images as domain
from cloudctl.image.images import COMMUNITY, MEMBER_STATUSES, PRIVATE, PUBLIC, SHARED, VISIBILITIES
from cloudctl.image.tables import Image, ImageProperty, ImageTag
from cloudctl.rest import listing
from cloudctl.rest.body import INTEGER_MOST
from cloudctl.rest.caller import Caller
from cloudctl.rest.formats import parse_time
from cloudctl.rest.listing import Condition, Filter, Listing

MOST_VALUES = 200  # of one `in:` list
BIGGEST = 2**63 - 1


# -- filters


def _listed(column: Column[Any]) -> Filter:
    """Equality, or any of `in:a,"b,c"`."""

    def test(values: Sequence[str]) -> Condition:
        value = values[-1]
        if not value.startswith("in:"):
            return column == value
        return column.in_(split(value.removeprefix("in:"), column.name))

    return test


def split(text: str, name: str) -> list[str]:
    """Values between commas; one that holds a comma is in quotes. Raises Invalid."""
    wrong = Invalid(f"Invalid list of values for the filter {name!r}.")
    try:
        (found,) = csv.reader([text], strict=True)
    except (csv.Error, ValueError):
        raise wrong from None
    if len(found) > MOST_VALUES:
        raise Invalid(f"The filter {name!r} has {len(found)} values; at most {MOST_VALUES} are taken.")
    return found


def _size(column: Column[Any], compare: Callable[[Any, int], ColumnElement[bool]]) -> Filter:
    def test(values: Sequence[str]) -> Condition:
        return compare(column, natural(column.name, values[-1]))

    return test


def _count(column: Column[int]) -> Filter:
    """Equality with an integer column, whose range is smaller than that of the numbers a client may send."""

    def test(values: Sequence[str]) -> Condition:
        number = natural(column.name, values[-1])
        return column == number if number <= INTEGER_MOST else false()

    return test


def natural(name: str, text: str) -> int:
    """An integer of 0 or more. Raises Invalid."""
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= BIGGEST):
        raise Invalid(f"Invalid value {text[:64]!r} for the filter {name!r}: an integer of 0 or more is expected.")
    return int(text)


TIME_OPERATORS: Mapping[str, Callable[[Any, datetime], ColumnElement[bool]]] = {
    "gt": lambda column, when: column > when,
    "gte": lambda column, when: column >= when,
    "lt": lambda column, when: column < when,
    "lte": lambda column, when: column <= when,
    "eq": lambda column, when: column == when,
    "neq": lambda column, when: column != when,
}


def _time(column: Column[datetime]) -> Filter:
    """`gt:2026-01-02T03:04:05Z` and so on; without an operator, equality. Every condition must hold."""

    def test(values: Sequence[str]) -> Condition:
        return and_(*(one(value) for value in values))

    def one(value: str) -> Condition:
        operator, _, rest = value.partition(":")
        compare = TIME_OPERATORS.get(operator)
        try:
            when = parse_time(rest if compare else value)
        except (ValueError, OverflowError):
            raise Invalid(f"Invalid value {value[:64]!r} for the filter {column.name!r}: a time is expected.") from None
        return (compare or TIME_OPERATORS["eq"])(column, when)

    return test


def _flag(column: Column[bool]) -> Filter:
    """`true` or `false`; clients written in Python send `True`."""

    def test(values: Sequence[str]) -> Condition:
        wanted = {"true": True, "false": False}.get(values[-1].lower())
        if wanted is None:
            raise Invalid(f"Invalid value {values[-1][:64]!r} for the filter {column.name!r}: it is true or false.")
        return column.is_(wanted)

    return test


def _tags(values: Sequence[str]) -> Condition:
    """Images that have all of these tags."""
    having = (select(ImageTag.image_id).where(ImageTag.tag == tag) for tag in dict.fromkeys(values))
    return and_(*(Image.id.in_(each) for each in having))


def _refused(values: Sequence[str]) -> Condition:
    raise Invalid("The filter 'changes-since' is not supported.")


FILTERS: Mapping[str, Filter] = {
    **{name: _listed(Image.table.c[name]) for name in ("id", "name", "status", "container_format", "disk_format")},
    **{name: listing.equals(Image.table.c[name]) for name in ("owner", "checksum", "os_hash_algo", "os_hash_value")},
    **{name: _size(Image.table.c[name], lambda column, size: column == size) for name in ("size", "virtual_size")},
    **{name: _count(Image.table.c[name]) for name in ("min_disk", "min_ram")},
    "size_min": _size(Image.size, lambda column, size: column >= size),
    "size_max": _size(Image.size, lambda column, size: column <= size),
    "created_at": _time(Image.created_at),
    "updated_at": _time(Image.updated_at),
    "protected": _flag(Image.protected),
    "os_hidden": _flag(Image.os_hidden),
    "tag": _tags,
    "changes-since": _refused,
}
# Read by `shown` and by paging.
OTHERS = ("visibility", "member_status", "limit", "marker", "sort", "sort_key", "sort_dir")

LISTING = Listing(
    Image.table,
    sort_keys={
        **{name: func.coalesce(Image.table.c[name], "") for name in ("name", "container_format", "disk_format")},
        "size": func.coalesce(Image.size, 0),
        **{name: Image.table.c[name] for name in ("status", "id", "created_at", "updated_at")},
    },
    filters=FILTERS,
)


def having(name: str, value: str) -> Condition:
    """Images whose property of this name has this value."""
    mine = and_(ImageProperty.image_id == Image.id, ImageProperty.name == name)
    return select(ImageProperty.image_id).where(mine, ImageProperty.value == value).exists()


# -- which images a list shows


def shown(caller: Caller, visibility: str | None, member_status: str | None) -> Condition:
    """What the caller is shown unless it names an id, by these two parameters of the query. Raises Invalid.

    Without `visibility`: its own, the public ones, and those shared with it; of community images only its own.
    """
    if visibility not in (None, "all", *VISIBILITIES):
        raise Invalid(f"Invalid visibility value: {visibility[:64]}.")
    answered = member_status or domain.ACCEPTED
    if answered not in ("all", *MEMBER_STATUSES):
        raise Invalid(f"Invalid status value: {answered[:64]}.")
    if domain.sees_all(caller):
        return Image.visibility == visibility if visibility in VISIBILITIES else true()
    statuses = MEMBER_STATUSES if answered == "all" else (answered,)
    own = domain.owned_by(caller.project_id)
    shared = domain.shared_with(caller.project_id, *statuses)
    by_visibility = {
        PUBLIC: Image.visibility == PUBLIC,
        PRIVATE: and_(Image.visibility == PRIVATE, own),
        SHARED: or_(shared, and_(Image.visibility == SHARED, own)),
        COMMUNITY: Image.visibility == COMMUNITY,
        "all": or_(own, Image.visibility.in_((PUBLIC, COMMUNITY)), shared),
        None: or_(own, Image.visibility == PUBLIC, shared),
    }
    return by_visibility[visibility]
