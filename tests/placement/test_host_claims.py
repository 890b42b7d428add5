"""Claims and hosts: what is promised is never more than there is. Reference: compute-scheduling.md, section 2."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from sqlalchemy import delete, select
from twisted.internet.task import Clock

from cloudctl.db import Database
from cloudctl.db.columns import metadata, utc
from cloudctl.db.driver import create
from cloudctl.drivers.specs import HostInventory
from cloudctl.placement import allocations, candidates, claims, hosts, providers
from cloudctl.placement.allocations import Owner
from cloudctl.placement.candidates import Group, Request
from cloudctl.placement.claims import NoValidHost
from cloudctl.placement.hosts import Promises
from cloudctl.placement.providers import NewInventory, NewProvider
from cloudctl.placement.tables import Consumer, Host, Inventory, Provider
from cloudctl.placement.weighers import Weights
from cloudctl.placement.wishes import Resources, Wish
from cloudctl.testing.cloud import empty_database
from tests.plans import unchecked

PROMISES = Promises(cpu_ratio=1.0, reserved_memory_mib=0)
WISH = Wish(Resources(1, 100, 1))
WEIGHTS = Weights()


def machine(name: str, **fields: Any) -> HostInventory:
    return HostInventory(name, **{"hypervisor_type": "fake", "vcpus": 4, "memory_mib": 1000, "disk_gib": 10, **fields})


def filled(db: Database, *machines: HostInventory, promises: Promises = PROMISES, at: float = 0) -> Database:
    db.transact(False, hosts.sync, machines, utc(at), promises)
    return db


@pytest.fixture
def db() -> Database:
    return empty_database(Clock())


def claim(db: Database, consumer: str, wish: Wish = WISH) -> str:
    return str(db.transact(False, claims.claim, consumer, "project", wish, WEIGHTS).name)


def used(db: Database) -> dict[str, tuple[int, int, int]]:
    rows, loads = db.transact(True, hosts.every), db.transact(True, hosts.loads)
    return {row.name: (loads[row.id].vcpus, loads[row.id].memory_mib, loads[row.id].disk_gib) for row in rows}


def test_a_claim_takes_its_share_and_gives_it_back(db: Database) -> None:
    filled(db, machine("a"))
    assert claim(db, "one") == "a"
    assert used(db) == {"a": (1, 100, 1)}
    db.transact(False, claims.release, "one")
    assert used(db) == {"a": (0, 0, 0)}
    db.transact(False, claims.release, "one")
    assert used(db) == {"a": (0, 0, 0)}


def test_a_consumer_keeps_its_host(db: Database) -> None:
    filled(db, machine("a"), machine("b"))
    first = claim(db, "one")
    assert claim(db, "one", Wish(WISH.resources, excluded=frozenset({first}))) == first
    assert sum(vcpus for vcpus, _, _ in used(db).values()) == 1


def test_claims_are_spread_until_nothing_is_left(db: Database) -> None:
    filled(db, machine("a"), machine("b"))
    for number in range(8):
        claim(db, f"server {number}")
    assert used(db) == {"a": (4, 400, 4), "b": (4, 400, 4)}
    with pytest.raises(NoValidHost) as none:
        claim(db, "one more")
    assert none.value.message == "No valid host was found. There are not enough hosts available."


def test_ratios_and_reserves_say_what_may_be_promised(db: Database) -> None:
    filled(db, machine("a"), promises=Promises(cpu_ratio=2.0, reserved_memory_mib=200, reserved_disk_gib=5))
    rows = db.transact(True, lambda conn: conn.execute(select(Inventory)).all())
    assert {row.resource_class: row.capacity for row in rows} == {"VCPU": 8, "MEMORY_MB": 800, "DISK_GB": 5}


def test_a_lowered_ratio_keeps_what_is_promised_and_takes_no_more(db: Database) -> None:
    filled(db, machine("a"))
    for number in range(3):
        claim(db, f"server {number}")
    filled(db, machine("a"), promises=Promises(cpu_ratio=0.5, reserved_memory_mib=0))
    assert used(db)["a"] == (3, 300, 3)
    with pytest.raises(NoValidHost):
        claim(db, "one more")


def test_a_host_waits_for_its_name_if_a_client_has_given_it_to_a_provider(db: Database) -> None:
    mine = db.transact(False, providers.create, NewProvider("a"), utc(0))
    for _ in range(2):
        filled(db, machine("a"))
        with pytest.raises(NoValidHost):
            claim(db, "one")
        (row,) = db.transact(True, hosts.every)
        assert db.transact(False, hosts.remove, row)
    filled(db, machine("a"))
    db.transact(False, providers.change, mine, {"name": "mine"}, utc(0), False)
    filled(db, machine("a"))
    assert claim(db, "one") == "a"
    (row,) = db.transact(True, hosts.every)
    assert not db.transact(False, hosts.remove, row)


def test_a_host_with_a_name_that_no_provider_can_have_gets_no_servers(db: Database) -> None:
    for _ in range(2):
        filled(db, machine("a" * 201), machine("b" * 200))
    assert claim(db, "one") == "b" * 200
    with pytest.raises(NoValidHost):
        claim(db, "two", Wish(WISH.resources, requested="a" * 201))
    long = next(row for row in db.transact(True, hosts.every) if len(row.name) == 201)
    assert db.transact(False, hosts.remove, long)


def test_a_host_goes_with_the_providers_below_its_own_unless_somebody_has_a_share_of_one(db: Database) -> None:
    filled(db, machine("a"), machine("b"))
    first, second = db.transact(True, hosts.every)
    child = db.transact(False, providers.create, NewProvider("child", parent_id=first.id), utc(0))
    db.transact(False, providers.set_inventories, child.id, {"VCPU": NewInventory(4)})
    assert db.transact(False, allocations.take, Owner("one", "p"), child.id, {"VCPU": 1})
    assert not db.transact(False, hosts.remove, first)
    assert child.id in db.transact(True, candidates.nodes)
    db.transact(False, allocations.release, "one")
    assert db.transact(False, hosts.remove, first)
    left = db.transact(True, candidates.nodes)
    assert [way.shares for way in candidates.search(left, Request((Group("", {"VCPU": 1}),)))] == [
        {second.id: {"VCPU": 1}}
    ]


def test_nothing_is_taken_of_inventories_without_a_provider(db: Database) -> None:
    filled(db, machine("a"))
    db.transact(False, lambda conn: conn.execute(delete(Provider)))
    with pytest.raises(NoValidHost):
        claim(db, "one")
    assert not db.transact(True, claims.holding, "one")


def test_what_the_scheduler_saw_does_not_count(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process took the last place after the hosts were read."""
    filled(db, machine("a", vcpus=1))
    stale = db.transact(True, claims.host_states)
    claim(db, "quick")
    monkeypatch.setattr(claims, "host_states", lambda _conn, _wish: stale)
    with pytest.raises(NoValidHost):
        claim(db, "slow")
    assert used(db)["a"] == (1, 100, 1)


