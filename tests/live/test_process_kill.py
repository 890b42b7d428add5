"""`kill -9` at random moments: what was answered survives, every server ends ACTIVE or gone, and nothing is left over.

The moments come from a seed that a failing test shows. CLOUDCTL_TEST_SEED sets it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from threading import Timer

import pytest

from tests.live.load import TOML, Load, interrupted, read
from tests.live.process import LiveCloud

pytestmark = pytest.mark.slow

BOOTS, DELETES = 40, 32
KILLS = 6
# Another process takes over after this many seconds.
LEASE = 2.0
SHARED = f"""
[database]
url = "{{url}}"
[tasks]
lease = {LEASE}
"""

# Kinds of tasks that are claimed once, unless their process dies.
NEVER_WAIT = ("compute.server.boot", "compute.server.delete")

Start = Callable[..., LiveCloud]


@pytest.fixture
def chance() -> Random:
    seed = os.environ.get("CLOUDCTL_TEST_SEED") or str(time.time_ns())
    print(f"CLOUDCTL_TEST_SEED={seed}")
    return Random(seed)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Start]:
    """`process(name, toml, …)`: a process not started yet, with the state directory that all share."""
    made: list[LiveCloud] = []

    def make(name: str, toml: str = "", reactor: str = "default") -> LiveCloud:
        (tmp_path / name).mkdir()
        made.append(LiveCloud(tmp_path / name, toml + TOML, reactor, state_dir=tmp_path / "state"))
        return made[-1]

    yield make
    for cloud in made:
        cloud.kill()


def kill_soon(cloud: LiveCloud, chance: Random, least: float, most: float) -> Timer:
    timer = Timer(chance.uniform(least, most), cloud.kill)
    timer.start()
    return timer


def work_until_killed(cloud: LiveCloud, load: Load, chance: Random) -> None:
    """Part of the load in each life. It is killed amid its requests, however long the first of them took."""
    share = -(-(load.boots + load.deletes) // KILLS)
    load.work(chance.randint(1, share // 2))
    dying = kill_soon(cloud, chance, 0.0, 0.2)
    load.work(share // 2)
    dying.join()


def kill_again_and_again(cloud: LiveCloud, load: Load, chance: Random) -> None:
    """A starting process is killed now and then, too."""
    for _ in range(KILLS):
        work_until_killed(cloud, load, chance)
        if chance.random() < 0.25:
            cloud.start(wait=False)
            kill_soon(cloud, chance, 0.0, 1.0).join()
        cloud.start()


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_one_process_is_killed_again_and_again(
    request: pytest.FixtureRequest, process: Start, chance: Random, tmp_path: Path, database: str
) -> None:
    url, toml = f"sqlite:///{tmp_path / 'state' / 'cloudctl.sqlite'}", ""
    if database == "postgresql":
        url = request.getfixturevalue("postgresql_url")
        toml = SHARED.format(url=url)
    cloud = process("one", toml)
    cloud.start()
    load = Load([cloud], chance, BOOTS, DELETES)
    load.prepare()
    kill_again_and_again(cloud, load, chance)
    finish(load, url)


def test_of_two_processes_one_is_killed_and_the_other_takes_over(
    process: Start, chance: Random, postgresql_url: str
) -> None:
    clouds = [process(name, SHARED.format(url=postgresql_url)) for name in ("one", "two")]
    began = time.monotonic()
    for cloud in clouds:
        # Both find an empty database.
        cloud.start(wait=False)
    for cloud in clouds:
        cloud.wait(began)
    load = Load(clouds, chance, BOOTS, DELETES)
    load.prepare()
    for number in range(KILLS):
        victim = chance.choice(clouds)
        work_until_killed(victim, load, chance)
        if number == KILLS - 1:
            # It does not come back: the other one finishes everything alone.
            break
        time.sleep(chance.uniform(0.0, 1.0))
        victim.start()
    finish(load, postgresql_url)


def finish(load: Load, url: str) -> None:
    load.finish()
    assert len(load.kept) == BOOTS - DELETES
    load.check(url)
    hit = {kind: read(url, partial(interrupted, kind=kind)) for kind in NEVER_WAIT}
    print(f"interrupted: {hit}")
    assert sum(hit.values()) > 0, "no kill hit a task"
    load.delete_all()
    load.check(url)
    for cloud in load.clouds:
        assert "Traceback" not in cloud.log.read_text()
