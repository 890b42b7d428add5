"""Between the cloud and drivers of any style: a method may return a coroutine, a Deferred, or a plain value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar, cast

from twisted.internet.defer import Deferred

# Only Twisted's module: `txaio.use_twisted()` would choose for the whole process.
from txaio import tx
from zope.interface import Interface, directlyProvides, providedBy
from zope.interface.interface import Method

from cloudctl.drivers.interfaces import CAPABILITIES

P = ParamSpec("P")
T = TypeVar("T")


def call(method: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
    """A Deferred of what the method returns or raises, in whichever style it is written."""
    return cast("Deferred[T]", tx.as_future(method, *args, **kwargs))


def capabilities(driver: object) -> list[type[Interface]]:
    """The driver interfaces that the driver declares, in the order of `CAPABILITIES`."""
    return [each for kind in CAPABILITIES.values() for each in kind if each.providedBy(driver)]


@lru_cache(maxsize=256)  # zope.interface walks through all bases for each name
def methods(*interfaces: type[Interface]) -> frozenset[str]:
    """Names of all methods that these interfaces declare."""
    return frozenset(name for each in interfaces for name in each.names(all=True) if isinstance(each.get(name), Method))


class Adapted:
    """A driver whose declared methods are replaced; everything else is the driver's own."""

    def __init__(self, driver: object, replaced: dict[str, Callable[..., Deferred[Any]]]) -> None:
        self._driver = driver
        self.__dict__.update(replaced)
        directlyProvides(self, providedBy(driver))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)


def through(wrap: Callable[[Any], Callable[..., Deferred[Any]]], driver: object) -> Adapted:
    """The driver with `wrap(method)` in place of each method that its interfaces declare."""
    present = (name for name in methods(*capabilities(driver)) if hasattr(driver, name))
    return Adapted(driver, {name: wrap(getattr(driver, name)) for name in present})


def awaitable(driver: Any) -> Any:
    """The driver itself, or a wrapper whose methods can all be awaited."""
    if all(iscoroutinefunction(getattr(driver, name, None)) for name in methods(*capabilities(driver))):
        return driver

    def wrap(method: Any) -> Callable[..., Deferred[Any]]:
        return lambda *args, **kwargs: call(method, *args, **kwargs)

    return through(wrap, driver)