def test_concurrent_claims_never_take_more_than_there_is(tmp_path: Path) -> None:
    """Threads on one file: the last place goes to one of them."""
    url = f"sqlite:///{tmp_path / 'db'}"
    threads: list[Thread] = []
    won: list[str] = []
    barrier = Barrier(8)

    def database() -> Database:
        from cloudctl.db.threads import Inline

        inline: Any = Inline()
        return Database(create(url), inline, inline, Clock())

    first = database()
    first.transact(False, lambda conn: metadata.create_all(conn.alchemy))
    filled(first, machine("a", vcpus=3))

    def compete(name: str) -> Callable[[], None]:
        def run() -> None:
            db = database()
            barrier.wait()
            try:
                claim(db, name)
                won.append(name)
            except NoValidHost:
                pass
            db.close()

        return run

    for number in range(8):
        threads.append(Thread(target=compete(f"server {number}")))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert len(won) == 3
    assert used(first)["a"] == (3, 300, 3)
    held = first.transact(True, lambda conn: conn.execute(select(Consumer.id)).scalars().all())
    assert sorted(held) == sorted(won)
    first.close()


# -- hosts


def test_a_host_keeps_its_ids_and_what_it_promised(db: Database) -> None:
    filled(db, machine("a"))
    before = db.transact(True, hosts.find, "a")
    claim(db, "one")
    filled(db, machine("a", vcpus=8, memory_mib=2000), at=60)
    after = db.transact(True, hosts.find, "a")
    assert (after.id, after.service_id, after.number) == (before.id, before.service_id, before.number)
    assert (after.vcpus, after.memory_mib, after.seen_at) == (8, 2000, utc(60))
    assert used(db)["a"] == (1, 100, 1)


