"""Listings of versions and of uploads with a delimiter: a page costs what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import insert
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.columns import utc
from cloudctl.object_store import containers, parts, upload_listing, version_listing
from cloudctl.object_store.names import Place
from cloudctl.object_store.objects import NewObject
from cloudctl.object_store.tables import Container, Object, Upload, Version
from cloudctl.object_store.upload_listing import WantedUploads
from cloudctl.object_store.version_listing import Numbered, WantedVersions
from cloudctl.testing.cloud import empty_database

NOW = utc(1_800_000_000)
PLACE = Place("p", "c")
PLAIN = [f"a{number:03}" for number in range(150)]
FOLDERS = [f"f{number:02}/" for number in range(40)]
NAMES = [*PLAIN, *(f"{folder}{number:02}" for folder in FOLDERS for number in range(40)), "z"]
SHOWN = [*PLAIN, *FOLDERS, "z"]


def fill(conn: Connection) -> Container:
    """Two versions of each, of which every other one is the object, and an upload."""
    containers.put(conn, PLACE, {}, NOW)
    container = containers.get(conn, PLACE)
    for number, name in enumerate(NAMES):
        said: dict[str, Any] = {"container_id": container.id, "name": name, "project_id": "p", "file_id": None}
        said |= {"size": 0, "etag": "e", "content_type": "t", "headers": {}, "updated_at": NOW}
        conn.execute(insert(Version).values(**said, version="2", is_null=False, is_marker=False))
        kind = Object if number % 2 else Version
        more: dict[str, Any] = {} if number % 2 else {"is_null": False, "is_marker": False}
        conn.execute(insert(kind).values(**said, version="1", **more))
        parts.begin(conn, Place("p", "c", name), NewObject(), NOW)
    return container


@pytest.fixture(scope="module")
def filled() -> Iterator[tuple[Database, Container]]:
    db = empty_database(Clock())
    yield db, db.transact(False, fill)
    db.close()


def counting(monkeypatch: pytest.MonkeyPatch, module: Any) -> list[int]:
    """The numbers of rows that are read together."""
    counts: list[int] = []
    read: Callable[..., Sequence[Any]] = module._read

    def noting(*args: Any) -> Sequence[Any]:
        rows = read(*args)
        counts.append(len(rows))
        return rows

    monkeypatch.setattr(module, "_read", noting)
    return counts


def told(entry: Numbered | Upload | str) -> tuple[str, str]:
    if isinstance(entry, str):
        return entry, ""
    return (entry.row.name, entry.row.version) if isinstance(entry, Numbered) else (entry.name, entry.id)


@pytest.mark.parametrize("reverse", [False, True])
def test_versions(filled: tuple[Database, Container], monkeypatch: pytest.MonkeyPatch, reverse: bool) -> None:
    db, container = filled
    expected = [pair for name in SHOWN for pair in ([(name, "")] if "/" in name else [(name, "1"), (name, "2")])]
    counts = counting(monkeypatch, version_listing)
    wanted = WantedVersions(1000, delimiter="/", reverse=reverse)
    found = db.transact(True, version_listing.of_versions, container, wanted, NOW)
    assert [told(each) for each in found] == (expected[::-1] if reverse else expected)
    assert sum(counts) < 3 * len(expected)
    assert all(each.is_latest is (each.row.version == "1") for each in found if isinstance(each, Numbered))


def test_uploads(filled: tuple[Database, Container], monkeypatch: pytest.MonkeyPatch) -> None:
    db, container = filled
    counts = counting(monkeypatch, upload_listing)
    found = db.transact(True, upload_listing.of_uploads, container, WantedUploads(1000, delimiter="/"))
    assert [told(each)[0] for each in found] == SHOWN
    assert sum(counts) < 3 * len(SHOWN)


def test_versions_up_to_a_name_and_the_other_way_round(filled: tuple[Database, Container]) -> None:
    db, container = filled
    wanted = WantedVersions(1000, delimiter="/", reverse=True, end="a149")
    found = db.transact(True, version_listing.of_versions, container, wanted, NOW)
    assert [told(each) for each in found] == [("z", "2"), ("z", "1"), *((each, "") for each in FOLDERS[::-1])]
