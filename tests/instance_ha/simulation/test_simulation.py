"""Weeks of deaths and returns, by chance, against the rules of docs/instance-ha.md. A seed that fails is played again
by `--first-seed`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from tests.instance_ha.simulation.__main__ import outcomes, played
from tests.instance_ha.simulation.conftest import DAYS
from tests.instance_ha.simulation.playing import play
from tests.instance_ha.simulation.population import Size, copied
from tests.instance_ha.simulation.world import HASTE, World


@pytest.mark.slow
def test_whatever_dies_no_guest_runs_twice_and_nothing_is_forgotten(
    seed: int, pytestconfig: pytest.Config, logged_failures: Any
) -> None:
    hosts = pytestconfig.getoption("hosts", 0)
    size = Size.of(hosts, pytestconfig.getoption("servers", 0)) if hosts else None
    said = play(seed, size, pytestconfig.getoption("days", DAYS))
    logged_failures.flush(OperationalError)
    print(said)


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


def test_a_seed_is_the_same_by_itself_and_among_others_of_one_cloud() -> None:
    """Of two that are played in copies of this process, and one of them alone in a process that has played nothing."""
    size, days = Size.of(12, 42), 0.2
    copied(size)
    both = {seed: (said, why) for seed, said, why in outcomes((5, 6), 2, lambda seed: played(seed, size, days))}
    assert [both[5][1], both[6][1]] == [None, None] and _end(both[5][0]) != _end(both[6][0])
    options = ["--hosts=12", "--servers=42", f"--days={days}", "--seeds=1", "--first-seed=6"]
    command = [sys.executable, "-m", "tests.instance_ha.simulation", *options]
    alone = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "none failed" in alone and _end(alone) == _end(both[6][0])


def _end(said: str | None) -> str:
    (end,) = re.findall(r"end (\w+);", said or "")
    return str(end)


def test_which_seeds_have_failed_is_told() -> None:
    def work(seed: int) -> str:
        if seed == 2:
            raise AssertionError("a guest runs twice")
        if seed == 3:
            os._exit(9)
        return f"seed {seed}"

    found = sorted(outcomes(range(5), 2, work))
    assert [(seed, told) for seed, told, why in found if why is None] == [(each, f"seed {each}") for each in (0, 1, 4)]
    assert ["a guest runs twice" in (found[2][2] or ""), "without a word" in (found[3][2] or "")] == [True, True]
