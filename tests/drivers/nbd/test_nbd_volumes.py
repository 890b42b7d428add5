"""Volumes in use by guests: what these see, and what happens when the storage daemon dies. All of it is real."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from twisted.internet.defer import gatherResults
from twisted.internet.task import deferLater

from cloudctl.drivers.boundary import call
from cloudctl.drivers.errors import NoCapacity, Unreachable, Unusable
from cloudctl.drivers.nbd.served import export_name
from cloudctl.drivers.specs import ImageSource, SnapshotSpec, VolumeSpec, VolumeState
from tests.drivers.qcow2.live import (
    GIB,
    IMAGE,
    MIB,
    demand,
    holds,
    info,
    inside,
    raw_image,
    run,
    small_file_system,
)
from tests.live.process import free_port


def pids(runtime_dir: Path) -> Any:
    return [int(file.read_text()) for file in runtime_dir.glob("*.pid")]


async def until(reactor: Any, condition: Any, seconds: Any = 120.0) -> None:
    give_up = reactor.seconds() + seconds
    while not condition():
        assert reactor.seconds() < give_up, "it did not come about in time"
        await deferLater(reactor, 0.01)


async def with_volume(driver: Any, tmp_path: Path, *blocks: Any) -> None:
    await driver.ensure_created(VolumeSpec("v1", 1, image=raw_image(tmp_path / "image", *blocks or (1,))))


# -- in use


async def test_what_a_guest_writes_is_read_by_the_next_one(
    open_driver: Callable[..., Any], client: Any, tmp_path: Path
) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    one = client(await driver.connect("v1", "a"))
    assert await one.holds(1)
    await one.write(2, 10 * MIB)
    two = client(await driver.connect("v1", "b"))
    assert await two.holds(2, 10 * MIB)
    await two.write(3, 20 * MIB)
    assert await one.holds(3, 20 * MIB)


async def test_a_host_that_is_disconnected_is_cut_off_and_the_others_are_not(
    open_driver: Callable[..., Any], client: Any, tmp_path: Path
) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    told = await driver.connect("v1", "a")
    one, two = client(told), client(await driver.connect("v1", "b"))
    assert await one.holds(1)
    await driver.disconnect("v1", "a")
    assert await two.holds(1)
    assert await two.write(2) == f"wrote {MIB}/{MIB} bytes at offset 0"
    url = f"nbd+unix:///{export_name('v1', 'a')}?socket={told['data']['server']['path']}"
    assert "not available" in run("qemu-img", "info", url, check=False)
    assert one.process.poll() is None


async def test_the_daemon_runs_while_a_volume_is_connected_and_leaves_nothing(
    open_driver: Callable[..., Any], runtime_dir: Path, tmp_path: Path
) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    await driver.ensure_created(VolumeSpec("v2", 1))
    assert list(runtime_dir.iterdir()) == []
    await gatherResults([call(driver.connect, id, host) for id in ("v1", "v2") for host in ("a", "b")])
    assert len(pids(runtime_dir)) == 2, "one for each volume"
    await gatherResults([call(driver.disconnect, id, host) for id in ("v1", "v2") for host in ("a", "b")])
    assert list(runtime_dir.iterdir()) == []
    assert not driver.disks._served


async def test_a_guest_sees_its_volume_grow_and_goes_on(
    open_driver: Callable[..., Any], client: Any, tmp_path: Path
) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    guest = client(await driver.connect("v1", "a"))
    assert guest.size() == "1 GiB"
    await driver.ensure_extended("v1", 3)
    assert await guest.holds(1)
    assert await guest.write(2) == f"wrote {MIB}/{MIB} bytes at offset 0"
    # The size is told when a client connects, or is asked for it by its guest's QEMU (block_resize).
    assert client(await driver.connect("v1", "a")).size() == "3 GiB"
    assert await driver.observe("v1") == VolumeState("v1", 3, ("a",))


async def test_a_volume_in_use_is_frozen_at_one_moment_and_copied(
    open_driver: Callable[..., Any], client: Any, tmp_path: Path
) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    guest = client(await driver.connect("v1", "a"))
    await guest.write(2)
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
    await guest.write(3)
    await gatherResults(
        [
            call(driver.ensure_exported, "v1", str(tmp_path / "now")),
            call(driver.ensure_exported, "v1", str(tmp_path / "then"), "s1"),
            call(driver.ensure_created, VolumeSpec("clone", 1, volume_id="v1")),
            call(driver.ensure_created, VolumeSpec("older", 2, snapshot_id="s1")),
            guest.write(4, 5 * MIB),
        ]
    )
    disk = driver.records.disk("v1")
    assert holds(tmp_path / "now", 3, format="raw") and holds(tmp_path / "then", 2, format="raw")
    assert (tmp_path / "now").stat().st_size == GIB
    assert holds(driver.records.disk("clone"), 3) and holds(driver.records.disk("older"), 2)
    assert inside(disk) == ["s1"]
    await guest.write(5)
    await driver.ensure_snapshot_absent("s1")
    assert inside(disk) == []
    assert await guest.holds(5) and await guest.holds(4, 5 * MIB)
    await driver.disconnect("v1", "a")
    assert "No errors" in run("qemu-img", "check", disk)
    assert driver.locks.held == frozenset()


def row_of_ports(count: int) -> list[int]:
    """One after the other, which the kernel gives to no client."""
    while True:
        found = [free_port() for _ in range(count)]
        if found == list(range(found[0], found[0] + count)):
            return found


async def test_many_guests_on_tcp(open_driver: Callable[..., Any], client: Any, tmp_path: Path) -> None:
    port = row_of_ports(4)[0]
    driver = await open_driver(listen=f"127.0.0.1:{port}")
    await with_volume(driver, tmp_path)
    for number in range(4):
        await driver.ensure_created(VolumeSpec(f"c{number}", 1, volume_id="v1"))
    told = await gatherResults([call(driver.connect, f"c{number}", "a") for number in range(4)])
    assert told[0]["data"]["server"] == {"type": "inet", "host": "127.0.0.1", "port": str(port)}
    guests = [client(each) for each in told]
    await gatherResults([guest.write(10 + number) for number, guest in enumerate(guests)])
    for number, guest in enumerate(guests):
        assert await guest.holds(10 + number)


async def following_one_that_served(open_driver: Callable[..., Any]) -> Any:
    """The next process. Two volumes are there, which had been served at two ports and are connected no more."""
    listen = f"127.0.0.1:{free_port()}"
    driver = await open_driver(listen=listen)
    for id in ("v1", "v2"):
        await driver.ensure_created(VolumeSpec(id, 1))
        await driver.connect(id, "a")
    for id in ("v1", "v2"):
        await driver.disconnect(id, "a")
    await driver.close()
    return await open_driver(listen=listen)


async def test_the_next_process_serves_volumes_at_the_ports_that_it_tells(
    open_driver: Callable[..., Any], client: Any
) -> None:
    """It served them where the one before had: where nobody was told to look, or at the port of another volume."""
    following = await following_one_that_served(open_driver)
    for id in ("v2", "v1"):
        assert (await client(await following.connect(id, "a"), reconnect=0).write(1)).startswith("wrote")


async def test_a_volume_that_has_another_port_is_not_served_at_the_one_it_had(
    open_driver: Callable[..., Any], runtime_dir: Path
) -> None:
    """At its start a process looks after what the one before served, while it connects volumes already."""
    following = await following_one_that_served(open_driver)
    record = following.records.volume("v2")
    served = following.disks.of(record)
    await following.records.put(evolve(record, hosts=("a",), place=record.place + 7))
    served.lost()
    await served.serve_all()
    assert not pids(runtime_dir)


async def test_a_damaged_record_keeps_no_other_volume_from_getting_a_port(
    open_driver: Callable[..., Any], client: Any, tmp_path: Path
) -> None:
    driver = await open_driver(listen=f"127.0.0.1:{free_port()}")
    for id in ("v1", "v2"):
        await driver.ensure_created(VolumeSpec(id, 1))
    await driver.connect("v1", "a")
    (driver.records.directory("v1") / "volume.json").write_text("{")
    # The other one is still served at the first port.
    assert (await client(await driver.connect("v2", "a"), reconnect=0).write(1)).startswith("wrote")


async def test_volumes_that_are_connected_by_sockets_are_not_moved_to_one_port(
    open_driver: Callable[..., Any], runtime_dir: Path
) -> None:
    """All but one of them could not be served any more."""
    driver, listen = await open_driver(), f"127.0.0.1:{free_port()}"
    for id in ("v1", "v2"):
        await driver.ensure_created(VolumeSpec(id, 1))
        await driver.connect(id, "a")
    await driver.close()
    with pytest.raises(Unusable, match="2 volumes are connected by UNIX sockets"):
        await open_driver(listen=listen)
    driver = await open_driver()
    for id in ("v1", "v2"):
        await driver.disconnect(id, "a")
    await driver.close()
    driver = await open_driver(listen=listen)
    for id in ("v1", "v2"):
        await driver.connect(id, "a")


async def test_a_disk_that_is_full_stops_nothing_else(
    open_driver: Callable[..., Any], client: Any, tmp_path: Path
) -> None:
    demand("qemu-storage-daemon", root=True)
    blocks = tmp_path / "blocks"
    blocks.write_bytes(bytes(range(256)) * (6 * MIB // 256))
    with small_file_system(tmp_path, 32) as place:
        driver = await open_driver(place, overcommit=1000.0)
        await driver.ensure_created(VolumeSpec("v1", 1, image=ImageSource(IMAGE, str(blocks), "raw")))
        guest = client(await driver.connect("v1", "a"))
        assert "No space left" in await guest.write(7, 10 * MIB, 40 * MIB)
        with suppress(OSError), (place / "filler").open("wb", buffering=0) as filler:
            while filler.write(b"x" * 4096):
                pass
        # A snapshot may still find room inside the volume's own file; a new file finds none.
        with pytest.raises(NoCapacity):
            await driver.ensure_created(VolumeSpec("v2", 1))
        assert [volume.id for volume in await driver.inventory()] == ["v1"]
        (place / "filler").unlink()
        assert await guest.write(8) == f"wrote {MIB}/{MIB} bytes at offset 0"
        await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
        assert inside(driver.records.disk("v1")) == ["s1"]
        guest.end()
        await driver.disconnect("v1", "a")


# -- death and restart


async def test_a_daemon_that_is_killed_comes_back_and_the_guest_goes_on(
    open_driver: Callable[..., Any], client: Any, runtime_dir: Path, tmp_path: Path, reactor: Any
) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    await driver.ensure_created(VolumeSpec("v2", 1))
    guest, other = client(await driver.connect("v1", "a")), client(await driver.connect("v2", "b"))
    assert await guest.write(2) == await other.write(3)
    before = set(pids(runtime_dir))
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert (await guest.write(4, MIB)).startswith("wrote")
    assert await guest.holds(2) and await other.holds(3)
    assert not before & set(pids(runtime_dir))
    await driver.ensure_snapshot(SnapshotSpec("s1", "v1"))
    assert inside(driver.records.disk("v1")) == ["s1"]


async def test_a_call_that_meets_a_dead_daemon_starts_it(
    open_driver: Callable[..., Any], runtime_dir: Path, tmp_path: Path, reactor: Any
) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    await driver.connect("v1", "a")
    os.kill(pids(runtime_dir)[0], signal.SIGKILL)
    # No turn of the reactor has passed, so the driver does not know yet, and while the kernel takes the process apart
    # its socket still takes connections: the task engine repeats what is Unreachable.
    while True:
        try:
            await driver.ensure_extended("v1", 2)
            break
        except Unreachable:
            await deferLater(reactor, 0.01)
    assert await driver.observe("v1") == VolumeState("v1", 2, ("a",))
    assert info(driver.records.disk("v1"))["virtual-size"] == 2 * GIB


async def test_a_daemon_that_died_while_nobody_looked_is_started_again(
    open_driver: Callable[..., Any], client: Any, runtime_dir: Path, tmp_path: Path
) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    guest = client(await driver.connect("v1", "a"))
    assert await guest.write(2)
    await driver.close()
    os.kill(pids(runtime_dir)[0], signal.SIGKILL)
    await open_driver()
    assert (await guest.write(3, MIB)).startswith("wrote")
    assert await guest.holds(2)


async def test_the_next_process_finds_the_daemon_and_what_it_serves(
    open_driver: Callable[..., Any], client: Any, runtime_dir: Path, tmp_path: Path
) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    told = await driver.connect("v1", "a")
    guest = client(told)
    assert await guest.write(2)
    before = pids(runtime_dir)
    await driver.close()
    following = await open_driver()
    assert await following.connect("v1", "a") == told
    await following.ensure_snapshot(SnapshotSpec("s1", "v1"))
    assert await guest.holds(2)
    assert pids(runtime_dir) == before


async def test_processes_that_share_the_volumes_change_what_is_served_in_turns(
    open_driver: Callable[..., Any], client: Any, runtime_dir: Path, tmp_path: Path, reactor: Any
) -> None:
    """A daemon speaks to one at a time: the first one kept the word, and the others' calls came to nothing."""
    one = await open_driver()
    await with_volume(one, tmp_path)
    guest = client(await one.connect("v1", "a"))
    other = await open_driver()
    await other.connect("v1", "b")
    for driver, name in ((one, "s1"), (other, "s2")):
        await driver.ensure_snapshot(SnapshotSpec(name, "v1"))
    await one.ensure_extended("v1", 2)
    before = pids(runtime_dir)
    os.kill(before[0], signal.SIGKILL)
    # Whoever is first: both are told.
    assert (await guest.write(4, MIB)).startswith("wrote")
    assert pids(runtime_dir) != before
    await other.disconnect("v1", "a")
    await one.disconnect("v1", "b")
    assert list(runtime_dir.iterdir()) == []


