"""Guests that move from host to host while they run, with real QEMU processes, of which each may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import deferLater

from cloudctl.drivers.errors import Aborted, DriverError, InvalidPower, Unfit
from cloudctl.drivers.qemu import processes, slots
from cloudctl.drivers.qemu.hypervisor import Qemu
from cloudctl.drivers.specs import GuestSpec, ImageSource, Power
from tests.drivers.qemu import counting_guest, real
from tests.drivers.qemu.real import HOST, ID
from tests.there import there

AWAY = "there"
SLOWLY: dict[str, Any] = {"migration_mib_per_second": 1, "migration_pause": 0.01}


@pytest.fixture
def make(tmp_path: Path, runtime_dir: Path) -> Iterator[Callable[..., Qemu]]:
    """`make(**options)`: a driver of two hosts; one more is another process."""
    made = []

    def of(**options: Any) -> Qemu:
        hosts = {HOST: "", AWAY: ""}
        made.append(real.driver_in(tmp_path, runtime_dir, **{"hosts": hosts, **options}))
        return made[-1]

    yield of


def counting(directory: Path, **changes: Any) -> GuestSpec:
    path = directory / "counting"
    path.write_bytes(counting_guest.disk())
    image = ImageSource(real.IMAGE, str(path), "raw")
    return evolve(real.tiny(directory, memory_mib=counting_guest.MEMORY_MIB, **changes), image=image)


async def started(driver: Qemu, spec: GuestSpec) -> GuestSpec:
    await driver.ensure_defined(spec)
    await driver.ensure_running(spec.id)
    await counts_on(driver)
    return spec


async def counts_on(driver: Qemu) -> None:
    before = len(await counted(driver))

    async def more() -> bool:
        return len(await counted(driver)) > before + 5

    assert await real.soon(more), "it does not count"


async def counted(driver: Qemu) -> list[int]:
    return counting_guest.counts(await driver.console_output(ID))


async def test_a_guest_that_counts_moves_and_back_and_misses_nothing(make: Any, tmp_path: Path) -> None:
    driver = make()
    spec = await started(driver, counting(tmp_path, ephemeral_gib=1, swap_mib=1, config_drive=True))
    for host in (AWAY, HOST, AWAY):
        for _ in range(2):
            await driver.ensure_migrated(evolve(spec, host=host))
            state = await driver.observe(ID)
            assert (state.host, state.power) == (host, Power.RUNNING)
            assert await driver.inventory() == (state,)
        await counts_on(driver)
    found = await counted(driver)
    assert found == list(range(found[0], found[0] + len(found)))
    await driver.close()


async def test_a_paused_guest_arrives_paused_and_goes_on_there(make: Any, tmp_path: Path) -> None:
    driver = make()
    spec = await started(driver, counting(tmp_path))
    await driver.ensure_paused(ID)
    for host in (AWAY, HOST):
        await driver.ensure_migrated(evolve(spec, host=host))
        state = await driver.observe(ID)
        assert (state.host, state.power) == (host, Power.PAUSED)
    before = await counted(driver)
    await driver.ensure_running(ID)
    await counts_on(driver)
    found = await counted(driver)
    assert found[: len(before)] == before and found == list(range(found[0], found[0] + len(found)))
    await driver.close()


async def test_what_has_arrived_is_a_guest_like_others(make: Any, tmp_path: Path, runtime_dir: Path) -> None:
    """It is suspended and goes on, takes volumes, starts anew from its disks, and leaves nothing."""
    driver = make()
    spec = await started(driver, counting(tmp_path))
    moved = evolve(spec, host=AWAY)
    await driver.ensure_migrated(moved)
    await driver.ensure_volume_attached(ID, real.volume(tmp_path))
    await driver.ensure_suspended(ID)
    with pytest.raises(InvalidPower):
        await driver.ensure_migrated(evolve(spec, host=HOST))
    await driver.ensure_running(ID)
    await counts_on(driver)
    found = await counted(driver)
    assert found == list(range(found[0], found[0] + len(found)))
    volumes = (real.volume(tmp_path),)
    await driver.ensure_migrated(evolve(spec, host=HOST, volumes=volumes))
    assert (await driver.observe(ID)).volume_ids == (real.VOLUME,)
    with pytest.raises(Unfit, match="both hosts see its disks"):
        await driver.ensure_migrated(evolve(moved, volumes=volumes), disks=True)
    await driver.ensure_migrated(evolve(moved, volumes=volumes), disks=False)
    await driver.ensure_stopped(ID, 0.0)
    await driver.ensure_defined(evolve(moved, memory_mib=48, volumes=volumes))
    await driver.ensure_running(ID)
    await counts_on(driver)
    await driver.ensure_absent(ID)
    assert list(runtime_dir.iterdir()) == []
    await driver.close()


async def test_what_it_wrote_on_either_side_is_on_its_disks(make: Any, tmp_path: Path) -> None:
    driver, volumes = make(), (real.volume(tmp_path),)
    spec = await started(driver, counting(tmp_path, volumes=volumes))
    disks = {"root": driver.records.files(ID).root, slots.volume(real.VOLUME): volumes[0].info["data"]["path"]}
    for byte, host in ((7, HOST), (8, AWAY), (9, HOST)):
        await driver.ensure_migrated(evolve(spec, host=host))
        for disk in disks:
            await real.write(driver, byte, (1 << 20) + 4096 * byte, disk)
    await driver.ensure_stopped(ID, 0.0)
    for file in disks.values():
        orders = [word for byte in (7, 8, 9) for word in ("-c", f"read -P {byte} {(1 << 20) + 4096 * byte} 4096")]
        found = subprocess.run(["qemu-io", "-r", "-f", "qcow2", *orders, file], stdout=-1, check=True, text=True).stdout
        assert "verification failed" not in found and found.count("read 4096/4096") == 3, found
    await driver.close()


async def test_an_interface_cannot_be_twice_in_one_place(make: Any, tmp_path: Path) -> None:
    driver = make()
    spec = await started(driver, counting(tmp_path, ports=(real.port(tmp_path),)))
    with pytest.raises(Unfit, match="one network namespace"):
        await driver.ensure_migrated(evolve(spec, host=AWAY))
    await stays(driver)
    await driver.close()


async def test_one_that_is_slow_tells_how_far_it_is_and_may_be_called_off(make: Any, tmp_path: Path) -> None:
    driver = make(**SLOWLY)
    spec = await started(driver, counting(tmp_path))
    going = await on_its_way(driver, spec)
    assert (await driver.observe(ID)).host == HOST
    await driver.ensure_migration_aborted(ID)
    with pytest.raises(Aborted):
        await going
    await stays(driver)
    await driver.close()


async def test_one_that_is_slow_may_be_told_to_hurry(make: Any, tmp_path: Path) -> None:
    driver = make(**SLOWLY)
    going = await on_its_way(driver, await started(driver, counting(tmp_path)))
    await driver.ensure_migration_forced(ID)
    await going
    await arrived(driver)
    await driver.close()


async def test_one_that_is_late_is_given_up(make: Any, tmp_path: Path) -> None:
    driver = make(**SLOWLY, migration_timeout=0.5)
    spec = await started(driver, counting(tmp_path))
    with pytest.raises(DriverError, match="it took longer than"):
        await driver.ensure_migrated(evolve(spec, host=AWAY))
    await stays(driver)
    await driver.close()


async def on_its_way(driver: Qemu, spec: GuestSpec) -> Deferred[None]:
    """What `ensure_migrated` gives, which is at it."""
    going = ensureDeferred(driver.ensure_migrated(evolve(spec, host=AWAY)))
    progress = await real.soon(lambda: driver.migration_progress(ID))
    assert progress and progress.memory_total >= counting_guest.MEMORY_MIB << 20
    return going


async def stays(driver: Qemu) -> None:
    """Where it was, and is on no way; it counts on, and can be moved."""
    await is_alone(driver, HOST)
    assert await driver.migration_progress(ID) is None


async def arrived(driver: Qemu) -> None:
    await is_alone(driver, AWAY)


async def is_alone(driver: Qemu, host: str) -> None:
    state = await driver.observe(ID)
    assert (state.host, state.power) == (host, Power.RUNNING)
    await counts_on(driver)
    found = await counted(driver)
    assert found == list(range(found[0], found[0] + len(found))), "it has lost count, or counts twice"
    assert there(driver.records.get(ID)).trip is None
    assert len(pids(driver)) == 1


def pids(driver: Qemu) -> list[int]:
    """Of the processes that the guest has."""
    found = [processes.find(driver.records.files(ID, seat).pid) for seat in ("", "-2")]
    return [each for each in found if each is not None]


# -- kills


async def test_whoever_waits_for_it_may_die(make: Any, tmp_path: Path) -> None:
    """Another one finds it on its way, and waits for it or calls it off."""
    first = make(**SLOWLY)
    spec = await started(first, counting(tmp_path))
    (await on_its_way(first, spec)).addErrback(lambda _: None).cancel()
    await first.close()

    second = make()
    assert (await second.observe(ID)).host == HOST
    assert await second.migration_progress(ID)
    await second.ensure_migration_aborted(ID)
    await stays(second)
    await second.close()

    third = make(**SLOWLY)
    (await on_its_way(third, spec)).addErrback(lambda _: None).cancel()
    await third.close()
    last = make()
    going = ensureDeferred(last.ensure_migrated(evolve(spec, host=AWAY)))
    await last.ensure_migration_forced(ID)
    await going
    await arrived(last)
    await last.close()


async def test_it_arrives_alone(make: Any, tmp_path: Path) -> None:
    """With nobody there the guest executes where it went, which is found."""
    first = make(**SLOWLY)
    spec = await started(first, counting(tmp_path))
    going = await on_its_way(first, spec)
    files = first.records.files(ID)
    monitor = await first.monitors.get(ID, files)
    going.addErrback(lambda _: None).cancel()
    await monitor.execute("migrate-set-parameters", {"downtime-limit": 60_000})
    assert await real.soon(lambda: is_through(monitor))
    await counts_on(first)
    await first.close()
    second = make()
    state = await second.observe(ID)
    assert (state.host, state.power) == (AWAY, Power.RUNNING)
    assert await second.inventory() == (state,)
    await second.ensure_migrated(evolve(spec, host=AWAY))
    await arrived(second)
    await second.close()


async def is_through(monitor: Any) -> bool:
    return bool((await monitor.execute("query-status"))["status"] == "postmigrate")


async def test_the_process_that_it_goes_to_may_be_killed_at_any_moment(make: Any, tmp_path: Path) -> None:
    """It goes on where it was. From the moment at which it executes there, it is there that its process was killed."""
    driver = make()
    spec = await started(driver, counting(tmp_path))
    delays = [0.0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2]
    stayed = 0
    for delay in delays:
        killed = killed_later(driver, "-2", delay)
        with suppress(DriverError):
            await driver.ensure_migrated(evolve(spec, host=AWAY))
        killed.addErrback(lambda _: None).cancel()
        if (await driver.observe(ID)).host == AWAY:
            break
        await stays(driver)
        stayed += 1
    assert stayed, "it has gone before it was killed"
    await driver.close()


def killed_later(driver: Qemu, seat: str, delay: float) -> Deferred[bool]:
    """So many seconds after it has begun; whether it was there."""
    from twisted.internet import reactor

    pid_file = driver.records.files(ID, seat).pid

    async def kill() -> bool:
        assert await real.soon(lambda: processes.find(pid_file))
        await deferLater(reactor, delay)
        found = processes.find(pid_file)
        if found is not None:
            os.kill(found, signal.SIGKILL)
        return found is not None

    return ensureDeferred(kill())


async def test_a_process_that_nobody_remembers_is_ended(make: Any, tmp_path: Path) -> None:
    """It was begun as whoever began it was killed, and his trip was forgotten before it was to be seen."""
    first = make(**SLOWLY)
    spec = await started(first, counting(tmp_path))
    (await on_its_way(first, spec)).addErrback(lambda _: None).cancel()
    first.records.put(evolve(there(first.records.get(ID)), trip=None))
    assert len(pids(first)) == 2
    await first.close()
    second = make()
    await second.watch_guests(lambda _id: None)
    await stays(second)
    await second.close()


@pytest.mark.parametrize("hung", [False, True])
async def test_the_process_that_it_goes_to_may_die_or_hang_on_the_way(make: Any, tmp_path: Path, hung: bool) -> None:
    driver = make(**SLOWLY)
    spec = await started(driver, counting(tmp_path))
    going = await on_its_way(driver, spec)
    pid = there(processes.find(driver.records.files(ID, "-2").pid))
    os.kill(pid, signal.SIGSTOP if hung else signal.SIGKILL)
    if hung:
        for each in (driver.monitors, *driver.monitors._open.values()):
            each.timeout = 3.0
        await driver.ensure_migration_forced(ID)  # so that it stands still, until it is given up
    with pytest.raises(DriverError):
        await going
    await stays(driver)
    await driver.close()


async def test_a_guest_whose_process_is_killed_on_the_way_is_off_and_starts_anew(make: Any, tmp_path: Path) -> None:
    driver = make(**SLOWLY)
    spec = await started(driver, counting(tmp_path))
    going = await on_its_way(driver, spec)
    os.kill(there(processes.find(driver.records.files(ID).pid)), signal.SIGKILL)
    with pytest.raises(DriverError, match="its process has ended"):
        await going
    state = await driver.observe(ID)
    assert (state.host, state.power, pids(driver)) == (HOST, Power.CRASHED, [])
    await driver.ensure_running(ID)
    await counts_on(driver)
    await driver.close()


async def test_a_process_that_has_sent_all_of_its_guest_may_be_killed(make: Any, tmp_path: Path) -> None:
    """Nobody notes that it has arrived before that; it has."""
    driver = make(**SLOWLY)
    spec = await started(driver, counting(tmp_path))
    (await on_its_way(driver, spec)).addErrback(lambda _: None).cancel()
    monitor = await driver.monitors.get(ID, driver.records.files(ID))
    await monitor.execute("migrate-set-parameters", {"downtime-limit": 60_000})
    assert await real.soon(lambda: is_through(monitor))
    os.kill(there(processes.find(driver.records.files(ID).pid)), signal.SIGKILL)
    await driver.ensure_migrated(evolve(spec, host=AWAY))
    await arrived(driver)
    await driver.close()
