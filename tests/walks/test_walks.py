"""Walks by chance over a whole cloud, after each of which certain things must be true."""

from __future__ import annotations

import random
import uuid

import pytest

from tests.conftest import LoggedFailures
from tests.walks.playing import STEPS, Walked, play
from tests.walks.walk import FAULTS, Event, Mix, seeded

CALM: Mix = frozenset()
MIXES = {
    "calm": CALM,
    "faults": frozenset({FAULTS}),
}
SEEDS = {
    "calm": (7, 8),
    "faults": (200, 201),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, seeds in SEEDS.items() for seed in seeds])
def test_whatever_is_asked_the_cloud_agrees_with_itself(name: str, seed: int, logged_failures: LoggedFailures) -> None:
    walked = play(seed, MIXES[name], STEPS)
    # They are among what is wrong, with the seed and the last requests.
    logged_failures.flush()
    if walked.wrong:
        pytest.fail(str(walked), pytrace=False)


def test_a_seed_is_the_same_walk_each_time() -> None:
    """By itself or after another one."""
    mix = MIXES["faults"]
    first, other, again = (play(seed, mix, 40) for seed in (1, 2, 1))
    assert first.events == again.events and first.end != other.end


def test_chance_is_left_as_it_was() -> None:
    before = random.getstate()
    with seeded("this test"):
        first = uuid.uuid4(), random.random()
    with seeded("this test"):
        assert (uuid.uuid4(), random.random()) == first
    assert random.getstate() == before and uuid.uuid4() != first[0]


def test_what_is_wrong_is_told_with_the_last_requests_about_it() -> None:
    one, other = str(uuid.uuid4()), str(uuid.uuid4())
    events = (
        Event(1.0, "POST /volumes", 202, one),
        Event(2.0, "POST /volumes", 202, other),
        Event(3.0, "-- Fault"),
        Event(4.0, f"DELETE /volumes/{one}", 409, "it is being made"),
    )
    said = str(Walked(7, frozenset({FAULTS}), 250, events, (f"volume {one} is creating",), "e0", "1 of 409"))
    assert said.splitlines() == [
        "seed 7, 250 steps, faults: end e0; 1 of 409",
        f"  volume {one} is creating",
        f"  the last requests about {one}:",
        f"        1.00 POST /volumes → 202 {one}",
        "        3.00 -- Fault",
        f"        4.00 DELETE /volumes/{one} → 409 it is being made",
    ]