async def test_what_is_served_though_nobody_may_use_it_any_more_is_withdrawn(
    open_driver: Callable[..., Any], runtime_dir: Path, tmp_path: Path, reactor: Any
) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    await driver.connect("v1", "a")
    await driver.close()
    # As if the process had died between the two halves of `disconnect`.
    await driver.records.put(evolve(driver.records.volume("v1"), hosts=()))
    await open_driver()
    await until(reactor, lambda: list(runtime_dir.iterdir()) == [])


async def test_a_daemon_that_does_not_answer_is_unreachable_until_it_does(
    open_driver: Callable[..., Any], runtime_dir: Path, tmp_path: Path
) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    await driver.connect("v1", "a")
    (pid,) = pids(runtime_dir)
    daemon = driver.disks.of(driver.records.volume("v1")).daemon
    patience, daemon.answer_timeout = daemon.answer_timeout, 0.2
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(Unreachable):
            await driver.connect("v1", "b")
        assert await driver.observe("v1") == VolumeState("v1", 1, ("a",))
    finally:
        os.kill(pid, signal.SIGCONT)
        daemon.answer_timeout = patience
    await driver.connect("v1", "b")
    assert pids(runtime_dir) == [pid]
    assert await driver.observe("v1") == VolumeState("v1", 1, ("a", "b"))


