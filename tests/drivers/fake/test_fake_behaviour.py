"""Delays and faults on demand."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from cloudctl.drivers.errors import NoCapacity, Unreachable
from cloudctl.drivers.fake.behaviour import Behaviour
from cloudctl.drivers.interfaces import IVolumeBackend


@pytest.fixture
def behaviour() -> Any:
    return Behaviour(Clock(), (IVolumeBackend,))


async def effect(behaviour: Any, method: Any = "ensure_created", id: str = "v1") -> Any:
    done = []
    try:
        async with behaviour.around(method, id):
            done.append(id)
    except Unreachable as error:
        return done, str(error)
    return done, None


async def test_a_fault_before_the_effect_prevents_it(behaviour: Any) -> None:
    behaviour.fail("ensure_created", times=2)
    message = "injected failure of ensure_created"
    assert await effect(behaviour) == ([], message)
    assert await effect(behaviour) == ([], message)
    assert await effect(behaviour) == (["v1"], None)
    assert behaviour.calls["ensure_created"] == 3


async def test_a_fault_after_the_effect_hides_it(behaviour: Any) -> None:
    behaviour.fail("ensure_created", after=True)
    assert await effect(behaviour) == (["v1"], "injected failure of ensure_created")
    assert await effect(behaviour) == (["v1"], None)


async def test_a_fault_of_one_id_leaves_others_alone(behaviour: Any) -> None:
    behaviour.fail("ensure_created", id="v2")
    assert await effect(behaviour) == (["v1"], None)
    assert (await effect(behaviour, id="v2"))[0] == []


async def test_a_fault_without_end_lasts_until_it_is_cleared(behaviour: Any) -> None:
    behaviour.fail("ensure_created", times=None)
    for _ in range(5):
        assert (await effect(behaviour))[0] == []
    behaviour.clear()
    assert await effect(behaviour) == (["v1"], None)


async def test_the_given_error_is_raised(behaviour: Any) -> None:
    behaviour.fail("connect", error=NoCapacity("full"))
    with pytest.raises(NoCapacity, match="full"):
        await behaviour.before("connect")


async def test_an_error_of_the_effect_is_kept(behaviour: Any) -> None:
    behaviour.fail("connect", after=True)
    with pytest.raises(KeyError):
        async with behaviour.around("connect"):
            raise KeyError("its own")


def test_a_delay_waits_on_the_clock(behaviour: Any) -> None:
    behaviour.delay("ensure_created", 2.0)
    slow = ensureDeferred(effect(behaviour))
    quick = ensureDeferred(effect(behaviour, "connect"))
    assert quick.called and not slow.called
    behaviour.clock.advance(2.0)
    assert slow.called


def test_names_that_the_driver_does_not_have_are_refused(behaviour: Any) -> None:
    with pytest.raises(ValueError, match=r"unknown methods: ensure_creatd; valid methods: .*ensure_created"):
        behaviour.fail("ensure_creatd")
    with pytest.raises(ValueError, match="unknown methods"):
        behaviour.delay("ensure_running", 1)
    with pytest.raises(ValueError, match="negative: connect"):
        behaviour.delay("connect", -1)
