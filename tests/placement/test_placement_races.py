"""Two transactions at once on PostgreSQL: what is taken is what is held, and trees stay whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest
from sqlalchemy import select
from twisted.web.http_headers import Headers

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.drivers.specs import HostInventory
from cloudctl.placement import allocations, candidates, hosts, providers
from cloudctl.placement.allocations import Contended, NewAllocations, Owner
from cloudctl.placement.api import providers as api
from cloudctl.placement.candidates import Group, Request
from cloudctl.placement.hosts import Promises
from cloudctl.placement.names import DISABLED
from cloudctl.placement.providers import NewInventory, NewProvider
from cloudctl.placement.tables import Host, Inventory, Provider, ResourceClass, Trait
from cloudctl.rest import policy
from cloudctl.rest.call import Call, Query
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from tests.meanwhile import Others, at_once, others
from tests.placement.test_allocation_properties import check, fill

NOW = utc(0)
ADMIN = Caller(
    Identity(user_id="u", project_id="p", roles=frozenset({"admin"})), policy.load(["placement"], None), NOW, ""
)
CALL = Call(ADMIN, (1, 39), Query.parse(b""), "", "", "", Headers(), BytesIO())


@pytest.fixture
def other(postgresql_with_tables: str) -> Iterator[Others]:
    with others(postgresql_with_tables) as made:
        made.db.transact(False, fill)
        yield made


def shares(consumer: str, amount: int, generation: int | None = None, *, checked: bool = True) -> Callable[..., None]:
    new = NewAllocations(Owner(consumer, "p"), {"a": {"VCPU": amount}} if amount else {}, generation, checked)
    return lambda conn: allocations.replace(conn, [new])


def release(conn: Connection) -> None:
    allocations.release(conn, "one")


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        (shares("one", 1), shares("one", 2), "Contended"),
        (shares("one", 1, checked=False), shares("one", 2, checked=False), ""),
        (shares("one", 1, checked=False), shares("one", 2), "Contended"),
    ],
)
def test_a_consumer_is_new_once(other: Others, first: Any, second: Any, error: str) -> None:
    assert at_once(other, first, second) == error
    other.db.transact(True, check)


@pytest.mark.parametrize(
    ("first", "second", "error", "used"),
    [
        (release, release, "", 0),
        (release, shares("one", 2, checked=False), "", 2),
        (release, shares("one", 2, 1), "Contended", 0),
        (shares("one", 1, checked=False), release, "", 0),
        (shares("one", 1, checked=False), shares("one", 2, checked=False), "", 2),
        (shares("one", 0, 1), release, "", 0),
        (lambda conn: allocations.hand_over(conn, "one", "two", "MIGRATION"), release, "", 3),
    ],
)
def test_a_consumer_gives_back_what_it_has(other: Others, first: Any, second: Any, error: str, used: int) -> None:
    other.db.transact(False, shares("one", 3))
    assert at_once(other, first, second) == error
    other.db.transact(True, check)
    mine = Inventory.provider_id == "a", Inventory.resource_class == "VCPU"
    assert other.db.transact(True, lambda conn: conn.scalar(select(Inventory.used).where(*mine))) == used


def test_who_has_a_share_may_give_it_back_while_that_is_listed(other: Others, monkeypatch: pytest.MonkeyPatch) -> None:
    for consumer in ("one", "two"):
        other.db.transact(False, shares(consumer, 1))
    found = providers.consumers_of

    def slow(conn: Connection, provider_id: str) -> Any:
        rows = found(conn, provider_id)
        other.begin(release)
        assert other.results == [None]
        return rows

    monkeypatch.setattr(providers, "consumers_of", slow)
    assert other.db.transact(True, api._allocations, CALL, "a")["allocations"].keys() == {"two"}


def made(name: str, parent: str | None = None) -> Callable[[Connection], Provider]:
    return lambda conn: providers.create(conn, NewProvider(name, name, parent), NOW)


def removed(name: str) -> Callable[[Connection], None]:
    return lambda conn: providers.remove(conn, providers.get(conn, name))


def moved(name: str, parent: str | None) -> Callable[[Connection], Provider]:
    changes = {"name": name, "parent_id": parent}
    return lambda conn: providers.change(conn, providers.get(conn, name), changes, NOW, True)


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        (made("new", "a"), removed("a"), "Conflict"),
        (removed("a"), made("new", "a"), "Invalid"),
        (removed("a"), removed("a"), "NotFound"),
        (moved("a", "b"), moved("b", "a"), "Invalid"),
        (moved("a", "b"), removed("b"), "Conflict"),
        (moved("a", "b"), made("new", "a"), ""),
        (made("new", "a"), moved("a", "b"), ""),
        (moved("a", "b"), moved("b", "c"), ""),
    ],
)
def test_trees_stay_whole(other: Others, first: Any, second: Any, error: str) -> None:
    other.db.transact(False, made("c"))
    assert at_once(other, first, second) == error
    other.db.transact(True, are_whole)


def are_whole(conn: Connection) -> None:
    """Every provider is below its root."""
    known = {row.id: row for row in conn.execute(select(Provider))}
    for row in known.values():
        at = row
        for _ in known:
            at = known[at.parent_id] if at.parent_id else at
        assert (at.id, at.parent_id) == (row.root_id, None)
    candidates.search(candidates.nodes(conn), Request((Group("", {"VCPU": 1}),)))


def said(*traits: str) -> Callable[[Connection], None]:
    return lambda conn: providers.set_traits(conn, "a", traits)


def stocked(**totals: int) -> Callable[[Connection], None]:
    new = {name: NewInventory(total) for name, total in totals.items()}
    return lambda conn: providers.set_inventories(conn, "a", new)


def no_trait(conn: Connection) -> None:
    providers.remove_trait(conn, "CUSTOM_X")


def no_class(conn: Connection) -> None:
    providers.remove_class(conn, "CUSTOM_X")


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        (said("CUSTOM_X"), no_trait, "Conflict"),
        (no_trait, said("CUSTOM_X"), "Invalid"),
        (no_trait, no_trait, "NotFound"),
        (stocked(CUSTOM_X=1), no_class, "Conflict"),
        (no_class, stocked(CUSTOM_X=1), "Invalid"),
        (no_class, no_class, "NotFound"),
    ],
)
def test_a_provider_has_only_what_there_is(other: Others, first: Any, second: Any, error: str) -> None:
    for record in (Trait, ResourceClass):
        assert other.db.transact(False, providers.make_name, record, "CUSTOM_X")
    assert at_once(other, first, second) == error
    has = {*other.db.transact(True, providers.traits_of, "a"), *other.db.transact(True, providers.inventories_of, "a")}
    assert has <= {*other.db.transact(True, providers.traits), *other.db.transact(True, providers.classes)}


Marks = Callable[[Connection, Host], Any]


def enabled(value: bool) -> Marks:
    return lambda conn, host: hosts.change(conn, host, {"enabled": value})


def marked(conn: Connection, host: Host) -> None:
    providers.set_traits(conn, providers.get(conn, host.id, lock=True).id, [DISABLED])


@pytest.mark.parametrize(
    ("first", "second", "is_enabled"),
    [(enabled(False), enabled(True), True), (enabled(False), marked, False), (marked, enabled(False), False)],
)
def test_a_host_is_marked_as_disabled_if_it_is(other: Others, first: Marks, second: Marks, is_enabled: bool) -> None:
    machine = HostInventory("host", hypervisor_type="fake", vcpus=4, memory_mib=1000, disk_gib=10)
    other.db.transact(False, hosts.sync, [machine], NOW, Promises())
    before = other.db.transact(True, hosts.find, "host")
    assert at_once(other, lambda conn: first(conn, before), lambda conn: second(conn, before)) == ""
    host = other.db.transact(True, hosts.find, "host")
    has = other.db.transact(True, providers.traits_of, host.id)
    assert (host.enabled, DISABLED in has) == (is_enabled, not is_enabled)


def test_a_host_and_its_provider_are_locked_in_one_order(other: Others) -> None:
    """Otherwise PostgreSQL ends one of the two, which is then run again."""
    machine = HostInventory("host", hypervisor_type="fake", vcpus=4, memory_mib=1000, disk_gib=10)
    other.db.transact(False, hosts.sync, [machine], NOW, Promises())
    host = other.db.transact(True, hosts.find, "host")
    generation = other.db.transact(True, providers.get, host.id).generation
    begun: list[str] = []

    def joining(conn: Connection) -> None:
        begun.append("joining")
        with suppress(Contended):
            api._set_aggregates(conn, CALL, host.id, api.Aggregates([], generation))

    def disabling(conn: Connection) -> None:
        begun.append("disabling")
        hosts.change(conn, host, {"disabled_reason": "x"})
        other.begin(joining)
        hosts.change(conn, host, {"enabled": False})

    other.db.transact(False, disabling)
    assert other.results == [None]
    assert begun == ["disabling", "joining"]
