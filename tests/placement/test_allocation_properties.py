"""Whatever is asked, and in whatever order: nobody gets more than there is, and nothing stays behind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, insert, select
from twisted.internet.task import Clock

from cloudctl.db import Connection, Database
from cloudctl.db.columns import metadata, utc
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.errors import CloudError
from cloudctl.placement import allocations
from cloudctl.placement.allocations import NewAllocations, Owner
from cloudctl.placement.tables import Allocation, Consumer, Inventory, Provider
from cloudctl.testing.cloud import empty_database

PROVIDERS, CLASSES, CONSUMERS = ("a", "b"), ("VCPU", "DISK_GB"), ("one", "two", "three")

amounts = st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 7), min_size=1)
shares = st.dictionaries(st.sampled_from(PROVIDERS), amounts)
consumers = st.sampled_from(CONSUMERS)
steps = st.one_of(
    st.tuples(st.just("take"), consumers, st.sampled_from(PROVIDERS), amounts | st.just({})),
    st.tuples(st.just("replace"), st.dictionaries(consumers, shares, min_size=1, max_size=2), st.booleans()),
    st.tuples(st.just("release"), consumers),
    st.tuples(st.just("hand over"), consumers, consumers),
)


def fill(conn: Connection) -> None:
    now = utc(0)
    for name in PROVIDERS:
        conn.execute(insert(Provider).values(id=name, name=name, root_id=name, created_at=now, updated_at=now))
        for resource in CLASSES:
            row = {"provider_id": name, "resource_class": resource, "total": 10, "max_unit": 10}
            conn.execute(insert(Inventory).values(**row, allocation_ratio=1.0))


def act(conn: Connection, step: Any) -> None:
    kind, *rest = step
    if kind == "take":
        consumer, provider, wanted = rest
        if provider not in allocations.held(conn, consumer):
            allocations.take(conn, Owner(consumer, "p"), provider, wanted)
    elif kind == "replace":
        wishes, stale = rest
        new = []
        for consumer, wanted in wishes.items():
            known = allocations.find_consumer(conn, consumer)
            generation = 99 if stale else None if known is None else known.generation
            new.append(NewAllocations(Owner(consumer, "p"), wanted, generation))
        allocations.replace(conn, new)
    elif kind == "release":
        allocations.release(conn, rest[0])
    else:
        giving, taking = rest
        if giving != taking and not allocations.held(conn, taking).keys() & allocations.held(conn, giving).keys():
            allocations.hand_over(conn, giving, taking, "MIGRATION")


def check(conn: Connection) -> None:
    held = Counter[tuple[str, str]]()
    for row in conn.execute(select(Allocation)):
        held[row.provider_id, row.resource_class] += row.amount
    for inventory in conn.execute(select(Inventory)):
        assert inventory.used == held[inventory.provider_id, inventory.resource_class]
        assert 0 <= inventory.used <= inventory.capacity
    owners = set(conn.scalars(select(Consumer.id)))
    assert owners == set(conn.scalars(select(Allocation.consumer_id).distinct()))
    for provider in conn.execute(select(Provider)):
        mine = select(func.count(Allocation.consumer_id.distinct())).where(Allocation.provider_id == provider.id)
        assert provider.shares == conn.execute(mine).scalar_one()


@given(st.lists(steps, max_size=12))
@settings(max_examples=60, deadline=None)
def test_what_is_used_is_what_is_held_and_never_too_much(story: list[Any]) -> None:
    db = empty_database(Clock())
    db.transact(False, fill)
    for step in story:
        try:
            db.transact(False, act, step)
        except CloudError:
            pass  # refused as a whole: what `check` sees is what was there before
        db.transact(True, check)
    for consumer in CONSUMERS:
        db.transact(False, allocations.release, consumer)
    assert db.transact(True, lambda conn: set(conn.scalars(select(Inventory.used)))) == {0}
    assert db.transact(True, lambda conn: set(conn.scalars(select(Provider.shares)))) == {0}


def compete(databases: list[Database], each: int) -> int:
    """How many of these got their share of one provider at the same time."""
    barrier, won = Barrier(len(databases)), list[str]()

    def run(db: Database, name: str) -> None:
        barrier.wait()
        if db.transact(False, allocations.take, Owner(name, "p"), "a", {"VCPU": each}):
            won.append(name)
        db.close()

    threads = [Thread(target=run, args=(db, f"consumer {number}")) for number, db in enumerate(databases)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(won)


def database(url: str) -> Database:
    inline: Any = Inline()
    return Database(create(url), inline, inline, Clock())


def test_the_last_of_it_goes_to_one_of_many(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'db'}"
    first = database(url)
    first.transact(False, lambda conn: metadata.create_all(conn.alchemy))
    first.transact(False, fill)
    assert compete([database(url) for _ in range(6)], 3) == 3
    first.transact(True, check)
    first.close()


def test_the_last_of_it_goes_to_one_of_many_on_postgresql(postgresql_with_tables: str) -> None:
    first = database(postgresql_with_tables)
    first.transact(False, fill)
    assert compete([database(postgresql_with_tables) for _ in range(6)], 3) == 3
    first.transact(True, check)
    first.close()
