"""A page that is found in several ways is the page that is found in one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from sqlalchemy import ColumnElement, func, or_, update
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.network import list_indexes as list_indexes  # which are there once they are declared
from cloudctl.network.tables import Network, Port
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


def check(db: Database) -> None:
    db.transact(False, fill)
    mine = or_(Port.project_id == "demo", Port.id.in_([identifier(2), identifier(3), identifier(10)]))
    seen = [number for number in range(ROWS) if number % 2 or number in (2, 10)]
    rows = {row.id: row for row in db.transact(True, lambda conn: conn.execute(Port.table.select()).all())}

    def value(id: str, name: str) -> Any:
        found = getattr(rows[id], name)
        return "" if found is None else found

    for name, up, reverse, size in product(KEYS, (True, False), (True, False), (1, 4, 50)):
        expected = sorted((identifier(number) for number in seen), key=lambda id: (value(id, name), id))
        if not up:
            expected.reverse()
        found: list[str] = []
        marker = None
        while True:
            asked = Paging(size, marker, ((name, "asc" if up else "desc"),), reverse)
            got = db.transact(True, page, LISTING, asked, mine)
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
