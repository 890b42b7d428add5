"""What every fencer must do. Used as `hypervisor_suite` is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from cloudctl.drivers.boundary import call
from cloudctl.drivers.errors import UnknownHost
from cloudctl.testing.driver_checks import Make, Move, after_failure, at_once, driving, once, refused, twice, verify

Look = Callable[[], Awaitable[bool]]


def fencer_suite(make: Make, is_fenced: Look, host: str = "compute-1") -> type[Any]:
    """A class of tests for the driver that `make(directory)` returns.

    `is_fenced()`: whether `host` is, as the machinery that the fencer works on shows it; it is not at first.
    """

    class FencerSuite:
        moves: Sequence[Move] = (
            Move("ensure_unfenced", (host,), False),
            Move("ensure_fenced", (host,), True),
            Move("ensure_unfenced", (host,), False),
        )

        async def test_provides_all_that_it_declares(self, tmp_path: Path) -> None:
            verify(await call(make, tmp_path), "fencer")

        async def test_a_host_is_fenced_and_let_go_of(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await once(driver, self.moves, is_fenced)

        async def test_a_repeat_changes_nothing(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await twice(driver, self.moves, is_fenced)

        async def test_three_calls_at_once_do_what_one_does(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await at_once(driver, self.moves, is_fenced)

        async def test_a_failure_before_the_effect_can_be_repeated(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await after_failure(driver, self.moves, is_fenced, False)

        async def test_a_lost_answer_can_be_repeated(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await after_failure(driver, self.moves, is_fenced, True)

        async def test_a_host_stays_fenced_when_the_cloud_is_started_anew(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                await driver.ensure_fenced(host)
            async with driving(make, tmp_path) as driver:
                assert await is_fenced()
                await driver.ensure_unfenced(host)
                assert not await is_fenced()

        async def test_the_evidence_is_for_people_and_names_the_host(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                evidence = await driver.ensure_fenced(host)
                assert host in evidence and evidence.isprintable()
                await driver.ensure_unfenced(host)

        async def test_it_vouches_for_no_host_but_its_own(self, tmp_path: Path) -> None:
            async with driving(make, tmp_path) as driver:
                for method in (driver.ensure_fenced, driver.ensure_unfenced):
                    await refused(UnknownHost, method, "no-such-host")
                assert not await is_fenced()

    return FencerSuite
