"""What happens to the cloud on a walk: time passes, drivers fail."""

from __future__ import annotations

from collections.abc import Iterator

from cloudctl.drivers.boundary import methods
from cloudctl.drivers.errors import DriverError, NoCapacity
from tests.walks.walk import FAULTS, Action, Walk

# Part of the message of whatever a driver is told to refuse.
INJECTED = "injected"
# What takes a while, in most walks: a request may find it under way.
SLOW = (
    "ensure_defined",
    "ensure_running",
    "ensure_created",
    "ensure_stopped",
    "ensure_migrated",
    "ensure_captured",
    "ensure_connected",
    "ensure_plugged",
    "ensure_copied",
)
MINUTE = 61.0  # and a bit: whatever is done every minute is done
PATIENCE = 40  # minutes, in which whatever waits is repeated


def be_slow(walk: Walk) -> None:
    for fake in walk.fakes:
        known = methods(*fake.behaviour.interfaces)
        for method in SLOW:
            if method in known and walk.often(0.8):
                fake.behaviour.delay(method, walk.chance.choice((0.1, 0.5, 3.0)))


def wait(walk: Walk) -> None:
    walk.cloud.advance(walk.chance.choice((0.0, 0.05, 0.1, 0.3, 1.0, 5.0, 30.0, MINUTE)))


def driver_fails(walk: Walk) -> None:
    """Once or more often: as if it was away, or for good; before anything is done, or after it."""
    behaviour = walk.chance.choice(walk.fakes).behaviour
    method = walk.chance.choice(sorted(each for each in methods(*behaviour.interfaces) if each.startswith("ensure")))
    times = walk.chance.choice((1, 1, 2, 20))
    error = walk.chance.choice((None, None, DriverError(f"{INJECTED} refusal"), NoCapacity(f"{INJECTED} fullness")))
    behaviour.fail(method, times, error, after=walk.often(0.4))
    walk.happened(f"-- {behaviour.faults[-1]}")


def actions(walk: Walk) -> Iterator[tuple[float, Action]]:
    yield 22.0, wait
    if FAULTS in walk.mix:
        yield 3.0, driver_fails


def rest(walk: Walk) -> None:
    """The trouble is over, and whatever is under way ends. Raises AssertionError if it does not."""
    for fake in walk.fakes:
        fake.behaviour.clear()
    for _ in range(PATIENCE):
        walk.cloud.advance(MINUTE)
    walk.cloud.settle()
