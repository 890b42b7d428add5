"""What the driver suites share: their first tests, moves, and the ways in which each move is disturbed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from twisted.internet.defer import DeferredList
from twisted.python.failure import Failure
from zope.interface import Interface
from zope.interface.verify import verifyObject

from cloudctl.drivers.boundary import awaitable, call, capabilities
from cloudctl.drivers.errors import Busy, DriverError
from cloudctl.drivers.interfaces import CAPABILITIES, Kind

Make = Callable[[Path], Any]
"""Makes a new driver that holds nothing; may be a coroutine. The directory is its own, and empty at first."""

Look = Callable[[], Awaitable[Any]]


class InjectedFault(DriverError):
    """The failure that a suite asked a driver's `behaviour` for."""


@frozen
class Move:
    """A call that can be repeated, and what must be observed after it."""

    method: str
    args: tuple[Any, ...]
    seen: Any


@asynccontextmanager
async def driving(make: Make, directory: Path) -> AsyncIterator[Any]:
    """A new driver, checked; closed at the end."""
    driver = awaitable(await call(make, directory))
    try:
        await driver.check()
        yield driver
    finally:
        await driver.close()


def verify(driver: Any, kind: Kind) -> None:
    """It provides the core of its kind and every interface that it declares, with the declared signatures."""
    core = CAPABILITIES[kind][0]
    assert core.providedBy(driver), f"{type(driver).__name__} does not declare {core.__name__}"
    for interface in capabilities(driver):
        verifyObject(interface, driver)


def need(driver: Any, *interfaces: type[Interface]) -> None:
    """Skip the test unless the driver declares these capabilities."""
    for interface in interfaces:
        if not interface.providedBy(driver):
            pytest.skip(f"the driver does not declare {interface.__name__}")


async def refused(error: type[DriverError], method: Callable[..., Awaitable[Any]], *args: Any) -> None:
    """The call must raise this error."""
    with pytest.raises(error):
        await method(*args)


async def once(driver: Any, moves: Sequence[Move], look: Look) -> None:
    """Each move leads to the state it names."""
    for move in moves:
        await getattr(driver, move.method)(*move.args)
        assert await look() == move.seen, f"after {move.method}"


async def twice(driver: Any, moves: Sequence[Move], look: Look) -> None:
    """The second call of each move succeeds, changes nothing and answers like the first."""
    for move in moves:
        first = await getattr(driver, move.method)(*move.args)
        assert await look() == move.seen, f"after {move.method}"
        second = await getattr(driver, move.method)(*move.args)
        assert await look() == move.seen, f"after the second {move.method}"
        assert first == second, f"{move.method} answered differently the second time"


async def at_once(driver: Any, moves: Sequence[Move], look: Look) -> None:
    """Three calls of each move at once do what one does; those that fail say Busy."""
    for move in moves:
        calls = [call(getattr(driver, move.method), *move.args) for _ in range(3)]
        results = await DeferredList(calls, consumeErrors=True)
        failures = [value for succeeded, value in results if not succeeded]
        for failure in failures:
            assert isinstance(failure, Failure)
            assert failure.check(Busy), f"{move.method} three times at once: {failure.getErrorMessage()}"
        assert len(failures) < len(calls), f"{move.method} three times at once: none succeeded"
        assert await look() == move.seen, f"after {move.method} three times at once"


async def after_failure(driver: Any, moves: Sequence[Move], look: Look, lost_answer: bool) -> None:
    """Each move fails once, before its effect or after it; the repeat leads to the state it names.

    Skips the test for a driver without a `behaviour` (see `cloudctl.drivers.fake.behaviour`).
    """
    behaviour = getattr(driver, "behaviour", None)
    if behaviour is None:
        pytest.skip("the driver has no behaviour to inject failures with")
    for move in moves:
        before = await look()
        behaviour.fail(move.method, error=InjectedFault(move.method), after=lost_answer)
        await refused(InjectedFault, getattr(driver, move.method), *move.args)
        expected = move.seen if lost_answer else before
        assert await look() == expected, f"after the failed {move.method}"
        await getattr(driver, move.method)(*move.args)
        assert await look() == move.seen, f"after {move.method} was repeated"


class Contract:
    """The tests of drivers of all kinds. A suite gives its kind, how a driver is made, its moves and how to look."""

    kind: Kind
    made: Make

    @abstractmethod
    async def moves(self, driver: Any, directory: Path) -> Sequence[Move]:
        """What a thing goes through, from nothing to nothing."""

    @abstractmethod
    async def see(self, driver: Any) -> Any:
        """The present state of everything that the moves are about."""

    async def test_provides_all_that_it_declares(self, tmp_path: Path) -> None:
        async with driving(self.made, tmp_path) as driver:
            verify(driver, self.kind)

    async def test_closing_again_does_nothing(self, tmp_path: Path) -> None:
        async with driving(self.made, tmp_path) as driver:
            await driver.close()

    async def test_what_it_makes_lives_and_goes(self, tmp_path: Path) -> None:
        async with driving(self.made, tmp_path) as driver:
            await once(driver, await self.moves(driver, tmp_path), lambda: self.see(driver))

    async def test_each_ensure_repeated_changes_nothing(self, tmp_path: Path) -> None:
        async with driving(self.made, tmp_path) as driver:
            await twice(driver, await self.moves(driver, tmp_path), lambda: self.see(driver))

    async def test_each_ensure_three_times_at_once_is_like_once(self, tmp_path: Path) -> None:
        async with driving(self.made, tmp_path) as driver:
            await at_once(driver, await self.moves(driver, tmp_path), lambda: self.see(driver))

    async def test_each_ensure_can_be_repeated_after_a_failure(self, tmp_path: Path) -> None:
        async with driving(self.made, tmp_path) as driver:
            await after_failure(driver, await self.moves(driver, tmp_path), lambda: self.see(driver), False)

    async def test_each_ensure_can_be_repeated_after_a_lost_answer(self, tmp_path: Path) -> None:
        async with driving(self.made, tmp_path) as driver:
            await after_failure(driver, await self.moves(driver, tmp_path), lambda: self.see(driver), True)
