"""Guests that go from host to host, with two libvirtds that reach each other by TLS."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from attrs import evolve
from twisted.internet.defer import ensureDeferred

from cloudctl.drivers.errors import Aborted, DriverError, InvalidPower, Unfit
from cloudctl.drivers.specs import DriverResources, GuestSpec, ImageSource, Power
from tests.drivers.libvirt.daemon import Libvirtd
from tests.drivers.qemu import counting_guest, real, tiny_guest
from tests.drivers.qemu.real import ID

# On each of them a directory of its own.
LOCAL = "/var/lib/libvirt/guests"


@pytest.fixture
def hosts(libvirtd: Libvirtd, other_libvirtd: Libvirtd) -> dict[str, Libvirtd]:
    return {"east": libvirtd, "west": other_libvirtd}


@pytest.fixture
def make(hosts: dict[str, Libvirtd], tmp_path: Path) -> Iterator[Any]:
    """`make(directory, **options)`: a driver; one more is another process."""
    from twisted.internet import reactor

    from cloudctl.drivers.libvirt.hypervisor import Config, create

    def made(directory: str = LOCAL, **options: Any) -> Any:
        config = Config(
            hosts={name: daemon.tls_uri for name, daemon in hosts.items()},
            peers={name: daemon.tls_uri for name, daemon in hosts.items()},
            accelerator="tcg",
            directory=directory,
            pool=tmp_path.name,
            slots=2,
            retry_seconds=0.2,
            keepalive_seconds=1,
            **options,
        )
        return create(config, DriverResources(reactor, "libvirt", reactor, tmp_path))

    yield made
    for daemon in hosts.values():
        daemon.empty()


COUNTING = "6f1c0f5e-0000-4000-8000-0000000000cc"


def tiny(directory: Path, host: str = "east", **changes: Any) -> GuestSpec:
    return evolve(real.tiny(directory, **changes), host=host)


def counting(directory: Path) -> GuestSpec:
    """One that writes to its memory all the time. Its image has an id of its own: hosts keep what they had once."""
    path = directory / "counting"
    path.write_bytes(counting_guest.disk())
    return tiny(directory, memory_mib=counting_guest.MEMORY_MIB, image=ImageSource(COUNTING, str(path), "raw"))


async def started(driver: Any, spec: GuestSpec) -> None:
    """It says what it has to say, or counts: not before it does is there much of it to be moved."""
    await driver.ensure_defined(spec)
    before = len(await driver.console_output(spec.id))
    await driver.ensure_running(spec.id)

    async def is_up() -> bool:
        console = (await driver.console_output(spec.id))[before:]
        return tiny_guest.LAST_LINE in console or len(counting_guest.counts(console)) > 20

    assert await real.soon(is_up)


def files(daemon: Libvirtd, id: str = ID) -> set[str]:
    return {each.name.removeprefix(f"{id}.") for each in daemon.inside(LOCAL).glob(f"{id}.*")}


async def test_a_guest_moves_with_its_disks_and_back(make: Any, hosts: dict[str, Libvirtd], tmp_path: Path) -> None:
    driver = make()
    spec = tiny(tmp_path, ephemeral_gib=1, swap_mib=1, config_drive=True)
    await started(driver, spec)
    had = files(hosts["east"]) - {"console"}
    for here, there in (("east", "west"), ("west", "east")):
        moved = evolve(spec, host=there)
        for _ in range(2):
            await driver.ensure_migrated(moved)
            state = await driver.observe(ID)
            assert (state.host, state.power) == (there, Power.RUNNING)
        assert not files(hosts[here])
        assert files(hosts[there]) - {"console"} == had
    # It goes on as it was defined: it can be stopped, and started from the disks that came along.
    await driver.ensure_stopped(ID, 0.0)
    await driver.ensure_running(ID)
    with pytest.raises(Unfit, match="cannot be seen"):
        await driver.ensure_migrated(evolve(spec, host="west"), disks=False)
    await driver.ensure_absent(ID)
    assert not files(hosts["east"])
    await driver.close()


async def test_a_guest_moves_although_an_earlier_move_left_its_way_for_a_disk_behind(
    make: Any, hosts: dict[str, Libvirtd], tmp_path: Path
) -> None:
    """As libvirtd does when it is killed while QEMU ends the copying of a disk."""
    driver = make()
    spec = tiny(tmp_path)
    await started(driver, spec)
    storage, format = (f"migration-vda-{kind}" for kind in ("storage", "format"))
    hosts["east"].monitor(ID, "blockdev-add", **{"node-name": storage, "driver": "null-co"})
    hosts["east"].monitor(ID, "blockdev-add", **{"node-name": format, "driver": "raw", "file": storage})
    await driver.ensure_migrated(evolve(spec, host="west"))
    assert (await driver.observe(ID)).host == "west"
    await driver.close()


async def test_a_paused_guest_arrives_paused(make: Any, tmp_path: Path) -> None:
    driver = make()
    spec = tiny(tmp_path)
    await started(driver, spec)
    await driver.ensure_paused(ID)
    await driver.ensure_migrated(evolve(spec, host="west"))
    state = await driver.observe(ID)
    assert (state.host, state.power) == ("west", Power.PAUSED)
    await driver.ensure_absent(ID)
    await driver.close()


async def test_a_guest_that_is_off_takes_its_disks_along(make: Any, hosts: dict[str, Libvirtd], tmp_path: Path) -> None:
    driver = make()
    spec = tiny(tmp_path, ephemeral_gib=1)
    await started(driver, spec)
    moved = evolve(spec, host="west", memory_mib=24)
    with pytest.raises(InvalidPower):
        await driver.ensure_defined(moved)
    await driver.ensure_stopped(ID, 0.0)
    for _ in range(2):
        await driver.ensure_defined(moved)
        state = await driver.observe(ID)
        assert (state.host, state.power, state.memory_mib) == ("west", Power.STOPPED, 24)
    assert not files(hosts["east"])
    # What it wrote before is still there.
    assert tiny_guest.LAST_LINE in await driver.console_output(ID)
    await driver.ensure_running(ID)
    await driver.ensure_absent(ID)
    await driver.close()


# At this pace a guest that writes to its memory does not arrive by itself.
SLOW = {"migration_mib_per_second": 1, "migration_pause": 0.01}


async def on_its_way(driver: Any) -> None:
    async def moves() -> bool:
        found = await driver.migration_progress(ID)
        return found is not None and found.memory_total > 0

    assert await real.soon(moves)


async def test_a_host_that_returns_shows_its_copy_until_it_has_dropped_it(
    make: Any, hosts: dict[str, Libvirtd], tmp_path: Path
) -> None:
    driver = make()
    for name in ("west", "east"):
        # By one who sees nobody else: the first host is down when the guest is made anew.
        alone = evolve(driver, fleet=evolve(driver.fleet, hosts={name: driver.fleet.hosts[name]}))
        await alone.ensure_defined(tiny(tmp_path, host=name))
    # The last is the one that is meant.
    assert [(each.id, each.host) for each in await driver.inventory()] == [(ID, "west"), (ID, "east")]
    await driver.drop_superseded()
    assert [(each.id, each.host) for each in await driver.inventory()] == [(ID, "east")]
    assert not files(hosts["west"]) and files(hosts["east"])
    await driver.ensure_absent(ID)
    await driver.close()


async def test_what_another_host_has_put_into_the_directory_that_they_share_is_found(make: Any, tmp_path: Path) -> None:
    """As after an evacuation: the guest keeps its disk."""
    driver = make(str(tmp_path / "shared"))
    # A host learns by itself what there is when it is first asked, and never again.
    await driver.inventory()
    for name in ("east", "west"):
        alone = evolve(driver, fleet=evolve(driver.fleet, hosts={name: driver.fleet.hosts[name]}))
        await alone.ensure_defined(tiny(tmp_path, host=name))
        root = tmp_path / "shared" / f"{ID}.root"
        if name == "east":
            before = root.stat().st_ino
    assert root.stat().st_ino == before
    await driver.drop_superseded()
    assert [each.host for each in await driver.inventory()] == ["west"] and root.exists()
    await driver.ensure_absent(ID)
    await driver.close()


def test_an_image_that_somebody_else_copies_is_waited_for_while_it_grows(
    hosts: dict[str, Libvirtd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import libvirt

    from cloudctl.drivers.libvirt import storage as storing
    from cloudctl.drivers.libvirt.hypervisor import Config

    directory, pauses = tmp_path / "shared", [b"two", None]
    config = Config(directory=str(directory), pool=tmp_path.name)
    connection = libvirt.open(hosts["east"].uri)
    storage = storing.Storage(config, connection)
    storage.prepare()
    spec = tiny(tmp_path)
    assert spec.image is not None
    base = directory / f"{storing.IMAGE}{spec.image.id}"
    base.write_bytes(b"one")

    def pause(_seconds: float) -> None:
        more = pauses.pop(0)
        if more is not None:
            base.write_bytes(more * 10_000)
        else:
            base.with_name(f"{base.name}{storing.WHOLE}").touch()

    monkeypatch.setattr("cloudctl.drivers.libvirt.storage.time.sleep", pause)
    storage.ensure(spec, None)
    assert pauses == [] and base.read_bytes() == b"two" * 10_000, "it is theirs"
    # And one that does not grow any more is made anew.
    storage.remove_all(spec.id)
    base.with_name(f"{base.name}{storing.WHOLE}").unlink()
    monkeypatch.setattr("cloudctl.drivers.libvirt.storage.time.sleep", lambda _seconds: None)
    storage.ensure(spec, None)
    assert spec.image.path is not None and base.read_bytes() == Path(spec.image.path).read_bytes()
    connection.close()


async def test_what_is_on_its_way_is_shown_and_can_be_called_back(
    make: Any, hosts: dict[str, Libvirtd], tmp_path: Path
) -> None:
    driver, other = make(**SLOW), make(**SLOW)
    spec = counting(tmp_path)
    await started(driver, spec)
    going = ensureDeferred(driver.ensure_migrated(evolve(spec, host="west")))
    await on_its_way(other)
    # Until it has arrived it is where it was, whoever is asked.
    assert [(each.host, each.power) for each in await other.inventory()] == [("east", Power.RUNNING)]
    await other.ensure_migration_aborted(ID)
    with pytest.raises(Aborted):
        await going
    state = await driver.observe(ID)
    assert (state.host, state.power) == ("east", Power.RUNNING)
    assert not files(hosts["west"])
    await driver.ensure_absent(ID)
    await driver.close()
    await other.close()


async def test_one_in_a_hurry_arrives_and_another_process_sees_it(make: Any, tmp_path: Path) -> None:
    driver, other = make(**SLOW), make(**SLOW)
    spec = counting(tmp_path)
    await started(driver, spec)
    moved = evolve(spec, host="west")
    going = [ensureDeferred(driver.ensure_migrated(moved))]
    await on_its_way(other)
    # As one does that takes over from a process that was killed.
    going.append(ensureDeferred(other.ensure_migrated(moved)))
    await other.ensure_migration_forced(ID)
    for each in going:
        await each
    for each in (driver, other):
        state = await each.observe(ID)
        assert (state.host, state.power) == ("west", Power.RUNNING)
    await driver.ensure_absent(ID)
    await driver.close()
    await other.close()


KILLED = {
    "the target's": lambda _east, west: west.kill("libvirtd"),
    "the source's": lambda east, _west: east.kill("libvirtd"),
    "both": lambda east, west: [each.kill("libvirtd") for each in (east, west)],
    "the target's QEMU": lambda _east, west: west.kill_guest(ID),
}


@pytest.mark.parametrize("at_the_switch", [False, True])
@pytest.mark.parametrize("who", KILLED)
async def test_a_guest_is_on_one_side_whoever_was_killed(
    make: Any, hosts: dict[str, Libvirtd], tmp_path: Path, who: str, at_the_switch: bool
) -> None:
    """While its memory goes over, or while it stands still, as the target is stopped that shall say it has come."""
    import libvirt

    driver, spec = make(**SLOW), counting(tmp_path)
    await started(driver, spec)
    going = ensureDeferred(driver.ensure_migrated(evolve(spec, host="west")))
    await on_its_way(driver)
    if at_the_switch:
        hosts["west"].freeze()
        hosts["east"].hasten(ID)
        assert await real.soon(lambda: hosts["east"].stands_still(ID))
    KILLED[who](hosts["east"], hosts["west"])
    hosts["west"].thaw()
    try:
        await going
    except (DriverError, Aborted) as error:
        print(error)

    async def ended() -> bool:
        """As a workflow does that undoes it, until the hosts answer."""
        try:
            await driver.ensure_migration_aborted(ID)
            state = await driver.observe(ID)
        except DriverError:
            return False
        return bool(state.power is Power.RUNNING)

    assert await real.soon(ended)
    where = (await driver.observe(ID)).host
    (other,) = {"east", "west"} - {where}

    def is_alone() -> bool:
        """A libvirtd that has just been started again first drops what was on its way to it."""
        with suppress(libvirt.libvirtError):  # it is about to
            return hosts[where].stands_still(ID) is False and hosts[other].stands_still(ID) is None
        return False

    assert await real.soon(is_alone)
    # It goes on, and can be moved again.
    so_far = counting_guest.counts(await driver.console_output(ID))

    async def counts_on() -> bool:
        return counting_guest.counts(await driver.console_output(ID))[-1:] > so_far[-1:]

    assert await real.soon(counts_on)
    await driver.ensure_absent(ID)
    await driver.close()


async def test_one_that_is_late_stays(make: Any, hosts: dict[str, Libvirtd], tmp_path: Path) -> None:
    driver = make(migration_timeout=2.0, **SLOW)
    spec = counting(tmp_path)
    await started(driver, spec)
    with pytest.raises(DriverError, match="it stays where it was"):
        await driver.ensure_migrated(evolve(spec, host="west"))
    state = await driver.observe(ID)
    assert (state.host, state.power) == ("east", Power.RUNNING)
    await driver.ensure_absent(ID)
    await driver.close()


def test_hosts_may_make_the_directory_that_they_share_at_once(hosts: dict[str, Libvirtd], tmp_path: Path) -> None:
    """libvirt looks whether it is there and then makes it, so that one of two fails now and then."""
    import libvirt

    from cloudctl.drivers.libvirt.hypervisor import Config
    from cloudctl.drivers.libvirt.storage import Storage

    connections = [libvirt.open(each.uri) for each in hosts.values()]
    uris = {name: each.uri for name, each in hosts.items()}

    def prepare(number: int, connection: Any) -> None:
        config = Config(hosts=uris, directory=str(tmp_path / f"disks{number}"), pool=f"race{number}")
        together.wait()
        Storage(config, connection).prepare()

    together = Barrier(len(connections))
    with ThreadPoolExecutor(len(connections)) as threads:
        for number in range(60):
            list(threads.map(partial(prepare, number), connections))
    for connection in connections:
        connection.close()
    for daemon in hosts.values():
        daemon.empty()


def qcow2_over(path: str) -> bytes:
    """The start of a qcow2 that names another file, as a guest can write it to a raw disk."""
    name = path.encode()
    header = struct.pack(">4sIQIIQIIQQIIQ", b"QFI\xfb", 2, 72, len(name), 16, 1 << 20, 0, 1, 1 << 17, 1 << 16, 1, 0, 0)
    return header + name


@pytest.mark.parametrize("is_on", [True, False])
async def test_what_a_guest_writes_to_its_disk_leads_to_no_other_file(
    make: Any, hosts: dict[str, Libvirtd], tmp_path: Path, is_on: bool
) -> None:
    """libvirt takes a file for what its first bytes say that it is."""
    driver = make()
    other = evolve(tiny(tmp_path, "west"), id="6f1c0f5e-0000-4000-8000-0000000000dd")
    await driver.ensure_defined(other)
    others = hosts["west"].inside(LOCAL) / f"{other.id}.root"
    before = others.read_bytes()
    spec = tiny(tmp_path, swap_mib=1)
    await started(driver, spec)
    with (hosts["east"].inside(LOCAL) / f"{ID}.swap").open("r+b") as file:
        file.write(qcow2_over(f"{LOCAL}/{other.id}.root"))
    try:
        if is_on:
            await driver.ensure_migrated(evolve(spec, host="west"))
        else:
            await driver.ensure_stopped(ID, 0.0)
            await driver.ensure_defined(evolve(spec, host="west"))
    finally:
        assert others.read_bytes() == before
    assert (await driver.observe(ID)).host == "west"
    for each in (ID, other.id):
        await driver.ensure_absent(each)
    await driver.close()
