"""Weeks of deaths and returns, by chance, against the rules of docs/instance-ha.md. A seed that fails is played again
by `--first-seed`."""

from __future__ import annotations

import gc
from random import Random
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.exc import OperationalError

from tests.instance_ha.simulation.conftest import DAYS
from tests.instance_ha.simulation.population import Size
from tests.instance_ha.simulation.world import HASTE, World


@pytest.mark.slow
def test_whatever_dies_no_guest_runs_twice_and_nothing_is_forgotten(
    seed: int, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, logged_failures: Any
) -> None:
    # Not the chances of the world: what takes an id from those would take one that is there.
    ids = Random(f"ids of {seed}")
    # What is sorted by ids is sorted in the same way each time.
    monkeypatch.setattr("uuid.uuid4", lambda: UUID(int=ids.getrandbits(128), version=4))
    hosts = pytestconfig.getoption("hosts", 0)
    world = World.of(seed, Size.of(hosts, pytestconfig.getoption("servers", 0)) if hosts else None)
    # What there is from the start is not looked through for garbage again and again.
    gc.collect()
    gc.freeze()
    try:
        world.play(pytestconfig.getoption("days", DAYS))
        world.rest()
        world.cloud.close()
    finally:
        gc.unfreeze()
    logged_failures.flush(OperationalError)
    print(f"seed {seed}: {world.size.hosts} hosts, {world.size.servers} servers,", dict(world.counts))


def test_guests_of_a_host_that_came_back_before_anybody_was_told_are_found_to_be_off() -> None:
    world = World.of(3, Size.of(6, 12))
    host = next(guest.spec.host for guest in world.hypervisor.guests.values())
    period = world.cloud.config.tasks.audit_period
    # The next audit is as far away as it can be.
    world.advance(period + 1.0)
    world._gone(host, silent=False)
    world.advance(HASTE)
    world.rest()
    world.cloud.close()
