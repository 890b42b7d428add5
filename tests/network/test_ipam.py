"""Free ranges against a plain set: after any sequence of takes and returns both say the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from ipaddress import ip_network
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.threads import Inline
from cloudctl.errors import Conflict
from cloudctl.network import ipam, subnets
from cloudctl.network.addresses import Range, number, written
from cloudctl.network.tables import FreeRange, IpAllocation, Network, Port, Subnet
from cloudctl.testing.cloud import empty_database
from tests.work import watched

WHEN = datetime(2026, 1, 1)
STANDARD = {"project_id": "p", "description": "", "created_at": WHEN, "updated_at": WHEN}


def lay(conn: Connection, cidr: str, pools: list[Range]) -> Any:
    """A subnet with these pools on a network with one port; its row."""
    version = ip_network(cidr).version
    shown = [{"start": written(p.first, version), "end": written(p.last, version)} for p in pools]
    conn.execute(insert(Network).values(**STANDARD, id="n", name="", status="ACTIVE", mtu=1450, network_type="vxlan"))
    conn.execute(
        insert(Subnet).values(
            **STANDARD, id="s", network_id="n", name="", ip_version=version, cidr=cidr, allocation_pools=shown
        )
    )
    mac = "fa:16:3e:00:00:01"
    conn.execute(insert(Port).values(**STANDARD, id="port", network_id="n", name="", mac_address=mac))
    ipam.lay_out(conn, "s", pools)
    return conn.execute(select(Subnet)).one()


def free(conn: Connection) -> list[int]:
    rows = conn.execute(select(FreeRange).order_by(FreeRange.pool, FreeRange.first)).all()
    return [address for row in rows for address in range(int(row.first), int(row.last) + 1)]


def database() -> Database:
    return empty_database(Clock())


TAKE, TAKE_THIS, GIVE = "take", "take this", "give"
MOVES = st.lists(
    st.one_of(
        st.just((TAKE, 0)),
        st.tuples(st.just(TAKE_THIS), st.integers(0, 20)),
        st.tuples(st.just(GIVE), st.integers(0, 20)),
    ),
    max_size=40,
)
BASE = number("10.0.0.0")
# The second pool lies below the first one: the first listed is used first.
POOLS = [Range(BASE + 9, BASE + 14), Range(BASE + 2, BASE + 5)]


@settings(max_examples=60, deadline=None)
@given(MOVES)
def test_ranges_say_what_a_set_says(moves: list[tuple[str, int]]) -> None:
    db = database()

    def play(conn: Connection) -> None:
        subnet = lay(conn, "10.0.0.0/27", POOLS)
        order = [address for pool in POOLS for address in range(pool.first, pool.last + 1)]
        taken: set[int] = set()
        for move, offset in moves:
            address = BASE + offset
            if move == TAKE:
                expected = next((each for each in order if each not in taken), None)
                got = ipam.take_lowest(conn, subnet, "port", 0)
                assert got == (None if expected is None else written(expected, 4))
                taken |= {expected} if expected is not None else set()
            elif move == TAKE_THIS and address in taken:
                with pytest.raises(Conflict):
                    ipam.take(conn, subnet, address, "port", 0)
            elif move == TAKE_THIS:
                assert ipam.take(conn, subnet, address, "port", 0) == written(address, 4)
                taken.add(address)
            else:
                ipam.give_back(conn, subnet, address)
                taken.discard(address)
            assert free(conn) == [each for each in order if each not in taken]
            assert {int(each) for each in conn.scalars(select(IpAllocation.address))} == taken
        # Neighbouring ranges are one: the table does not grow with use.
        rows = conn.execute(select(FreeRange).order_by(FreeRange.pool, FreeRange.first)).all()
        assert all(one.pool != two.pool or int(one.last) + 1 < int(two.first) for one, two in pairwise(rows))

    db.transact(False, play)


def test_laying_out_again_leaves_out_what_is_allocated() -> None:
    db = database()

    def play(conn: Connection) -> None:
        subnet = lay(conn, "10.0.0.0/27", POOLS)
        ipam.take(conn, subnet, BASE + 12, "port", 0)
        ipam.lay_out(conn, "s", [Range(BASE + 10, BASE + 13)])
        assert free(conn) == [BASE + 10, BASE + 11, BASE + 13]

    db.transact(False, play)


def test_a_huge_subnet_costs_as_much_as_a_small_one() -> None:
    """Statements are counted: not one depends on how many addresses there are, or are taken."""
    counts = []
    for cidr in ("10.0.0.0/24", "2001:db8::/64"):
        db = database()
        network = ip_network(cidr)
        pool = Range(int(network.network_address) + 2, int(network.broadcast_address) - 1)

        def play(conn: Connection, cidr: str = cidr, pool: Range = pool) -> int:
            subnet = lay(conn, cidr, [pool])
            for _ in range(50):
                ipam.take_lowest(conn, subnet, "port", 0)
            with watched(conn.driver) as work:
                ipam.take_lowest(conn, subnet, "port", 0)
            return len(work.statements)

        counts.append(db.transact(False, play))
    assert 0 < counts[0] == counts[1] <= 5


def test_a_given_address_costs_the_same_in_however_many_pieces_the_rest_is() -> None:
    """SQLite's own steps are counted: addresses that follow from MACs leave a piece between any two of them."""
    counts = []
    for pieces in (10, 1000):
        db = database()

        def play(conn: Connection, pieces: int = pieces) -> int:
            base = number("2001:db8::")
            subnet = lay(conn, "2001:db8::/64", [Range(base, base + 2**64 - 1)])
            for each in range(pieces):
                ipam.take(conn, subnet, base + 1000 * each, "port", 0)
            steps = 0

            def tick() -> None:
                nonlocal steps
                steps += 1

            conn.driver.set_progress_handler(tick, 1)
            ipam.take(conn, subnet, base + 500 * pieces + 500, "port", 0)
            conn.driver.set_progress_handler(None, 0)
            return steps

        counts.append(db.transact(False, play))
    assert counts[1] < 2 * counts[0]


@pytest.fixture
def shared_db(postgresql_with_tables: str) -> Iterator[Database]:
    from cloudctl.db.driver import create

    inline: Any = Inline()
    db = Database(create(postgresql_with_tables), inline, inline, Clock())
    yield db
    db.engine.dispose()


def test_transactions_at_once_get_different_addresses(shared_db: Database) -> None:
    from concurrent.futures import ThreadPoolExecutor

    shared_db.transact(False, lay, "10.0.0.0/27", [Range(BASE + 2, BASE + 21)])

    def take(conn: Connection) -> str | None:
        return ipam.take_lowest(conn, subnets.get(conn, "s", lock=True), "port", 0)

    with ThreadPoolExecutor(6) as threads:
        got = list(threads.map(lambda _: shared_db.transact(False, take), range(24)))
    assert sorted(number(each) for each in got if each) == list(range(BASE + 2, BASE + 22))
    assert got.count(None) == 4
