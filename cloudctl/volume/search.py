"""How volumes and attachments are found: sort keys and filters. Reference: volume.md, section 1.4."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from sqlalchemy import Column, ColumnElement, false, func, select, true

from cloudctl.db import Connection
from cloudctl.errors import Invalid
from cloudctl.rest.body import truth
from cloudctl.rest.formats import parse_time
from cloudctl.rest.listing import Filter, Listing, few
from cloudctl.volume.tables import Attachment, Volume, VolumeType

Condition = ColumnElement[bool]

LISTING = Listing(
    Volume.table,
    sort_keys={
        "id": Volume.id,
        "name": func.coalesce(Volume.name, ""),
        "display_name": func.coalesce(Volume.name, ""),
        "status": Volume.status,
        "size": Volume.size,
        "created_at": Volume.created_at,
        "updated_at": func.coalesce(Volume.updated_at, Volume.created_at),
        "availability_zone": Volume.availability_zone,
        "bootable": Volume.bootable,
        "volume_type_id": Volume.volume_type_id,
        "host": func.coalesce(Volume.host, ""),
    },
)

ATTACHMENTS = Listing(
    Attachment.table,
    sort_keys={
        "id": Attachment.id,
        "volume_id": Attachment.volume_id,
        "status": Attachment.status,
        "created_at": Attachment.created_at,
    },
)

LONGEST_LITERAL = 4096
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {"gt": gt, "gte": ge, "eq": eq, "neq": ne, "lt": lt, "lte": le}


def pairs(name: str, text: str) -> dict[str, str]:
    """A dict of strings in Python or JSON notation. Raises Invalid."""
    try:
        found = ast.literal_eval(text) if len(text) <= LONGEST_LITERAL else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(_is_text(each) for pair in found.items() for each in pair):
        raise Invalid(f"Invalid value {text[:64]!r} for the filter {name!r}: a dict of strings is expected.")
    return found


def _is_text(value: object) -> bool:
    """Whether a database stores it: an escape may stand for NUL, or for half of a character."""
    return isinstance(value, str) and "\0" not in value and value.encode(errors="ignore").decode() == value


def holds(column: Column[Any]) -> Filter:
    """Matches if a JSON column has all pairs of a dict."""

    def test(values: Sequence[str]) -> Condition:
        met: Condition = true()
        wanted = pairs(column.name, values[-1])
        few(column.name, wanted)
        for key, value in wanted.items():
            # Neither database can look up such a key, and no record has one.
            met = met & (false() if '"' in key or "\\" in key else column[key].as_string() == value)
        return met

    return test


def moment(column: Column[datetime], comparing: bool) -> Filter:
    """A time, or with `comparing` a list such as `gt:2026-01-01T00:00:00,lt:2026-02-01T00:00:00`."""

    def test(values: Sequence[str]) -> Condition:
        met: Condition = true()
        parts = values[-1].split(",") if comparing else values[-1:]
        few(column.name, parts)
        for part in parts:
            word, colon, rest = part.partition(":")
            compare = COMPARISONS.get(word.strip()) if colon and comparing else None
            if comparing and colon and compare is None and not word[:1].isdigit():
                raise Invalid(f"Invalid value {part[:64]!r} for {column.name!r}: unknown comparison operator.")
            met = met & (compare or eq)(column, _time(column.name, rest if compare else part))
        return met

    return test


def _time(name: str, text: str) -> datetime:
    try:
        return parse_time(text.strip())
    except (ValueError, OverflowError):
        raise Invalid(f"Invalid value {text[:64]!r} for {name!r}: a time is expected.") from None


def whole(column: Column[int]) -> Filter:
    """A number. No record has one that the database cannot hold."""

    def test(values: Sequence[str]) -> Condition:
        text = values[-1]
        if not (text.isascii() and text.isdigit()):
            raise Invalid(f"Invalid value {text[:64]!r} for the filter {column.name!r}: a number is expected.")
        return column == int(text) if len(text) <= 10 and int(text) < 2**31 else false()

    return test


def lenient_flag(column: Column[bool]) -> Filter:
    """Any word that is not a truth value is false."""
    return lambda values: column.is_(truth(values[-1]) is True)


def constant(value: bool) -> Filter:
    """A truth value that all records have."""

    def test(values: Sequence[str]) -> Condition:
        wanted = truth(values[-1])
        if wanted is None:
            raise Invalid(f"Invalid value {values[-1][:64]!r}: a boolean is expected.")
        return true() if wanted is value else false()

    return test


def migration_status(values: Sequence[str]) -> Condition:
    column = Volume.migration_status
    return column.is_(None) if values[-1].lower() in ("", "none", "null") else column == values[-1]


def nullable(column: Column[Any]) -> Filter:
    """Equal to the value; a word for none matches records without one."""
    return lambda values: column.is_(None) if values[-1].lower() in ("", "none", "null") else column == values[-1]


def of_type_named(values: Sequence[str]) -> Condition:
    named = select(VolumeType.id).where((VolumeType.name == values[-1]) | (VolumeType.id == values[-1]))
    return Volume.volume_type_id.in_(named)


def totals(conn: Connection, *where: Condition) -> tuple[int, int]:
    """(number, GiB) of the volumes that meet `where`."""
    query = select(func.count(), func.coalesce(func.sum(Volume.size), 0)).where(*where)
    count, size = conn.execute(query).one()
    return int(count), int(size)


def metadata_values(conn: Connection, *where: Condition) -> dict[str, list[str]]:
    """Key → its values in the volumes that meet `where`, in the order of the volumes."""
    # Keys in the order of their coming: a project may have very many volumes, each with a value of its own.
    found: dict[str, dict[str, None]] = {}
    ordered = select(Volume.metadata).where(*where).order_by(Volume.created_at, Volume.id)
    for metadata in conn.execute(ordered).scalars():
        for key, value in metadata.items():
            found.setdefault(key, {})[value] = None
    return {key: list(values) for key, values in found.items()}
