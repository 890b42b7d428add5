"""Guests of the fake hypervisor that move slowly."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from cloudctl.drivers.errors import Aborted
from cloudctl.drivers.fake.hypervisor import Config, FakeHypervisor, create
from cloudctl.drivers.specs import DriverResources, GuestSpec, MigrationProgress
from tests.there import there

MINUTE = 60.0
SPEC = GuestSpec("g", "guest", "fake-1", vcpus=1, memory_mib=600, disk_gib=6)


def made(clock: Clock, directory: Path) -> FakeHypervisor:
    config = Config(delays={"ensure_migrated": MINUTE})
    return create(config, DriverResources(clock, "fake", state_dir=directory))


def now(deferred: Deferred[object]) -> object:
    found: list[object] = []
    deferred.addCallback(found.append)
    return found[0]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def driver(clock: Clock, tmp_path: Path) -> FakeHypervisor:
    driver = made(clock, tmp_path)
    ensureDeferred(driver.ensure_defined(SPEC))
    ensureDeferred(driver.ensure_running("g"))
    return driver


def moving(driver: FakeHypervisor, host: str = "fake-2") -> Deferred[None]:
    return ensureDeferred(driver.ensure_migrated(evolve(SPEC, host=host)))


def advance(clock: Clock, seconds: float) -> None:
    clock.pump([0.5] * int(seconds * 2))


def host(driver: FakeHypervisor) -> str:
    return there(driver.guests.get("g")).spec.host


def test_how_far_it_is_can_be_asked(clock: Clock, driver: FakeHypervisor) -> None:
    done = moving(driver)
    advance(clock, 15)
    assert not done.called
    progress = now(ensureDeferred(driver.migration_progress("g")))
    assert progress == MigrationProgress(600 << 20, 450 << 20, 6 << 30, (6 << 30) * 3 // 4)
    advance(clock, 46)
    assert done.called and host(driver) == "fake-2"
    assert now(ensureDeferred(driver.migration_progress("g"))) is None


def test_one_that_is_aborted_stays(clock: Clock, driver: FakeHypervisor) -> None:
    done = moving(driver)
    failed: list[object] = []

    def note(failure: Failure) -> None:
        failed.append(failure.type)

    done.addErrback(note)
    advance(clock, 15)
    ensureDeferred(driver.ensure_migration_aborted("g"))
    advance(clock, 1)
    assert (failed, host(driver)) == ([Aborted], "fake-1")


def test_one_that_is_forced_arrives_soon(clock: Clock, driver: FakeHypervisor) -> None:
    done = moving(driver)
    advance(clock, 15)
    ensureDeferred(driver.ensure_migration_forced("g"))
    advance(clock, 1)
    assert done.called and host(driver) == "fake-2"


def test_another_process_goes_on_from_where_it_was(clock: Clock, driver: FakeHypervisor, tmp_path: Path) -> None:
    moving(driver)
    advance(clock, 45)
    other = made(clock, tmp_path)
    done = moving(other)
    advance(clock, 16)
    assert done.called and host(other) == "fake-2"
