"""Listings of containers and objects, by name: prefix, delimiter, markers. Reference: object-store.md, A3, A4.

A page costs what it shows: names below a delimiter are skipped, not read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar

from attrs import evolve, frozen
from sqlalchemy import ColumnElement, or_, select

from cloudctl.db import Connection, totals
from cloudctl.db.columns import seconds
from cloudctl.object_store.containers import TOTALS, Usage
from cloudctl.object_store.tables import Container, Object

MOST = 10_000
FIRST, LAST = chr(1), chr(0x10FFFF)

# An object, or a text that stands for all names with this prefix.
Entry = Object | str


class Named(Protocol):
    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=Named)


@frozen
class Wanted:
    """Which names: those with `prefix`, between `marker` and `end_marker`, at most `limit` of them.

    Names with the delimiter after the prefix are shown as one entry that ends with it. With `flat` they are not shown
    at all, unless they end there.
    """

    limit: int = MOST
    marker: str = ""
    end_marker: str = ""
    prefix: str = ""
    delimiter: str = ""
    reverse: bool = False
    flat: bool = False


def after(prefix: str) -> str:
    """The least text above all texts with this prefix; empty if there is none."""
    text = prefix.rstrip(LAST)
    if not text:
        return ""
    code = ord(text[-1]) + 1
    # No text has surrogates.
    return text[:-1] + chr(0xE000 if code == 0xD800 else code)


@frozen
class _Bounds:
    """Names from `least` on, up to `most`. Empty: no such bound."""

    least: str = ""
    includes_least: bool = True
    most: str = ""

    def where(self, name: ColumnElement[str]) -> list[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = []
        if self.least:
            found.append(name >= self.least if self.includes_least else name > self.least)
        if self.most:
            found.append(name < self.most)
        return found


def bounds(wanted: Wanted) -> _Bounds:
    low, high = (wanted.end_marker, wanted.marker) if wanted.reverse else (wanted.marker, wanted.end_marker)
    end = after(wanted.prefix) if wanted.prefix else ""
    most = min(filter(None, (end, high)), default="")
    if low and low >= wanted.prefix:
        return _Bounds(low, False, most)
    return _Bounds(wanted.prefix, True, most)


def first_look(wanted: Wanted, limit: int) -> int:
    """How many names to read at first: with a delimiter, those that follow may all be in one folder."""
    return min(limit, 64) if wanted.delimiter else limit


def page(wanted: Wanted, read: Callable[[_Bounds, int], Sequence[R]]) -> list[R | str]:
    """What is wanted: records, and texts that stand for all names with this prefix.

    `read(bounds, most)` gives the first records within bounds, in the wanted order.
    """
    found: list[R | str] = []
    within, most = bounds(wanted), first_look(wanted, wanted.limit)
    while len(found) < wanted.limit:
        some = read(within, most)
        for record in some:
            if len(found) == wanted.limit:
                break
            folder = folder_of(record.name, wanted)
            if folder is None:
                if not (wanted.flat and record.name == wanted.prefix):
                    found.append(record)
            else:
                if not wanted.flat and folder != wanted.marker:
                    found.append(folder)
                within = _past_all(within, folder, wanted)
                # The next ones may all be in the same folder.
                most = 2
                break
        else:
            if len(some) < most:
                break
            within = _past(within, some[-1].name, wanted.reverse)
            most = min(most * 2, wanted.limit)
    return found


def folder_of(name: str, wanted: Wanted) -> str | None:
    """The entry that stands for this name and others."""
    if not wanted.delimiter:
        return None
    end = name.find(wanted.delimiter, len(wanted.prefix))
    if end < 0:
        return None
    folder = name[: end + len(wanted.delimiter)]
    return None if wanted.flat and folder == name else folder


def _past(within: _Bounds, name: str, reverse: bool) -> _Bounds:
    return evolve(within, most=name) if reverse else evolve(within, least=name, includes_least=False)


def _past_all(within: _Bounds, prefix: str, wanted: Wanted) -> _Bounds:
    if wanted.reverse:
        # A name that ends there is shown by itself if folders are not shown.
        return evolve(within, most=prefix + FIRST if wanted.flat else prefix)
    return evolve(within, least=after(prefix) or LAST * 1024, includes_least=True)


def is_there(now: datetime) -> ColumnElement[bool]:
    """It has not expired."""
    return or_(Object.delete_at.is_(None), Object.delete_at > int(seconds(now)))


def of_objects(conn: Connection, container: Container, wanted: Wanted, now: datetime) -> list[Object | str]:
    """Expired objects are left out."""
    order = Object.name.desc() if wanted.reverse else Object.name.asc()
    there = is_there(now)

    def read(within: _Bounds, most: int) -> Sequence[Object]:
        query = select(Object).where(Object.container_id == container.id, *within.where(Object.name), there)
        return conn.execute(query.order_by(order).limit(most)).all()

    return page(wanted, read)


class Outline(NamedTuple):
    """What a listing shows of a container: headers hold whole documents, and a page has ten thousand containers."""

    id: str
    name: str
    created_at: datetime
    updated_at: datetime


def of_containers(conn: Connection, project_id: str, wanted: Wanted) -> list[tuple[Outline, Usage] | str]:
    order = Container.name.desc() if wanted.reverse else Container.name.asc()
    columns = Container.id, Container.name, Container.created_at, Container.updated_at

    def read(within: _Bounds, most: int) -> Sequence[Outline]:
        query = select(*columns).where(Container.project_id == project_id, *within.where(Container.name))
        return [Outline(*row) for row in conn.execute(query.order_by(order).limit(most))]

    found = page(wanted, read)
    used = usages(conn, [each.id for each in found if not isinstance(each, str)])
    return [each if isinstance(each, str) else (each, used.get(each.id, Usage(0, 0))) for each in found]


def usages(conn: Connection, container_ids: Sequence[str]) -> dict[str, Usage]:
    amounts: dict[tuple[str, str], int] = {}
    for start in range(0, len(container_ids), 500):
        some = container_ids[start : start + 500]
        query = select(totals.Kept).where(totals.Kept.name.in_(TOTALS), totals.Kept.project_id.in_(some))
        amounts |= {(row.project_id, row.name): row.amount for row in conn.execute(query)}
    return {
        container_id: Usage(*(amounts.get((container_id, name), 0) for name in TOTALS))
        for container_id in container_ids
    }
