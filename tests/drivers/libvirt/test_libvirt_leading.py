"""Volumes that are led elsewhere while guests of a real libvirtd use them: nothing is lost, wherever a call dies."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve

from cloudctl.drivers.errors import DriverError, InvalidPower, Unreachable
from cloudctl.drivers.specs import Power, VolumeConnection
from tests.drivers.qemu import real
from tests.drivers.qemu.real import ID, VOLUME, bytes_of, is_open, path

MIB = 1 << 20


class Killed(BaseException):
    """The process of the caller dies."""


def write(connection: VolumeConnection, byte: int, place: int) -> None:
    """4 KiB of this byte, so many MiB from the beginning."""
    order = f"write -P {byte} {place * MIB} 4096"
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", order, path(connection)], check=True, stdout=-1)


def elsewhere(directory: Path) -> VolumeConnection:
    """A copy that was made earlier: it holds what the volume does not hold any more."""
    found = evolve(real.volume(directory, "elsewhere"), volume_id=VOLUME)
    write(found, 3, 5)
    return found


async def started(driver: Any, directory: Path) -> VolumeConnection:
    """A running guest with a volume that holds something."""
    before = real.volume(directory)
    write(before, 7, 1)
    await driver.ensure_defined(evolve(real.tiny(directory), host="here", volumes=(before,)))
    await driver.ensure_running(ID)
    return before


async def test_a_volume_is_led_there_and_back_while_its_guest_uses_it(driver: Any, tmp_path: Path) -> None:
    before, after = await started(driver, tmp_path), elsewhere(tmp_path)
    for here, there in ((before, after), (after, before)):
        for _ in range(2):
            await driver.ensure_volume_swapped(ID, VOLUME, there.info)
            assert (is_open(here), is_open(there)) == (False, True)
        assert bytes_of(there, 1, 5) == [7, 0]
    await driver.ensure_paused(ID)
    await driver.ensure_volume_swapped(ID, VOLUME, after.info)
    found = await driver.observe(ID)
    assert (found.power, found.volume_ids) == (Power.PAUSED, (VOLUME,))
    await driver.ensure_stopped(ID, 0.0)
    await driver.ensure_running(ID)
    assert (is_open(before), is_open(after)) == (False, True)
    await driver.ensure_volume_detached(ID, VOLUME)
    assert not is_open(after)


async def test_a_guest_that_is_off_cannot_copy(driver: Any, tmp_path: Path) -> None:
    before, after = await started(driver, tmp_path), elsewhere(tmp_path)
    await driver.ensure_stopped(ID, 0.0)
    with pytest.raises(InvalidPower, match="off"):
        await driver.ensure_volume_swapped(ID, VOLUME, after.info)
    await driver.ensure_volume_swapped(ID, VOLUME, before.info)
    await driver.ensure_volume_swapped(ID, VOLUME, after.info, True)
    await driver.ensure_running(ID)
    assert (is_open(before), is_open(after)) == (False, True)


async def test_a_copy_that_fails_leaves_the_guest_where_it_was(driver: Any, tmp_path: Path) -> None:
    before, after = await started(driver, tmp_path), elsewhere(tmp_path)
    subprocess.run(["qemu-img", "resize", "-q", path(after), "2G"], check=True)
    for _ in range(2):
        with pytest.raises(DriverError):
            await driver.ensure_volume_swapped(ID, VOLUME, after.info)
        assert (is_open(before), is_open(after)) == (True, False)
    await driver.ensure_stopped(ID, 0.0)
    await driver.ensure_running(ID)
    assert is_open(before)


@define
class Fickle:
    """A guest whose copy ends by itself just before the guest is to go on with it."""

    guest: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.guest, name)

    def blockJobAbort(self, disk: str, flags: int) -> None:
        self.guest.blockJobAbort(disk, 0)


async def test_a_copy_that_ends_by_itself_is_not_what_the_guest_starts_from(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloudctl.drivers.libvirt import guests

    get, before = guests.get, await started(driver, tmp_path)
    after = elsewhere(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(guests, "get", lambda connection, id: Fickle(get(connection, id)))
        with pytest.raises(DriverError):
            await driver.ensure_volume_swapped(ID, VOLUME, after.info)
    await driver.ensure_stopped(ID, 0.0)
    await driver.ensure_running(ID)
    assert (is_open(before), is_open(after)) == (True, False)


@define
class Slow:
    """A guest whose copy is never ready."""

    guest: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.guest, name)

    def XMLDesc(self, flags: int) -> str:
        return str(self.guest.XMLDesc(flags)).replace("ready='yes'", "")


async def test_a_copy_that_takes_too_long_is_given_up(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloudctl.drivers.libvirt import guests

    get, before = guests.get, await started(driver, tmp_path)
    after = elsewhere(tmp_path)
    driver.config = evolve(driver.config, copy_timeout=0.1)
    with monkeypatch.context() as patch:
        patch.setattr(guests, "get", lambda connection, id: Slow(get(connection, id)))
        with pytest.raises(Unreachable, match="in time"):
            await driver.ensure_volume_swapped(ID, VOLUME, after.info)
    assert (is_open(before), is_open(after)) == (True, False)


@define
class Dying:
    """A guest whose caller dies before its n-th call."""

    guest: Any
    left: int

    def __getattr__(self, name: str) -> Any:
        self.left -= 1
        if self.left == 0:
            raise Killed
        return getattr(self.guest, name)


@pytest.mark.parametrize("way", ["again", "back", "dead"])
async def test_wherever_its_caller_dies_nothing_is_lost(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Then the call is repeated, or the volume is led back; or the guest's process dies, too."""
    from cloudctl.drivers.libvirt import guests

    get, number, places = guests.get, 0, set()
    before, after = await started(driver, tmp_path), elsewhere(tmp_path)
    here = before
    while True:
        number += 1
        away = after if here is before else before
        monkeypatch.setattr(guests, "get", lambda connection, id, left=number: Dying(get(connection, id), left))
        try:
            await driver.ensure_volume_swapped(ID, VOLUME, away.info)
        except Killed:
            pass
        else:
            break
        finally:
            monkeypatch.setattr(guests, "get", get)
        if way == "dead":
            await driver.ensure_stopped(ID, 0.0)
            await driver.ensure_running(ID)
            here = before if is_open(before) else after
            places.add(path(here))
        else:
            here = away if way == "again" else here
            await driver.ensure_volume_swapped(ID, VOLUME, here.info)
        assert (is_open(before), is_open(after)) == (here is before, here is after)
        await driver.ensure_stopped(ID, 0.0)
        assert bytes_of(here, 1, 5) == [7, 0]
        # What only this place holds would be lost with it.
        write(after if here is before else before, 3, 5)
        await driver.ensure_running(ID)
        assert (is_open(before), is_open(after)) == (here is before, here is after)
    assert number > 8
    assert way != "dead" or len(places) == 2  # it died before it was noted, and after
