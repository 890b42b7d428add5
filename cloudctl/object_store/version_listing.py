"""Listings of versions: by name, the newest of each name first; or the other way round.
A page costs what it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve, frozen
from sqlalchemy import ColumnElement, func, select, tuple_

from cloudctl.db import Connection
from cloudctl.object_store import listing, numbered
from cloudctl.object_store.listing import LAST, Wanted
from cloudctl.object_store.tables import Container, Object, Version


@frozen
class WantedVersions:
    """Versions of names with `prefix`, after this version of this name (None: after all of them), at most `limit`.

    `reverse`: the other way round, so that "after" means before. `end`: up to this name, exclusive.
    """

    limit: int
    name: str = ""
    version: str | None = None
    prefix: str = ""
    delimiter: str = ""
    reverse: bool = False
    end: str = ""


@frozen
class Numbered:
    row: Object | Version
    is_latest: bool

    @property
    def is_marker(self) -> bool:
        return numbered.is_marker(self.row)


@frozen
class _Within:
    """Names from `least` (inclusive if `includes`) up to `most`, exclusive; or to one side of a version of a name.
    Empty: no such bound.
    """

    least: str = ""
    most: str = ""
    includes: bool = True
    past: tuple[str, str] | None = None

    def past_one(self, row: Object | Version, *, reverse: bool) -> _Within:
        past = (row.name, row.version)
        return evolve(self, past=past) if reverse else evolve(self, least=row.name, includes=True, past=past)

    def past_all(self, folder: str, *, reverse: bool) -> _Within:
        if reverse:
            return evolve(self, most=folder, past=None)
        return evolve(self, least=listing.after(folder) or LAST * 1024, includes=True, past=None)

    def where(self, kind: type[Object] | type[Version], *, reverse: bool) -> list[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = []
        if self.least:
            found.append(kind.name >= self.least if self.includes else kind.name > self.least)
        if self.most:
            found.append(kind.name < self.most)
        if self.past is not None:
            both = tuple_(kind.name, kind.version)
            found.append(both < self.past if reverse else both > self.past)
        return found


def of_versions(conn: Connection, container: Container, wanted: WantedVersions, now: datetime) -> list[Numbered | str]:
    """What is wanted, and texts that stand for all names with this prefix."""
    found: list[Numbered | str] = []
    names = Wanted(prefix=wanted.prefix, delimiter=wanted.delimiter)
    within, most = _start(conn, container, wanted), listing.first_look(names, wanted.limit)
    while len(found) < wanted.limit:
        some = _read(conn, container, within, wanted.reverse, min(most, wanted.limit - len(found)), now)
        latest = _latest(conn, container, some, now)
        for row in some:
            folder = listing.folder_of(row.name, names)
            if folder is not None:
                if folder != wanted.name:
                    found.append(folder)
                within = within.past_all(folder, reverse=wanted.reverse)
                # The next ones may all be in the same folder.
                most = 2
                break
            found.append(Numbered(row, isinstance(row, Object) or (row.name, row.version) in latest))
        else:
            if len(some) < most:
                break
            within = within.past_one(some[-1], reverse=wanted.reverse)
            most *= 2
    return found


def _start(conn: Connection, container: Container, wanted: WantedVersions) -> _Within:
    """Where to begin, and where to end."""
    least, most = wanted.prefix, listing.after(wanted.prefix) if wanted.prefix else ""
    includes, past, marker = True, None, wanted.name
    if wanted.end and wanted.reverse and wanted.end >= least:
        least, includes = wanted.end, False
    elif wanted.end and not wanted.reverse:
        most = min(filter(None, (most, wanted.end)))
    if not marker or (marker < wanted.prefix and not wanted.reverse):
        return _Within(least, most, includes)
    version = wanted.version
    if version == numbered.NULL:
        old = numbered.find(conn, container, marker, version)
        version = "" if old is None else old.version
    if version is not None:
        past = (marker, version)
        least = least if wanted.reverse else marker
    elif wanted.reverse:
        most = min(filter(None, (most, marker)))
    else:
        least, includes = marker, False
    return _Within(least, most, includes, past)


def _read(
    conn: Connection, container: Container, within: _Within, reverse: bool, most: int, now: datetime
) -> Sequence[Object | Version]:
    rows: list[Object | Version] = []
    there = select(Object).where(Object.container_id == container.id, listing.is_there(now))
    were = select(Version).where(Version.container_id == container.id)
    there, were = (
        there.where(*within.where(Object, reverse=reverse)),
        were.where(*within.where(Version, reverse=reverse)),
    )
    by_name, by_id = (Object.name,), (Version.name, Version.version)
    rows += conn.execute(there.order_by(*(each.desc() if reverse else each for each in by_name)).limit(most))
    rows += conn.execute(were.order_by(*(each.desc() if reverse else each for each in by_id)).limit(most))
    # The current object may be an older version: its id determines its place.
    return sorted(rows, key=lambda row: (row.name, row.version), reverse=reverse)[:most]


def _latest(
    conn: Connection, container: Container, rows: Sequence[Object | Version], now: datetime
) -> set[tuple[str, str]]:
    """The newest versions of names without a current object: usually markers."""
    were = sorted({row.name for row in rows if isinstance(row, Version)})
    found: set[tuple[str, str]] = set()
    for start in range(0, len(were), 500):
        some = were[start : start + 500]
        held = select(Object.name).where(
            Object.container_id == container.id, Object.name.in_(some), listing.is_there(now)
        )
        has = set(conn.scalars(held))
        newest = select(Version.name, func.min(Version.version)).where(
            Version.container_id == container.id, Version.name.in_([each for each in some if each not in has])
        )
        found |= {(name, version) for name, version in conn.execute(newest.group_by(Version.name))}
    return found
