"""Removing old objects, by rules of their container. Reference: object-store.md, B2; S3, «Object Lifecycle».

Days are counted as in S3: an object that reaches so many days is due from the next midnight (UTC) on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson
from attrs import asdict, define, evolve, field, frozen
from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.object_store import containers, numbered, objects, parts, tagging, version_listing
from cloudctl.object_store.metadata import PRIVATE
from cloudctl.object_store.names import Place
from cloudctl.object_store.objects import Done
from cloudctl.object_store.tables import Container, Object, Version
from cloudctl.object_store.version_listing import Numbered, WantedVersions

KEPT = f"{PRIVATE}Lifecycle"
PAGE = 1000  # rows that are read together
CONTAINERS = 100  # the same for containers, each of which holds whole documents


@frozen
class Rule:
    """It applies to names with `prefix`, objects with all `tags`, and between these sizes (bytes, both exclusive)."""

    id: str
    is_on: bool = True
    prefix: str = ""
    larger_than: int | None = None
    smaller_than: int | None = None
    # A current object goes this many days after it was made, or from this date on (2026-01-31).
    days: int | None = None
    date: str | None = None
    # A marker goes if there is nothing behind it.
    lone_markers: bool = False
    # An old version goes so many days after it was replaced, except this many of the newest.
    old_days: int | None = None
    old_kept: int = 0
    # An incomplete upload in parts goes so many days after it began.
    upload_days: int | None = None
    tags: Sequence[Sequence[str]] = ()  # pairs

    def means(self, row: Object | Version) -> bool:
        size = row.size if row.large_size is None else row.large_size
        return (
            row.name.startswith(self.prefix)
            and (self.larger_than is None or size > self.larger_than)
            and (self.smaller_than is None or size < self.smaller_than)
            and (not self.tags or set(map(tuple, self.tags)) <= set(tagging.tags(row.headers)))
        )

    def ends(self, made_at: datetime, now: datetime) -> bool:
        """Whether a current object is due."""
        if self.date is not None and datetime.fromisoformat(self.date) <= now:
            return True
        return is_past(made_at, self.days, now)


def midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def is_past(since: datetime, days: int | None, now: datetime) -> bool:
    return days is not None and (midnight(now) - since).days >= days


def kept(headers: Mapping[str, str]) -> list[Rule]:
    """The rules of a container."""
    found: list[dict[str, Any]] = orjson.loads(headers.get(KEPT, "[]"))
    return [Rule(**each) for each in found]


def keep(rules: Sequence[Rule]) -> str:
    return orjson.dumps([asdict(rule) for rule in rules]).decode()


@frozen
class Due:
    """What goes: the current object (`version` is empty) or an old version, namely the one made at this time."""

    name: str
    version: str
    made_at: datetime


@define
class Walk:
    """A pass over everything in a container, a page at a time."""

    container: Container
    rules: Sequence[Rule]
    now: datetime
    is_over: bool = field(default=False, init=False)
    _at: WantedVersions = field(factory=lambda: WantedVersions(PAGE), init=False)
    _before: Object | Version | None = field(default=None, init=False)
    _old: int = field(default=0, init=False)  # old versions of this name seen so far
    _lone: Due | None = field(default=None, init=False)  # due if nothing is behind it

    def page(self, conn: Connection) -> list[Due]:
        found = version_listing.of_versions(conn, self.container, self._at, self.now)
        due = [each for row in found if isinstance(row, Numbered) for each in self._step(row)]
        if self._before is not None:
            self._at = evolve(self._at, name=self._before.name, version=self._before.version)
        self.is_over = len(found) < PAGE
        if self.is_over and self._lone is not None:
            due.append(self._lone)
        return due

    def _step(self, found: Numbered) -> Iterator[Due]:
        row, before = found.row, self._before
        self._before = row
        is_newest = before is None or before.name != row.name
        if is_newest and self._lone is not None:
            yield self._lone
        self._lone = None
        this = Due(row.name, numbered.shown(row) if isinstance(row, Version) else "", row.updated_at)
        rules = [rule for rule in self.rules if rule.means(row)]
        if is_newest:
            self._old = 0
        if not isinstance(row, Version):
            if any(rule.ends(row.updated_at, self.now) for rule in rules):
                yield this
            return
        if is_newest:
            # Newer than the current object, if there is one: nobody knows since when it is an old version.
            if row.is_marker and found.is_latest and any(rule.lone_markers for rule in rules):
                self._lone = this
            return
        assert before is not None
        self._old += 1
        replaced_at = before.updated_at
        if any(self._old > rule.old_kept and is_past(replaced_at, rule.old_days, self.now) for rule in rules):
            yield this


def remove(conn: Connection, container: Container, due: Sequence[Due], now: datetime) -> Done:
    """Remove what is due, unless it was replaced meanwhile. What is gone is not an error."""
    found = containers.find(conn, Place(container.project_id, container.name), lock=True)
    if found is None or found.id != container.id:
        return Done()
    freed: list[str] = []
    for each in due:
        place = Place(container.project_id, container.name, each.name)
        if each.version:
            old = numbered.find(conn, found, each.name, each.version)
            if old is not None and old.updated_at == each.made_at:
                freed += objects.remove_version(conn, place, each.version, now).freed
        else:
            there = objects.find(conn, found, each.name, now)
            if there is not None and there.updated_at == each.made_at:
                freed += objects.remove(conn, place, now).freed
    return Done(freed)


def abort_uploads(conn: Connection, container: Container, rules: Sequence[Rule], now: datetime) -> Done:
    """Abort uploads in parts that were begun too long ago."""
    due = [
        upload
        for upload in parts.of_container(conn, container.id)
        if any(
            upload.name.startswith(rule.prefix) and is_past(upload.created_at, rule.upload_days, now) for rule in rules
        )
    ]
    return Done(parts.remove(conn, due))


def some_containers(conn: Connection, after: str) -> Sequence[Container]:
    """A page of all containers, in the order of their ids."""
    return conn.execute(select(Container).where(Container.id > after).order_by(Container.id).limit(CONTAINERS)).all()
