"""Rounds in which hosts are looked at: what is as it was is not compared, what somebody changed is put right."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import delete, select, update

from cloudctl.compute.host_watch import PERIOD, THOROUGH
from cloudctl.db import Connection
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.placement import hosts
from cloudctl.placement.names import MEMORY_MB, VCPU
from cloudctl.placement.tables import Host, Inventory
from cloudctl.testing.cloud import MemoryCloud


@pytest.fixture
def compared(cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many hosts were compared, of each round in which that was done."""
    sync, rounds = hosts.sync, list[int]()

    def noting(conn: Connection, found: Any, *args: Any, **options: Any) -> Any:
        rounds.append(len(found))
        return sync(conn, found, *args, **options)

    # The round after the first one knows what that has written.
    cloud.advance(PERIOD)
    monkeypatch.setattr(hosts, "sync", noting)
    return rounds


def host(cloud: MemoryCloud, name: str = "fake-1") -> Host:
    found: Host = cloud.transact(hosts.find, name)
    return found


def test_rounds_that_find_nothing_new_compare_nothing_and_say_who_was_seen(
    cloud: MemoryCloud, compared: list[int]
) -> None:
    before = host(cloud).seen_at
    for _ in range(3):
        cloud.advance(PERIOD)
    assert compared == []
    assert (host(cloud).seen_at - before).total_seconds() == 3 * PERIOD
    cloud.advance(THOROUGH.total_seconds())
    assert compared == [3]


def test_what_a_driver_tells_anew_is_written_at_once(
    cloud: MemoryCloud, hypervisor: FakeHypervisor, compared: list[int]
) -> None:
    hypervisor.machines["fake-1"] = evolve(hypervisor.machines["fake-1"], vcpus=7)
    cloud.advance(PERIOD)
    assert host(cloud).vcpus == 7
    hypervisor.fail_host("fake-2")
    cloud.advance(PERIOD)
    assert not host(cloud, "fake-2").up
    seen = host(cloud, "fake-2").seen_at
    cloud.advance(PERIOD)
    assert host(cloud, "fake-2").seen_at == seen, "it was not seen any more"
    assert compared == [1, 1], "of the others there was nothing new"
    cloud.advance(THOROUGH.total_seconds())
    assert compared == [1, 1, 3]


def test_whom_another_process_took_for_down_is_up_in_the_next_round(cloud: MemoryCloud, compared: list[int]) -> None:
    cloud.transact(lambda conn: conn.execute(update(Host).where(Host.name == "fake-1").values(up=False)))
    cloud.advance(PERIOD)
    assert host(cloud).up and len(compared) == 1


def test_a_host_that_was_forgotten_is_known_again_in_the_next_round(cloud: MemoryCloud, compared: list[int]) -> None:
    assert cloud.transact(hosts.remove, host(cloud))
    cloud.advance(PERIOD)
    assert host(cloud).up and len(compared) == 1


@pytest.mark.parametrize(
    "change",
    [
        update(Inventory).where(Inventory.resource_class == VCPU).values(allocation_ratio=16.0),
        update(Inventory).where(Inventory.resource_class == MEMORY_MB).values(reserved=1),
        update(Inventory).where(Inventory.resource_class == MEMORY_MB).values(total=1),
        delete(Inventory).where(Inventory.resource_class == VCPU),
    ],
)
def test_what_somebody_has_changed_of_what_hosts_provide_is_put_right_in_the_next_round(
    cloud: MemoryCloud, compared: list[int], change: Any
) -> None:
    before = provided(cloud)
    cloud.transact(lambda conn: conn.execute(change))
    assert provided(cloud) != before
    cloud.advance(PERIOD)
    assert provided(cloud) == before and len(compared) == 1


def test_changes_that_even_out_are_put_right_by_the_next_thorough_round(cloud: MemoryCloud) -> None:
    cloud.advance(PERIOD)
    before = provided(cloud)
    one, other, *_ = (host(cloud, name).id for name in ("fake-1", "fake-2"))
    for id, more in ((one, 1), (other, -1)):
        mine = Inventory.provider_id == id, Inventory.resource_class == MEMORY_MB
        cloud.transact(
            lambda conn, mine, more: conn.execute(update(Inventory).where(*mine).values(total=Inventory.total + more)),
            mine,
            more,
        )
    cloud.advance(PERIOD)
    assert provided(cloud) != before
    cloud.advance(THOROUGH.total_seconds())
    assert provided(cloud) == before


def provided(cloud: MemoryCloud) -> list[Any]:
    order = Inventory.provider_id, Inventory.resource_class
    found: list[Any] = cloud.transact(lambda conn: conn.execute(select(Inventory).order_by(*order)).all())
    return found
