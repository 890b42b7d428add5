"""The fake hypervisor: the public suite in each of its variants, and what is its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from cloudctl.drivers.boundary import methods
from cloudctl.drivers.errors import HostDown, Unfit, UnknownHost
from cloudctl.drivers.fake.hypervisor import INTERFACES, Config, FakeHypervisor, create
from cloudctl.drivers.interfaces import IHypervisor
from cloudctl.drivers.specs import DriverResources, GuestSpec, ImageSource, Power, VolumeConnection
from cloudctl.testing.hypervisor_suite import hypervisor_suite

SLOW = {name: 0.001 for name in methods(IHypervisor) if name.startswith("ensure_")}


def in_memory(_directory: Path) -> FakeHypervisor:
    return create(Config(), DriverResources(clock=Clock(), name="fake"))


def durable(directory: Path) -> FakeHypervisor:
    return create(Config(durable=True), DriverResources(clock=Clock(), name="fake", state_dir=directory / "state"))


def slow(directory: Path) -> FakeHypervisor:
    from twisted.internet import reactor

    resources = DriverResources(clock=reactor, name="fake", state_dir=directory / "state")
    return create(Config(durable=True, delays=SLOW), resources)


class TestInMemory(hypervisor_suite(in_memory)):
    pass


class TestDurable(hypervisor_suite(durable)):
    pass


class TestSlow(hypervisor_suite(slow)):
    """With delays, calls at once really overlap."""


SPEC = GuestSpec("g1", "vm", "fake-1", 1, 512, 1)


async def test_what_is_kept_is_there_for_the_next_process(tmp_path: Path) -> None:
    first = durable(tmp_path)
    connection = VolumeConnection("v1", {"driver_volume_type": "fake", "data": {"lun": 1}}, boot_index=0)
    await first.ensure_defined(evolve(SPEC, name="süß", volumes=(connection,), metadata={"k": "v"}))
    await first.ensure_rebooted("g1", "token")
    second = durable(tmp_path)
    assert second.guests.get("g1") == first.guests.get("g1")
    await second.ensure_rebooted("g1", "token")
    assert await second.console_output("g1") == await first.console_output("g1")
    await second.ensure_absent("g1")
    assert await first.inventory() == ()


async def test_the_console_tells_what_happened() -> None:
    driver = in_memory(Path())
    await driver.ensure_defined(SPEC)
    await driver.ensure_running("g1")
    assert (await driver.console_output("g1")).endswith("vm login: ")
    await driver.ensure_rebooted("g1", "t")
    await driver.ensure_stopped("g1")
    text = await driver.console_output("g1")
    assert "reboot: Restarting system\n" in text and text.endswith("reboot: Power down\n")
    await driver.ensure_running("g1")
    await driver.ensure_stopped("g1", 0)
    assert (await driver.console_output("g1", 1)) == "-- power cut --\n"
    driver.crash("g1")
    assert (await driver.observe("g1")).power is Power.CRASHED
    assert "panic" in await driver.console_output("g1", 1)


async def test_the_console_is_bounded() -> None:
    driver = in_memory(Path())
    await driver.ensure_defined(SPEC)
    for number in range(1000):
        await driver.ensure_rebooted("g1", str(number))
    assert len(await driver.console_output("g1")) == 65536


async def test_a_capture_holds_the_start_of_the_image(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\x00\xffhello")
    driver = durable(tmp_path)
    image = ImageSource("i1", str(tmp_path / "image"), "qcow2")
    await driver.ensure_defined(evolve(SPEC, image=image))
    assert await driver.ensure_captured("g1", str(tmp_path / "copy")) == "qcow2"
    assert (tmp_path / "copy").read_bytes() == b"\x00\xffhello"
    assert not list(tmp_path.glob("*.new"))


async def test_a_guest_that_boots_from_a_volume_has_nothing_to_capture(tmp_path: Path) -> None:
    driver = in_memory(tmp_path)
    await driver.ensure_defined(SPEC)
    with pytest.raises(Unfit):
        await driver.ensure_captured("g1", str(tmp_path / "copy"))


async def test_an_image_that_cannot_be_read_is_unfit(tmp_path: Path) -> None:
    driver = in_memory(tmp_path)
    with pytest.raises(Unfit, match="i1"):
        await driver.ensure_defined(evolve(SPEC, image=ImageSource("i1", str(tmp_path / "none"))))
    assert await driver.inventory() == ()


async def test_a_host_that_is_down_answers_nothing() -> None:
    driver = in_memory(Path())
    await driver.ensure_defined(SPEC)
    await driver.ensure_running("g1")
    driver.fail_host("fake-1")
    assert [host.up for host in await driver.hosts()] == [False, True, True]
    assert await driver.inventory() == ()
    for call in (driver.observe, driver.ensure_running, driver.ensure_stopped, driver.ensure_absent):
        with pytest.raises(HostDown):
            await call("g1")
    with pytest.raises(HostDown):
        await driver.ensure_defined(evolve(SPEC, id="g2"))
    with pytest.raises(UnknownHost):
        driver.fail_host("fake-9")


async def test_a_host_that_returns_has_its_guests_off() -> None:
    driver = in_memory(Path())
    await driver.ensure_defined(SPEC)
    await driver.ensure_running("g1")
    driver.fail_host("fake-1")
    driver.recover_host("fake-1")
    assert (await driver.observe("g1")).power is Power.STOPPED


async def test_an_evacuated_guest_stays_where_it_went(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"fresh")
    image = ImageSource("i1", str(tmp_path / "image"))
    driver = in_memory(tmp_path)
    await driver.ensure_defined(evolve(SPEC, image=image))
    await driver.ensure_running("g1")
    driver.fail_host("fake-1")
    for _ in range(2):
        await driver.ensure_defined(evolve(SPEC, image=image, host="fake-2"))
    await driver.ensure_running("g1")
    driver.recover_host("fake-1")
    [state] = await driver.inventory()
    assert (state.host, state.power) == ("fake-2", Power.RUNNING)


async def test_time_passes_on_the_given_clock_only() -> None:
    clock = Clock()
    driver = create(Config(delays={"ensure_running": 5}), DriverResources(clock=clock, name="fake"))
    await driver.ensure_defined(SPEC)
    starting = ensureDeferred(driver.ensure_running("g1"))
    clock.advance(4.9)
    assert (await driver.observe("g1")).power is Power.STOPPED and not starting.called
    clock.advance(0.2)
    assert starting.called and (await driver.observe("g1")).power is Power.RUNNING


async def test_two_drivers_share_nothing() -> None:
    one, two = in_memory(Path()), in_memory(Path())
    await one.ensure_defined(SPEC)
    one.behaviour.delay("observe", 1)
    assert await two.inventory() == () and two.behaviour.delays == {}


def test_every_interface_of_the_fake_is_declared() -> None:
    driver = in_memory(Path())
    assert all(interface.providedBy(driver) for interface in INTERFACES)
