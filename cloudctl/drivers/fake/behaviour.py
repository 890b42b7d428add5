"""Delays and faults of a fake driver, changeable while it runs.

driver.behaviour.delay("ensure_running", 2.0)
driver.behaviour.fail("ensure_running", error=NoCapacity("out of memory"))
driver.behaviour.fail("ensure_created", times=3, id=volume_id, after=True)   # done, but the answer is lost
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from attrs import Attribute, define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from zope.interface import Interface

from cloudctl.drivers.boundary import methods
from cloudctl.drivers.errors import Unreachable


@define(eq=False)
class Fault:
    """`error` is raised by calls of `method` (with this id, if one is given) `times` times; None: until `clear`."""

    method: str
    error: Exception
    times: int | None = 1
    id: str | None = None
    after: bool = False


@define(eq=False)
class Behaviour:
    """The behaviour of one driver with these `interfaces`. Names of methods that it lacks raise ValueError."""

    clock: IReactorTime
    interfaces: tuple[type[Interface], ...]
    delays: dict[str, float] = field(factory=dict)  # seconds before the effect
    faults: list[Fault] = field(factory=list)
    calls: Counter[str] = field(factory=Counter)  # of each method, failed ones included

    def delay(self, method: str, seconds: float) -> None:
        """Calls of `method` that begin from now on take this long."""
        check_delays(self.interfaces, {method: seconds})
        self.delays[method] = seconds

    def fail(
        self,
        method: str,
        times: int | None = 1,
        error: Exception | None = None,
        id: str | None = None,
        after: bool = False,
    ) -> None:
        """Make calls fail (with Unreachable by default), before their effect or `after` it."""
        check_delays(self.interfaces, {method: 0})
        self.faults.append(Fault(method, error or Unreachable(f"injected failure of {method}"), times, id, after))

    def clear(self) -> None:
        """No delays and no faults from now on."""
        self.delays.clear()
        self.faults.clear()

    async def before(self, method: str, id: str | None = None) -> None:
        """Count the call, wait for its delay, raise its fault."""
        self.calls[method] += 1
        seconds = self.delays.get(method, 0)
        if seconds:
            await sleep(self.clock, seconds)
        self._raise(method, id, after=False)

    def after(self, method: str, id: str | None = None) -> None:
        """Raise the fault that hides what was done."""
        self._raise(method, id, after=True)

    @asynccontextmanager
    async def around(self, method: str, id: str | None = None) -> AsyncIterator[None]:
        """`before`, the effect, `after`. The effect must not await: then no other call sees half of it."""
        await self.before(method, id)
        yield
        self.after(method, id)

    @asynccontextmanager
    async def at_once(self, method: str, id: str | None = None) -> AsyncIterator[None]:
        """As `around`, for a method that handles its delay itself."""
        self.calls[method] += 1
        self._raise(method, id, after=False)
        yield
        self._raise(method, id, after=True)

    def _raise(self, method: str, id: str | None, after: bool) -> None:
        for fault in self.faults:
            if fault.method == method and fault.after is after and fault.id in (None, id):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self.faults.remove(fault)
                raise fault.error


async def sleep(clock: IReactorTime, seconds: float) -> None:
    slept: Deferred[None] = deferLater(clock, seconds)
    await slept


def check_delays(interfaces: tuple[type[Interface], ...], delays: Mapping[str, float]) -> None:
    """Raises ValueError for a method that these interfaces do not have, and for a negative time."""
    have = methods(*interfaces)
    if wrong := sorted(delays.keys() - have):
        raise ValueError(f"unknown methods: {', '.join(wrong)}; valid methods: {', '.join(sorted(have))}")
    if negative := sorted(method for method, seconds in delays.items() if seconds < 0):
        raise ValueError(f"delays must not be negative: {', '.join(negative)}")


def delays_of(interfaces: tuple[type[Interface], ...]) -> Callable[[Any, Attribute[Any], dict[str, float]], None]:
    """An attrs validator: `check_delays` of an option."""
    return lambda _config, _option, delays: check_delays(interfaces, delays)
