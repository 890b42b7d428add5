"""Routers follow the subnets of the networks that they have gateways on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from twisted.internet.task import Clock

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.netns.driver import Config, NetnsBackend, create
from cloudctl.drivers.netns.routers import Routers
from cloudctl.drivers.specs import DriverResources, NetworkSpec, RouterInterface, RouterSpec, SubnetSpec

NETWORK = NetworkSpec("n1", subnets=(SubnetSpec("s1", "203.0.113.0/24", "203.0.113.1"),))
CHANGED = evolve(NETWORK, subnets=(SubnetSpec("s1", "203.0.113.0/24", "203.0.113.254"),))


def router(id: str, **changes: Any) -> RouterSpec:
    gateway = RouterInterface(f"p-{id}", NETWORK.id, "fa:16:3e:00:00:02", ("203.0.113.10/24",))
    return evolve(RouterSpec(id, gateway=gateway), **changes)


class Made(list[RouterSpec]):
    """What was made, instead of routers. `before` is called first."""

    before: Callable[[RouterSpec], Awaitable[Any]] | None = None


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    made = Made()

    async def ensure(_routers: Routers, spec: RouterSpec) -> None:
        if made.before is not None:
            await made.before(spec)
        made.append(spec)

    monkeypatch.setattr(Routers, "ensure", ensure)
    return made


@pytest.fixture
def driver(tmp_path: Path) -> NetnsBackend:
    """A dry run changes nothing."""
    config = Config(hosts={"one": "nowhere"}, runtime_dir=tmp_path / "run", dry_run=True)
    return create(config, DriverResources(clock=Clock(), name="netns", reactor=Clock(), state_dir=tmp_path))


async def begin(driver: NetnsBackend, made: Made) -> None:
    """Three routers on the network."""
    await driver.ensure_network(NETWORK)
    for id in ("r1", "r2", "r3"):
        await driver.ensure_router(router(id))
    made.clear()


async def test_what_becomes_of_a_router_while_others_are_updated_is_not_undone(
    driver: NetnsBackend, made: Made
) -> None:
    await begin(driver, made)
    other = router("r3", enable_snat=False)

    async def meanwhile(spec: RouterSpec) -> None:
        if spec.id == "r1":
            await driver.ensure_router_absent("r2")
            await driver.ensure_router(other)

    made.before = meanwhile
    await driver.ensure_network(CHANGED)
    assert {each.id: each for each in made} == {"r1": router("r1"), "r3": other}
    assert driver.records.routers.values() == [router("r1"), other]


async def test_a_router_that_fails_is_updated_by_a_repeat_and_keeps_no_other_from_being_updated(
    driver: NetnsBackend, made: Made
) -> None:
    await begin(driver, made)

    async def fail(spec: RouterSpec) -> None:
        if spec.id == "r2":
            raise DriverError("no")

    made.before = fail
    for _ in range(2):
        with pytest.raises(DriverError):
            await driver.ensure_network(CHANGED)
    assert [each.id for each in made] == ["r1", "r3"]
    made.before = None
    await driver.ensure_network(CHANGED)
    assert [each.id for each in made] == ["r1", "r3", "r2"]
    await driver.ensure_network(CHANGED)
    assert len(made) == 3


async def test_the_first_failure_is_told(driver: NetnsBackend, made: Made) -> None:
    await begin(driver, made)

    async def fail(spec: RouterSpec) -> None:
        raise DriverError(spec.id)

    made.before = fail
    with pytest.raises(DriverError, match="r1"):
        await driver.ensure_network(CHANGED)
