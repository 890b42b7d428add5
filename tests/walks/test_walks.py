"""Walks by chance over a whole cloud, after each of which certain things must be true. `python -m tests.walks` makes
more of them."""

from __future__ import annotations

import random
import subprocess
import sys
import uuid

import pytest

from tests.conftest import LoggedFailures
from tests.walks.__main__ import tell
from tests.walks.playing import STEPS, Walked, play
from tests.walks.walk import CRASHES, FAULTS, HA, HOSTS, SOFT, Event, Mix, seeded

CALM: Mix = frozenset()
MIXES = {
    "calm": CALM,
    "crashes": frozenset({CRASHES}),
    "faults": frozenset({FAULTS}),
    "hosts": frozenset({HOSTS}),
    "hosts with instance HA": frozenset({HOSTS, HA}),
    "all with soft delete": frozenset({CRASHES, FAULTS, HOSTS, HA, SOFT}),
}
SEEDS = {
    "calm": (8, 39),
    "crashes": (100, 112),
    "faults": (200, 201),
    "hosts": (300, 301),
    "hosts with instance HA": (400, 401),
    "all with soft delete": (500, 501),
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
    """In this process, after another one, and in a process of its own."""
    mix = MIXES["all with soft delete"]
    first, other, again = (play(seed, mix, 40) for seed in (1, 2, 1))
    assert first.events == again.events and first.end != other.end
    options = ["--seeds=1", "--steps=40", f"--mix={','.join(mix)}", "--jobs=1"]
    command = [sys.executable, "-m", "tests.walks", *options]
    alone = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f"end {first.end};" in alone and "none failed" in alone


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
        Event(3.0, "-- host fake-1 is down"),
        Event(4.0, f"DELETE /volumes/{one}", 409, "it is being made"),
    )
    said = str(Walked(7, frozenset({HOSTS}), 250, events, (f"volume {one} is creating",), "e0", "1 of 409"))
    assert said.splitlines() == [
        "seed 7, 250 steps, hosts: end e0; 1 of 409",
        f"  volume {one} is creating",
        f"  the last requests about {one}:",
        f"        1.00 POST /volumes → 202 {one}",
        "        3.00 -- host fake-1 is down",
        f"        4.00 DELETE /volumes/{one} → 409 it is being made",
    ]


def test_the_exit_status_says_whether_a_walk_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell([(1, "seed 1", None), (2, "seed 2", None)]) == 0
    assert tell([(3, None, "volume 1 is creating"), (2, "seed 2", None), (1, None, "held")]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "FAILED: 1, 3"
