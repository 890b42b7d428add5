"""What every fencer must do. Used as `hypervisor_suite` is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from cloudctl.drivers.errors import UnknownHost
from cloudctl.testing.driver_checks import Contract, Make, Move, driving, refused

Look = Callable[[], Awaitable[bool]]


def fencer_suite(make: Make, is_fenced: Look, host: str = "compute-1") -> type[Any]:
    """A class of tests for the driver that `make(directory)` returns.

    `is_fenced()`: whether `host` is fenced, as the machinery that the fencer works on shows it; at first it is not.
    """

    class FencerSuite(Contract):
        kind = "fencer"
        made = staticmethod(make)

        async def moves(self, driver: Any, directory: Path) -> Sequence[Move]:
            return (
                Move("ensure_unfenced", (host,), False),
                Move("ensure_fenced", (host,), True),
                Move("ensure_unfenced", (host,), False),
            )

        async def see(self, driver: Any) -> bool:
            return await is_fenced()

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
