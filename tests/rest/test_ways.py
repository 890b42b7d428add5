"""A page that is found in several ways is the page that is found in one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from sqlalchemy import ColumnElement, func, insert, or_, update
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.network import list_indexes as list_indexes  # which are there once they are declared
from cloudctl.network.tables import Network, NetworkTag, Port
from cloudctl.rest import ways
from cloudctl.rest.listing import Listing, Paging, page
from cloudctl.testing.cloud import empty_database
from tests.network.crowds import crowd, identifier

# Text, a flag and what may be NULL, each with a usual value; and one without.
KEYS: dict[str, ColumnElement[Any]] = {
    "description": Port.description,
    "vnic_type": Port.vnic_type,
    "admin_state_up": Port.admin_state_up,
    "data_plane_status": func.coalesce(Port.data_plane_status, ""),
    "name": Port.name,
}
LISTING = Listing(Port.table, sort_keys=KEYS, order=(), in_ways=True)
NARROW = Listing(Port.table, sort_keys=KEYS, order=(), in_ways=True, columns=(Port.id, Port.edition))
ROWS = 24


def fill(conn: Connection) -> None:
    crowd(conn, (Network.table, Port.table), 0, ROWS)
    for number in range(ROWS):
        changes = {
            "description": ["", "b", "", "a"][number % 4],
            "vnic_type": ["normal", "direct", "normal", "virtio-forwarder", "normal"][number % 5],
            "admin_state_up": number % 3 > 0,
            "data_plane_status": [None, "ACTIVE", "DOWN", None][number // 2 % 4],
            "name": f"n{number % 7}",
        }
        conn.execute(update(Port.table).where(Port.id == identifier(number)).values(**changes))


def tag(conn: Connection) -> None:
    tags = [{"resource_id": identifier(number), "tag": "even" if number % 2 == 0 else "odd"} for number in range(ROWS)]
    conn.execute(insert(NetworkTag.table), tags)


def check_linked(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether what refers is little or much, it is found, once, and nothing else."""
    db.transact(False, fill)
    db.transact(False, tag)
    mine = or_(Port.project_id == "demo", Port.id.in_([identifier(2), identifier(3), identifier(10)]))
    wanted = {"even": [2, 10], "odd": [number for number in range(ROWS) if number % 2], "none": []}
    for much, (name, numbers), size in product((1, 5, 12, 13, 100), wanted.items(), (1, 4, 50)):
        monkeypatch.setattr(ways, "LITTLE", much)
        met = ways.linked(Port.id, NetworkTag.resource_id, NetworkTag.tag == name)
        found, marker = [], None
        while True:
            got = db.transact(True, page, LISTING, Paging(size, marker, (("admin_state_up", "desc"),)), mine, met)
            found += [row.id for row in got.rows]
            if not got.more:
                break
            marker = found[-1]
        assert sorted(found) == sorted(map(identifier, numbers)), (much, name, size)


def test_what_is_referred_to_is_found(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    check_linked(empty_database(clock), monkeypatch)


def test_it_is_on_postgresql(postgresql_with_tables: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    inline: Any = Inline()
    db = Database(create(postgresql_with_tables), inline, inline, clock)
    check_linked(db, monkeypatch)
    db.close()


def test_what_all_rows_have_is_not_sorted_by() -> None:
    order = [(Port.project_id, True), (Port.id, True)]
    one = Port.project_id == "demo"
    assert ways.varying((one,), order, ("demo", "7")) == (order[1:], ["7"])
    assert ways.varying((one,), order, None) == (order[1:], None)
    # Of several it says nothing.
    assert ways.varying((or_(one, Port.network_project_id == "demo"),), order, None) == (order, None)


def check(db: Database) -> None:
    db.transact(False, fill)
    mine = or_(Port.project_id == "demo", Port.id.in_([identifier(2), identifier(3), identifier(10)]))
    seen = [number for number in range(ROWS) if number % 2 or number in (2, 10)]
    rows = {row.id: row for row in db.transact(True, lambda conn: conn.execute(Port.table.select()).all())}

    def value(id: str, name: str) -> Any:
        found = getattr(rows[id], name)
        return "" if found is None else found

    for name, up, reverse, size in product(KEYS, (True, False), (True, False), (1, 4, 50)):
        listing = NARROW if size == 4 else LISTING
        expected = sorted((identifier(number) for number in seen), key=lambda id: (value(id, name), id))
        if not up:
            expected.reverse()
        found: list[str] = []
        marker = None
        while True:
            asked = Paging(size, marker, ((name, "asc" if up else "desc"),), reverse)
            got = db.transact(True, page, listing, asked, mine)
            ids = [row.id for row in got.rows]
            found = ids + found if reverse else found + ids
            if not got.more:
                break
            marker = ids[0] if reverse else ids[-1]
        assert found == expected, (name, up, reverse, size)


def test_pages_are_whole(clock: Clock) -> None:
    check(empty_database(clock))


def test_they_are_on_postgresql(postgresql_with_tables: str, clock: Clock) -> None:
    inline: Any = Inline()
    db = Database(create(postgresql_with_tables), inline, inline, clock)
    check(db)
    db.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()
