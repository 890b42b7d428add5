"""A blocking driver in threads of its own."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any, cast

import pytest
from twisted.internet import task
from twisted.internet.defer import gatherResults
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.task import Clock
from zope.interface import directlyProvides, implementer

from cloudctl.drivers.boundary import methods
from cloudctl.drivers.errors import UnknownVolume, Unusable
from cloudctl.drivers.fake.volume import INTERFACES, Config, create
from cloudctl.drivers.interfaces import IVolumeBackend
from cloudctl.drivers.specs import DriverResources
from cloudctl.drivers.threaded import threaded
from cloudctl.testing.volume_suite import volume_suite

where: ContextVar[str] = ContextVar("where")


class Sync:
    """The fake volume backend with plain methods: each runs to its end before it returns."""

    def __init__(self) -> None:
        self.driver = create(Config(), DriverResources(clock=Clock(), name="fake"))
        directlyProvides(self, *INTERFACES)

    def __getattr__(self, name: Any) -> Any:
        found = getattr(self.driver, name)
        if name not in methods(*INTERFACES):
            return found

        def plain(*args: Any, **kwargs: Any) -> Any:
            try:
                found(*args, **kwargs).send(None)
            except StopIteration as done:
                return done.value
            raise AssertionError("the fake waits for a clock")

        return plain


def blocking(_directory: Any) -> Any:
    from twisted.internet import reactor

    return threaded(Sync(), cast(IReactorFromThreads, reactor), threads=1)


class TestThreadedDriver(volume_suite(blocking)):
    pass


@implementer(IVolumeBackend)
class Blocking:
    """Its methods say in which thread they ran."""

    def __init__(self, parties: Any = 1) -> None:
        self.barrier = threading.Barrier(parties, timeout=60)
        self.ran: dict[str, Any] = {}

    def check(self) -> Any:
        self.ran["check"] = threading.current_thread()

    def close(self) -> Any:
        self.ran["close"] = threading.current_thread()

    def capacity(self) -> Any:
        self.barrier.wait()
        return threading.current_thread()

    def observe(self, id: str) -> Any:
        raise UnknownVolume(id)

    def connect(self, id: str, host: Any) -> Any:
        return {"id": id, "host": host, "where": where.get()}


@pytest.fixture
def reactor() -> Any:
    from twisted.internet import reactor

    return reactor


async def test_methods_run_in_another_thread_and_at_once(reactor: Any) -> None:
    driver = threaded(Blocking(parties=3), reactor, threads=3)
    threads = await gatherResults([driver.capacity() for _ in range(3)])
    assert len(set(threads)) == 3 and threading.current_thread() not in threads
    await driver.close()


async def test_errors_come_back(reactor: Any) -> None:
    driver = threaded(Blocking(), reactor)
    with pytest.raises(UnknownVolume, match="v1"):
        await driver.observe("v1")
    await driver.close()


async def test_context_variables_follow(reactor: Any) -> None:
    driver = threaded(Blocking(), reactor)
    where.set("req-1")
    assert await driver.connect("v1", host="h1") == {"id": "v1", "host": "h1", "where": "req-1"}
    await driver.close()


async def test_check_needs_no_reactor_and_close_ends_the_threads(reactor: Any) -> None:
    blocking = Blocking()
    driver = threaded(blocking, cast(IReactorFromThreads, object()))
    await driver.check()
    assert blocking.ran["check"] is threading.current_thread()

    driver = threaded(blocking, reactor)
    before = threading.active_count()
    await driver.capacity()
    await driver.close()
    await driver.close()
    assert blocking.ran["close"] is not threading.current_thread()
    give_up = reactor.seconds() + 60.0
    while threading.active_count() > before:  # whoever waited for them is about to end, too
        assert reactor.seconds() < give_up
        await task.deferLater(reactor, 0.01)


async def test_a_failing_check_is_told(reactor: Any) -> None:
    blocking = Blocking()

    def check() -> None:
        raise Unusable("no such device")

    cast(Any, blocking).check = check
    driver = threaded(blocking, reactor)
    with pytest.raises(Unusable, match="no such device"):
        await driver.check()
    await driver.close()


async def test_the_reactor_turns_while_a_method_blocks(reactor: Any) -> None:
    driver = threaded(blocking := Blocking(parties=2), reactor)
    waiting = driver.capacity()
    await task.deferLater(reactor, 0.01)
    assert not waiting.called
    blocking.barrier.wait()
    await waiting
    await driver.close()


async def test_the_reactor_turns_while_close_waits_for_a_method_that_blocks(reactor: Any) -> None:
    blocking, goes_on, has_begun = Blocking(), threading.Event(), threading.Event()

    def capacity() -> bool:
        has_begun.set()
        return goes_on.wait(10.0)

    cast(Any, blocking).capacity = capacity
    driver = threaded(blocking, reactor, threads=2)
    waiting = driver.capacity()
    assert has_begun.wait(60.0)
    closing = driver.close()
    while "close" not in blocking.ran:
        await task.deferLater(reactor, 0.01)
    await task.deferLater(reactor, 0.01)
    goes_on.set()
    await closing
    assert await waiting, "the reactor could not let it go on"
