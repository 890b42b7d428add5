"""Many hosts, some of which are not there, or not well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import libvirt
import pytest
from attrs import define
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.libvirt import guests
from cloudctl.drivers.libvirt.connections import HostConnection
from cloudctl.drivers.libvirt.guests import Claim, Made
from cloudctl.drivers.libvirt.host import Host, of_all
from cloudctl.drivers.libvirt.hypervisor import Libvirt, create
from cloudctl.drivers.libvirt.options import Config
from cloudctl.drivers.specs import DriverResources, GuestState, HostInventory, Power
from tests.conftest import LoggedFailures


def test_others_have_their_turn_while_many_hosts_are_asked() -> None:
    clock, config = Clock(), Config()
    hosts = [Host(HostConnection(name, "test:///default", config, None, clock), config) for name in ("a", "b", "c")]
    asked: list[str] = []
    answers: dict[str, Deferred[str]] = {each.name: Deferred() for each in hosts}

    async def ask(host: Host) -> str:
        asked.append(host.name)
        return await answers[host.name]

    found: list[Any] = []
    ensureDeferred(of_all(hosts, ask, clock)).addCallback(found.extend)
    clock.callLater(0, asked.append, "somebody else")
    clock.advance(0)
    assert asked == ["a", "b", "somebody else", "c"], "and nobody waits for another's answer"
    for name in ("c", "a", "b"):
        answers[name].callback(f"of {name}")
    assert found == ["of a", "of b", "of c"]


@define(eq=False)
class Ill:
    """A connection whose libvirtd answers each call with an error."""

    name: str
    config: Config
    prepare: Any = None
    changed: Any = None

    async def run(self, fn: Any, *_: Any) -> Any:
        raise libvirt.libvirtError("the storage pool is not active")

    async def run_within(self, _seconds: float, fn: Any, *_: Any) -> Any:
        return await self.run(fn)


@define(eq=False)
class Well(Ill):
    async def run(self, fn: Any, *_: Any) -> Any:
        answers = {
            guests.inventory: HostInventory(self.name, "QEMU", 4, 4096, 100),
            guests.states: [(GuestState("guest", self.name, Power.RUNNING, 1, 96), Made(1.0, Claim.HERE))],
            guests.made: Made(1.0, Claim.HERE),
            guests.remove: None,
        }
        return answers[fn]


@pytest.fixture
def driver(tmp_path: Path) -> Libvirt:
    from twisted.internet import reactor

    config = Config(hosts={"ill": "test:///default", "well": "test:///default"})
    made = create(config, DriverResources(reactor, "libvirt", reactor, tmp_path))
    for name, host in made.fleet.hosts.items():
        host.connection = {"ill": Ill, "well": Well}[name](name, config)  # type: ignore[assignment]  # it plays one
    return made


async def test_a_host_that_answers_with_errors_is_down_alone(driver: Libvirt) -> None:
    assert [(each.name, each.up) for each in await driver.hosts()] == [("ill", False), ("well", True)]
    assert [each.id for each in await driver.inventory()] == ["guest"]


async def test_guests_of_others_are_found_and_deleted_though_a_host_answers_with_errors(driver: Libvirt) -> None:
    ill, well = driver.fleet.hosts.values()
    ill.guests, well.guests = frozenset({"its own"}), frozenset({"guest"})
    assert await driver.fleet.where("guest") is well
    await driver.ensure_absent("guest")
    assert "guest" not in well.guests
    for refused in (driver.fleet.where("its own"), driver.ensure_absent("its own")):
        with pytest.raises(DriverError, match="not active"):
            await refused


def test_a_guest_that_went_to_sleep_is_woken() -> None:
    done = []

    class Asleep:
        def state(self) -> tuple[int, int]:
            return libvirt.VIR_DOMAIN_PMSUSPENDED, 0

        def hasManagedSaveImage(self) -> bool:
            return False

        def pMWakeup(self, flags: int) -> None:
            done.append(flags)

        def lookupByName(self, _id: str) -> Asleep:
            return self

    guests.start(Asleep(), "guest")
    assert done == [0]


@define(eq=False)
class Odd(Ill):
    """A connection whose answers nobody has foreseen."""

    asked: int = 0

    async def run(self, fn: Any, *_: Any) -> Any:
        self.asked += 1
        raise LookupError("what is that?")


async def test_hosts_are_looked_at_again_whatever_has_gone_wrong(
    tmp_path: Path, logged_failures: LoggedFailures
) -> None:
    clock, config = Clock(), Config(hosts={"odd": "test:///default"})
    driver = create(config, DriverResources(clock, "libvirt", object(), tmp_path))
    odd = Odd("odd", config)
    driver.fleet.hosts["odd"].connection = odd  # type: ignore[assignment]  # it plays one
    for _ in range(2):  # another hypervisor could not be watched yet
        await driver.watch_guests(lambda _: None)
    for times in (1, 2):
        clock.advance(0)
        assert odd.asked == times
        clock.advance(max(config.retry_seconds, 10.0))
    assert logged_failures.flush()
