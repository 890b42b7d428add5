"""Records as JSON, cached while they are unchanged: most of a page was shown before, and is not read again.

    texts = rendered.shown(conn, shape, {port.id: port.edition, …}, lambda ids: {id: {"name": …}, …})

A record's edition is read from the database with the page, and differs after any change to what is shown of it; so the
cache is right where other processes write, too. Only what was committed is cached.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from threading import Lock
from typing import Any

import orjson

from cloudctl.db import Connection

MOST_BYTES = 16 * 2**20
# Bytes of what holds a text: the key, the tuple, the edition, their slots.
KEY_BYTES = 600

Render = Callable[[Sequence[str]], Mapping[str, Mapping[str, Any]]]
"""The records with these ids as they are shown, by their ids."""


def kept_json(value: Any) -> bytes:
    """JSON that stays in memory, in as many bytes as it has: what orjson returns takes 8 KiB, however short it is."""
    return bytes(memoryview(orjson.dumps(value)))


class Rendered:
    """The records of one resource of one cloud. Once they take too many bytes, all are dropped."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.size = 0
        self._kept: dict[Hashable, dict[str, tuple[Hashable, bytes]]] = {}
        self._lock = Lock()  # pages are made in several threads

    def shown(
        self, conn: Connection, shape: Hashable, editions: Mapping[str, Hashable], render: Render
    ) -> list[orjson.Fragment]:
        """The records of a page, in the order of `editions`. For a transaction that writes nothing.

        `shape`: all that the JSON of a record depends on besides the record. One that was deleted since its edition was
        read, which PostgreSQL shows to the next statement, is left out.
        """
        assert conn.read_only, "what is not committed must not be kept"
        kept = self._kept.get(shape, {})
        found: dict[str, bytes] = {}
        for id, edition in editions.items():
            known = kept.get(id)
            if known is not None and known[0] == edition:
                found[id] = known[1]
        missing = [id for id in editions if id not in found]
        if missing:
            made = {id: kept_json(view) for id, view in render(missing).items()}
            found |= made
            self._keep(shape, {id: (editions[id], text) for id, text in made.items()})
        return [orjson.Fragment(found[id]) for id in editions if id in found]

    def _keep(self, shape: Hashable, made: Mapping[str, tuple[Hashable, bytes]]) -> None:
        with self._lock:
            if shape not in self._kept:
                self._kept[shape] = {}
                self.size += _shape_size(shape)
            mine = self._kept[shape]
            for id, entry in made.items():
                self.size += _size(entry) - (_size(mine[id]) if id in mine else 0)
                mine[id] = entry
            if self.size > self.most_bytes:
                self._kept, self.size = {}, 0


def _shape_size(shape: Hashable) -> int:
    """A shape may hold what a client sends: the name by which it calls the cloud."""
    return KEY_BYTES + len(repr(shape))


def _size(entry: tuple[Hashable, bytes]) -> int:
    edition, text = entry
    return KEY_BYTES + len(text) + (200 * len(edition) if isinstance(edition, tuple) else 0)
