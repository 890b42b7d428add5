"""Drivers of any style look alike from inside."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import Attribute, Interface, implementer

from cloudctl.drivers.boundary import awaitable, call, capabilities, methods
from cloudctl.drivers.errors import UnknownVolume
from cloudctl.drivers.interfaces import IDriver, INetworkBackend, IRouters, IVolumeBackend


async def coroutine(x: Any) -> Any:
    return x


async def failing_coroutine(x: Any) -> None:
    raise UnknownVolume(x)


def plain(x: Any) -> Any:
    return x


def failing_plain(x: Any) -> None:
    raise UnknownVolume(x)


@pytest.mark.parametrize("method", [coroutine, plain, succeed])
async def test_every_style_answers(method: Any) -> None:
    answer = call(method, "v1")
    assert isinstance(answer, Deferred)
    assert await answer == "v1"


@pytest.mark.parametrize("method", [failing_coroutine, failing_plain, lambda x: fail(UnknownVolume(x))])
async def test_every_style_fails_as_a_deferred(method: Any) -> None:
    failing = call(method, "v1")
    with pytest.raises(UnknownVolume):
        await failing


def test_inherited_methods_count_and_attributes_do_not() -> None:
    class IOdd(Interface):
        x = Attribute("No method.")

        def y() -> None:
            """A method."""

    assert methods(IDriver) < methods(IVolumeBackend)
    assert methods(IOdd) == {"y"}


class IForeign(Interface):
    """Of someone else."""

    def startService() -> None:
        """Must stay as it is."""


class Mixed:
    """A network driver in which each method has another style."""

    behaviour = "mine"
    ensured: tuple[Any, ...] = ()

    def check(self) -> Any:
        return None

    def close(self) -> Any:
        return succeed(None)

    async def inventory(self) -> Any:
        return "inventory"

    def observe_port(self, id: str) -> Any:
        raise UnknownVolume(id)

    def ensure_network(self, spec: Any) -> Any:
        self.ensured += (spec,)

    def startService(self) -> Any:
        return "now"


@implementer(INetworkBackend, IForeign)
class Network(Mixed):
    pass


async def test_a_driver_of_mixed_style_can_be_awaited_throughout() -> None:
    driver = awaitable(Network())
    assert await driver.check() is None
    assert await driver.close() is None
    assert await driver.inventory() == "inventory"
    await driver.ensure_network("n1")
    assert driver.ensured == ("n1",) and driver.behaviour == "mine"
    with pytest.raises(UnknownVolume):
        await driver.observe_port("p1")
    assert driver.startService() == "now"


def test_what_is_declared_stays_declared() -> None:
    driver = awaitable(Network())
    assert capabilities(driver) == [INetworkBackend]
    assert IForeign.providedBy(driver) and not IRouters.providedBy(driver)


def test_a_missing_method_stays_missing() -> None:
    assert not hasattr(awaitable(Network()), "ensure_port")


def test_a_driver_of_coroutines_is_left_as_it_is() -> None:
    class Style:
        async def method(self, *args: Any) -> Any:
            return None

    driver = implementer(IDriver)(type("All", (), dict.fromkeys(methods(INetworkBackend), Style.method)))()
    assert awaitable(driver) is driver