async def test_a_daemon_that_cannot_start_is_unreachable_and_nobody_is_connected(
    open_driver: Callable[..., Any], runtime_dir: Path, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        driver = await open_driver(listen=f"127.0.0.1:{taken.getsockname()[1]}")
        await with_volume(driver, tmp_path)
        with pytest.raises(Unreachable, match="failed to start"):
            await driver.connect("v1", "a")
    assert await driver.observe("v1") == VolumeState("v1", 1)
    await driver.connect("v1", "a")


async def test_a_daemon_that_finds_no_place_for_its_sockets_is_started_once_there_is_one(
    open_driver: Callable[..., Any], client: Any, runtime_dir: Path, tmp_path: Path, reactor: Any
) -> None:
    driver = await open_driver(retry_seconds=0.1)
    await driver.ensure_created(VolumeSpec("other", 1))
    await with_volume(driver, tmp_path)
    guest = client(await driver.connect("v1", "a"))
    assert await guest.holds(1)
    (pid,) = pids(runtime_dir)
    away = runtime_dir.rename(runtime_dir.with_suffix(".away"))
    try:
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unreachable, match="cannot be started"):
            await driver.connect("other", "a")
        await until(reactor, lambda: not driver.disks.of(driver.records.volume("v1")).daemon.is_watched)
        await deferLater(reactor, 0.3)
    finally:
        away.rename(runtime_dir)
    assert (await guest.write(2)).startswith("wrote")


