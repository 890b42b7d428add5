"""Several hypervisors in one cloud: each guest is with the driver of its host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from twisted.internet.task import Clock
from zope.interface import directlyProvides

from cloudctl.drivers.boundary import Adapted
from cloudctl.drivers.errors import HostDown, Unfit, UnknownGuest, UnknownHost, Unreachable
from cloudctl.drivers.fake.hypervisor import Config, FakeHypervisor, create
from cloudctl.drivers.hypervisors import Hypervisors, as_one, out_of_reach
from cloudctl.drivers.interfaces import IGuestEvents, IHypervisor, ILiveMigrate, IPause, IRescue
from cloudctl.drivers.specs import DriverResources, GuestSpec, Power
from cloudctl.errors import ConfigError
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking
from tests.conftest import LoggedFailures

TABLES = {
    "drivers": {"hypervisor": {"east": "fake", "west": "fake"}},
    "driver": {"hypervisor": {"east": {"hosts": 2}, "west": {"hosts": 1}}},
}
HOSTS = ["east-1", "east-2", "west-1"]


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud(TABLES)
    yield made
    made.close()


@pytest.fixture
def at(cloud: MemoryCloud) -> dict[str, FakeHypervisor]:
    """Name → driver."""
    found = cloud.cloud.drivers.hypervisor
    assert isinstance(found, Hypervisors)
    return {name: each for name, each in found.at.items() if isinstance(each, FakeHypervisor)}


def ids(driver: FakeHypervisor) -> set[str]:
    return {guest.spec.id for guest in driver.guests.values()}


def power(driver: FakeHypervisor, id: str) -> Power | None:
    found = driver.guests.get(id)
    return None if found is None else found.power


def host(admin: Asking, server_id: str) -> str:
    return str(admin.server(server_id)["OS-EXT-SRV-ATTR:host"])


def booted_on(admin: Asking, name: str) -> str:
    """A server on this host."""
    return admin.boot(LATEST, host=name)


def test_guests_are_with_the_driver_of_their_host(admin: Asking, at: dict[str, FakeHypervisor]) -> None:
    found = admin.get("/os-hypervisors/detail").json()["hypervisors"]
    assert sorted(each["hypervisor_hostname"] for each in found) == HOSTS
    east, west = booted_on(admin, "east-2"), booted_on(admin, "west-1")
    assert (ids(at["east"]), ids(at["west"])) == ({east}, {west})
    admin.act(west, {"pause": None})
    admin.cloud.settle()
    assert power(at["west"], west) is Power.PAUSED
    for id in (east, west):
        admin.cloud.client("admin").delete(f"/compute/v2.1/servers/{id}")
    admin.cloud.settle()
    assert not ids(at["east"]) and not ids(at["west"])


@pytest.mark.parametrize("action", [{"os-migrateLive": {"host": None, "block_migration": "auto"}}, {"migrate": None}])
def test_a_server_moves_among_the_hosts_of_its_driver(
    admin: Asking, at: dict[str, FakeHypervisor], action: dict[str, Any]
) -> None:
    id = booted_on(admin, "east-1")
    assert admin.act(id, action, LATEST).status == 202
    admin.cloud.settle()
    assert (host(admin, id), ids(at["east"]), ids(at["west"])) == ("east-2", {id}, set())


def test_where_no_host_of_its_driver_is_left_a_server_stays(admin: Asking, at: dict[str, FakeHypervisor]) -> None:
    id = booted_on(admin, "west-1")
    admin.act(id, {"migrate": None}, LATEST)
    admin.cloud.settle()
    assert (host(admin, id), power(at["west"], id)) == ("west-1", Power.RUNNING)


def test_from_a_host_that_is_down_a_server_is_made_anew_with_another_driver(
    admin: Asking, at: dict[str, FakeHypervisor]
) -> None:
    id = booted_on(admin, "west-1")
    at["west"].fail_host("west-1")
    admin.cloud.advance(60)
    assert admin.act(id, {"evacuate": {"host": "east-1"}}, LATEST).status == 200
    admin.cloud.settle()
    assert (host(admin, id), ids(at["east"])) == ("east-1", {id})


# -- the two of them as one


class Deaf(FakeHypervisor):
    """A driver that has lost its backend."""

    deaf: Exception | None = None

    async def hosts(self) -> Any:
        if self.deaf:
            raise self.deaf
        return await super().hosts()

    async def inventory(self) -> Any:
        if self.deaf:
            raise self.deaf
        return await super().inventory()


def drivers(**kinds: type[FakeHypervisor]) -> dict[str, Any]:
    found = {}
    for name, kind in kinds.items():
        made = create(Config(hosts=1), DriverResources(Clock(), name))
        found[name] = kind(made.machines, made.behaviour, None, made.guests)
    return found


def one_of(at: dict[str, Any], **where: str) -> IHypervisor:
    async def places(id: str) -> list[str]:
        return [where[id]] if id in where else []

    return as_one(at, places)


def spec(id: str, host: str) -> GuestSpec:
    return GuestSpec(id, id, host, 1, 64, 1)


@pytest.mark.parametrize("error", [Unreachable("it hangs"), OSError("it is odd")])
async def test_guests_of_the_others_are_watched_if_one_cannot_watch(error: Exception) -> None:
    at, told = drivers(a=FakeHypervisor, b=FakeHypervisor), list[str]()
    at["a"].behaviour.fail("watch_guests", error=error)
    both: Any = one_of(at, x="b-1")
    await both.ensure_defined(spec("x", "b-1"))
    with pytest.raises(type(error)):
        await both.watch_guests(told.append)
    at["b"].crash("x")
    assert told == ["x"]


@pytest.mark.parametrize("error", [Unreachable("nobody is there"), OSError("it is odd")])
async def test_one_that_does_not_answer_is_down_and_the_others_are_told(
    error: Exception, logged_failures: LoggedFailures
) -> None:
    at = drivers(a=FakeHypervisor, b=Deaf)
    both = one_of(at, x="a-1", y="b-1")
    await both.ensure_defined(spec("x", "a-1"))
    await both.ensure_defined(spec("y", "b-1"))
    assert [each.up for each in await both.hosts()] == [True, True]
    at["b"].deaf = error
    assert [(each.name, each.up) for each in await both.hosts()] == [("a-1", True), ("b-1", False)]
    assert [each.id for each in await both.inventory()] == ["x"]
    await both.ensure_running("x")
    assert len(logged_failures.flush(OSError)) == (2 if isinstance(error, OSError) else 0)


async def test_a_guest_that_nobody_speaks_of_is_looked_for() -> None:
    at = drivers(a=FakeHypervisor, b=FakeHypervisor)
    both = one_of(at)
    await at["b"].ensure_defined(spec("x", "b-1"))
    await both.ensure_running("x")
    assert (await both.observe("x")).power is Power.RUNNING
    with pytest.raises(UnknownGuest):
        await both.observe("y")
    at["b"].fail_host("b-1")
    with pytest.raises(HostDown):
        await both.observe("x")
    with pytest.raises(HostDown):
        await both.ensure_absent("x")
    with pytest.raises(UnknownHost):
        await both.ensure_defined(spec("y", "c-1"))


async def test_a_host_that_is_down_hides_no_other_trouble_with_the_removal_of_a_guest() -> None:
    """It would count as left behind on that host, while it goes on where it is."""
    at = drivers(a=FakeHypervisor, b=FakeHypervisor)
    both = one_of(at)
    for name in ("a", "b"):
        await at[name].ensure_defined(spec("x", f"{name}-1"))
    at["a"].fail_host("a-1")
    at["b"].behaviour.fail("ensure_absent", error=Unreachable("b does not answer"))
    with pytest.raises(Unreachable):
        await both.ensure_absent("x")


async def test_a_guest_that_two_of_them_have_is_shown_on_both_and_last_where_it_shall_be() -> None:
    at = drivers(a=FakeHypervisor, b=FakeHypervisor)
    for name in ("a", "b"):
        await at[name].ensure_defined(spec("x", f"{name}-1"))
    await at["b"].ensure_defined(spec("y", "b-1"))
    for meant, other in (("a-1", "b-1"), ("b-1", "a-1")):
        found = [(each.id, each.host) for each in await one_of(at, x=meant, y="b-1").inventory()]
        assert found == [("x", other), ("x", meant), ("y", "b-1")]


async def test_no_guest_moves_from_driver_to_driver() -> None:
    at = drivers(a=FakeHypervisor, b=FakeHypervisor)
    both: Any = one_of(at, x="a-1")
    await both.ensure_defined(spec("x", "a-1"))
    for move in (both.ensure_defined, both.ensure_migrated):
        with pytest.raises(Unfit, match="x cannot move to b-1"):
            await move(spec("x", "b-1"))
    assert (await both.observe("x")).host == "a-1"


async def test_the_hosts_of_other_drivers_are_out_of_reach_even_of_a_wrapped_one() -> None:
    """It is wrapped where images are not in a directory: a guest was sent to another driver, and stopped for that."""
    at = drivers(a=FakeHypervisor, b=FakeHypervisor)
    both = one_of(at)
    for each in (both, Adapted(both, {})):
        assert await out_of_reach(cast(IHypervisor, each), "a-1") == {"b-1"}
    assert await out_of_reach(at["a"], "a-1") == frozenset()


def plain(fake: FakeHypervisor) -> Any:
    """A driver with less than the fake has."""
    made = Adapted(fake, {})
    directlyProvides(made, IHypervisor, IPause)
    return made


async def test_what_all_can_is_offered_and_what_some_can_where_it_is_of_use() -> None:
    at = drivers(a=FakeHypervisor, b=FakeHypervisor)
    at["b"] = plain(at["b"])
    both: Any = one_of(at, x="b-1")
    assert [each.providedBy(both) for each in (IHypervisor, IPause, ILiveMigrate, IGuestEvents, IRescue)] == [
        True, True, True, True, False,
    ]  # fmt: skip
    await both.ensure_defined(spec("x", "b-1"))
    with pytest.raises(Unfit, match="hosts of hypervisor b cannot do this"):
        await both.ensure_migration_aborted("x")


@pytest.mark.parametrize("names", [{}, {"": "fake"}, {"a@b": "fake"}])
def test_a_table_that_cannot_be_is_refused(names: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"drivers\.hypervisor"):
        MemoryCloud({"drivers": {"hypervisor": names}})


def test_a_driver_of_the_table_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"driver\.hypervisor\.east: unknown driver"):
        MemoryCloud({"drivers": {"hypervisor": {"east": "none"}}})
