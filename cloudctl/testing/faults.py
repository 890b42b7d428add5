"""Failures injected into a driver that has no faults of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime

from cloudctl.drivers.boundary import call, capabilities, through
from cloudctl.drivers.fake.behaviour import Behaviour


def with_faults(driver: Any, clock: IReactorTime) -> Any:
    """The driver with a `behaviour`: its methods can be made to fail, before their effect or after it."""
    behaviour = Behaviour(clock, tuple(capabilities(driver)))

    def wrap(method: Any) -> Callable[..., Deferred[Any]]:
        name = method.__name__

        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            await behaviour.before(name)
            result = await call(method, *args, **kwargs)
            behaviour.after(name)
            return result

        return lambda *args, **kwargs: ensureDeferred(wrapped(*args, **kwargs))

    adapted = through(wrap, driver)
    adapted.__dict__["behaviour"] = behaviour
    return adapted