async def test_a_damaged_volume_keeps_no_other_from_being_served(
    open_driver: Callable[..., Any], client: Any, runtime_dir: Path, tmp_path: Path, reactor: Any
) -> None:
    driver = await open_driver()
    await driver.ensure_created(VolumeSpec("bad", 1))
    await with_volume(driver, tmp_path)
    await driver.connect("bad", "a")
    guest = client(await driver.connect("v1", "a"))
    assert await guest.holds(1)
    Path(driver.records.disk("bad")).write_bytes(b"QFI\xfb" + bytes(200))
    for pid in pids(runtime_dir):
        os.kill(pid, signal.SIGKILL)
    assert (await guest.write(2)).startswith("wrote")


async def test_a_dry_run_starts_no_daemon(open_driver: Callable[..., Any], runtime_dir: Path, tmp_path: Path) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    dry = await open_driver(dry_run=True)
    told = await dry.connect("v1", "a")
    assert told["data"]["export"] == "v1/a"
    assert list(runtime_dir.iterdir()) == []
    assert await driver.observe("v1") == VolumeState("v1", 1)


async def test_a_damaged_record_keeps_no_other_volume_from_being_served_again(
    open_driver: Callable[..., Any], client: Any, tmp_path: Path, runtime_dir: Path
) -> None:
    driver = await open_driver()
    await with_volume(driver, tmp_path)
    one = client(await driver.connect("v1", "a"))
    assert await one.holds(1)
    await driver.ensure_created(VolumeSpec("v0", 1))
    await driver.close()
    for pid in pids(runtime_dir):
        os.kill(pid, signal.SIGKILL)
    (driver.records.directory("v0") / "volume.json").write_bytes(b"{")
    await open_driver()
    assert await one.holds(1)
