"""What a guest's process may do: next to nothing, whatever its guest makes of it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from attrs import evolve

from cloudctl.drivers import access_lists, accounts
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.nbd import driver as nbd
from cloudctl.drivers.nbd.disks import ServedDisks
from cloudctl.drivers.qcow2.volumes import FileVolumes
from cloudctl.drivers.qemu import doors, processes, slots
from cloudctl.drivers.qemu.hypervisor import Qemu
from cloudctl.drivers.qemu.qmp import Refused
from cloudctl.drivers.qemu.records import Record
from cloudctl.drivers.specs import GuestSpec, Power, VolumeConnection, VolumeSpec
from tests.drivers.qcow2 import live
from tests.drivers.qemu import real
from tests.drivers.qemu.real import ID, VOLUME, booted, driver_in, soon, tiny, volume
from tests.there import there

OTHER = "6f1c0f5e-0000-4000-8000-00000000000b"


def pid(driver: Qemu) -> int | None:
    return processes.find(driver.records.files(ID).pid)


async def run(driver: Qemu, spec: GuestSpec) -> None:
    await driver.ensure_defined(spec)
    await driver.ensure_running(spec.id)


def own_descriptors() -> set[str]:
    """What this process has open; the list itself is not there any more when it is looked at."""
    return {os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}


def rights(thread: Path) -> dict[str, list[str]]:
    """What the kernel says of it."""
    lines = (thread / "status").read_text().splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.parametrize(
    ("user", "number", "capabilities"),
    # As root it can search folders and open its interface; nothing else of what root may.
    [("", None, 0), ("65500", 65500, 0), ("root", 0, 1 << 2 | 1 << 12)],
)
async def test_a_guests_process_is_of_a_user_without_rights(
    tmp_path: Path, runtime_dir: Path, user: str, number: int | None, capabilities: int
) -> None:
    driver = driver_in(tmp_path, runtime_dir, user=user)
    await run(driver, tiny(tmp_path, volumes=(volume(tmp_path),), ports=(real.port(tmp_path),)))
    if number is None:
        number = processes.owner(driver.records.files(ID).pid)
        assert number in accounts.numbers(accounts.GUESTS)
    process = Path("/proc", str(pid(driver)))
    threads = [rights(each) for each in (process / "task").iterdir()]
    assert len(threads) > 1
    for found in threads:
        assert found["Uid"] == found["Gid"] == [str(number)] * 4
        assert set(found["Groups"]) <= {str(number)}
        assert [int(found[name][0], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")] == [
            capabilities, capabilities, 0, 0,
        ]  # fmt: skip
        assert (found["NoNewPrivs"], found["Seccomp"]) == (["1"], ["2"])
    # The kernel keeps other processes of that user away from what it has open: of other guests.
    assert (process / "fd").stat().st_uid == 0
    await driver.close()


async def test_a_guests_process_opens_nothing_by_itself(tmp_path: Path, runtime_dir: Path) -> None:
    """Not even its own disk, by a path that is right."""
    driver = driver_in(tmp_path, runtime_dir)
    await driver.check()
    await run(driver, tiny(tmp_path))
    monitor, files = await driver.monitors.get(ID, driver.records.files(ID)), driver.records.files(ID)
    for path in (files.root, files.record, files.pid, Path("/etc/shadow")):
        block = {"driver": "file", "node-name": "seen", "filename": str(path), "read-only": True, "locking": "off"}
        with pytest.raises(Refused, match="Permission denied"):
            await monitor.execute("blockdev-add", block)
    for path in (files.qmp, files.serial, files.vnc, files.pid, files.directory):
        assert (path.stat().st_uid, path.stat().st_gid) == (0, 0)
    found = runtime_dir.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (0, 0, 0o711)
    await driver.close()


async def test_a_guests_process_depends_on_nobody(tmp_path: Path, runtime_dir: Path) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    await run(driver, tiny(tmp_path))
    number = there(pid(driver))
    assert os.getsid(number) == number
    # What it says after its start is read by nobody, so it cannot fill anything.
    assert [os.readlink(f"/proc/{number}/fd/{each}") for each in (0, 1)] == [os.devnull] * 2
    complaints = os.readlink(f"/proc/{number}/fd/2")
    assert await soon(lambda: complaints not in own_descriptors())
    await driver.close()


async def test_a_guest_of_root_goes_on_until_it_is_started_anew(tmp_path: Path, runtime_dir: Path) -> None:
    """As one that a release before this one has started, which knew no other user."""
    first = driver_in(tmp_path, runtime_dir, user="root")
    await run(first, tiny(tmp_path))
    await booted(first)
    await first.close()
    runtime_dir.chmod(0o700)
    driver = driver_in(tmp_path, runtime_dir)
    await driver.check()
    assert (await driver.observe(ID)).power is Power.RUNNING
    await driver.ensure_volume_attached(ID, volume(tmp_path))
    await driver.ensure_port_attached(ID, real.port(tmp_path))
    await driver.ensure_captured(ID, str(tmp_path / "captured"))
    await driver.ensure_suspended(ID)
    assert (await driver.observe(ID)).power is Power.SUSPENDED
    assert pid(driver) is None
    await driver.ensure_running(ID)
    state = await driver.observe(ID)
    assert (state.power, state.volume_ids, state.port_ids) == (Power.RUNNING, (VOLUME,), (real.PORT,))
    assert rights(Path("/proc", str(pid(driver))))["Uid"] == [str(there(driver.records.get(ID)).uid)] * 4
    await driver.ensure_volume_detached(ID, VOLUME)
    await driver.ensure_port_detached(ID, real.PORT)
    assert (await driver.console_output(ID)).count("Linux version") == 1
    await driver.close()


def served(directory: Path, runtime_dir: Path, driver: Qemu) -> FileVolumes:
    """Volumes of storage daemons, for guests of that driver."""
    resources = evolve(driver.resources, name="nbd", state_dir=directory / "volumes")
    return nbd.create(nbd.Config(runtime_dir=runtime_dir), resources)


async def test_who_may_use_a_volume_may_when_its_storage_daemon_is_started_anew_and_until_it_is_detached(
    tmp_path: Path, runtime_dir: Path
) -> None:
    driver = driver_in(tmp_path, runtime_dir)
    backend = served(tmp_path, runtime_dir, driver)
    await backend.check()
    await backend.ensure_created(VolumeSpec("v1", 1))
    connection = VolumeConnection("v1", await backend.connect("v1", real.HOST))
    spec = tiny(tmp_path)
    for id in (ID, OTHER):
        await run(driver, evolve(spec, id=id))
        await booted(driver, id)
        await driver.ensure_volume_attached(id, connection)
    door, users = Path(connection.info["data"]["server"]["path"]), {}
    for id in (ID, OTHER):
        users[id] = there(processes.owner(driver.records.files(id).pid))
    assert access_lists.users(door) == set(users.values())
    assert isinstance(backend.disks, ServedDisks)
    daemon = (found := backend.disks.of(there(backend.records.volume("v1")))).daemon
    before = daemon.sockets.pid.read_text()
    os.kill(int(before), signal.SIGKILL)
    assert await soon(lambda: daemon.is_watched and daemon.sockets.pid.read_text() != before)
    async with found.exclusive():
        assert access_lists.users(door) == set(users.values())
    for place, id in enumerate((ID, OTHER)):
        monitor = await driver.monitors.get(id, driver.records.files(id))
        for work in (f"write -P {place + 1} {place}M 1M", "flush"):
            line = f'qemu-io -d /machine/peripheral/{slots.volume("v1")}/virtio-backend "{work}"'
            await monitor.execute("human-monitor-command", {"command-line": line})
        assert live.holds(backend.records.disk("v1"), place + 1, place * live.MIB)
    await driver.ensure_volume_detached(ID, "v1")
    assert access_lists.users(door) == {users[OTHER]}
    # One that is off lets go of what it is defined without.
    await driver.ensure_stopped(OTHER, 0)
    await driver.ensure_defined(evolve(spec, id=OTHER))
    assert access_lists.users(door) == set()
    await backend.disconnect("v1", real.HOST)
    assert not door.exists()
    await backend.close()
    await driver.close()


def test_a_user_that_guests_have_in_common_is_let_in_as_long_as_one_of_them_has_the_volume(
    tmp_path: Path, runtime_dir: Path
) -> None:
    driver, door = driver_in(tmp_path, runtime_dir, user="65500"), tmp_path / "door"
    door.touch()
    data = {"server": {"type": "unix", "path": str(door)}, "export": "v1"}
    bare = tiny(tmp_path)
    spec = evolve(bare, volumes=(VolumeConnection("v1", {"driver_volume_type": "nbd", "data": data}),))
    one, other = Record(spec), Record(evolve(spec, id=OTHER))
    for each in (one, other):
        driver.records.put(each)
        doors.let_in(spec.volumes, 65500)
    driver.machines.keep_out(one, bare)
    assert access_lists.users(door) == {65500}
    driver.records.remove(ID)
    driver.machines.keep_out(other, evolve(bare, id=OTHER))
    assert access_lists.users(door) == set()


async def test_who_gets_out_of_a_guest_gets_at_no_other(tmp_path: Path, runtime_dir: Path) -> None:
    """Whoever has a guest's process in his hands: he ends no other, and opens neither its disks nor its volumes."""
    driver = driver_in(tmp_path, runtime_dir)
    backend = served(tmp_path, runtime_dir, driver)
    await backend.check()
    has = {ID: ("one", "shared"), OTHER: ("two", "shared")}
    connected = {}
    for name in ("one", "two", "shared"):
        await backend.ensure_created(VolumeSpec(name, 1))
        connected[name] = VolumeConnection(name, await backend.connect(name, real.HOST))
    for id, names in has.items():
        spec = evolve(tiny(tmp_path, volumes=[connected[each] for each in names[:1]]), id=id)
        await run(driver, spec)
        await driver.ensure_volume_attached(id, connected["shared"])
    files = {id: driver.records.files(id) for id in has}
    users = {id: there(processes.owner(files[id].pid)) for id in has}
    assert len({*users.values(), 0}) == 3

    def can(user: int, *words: object) -> bool:
        done = subprocess.run(
            [str(each) for each in words], user=user, group=user, extra_groups=[], capture_output=True
        )
        return done.returncode == 0

    def reaches(user: int) -> set[str]:
        told = {name: each.info["data"] for name, each in connected.items()}
        urls = {name: f"nbd+unix:///{each['export']}?socket={each['server']['path']}" for name, each in told.items()}
        return {name for name, url in urls.items() if can(user, "qemu-img", "info", url)}

    for id, user in users.items():
        (other,) = set(has) - {id}
        assert reaches(user) == set(has[id])
        assert can(user, "kill", "-0", processes.find(files[id].pid))
        assert not can(user, "kill", "-0", processes.find(files[other].pid))
        for file in (*files[id].directory.iterdir(), *files[other].directory.iterdir()):
            assert not can(user, "test", "-r", file) and not can(user, "test", "-w", file)
        # Who may not write to a socket does not connect to it.
        for socket in (files[other].qmp, files[other].serial, files[other].vnc):
            assert not can(user, "test", "-w", socket)
    # What works on a volume is of a user of its own, too.
    pids = [int(file.read_text()) for file in runtime_dir.glob("volume-*.pid")]
    owners = {rights(Path("/proc", str(each)))["Uid"][0] for each in pids}
    assert len(owners) == 3 and not owners & {"0", *map(str, users.values())}
    for each in pids:
        found = rights(Path("/proc", str(each)))
        assert [found[name][0] for name in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb")] == ["0" * 16] * 5
    await backend.close()
    await driver.close()


async def test_a_disk_that_says_that_it_needs_anothers_file_is_not_started(tmp_path: Path, runtime_dir: Path) -> None:
    """Who has a guest's process in his hands writes what he likes to its disk; the next one begins as root's."""
    driver = driver_in(tmp_path, runtime_dir)
    await run(driver, tiny(tmp_path))
    await driver.ensure_stopped(ID, 0)
    root, secret = driver.records.files(ID).root, tmp_path / "images" / "secret.qcow2"
    for bad in (("-b", str(secret)), ("-b", ""), ("-b", str(driver.disks.cache / "another.qcow2"))):
        subprocess.run(["qemu-img", "rebase", "-u", "-f", "qcow2", "-F", "qcow2", *bad, root], check=True)
        with pytest.raises(DriverError, match="not its image"):
            await driver.ensure_running(ID)
        with pytest.raises(DriverError, match="not its image"):
            await driver.ensure_captured(ID, str(tmp_path / "captured"))
    image = there(there(driver.records.get(ID)).spec.image)
    subprocess.run(
        ["qemu-img", "rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b", driver.disks.cached(image), root], check=True
    )
    head = bytearray(root.read_bytes())
    head[79] |= 1 << 2  # its data are in another file, it says
    root.write_bytes(head)
    with pytest.raises(DriverError, match="not its image"):
        await driver.ensure_running(ID)
    await driver.close()
