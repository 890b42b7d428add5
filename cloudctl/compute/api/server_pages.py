"""Pages of servers with detail: what a server's row says is kept as JSON while its revision is the same.

A page reads the ids and revisions of its servers, and whole rows only of those that are not known as they are. What is
said elsewhere of a server (addresses, groups, volumes) is read for each page. A revision is a part of the row, so what
is kept is right where other processes write, too; and only what was committed is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import NamedTuple

import orjson
from sqlalchemy import bindparam, select

from cloudctl.compute.api import server_views
from cloudctl.compute.api.server_views import Surroundings
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.rest.versions import Version

MOST_BYTES = 16 * 2**20
# Of what holds a text: the key, the tuple, their places.
KEY_BYTES = 400
# A revision that no server has.
NEVER = (-1, b"")

# Built once: building costs more than running it.
_rows = select(Server).where(Server.id.in_(bindparam("wanted", expanding=True)))


class Entry(NamedTuple):
    """A server on a page, before its row is read."""

    id: str
    revision: int
    vm_state: str
    host: str | None


COLUMNS = (Server.id, Server.revision, Server.vm_state, Server.host)


class Shape(NamedTuple):
    """All that a server's JSON depends on beside its row."""

    root_url: str
    version: Version
    admin: bool
    user_data: bool


class ServerPages:
    """The rows of one cloud as JSON. Once they are too many, all are dropped."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.size = 0
        self._kept: dict[Shape, dict[str, tuple[int, bytes]]] = {}
        self._lock = Lock()  # pages are made in several threads

    def shown(self, conn: Connection, around: Surroundings, page: Sequence[Entry]) -> list[orjson.Fragment]:
        """`around`: what was gathered for this page. For a transaction that writes nothing."""
        assert conn.read_only, "what is not committed must not be kept"
        shape = Shape(around.call.root_url, around.call.version, around.admin, around.user_data)
        kept = self._kept.get(shape, {})
        missing = [entry.id for entry in page if kept.get(entry.id, NEVER)[0] != entry.revision]
        if missing:
            read = self._read(conn, around, missing)
            kept = kept | read
            self._keep(shape, read)
        # One object of two, neither of which is empty.
        return [
            orjson.Fragment(kept[entry.id][1][:-1] + b"," + orjson.dumps(server_views.surrounding(around, entry))[1:])
            for entry in page
        ]

    def _read(self, conn: Connection, around: Surroundings, ids: list[str]) -> dict[str, tuple[int, bytes]]:
        rows = conn.execute(_rows, {"wanted": ids})
        return {row.id: (row.revision, orjson.dumps(server_views.own(around, row))) for row in rows}

    def _keep(self, shape: Shape, read: Mapping[str, tuple[int, bytes]]) -> None:
        with self._lock:
            mine = self._kept.setdefault(shape, {})
            for id, (revision, text) in read.items():
                self.size += len(text) + KEY_BYTES - (len(mine[id][1]) + KEY_BYTES if id in mine else 0)
                mine[id] = revision, text
            if self.size > self.most_bytes:
                self._kept, self.size = {}, 0
