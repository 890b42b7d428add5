"""The catalogs of one cloud, cached as JSON: nearly every login and validation shows one, and they hardly ever change.

With SQLite a commit that writes to one of their tables invalidates the cache. With PostgreSQL other processes write,
too: there the epoch, which the caller has read with the token, shows whether something has changed.
"""

from __future__ import annotations

from collections import OrderedDict

import orjson
from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.identity import catalog, endpoint_filters, epoch
from cloudctl.identity.catalog import Viewer
from cloudctl.rest.rendered import kept_json

TABLES = (
    "identity_services",
    "identity_endpoints",
    "identity_project_endpoints",
    "identity_endpoint_groups",
    "identity_project_endpoint_groups",
)
MOST_BYTES = 2**21
LARGEST = MOST_BYTES // 8  # a catalog that would push out all others
OVERHEAD = 512  # bytes of a cached one, besides its JSON and its texts

Generation = tuple[int, ...]


@frozen
class Kept:
    json: bytes
    generation: Generation


@frozen
class Sight:
    """What the catalogs of one generation depend on, besides where the cloud was reached."""

    by_user: bool
    by_project: bool
    generation: Generation

    def of(self, viewer: Viewer) -> Viewer:
        """One key for all viewers that see the same. Without a project, endpoints that need one are left out."""
        project_id = viewer.project_id if self.by_project or not viewer.project_id else "any"
        return Viewer(viewer.user_id if self.by_user else "", project_id, viewer.base_url, viewer.ha_url)


class Catalogs:
    """Read by the reactor's thread and, with PostgreSQL, made in others; cached by the reactor's alone."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._sight: Sight | None = None
        self._kept: OrderedDict[Viewer, Kept] = OrderedDict()
        self._size = 0

    async def json(self, viewer: Viewer, known_epoch: int | None = None) -> orjson.Fragment:
        """As `token.catalog` shows it. `known_epoch`: as it was when this request began, or later; None: read it."""
        generation = self._generation(known_epoch)
        found = None if generation is None else self._find(viewer, generation)
        if found is None:
            sight, made = await self.db.read(self._read, viewer, generation)
            self._keep(viewer, sight, made)
            found = made
        return orjson.Fragment(found.json)

    def _generation(self, known_epoch: int | None) -> Generation | None:
        changes = self.db.changes(TABLES)
        if changes is not None or known_epoch is None:
            return changes
        return (known_epoch,)

    def _find(self, viewer: Viewer, generation: Generation) -> Kept | None:
        if self._sight is None or self._sight.generation != generation:
            return None
        key = self._sight.of(viewer)
        found = self._kept.get(key)
        if found is None or found.generation != generation:
            return None
        self._kept.move_to_end(key)
        return found

    def _read(self, conn: Connection, viewer: Viewer, generation: Generation | None) -> tuple[Sight, Kept]:
        # Before the rest is read, so that a later commit shows up as newer.
        now = generation or (epoch.current(conn),)
        names = catalog.names(conn)
        by_project = "project_id" in names or endpoint_filters.is_used(conn)
        sight = Sight("user_id" in names, by_project, now)
        return sight, Kept(kept_json(catalog.read(conn, viewer)), now)

    def _keep(self, viewer: Viewer, sight: Sight, made: Kept) -> None:
        self._sight, key = sight, sight.of(viewer)
        self._drop(key)
        if _bytes(key, made) > LARGEST:
            return
        self._kept[key] = made
        self._size += _bytes(key, made)
        while self._size > MOST_BYTES:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Viewer) -> None:
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self._size -= _bytes(key, dropped)


def _bytes(key: Viewer, kept: Kept) -> int:
    # A character may take four bytes.
    texts = len(key.user_id) + len(key.project_id) + len(key.base_url) + len(key.ha_url)
    return OVERHEAD + len(kept.json) + 4 * texts