def test_a_host_that_is_down_or_gone_was_seen_when_it_answered(db: Database) -> None:
    filled(db, machine("a"), machine("b"), at=10)
    filled(db, machine("a", up=False), at=20)
    a, b = (db.transact(True, hosts.find, name) for name in "ab")
    assert (a.up, a.seen_at, b.up, b.seen_at) == (False, utc(10), False, utc(10))
    filled(db, machine("a"), machine("b"), at=30)
    assert all(hosts.is_alive(row) for row in db.transact(True, hosts.every))


def test_zones_are_usable_while_a_host_of_theirs_is_enabled(db: Database) -> None:
    promises = Promises(zones={"east": ["a"], "west": ["b"]})
    filled(db, machine("a"), machine("b"), machine("c"), promises=promises)
    b = db.transact(True, hosts.find, "b")
    db.transact(False, lambda conn: hosts.change(conn, b, {"enabled": False}))
    assert db.transact(True, hosts.zones) == {"east": True, "nova": True, "west": False}


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({}, "UP"),
        ({"enabled": False}, "MAINTENANCE"),
        ({"up": False}, "UNKNOWN"),
        ({"forced_down": True}, "DOWN"),
        ({"forced_down": True, "up": False}, "DOWN"),
    ],
)
def test_the_status_of_a_host(db: Database, values: dict[str, bool], status: str) -> None:
    filled(db, machine("a"))
    db.transact(False, lambda conn: conn.execute(Host.table.update().values(**{"enabled": True, **values})) and None)
    assert hosts.status(db.transact(True, hosts.find, "a")) == status


def test_a_host_is_forgotten_only_when_it_is_empty(db: Database) -> None:
    filled(db, machine("a"))
    a = db.transact(True, hosts.find, "a")
    claim(db, "one")
    assert db.transact(False, hosts.remove, a) is False
    db.transact(False, claims.release, "one")
    assert db.transact(False, hosts.remove, a) is True
    assert db.transact(True, hosts.every) == []


def statements(db: Database, work: Callable[[], object]) -> int:
    """How many are run, each row of a statement that is run for many counted."""
    run: list[str] = []
    driver = db.connections.get().driver
    driver.set_trace_callback(run.append)
    try:
        with unchecked():
            work()
    finally:
        driver.set_trace_callback(None)
    return len(run)


def test_a_round_in_which_nothing_has_changed_is_as_few_statements_for_many_hosts_as_for_two(db: Database) -> None:
    counts = []
    for count in (2, 200):
        machines = [machine(f"host-{number:03}") for number in range(count)]
        filled(db, *machines, at=1)
        counts.append(statements(db, partial(filled, db, *machines, at=2)))
        assert {each.seen_at for each in db.transact(True, hosts.every)} == {utc(2)}
    assert counts[0] == counts[1] <= 10


def test_who_does_not_answer_was_last_seen_when_it_did_and_comes_back(db: Database) -> None:
    filled(db, machine("a"), machine("b"), machine("c"), at=1)
    filled(db, machine("a"), machine("b", up=False), at=2)
    filled(db, machine("a"), machine("b", up=False), at=3)
    found = {each.name: (each.up, each.seen_at) for each in db.transact(True, hosts.every)}
    assert found == {"a": (True, utc(3)), "b": (False, utc(1)), "c": (False, utc(1))}
    filled(db, machine("a"), machine("b"), machine("c"), at=4)
    assert {(each.up, each.seen_at) for each in db.transact(True, hosts.every)} == {(True, utc(4))}
