"""One seed, from its first day to its last one."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from hashlib import sha256
from random import Random
from unittest.mock import patch
from uuid import UUID

from attrs import frozen

from cloudctl.testing.cloud import MemoryCloud
from tests.instance_ha.simulation.population import Size, drivers
from tests.instance_ha.simulation.world import World


@frozen
class Played:
    """`end`: what has happened, and where guests and disks are then, in one word: another one if anything differs."""

    seed: int
    size: Size
    counts: Mapping[str, int]
    end: str

    def __str__(self) -> str:
        told = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in sorted(self.counts.items()))
        return f"seed {self.seed}: {self.size.hosts} hosts, {self.size.servers} servers, end {self.end}; {told}"


def play(seed: int, size: Size | None, days: float) -> Played:
    """Raises AssertionError with all that has happened if something does not hold."""
    # Not the chances of the world: what takes an id from those would take one that is there.
    ids = Random(f"ids of {seed}")
    # What is sorted by ids is sorted in the same way each time.
    with patch("uuid.uuid4", lambda: UUID(int=ids.getrandbits(128), version=4)):
        world = World.of(seed, size)
        # What there is from the start is not looked through for garbage again and again.
        gc.collect()
        gc.freeze()
        try:
            world.play(days)
            world.rest()
            found = Played(seed, world.size, dict(world.counts), _end(world.cloud, world.told))
            world.cloud.close()
        finally:
            gc.unfreeze()
    return found


def _end(cloud: MemoryCloud, told: list[str]) -> str:
    hypervisor, backend = drivers(cloud)
    guests = [(each.spec.id, each.spec.host, each.power.value) for each in hypervisor.guests.values()]
    disks = [(each.id, each.hosts) for each in backend.volumes.values()]
    return sha256(repr((cloud.clock.seconds(), told, guests, disks)).encode()).hexdigest()[:12]
