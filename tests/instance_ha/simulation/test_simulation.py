"""Hours of deaths and returns, by chance, against the rules of docs/instance-ha.md. A seed that fails is played again
by `--first-seed`."""

from __future__ import annotations

import pytest

from tests.instance_ha.simulation.world import World


@pytest.mark.slow
def test_whatever_dies_no_guest_runs_twice_and_nothing_is_forgotten(seed: int) -> None:
    world = World.of(seed)
    world.play(300)
    world.rest()
    world.cloud.close()
