"""Listings of versions: by name, and of each name the newest one first. A page costs what it shows."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from datetime import datetime

from attrs import frozen
from sqlalchemy import ColumnElement, select, tuple_

from cloudctl.db import Connection
from cloudctl.object_store import listing, numbered
from cloudctl.object_store.listing import LAST, Wanted, after
from cloudctl.object_store.tables import Container, Object, Version


@frozen
class WantedVersions:
    """Those of names with `prefix`, after this version of this name (None: after all of it), at most so many."""

    limit: int
    name: str = ""
    version: str | None = None
    prefix: str = ""
    delimiter: str = ""


@frozen
class Numbered:
    row: Object | Version
    is_latest: bool

    @property
    def is_marker(self) -> bool:
        return numbered.is_marker(self.row)


@frozen
class _From:
    """From this name on, or after a version of a name."""

    least: str
    past: tuple[str, str | None] | None = None

    def objects(self) -> ColumnElement[bool]:
        """The object that is there comes before those that were."""
        return Object.name >= self.least if self.past is None else Object.name > self.past[0]

    def versions(self) -> ColumnElement[bool]:
        if self.past is None:
            return Version.name >= self.least
        name, version = self.past
        return Version.name > name if version is None else tuple_(Version.name, Version.version) > (name, version)


def of_versions(conn: Connection, container: Container, wanted: WantedVersions, now: datetime) -> list[Numbered | str]:
    """What is wanted, and texts that stand for all that begin so."""
    found: list[Numbered | str] = []
    names = Wanted(prefix=wanted.prefix, delimiter=wanted.delimiter)
    place, before = _start(conn, container, wanted)
    while len(found) < wanted.limit:
        some = _read(conn, container, place, names, wanted.limit - len(found), now)
        for row in some:
            folder = listing.folder_of(row.name, names)
            if folder is not None:
                if folder != wanted.name:
                    found.append(folder)
                place = _From(after(folder) or LAST * 1024)
                break
            found.append(Numbered(row, row.name != before))
            before = row.name
        else:
            break
    return found


def _start(conn: Connection, container: Container, wanted: WantedVersions) -> tuple[_From, str]:
    """Where to begin, and the name whose newest version was shown already."""
    if not wanted.name or wanted.name < wanted.prefix:
        return _From(wanted.prefix), ""
    version = wanted.version
    if version == numbered.NULL:
        old = numbered.find(conn, container, wanted.name, version)
        version = "" if old is None else old.version
    return _From("", (wanted.name, version)), wanted.name if version is not None else ""


def _read(
    conn: Connection, container: Container, place: _From, names: Wanted, most: int, now: datetime
) -> Sequence[Object | Version]:
    end = after(names.prefix) if names.prefix else ""
    current = select(Object).where(Object.container_id == container.id, place.objects(), listing.is_there(now))
    were = select(Version).where(Version.container_id == container.id, place.versions())
    if end:
        current, were = current.where(Object.name < end), were.where(Version.name < end)
    rows: list[Object | Version] = [*conn.execute(current.order_by(Object.name).limit(most))]
    old: list[Object | Version] = [*conn.execute(were.order_by(Version.name, Version.version).limit(most))]
    return list(heapq.merge(rows, old, key=_order))[:most]


def _order(row: Object | Version) -> tuple[str, str]:
    return row.name, row.version if isinstance(row, Version) else ""
