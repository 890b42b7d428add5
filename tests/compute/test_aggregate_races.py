"""Two changes of host aggregates at once on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import pytest
from sqlalchemy import select
from twisted.web.http_headers import Headers

from cloudctl.compute.api import aggregates as api
from cloudctl.compute.api.aggregates import ChangeAggregate
from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.drivers.specs import HostInventory
from cloudctl.instance_ha import reserves
from cloudctl.placement import aggregates, hosts, providers
from cloudctl.placement.aggregates import NewAggregate
from cloudctl.placement.hosts import Promises
from cloudctl.placement.tables import ProviderAggregate
from cloudctl.rest import policy
from cloudctl.rest.call import Call, Query
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from tests.meanwhile import Others, at_once, others

NOW = utc(0)
CALLER = Caller(
    Identity(user_id="u", project_id="p", roles=frozenset({"admin"})), policy.load(["compute"], None), NOW, ""
)
CALL = Call(CALLER, (2, 1), Query.parse(b""), "", "", "", Headers(), BytesIO())

Change = Callable[[Connection], Any]


@pytest.fixture
def other(postgresql_with_tables: str) -> Iterator[Others]:
    with others(postgresql_with_tables) as made:
        machine = HostInventory("a", hypervisor_type="fake", vcpus=4, memory_mib=1000, disk_gib=10)
        made.db.transact(False, hosts.sync, [machine], NOW, Promises())
        for name in ("one", "two"):
            made.db.transact(False, aggregates.create, NewAggregate(name), NOW)
        yield made


def added(aggregate: int) -> Change:
    return lambda conn: api._add_host(conn, CALL, str(aggregate), "a")


def deleted(aggregate: int) -> Change:
    return lambda conn: api._remove(conn, str(aggregate))


def said(aggregate: int, **metadata: str | None) -> Change:
    return lambda conn: api._set_metadata(conn, CALL, str(aggregate), metadata)


def zoned(aggregate: int, zone: str) -> Change:
    return lambda conn: api._change(conn, CALL, str(aggregate), ChangeAggregate(availability_zone=zone))


def placed(*aggregate: int) -> Change:
    """The aggregates of the host as placement's older clients set them."""

    def run(conn: Connection) -> None:
        host = hosts.find(conn, "a")
        assert host is not None
        wanted = [aggregates.get(conn, each).id for each in aggregate]
        providers.set_aggregates(conn, providers.get(conn, host.id, lock=True).id, wanted)

    return run


@pytest.mark.parametrize(
    ("first", "second", "error", "members"),
    [
        (added(1), added(1), "Conflict", 1),
        (added(1), deleted(1), "Invalid", 1),
        (deleted(1), added(1), "NotFound", 0),
        (added(1), placed(1), "", 1),
        (placed(1), added(1), "Conflict", 1),
        (placed(1), placed(1), "", 1),
        (added(1), placed(2), "", 1),
    ],
)
def test_a_host_is_in_an_aggregate_once(other: Others, first: Change, second: Change, error: str, members: int) -> None:
    assert at_once(other, first, second) == error
    assert len(other.db.transact(True, lambda conn: conn.execute(select(ProviderAggregate)).all())) == members


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (added(1), added(2)),
        (added(1), zoned(1, "z")),
        (zoned(1, "z"), added(1)),
    ],
)
def test_a_host_is_in_one_zone(other: Others, first: Change, second: Change) -> None:
    other.db.transact(False, zoned(1, "x"))
    other.db.transact(False, zoned(2, "y"))
    at_once(other, first, second)
    host = other.db.transact(True, hosts.find, "a")
    of_hosts = other.db.transact(True, aggregates.metadata_of_hosts)
    assert {each["availability_zone"] for each in of_hosts[host.id]} == {host.zone}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (said(1, a="1"), said(1, b="2")),
        (zoned(1, "x"), said(1, b="2")),
        (said(1, b="2"), zoned(1, "x")),
    ],
)
def test_what_is_said_of_an_aggregate_stays(other: Others, first: Change, second: Change) -> None:
    at_once(other, first, second)
    assert len(other.db.transact(True, aggregates.get, 1).metadata) == 2


def test_a_reserve_that_has_just_been_removed_joins_nothing(other: Others) -> None:
    machines = [HostInventory(name, hypervisor_type="fake", vcpus=4, memory_mib=1000, disk_gib=10) for name in "ab"]
    other.db.transact(False, hosts.sync, machines, NOW, Promises())
    other.db.transact(False, added(1))
    reserve = other.db.transact(True, hosts.find, "b")
    assert other.db.transact(False, hosts.remove, reserve)
    assert other.db.transact(False, reserves._join, reserve, "a", NOW) == []
