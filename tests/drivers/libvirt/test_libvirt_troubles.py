"""Hosts that answer with an error, or not in time; their connections are played."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from cloudctl.drivers.errors import DriverError, HostDown, NoCapacity, Unreachable
from cloudctl.drivers.specs import DriverResources

libvirt: Any = pytest.importorskip("libvirt")

from cloudctl.drivers.libvirt.connections import HostConnection  # noqa: E402 - after the skip
from cloudctl.drivers.libvirt.hypervisor import Config, Libvirt, create  # noqa: E402 - after the skip


@pytest.fixture
def troubles(monkeypatch: pytest.MonkeyPatch) -> dict[str, Exception]:
    """What the calls on a host raise, by its name. All others find nothing."""
    found: dict[str, Exception] = {}

    async def run_within(connection: HostConnection, _seconds: float, _fn: Any, *_args: Any) -> Any:
        if connection.name in found:
            raise found[connection.name]

    monkeypatch.setattr(HostConnection, "run_within", run_within)
    return found


@pytest.fixture
def driver(tmp_path: Path) -> Libvirt:
    config = Config(hosts={name: f"qemu+tls://{name}/system" for name in ("east", "west")})
    clock: Any = Clock()
    clock.callLater = lambda _seconds, fn, *args: fn(*args)
    made = create(config, DriverResources(clock, "libvirt", clock, tmp_path))
    for host in made.fleet.hosts.values():
        host.guests = frozenset()
    return made


async def test_an_error_of_libvirts_is_told_as_that_of_its_host(driver: Libvirt, troubles: Any) -> None:
    troubles["west"] = libvirt.libvirtError("no storage pool")
    west = driver.fleet.named("west")
    with pytest.raises(DriverError, match="host west: no storage pool"):
        await driver.fleet.run(west, lambda _connection: None)
    assert ((await west.inventory()).up, await west.states()) == (False, [])


async def test_a_full_disk_of_this_machine_is_no_capacity(driver: Libvirt, troubles: Any) -> None:
    troubles["west"] = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(NoCapacity, match="host west: No space left"):
        await driver.fleet.copy(driver.fleet.named("west"), lambda _connection: None)


async def test_a_host_that_is_down_hides_no_other_trouble_with_the_removal_of_a_guest(
    driver: Libvirt, troubles: Any
) -> None:
    """It would count as left behind on that host, while it goes on where it is."""
    first, second = driver.fleet.hosts.values()
    for host in (first, second):
        host.gained("guest")
    troubles[first.name] = HostDown(f"host {first.name} does not answer")
    troubles[second.name] = libvirt.libvirtError("the disk is busy")
    with pytest.raises(DriverError, match="the disk is busy"):
        await driver.ensure_absent("guest")


async def test_a_host_that_hangs_keeps_no_guest_of_others_from_being_removed(driver: Libvirt, troubles: Any) -> None:
    troubles["east"] = Unreachable("host east did not answer within 30 s")
    await driver.ensure_absent("guest")
    driver.fleet.named("east").gained("guest")
    with pytest.raises(Unreachable):
        await driver.ensure_absent("guest")
