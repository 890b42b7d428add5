"""The parts of the driver that need no QEMU: processes, consoles, records, swap, the host."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import evolve
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from cloudctl.drivers.errors import DriverError, Unusable
from cloudctl.drivers.interfaces import ISerialConsole, IVncConsole
from cloudctl.drivers.libvirt.options import Config as LibvirtConfig
from cloudctl.drivers.programs import Programs
from cloudctl.drivers.qemu import console, disks, host, hypervisor, processes
from cloudctl.drivers.qemu.hypervisor import Config, create
from cloudctl.drivers.qemu.records import Record, Records
from cloudctl.drivers.specs import (
    DriverResources,
    GuestSpec,
    ImageSource,
    NetworkSpec,
    PortSpec,
    Power,
    SubnetSpec,
    VolumeConnection,
)
from cloudctl.errors import ConfigError
from cloudctl.options import structure

# -- processes


@pytest.fixture
def pid_file(tmp_path: Path) -> Iterator[Path]:
    """Of a process that has the file's path among its arguments, as a guest's QEMU has."""
    path = tmp_path / "guest.pid"
    code = "print(flush=True); import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, "-pidfile", str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # from now on its arguments are there to be seen
        path.write_text(f"{process.pid}\n")
        yield path
        process.kill()


def test_a_process_is_found_by_its_pid_file(pid_file: Path) -> None:
    assert processes.find(pid_file) == int(pid_file.read_text())


def test_a_number_that_is_somebody_elses_by_now_is_no_process(pid_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pid"
    other.write_text(pid_file.read_text())
    assert processes.find(other) is None
    processes.kill(other)
    assert processes.find(pid_file) is not None, "it was not its own"


@pytest.mark.parametrize("content", ["", "junk", "999999999", None])
def test_a_useless_pid_file_is_no_process(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "guest.pid"
    if content is not None:
        path.write_text(content)
    assert processes.find(path) is None


def test_a_dead_child_that_nobody_has_waited_for_is_no_process(tmp_path: Path) -> None:
    path = tmp_path / "guest.pid"
    process = subprocess.Popen([sys.executable, "-c", "", "-pidfile", str(path)])
    path.write_text(str(process.pid))
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert processes.find(path) is None
    process.wait()


async def test_the_end_of_a_process_is_waited_for(pid_file: Path) -> None:
    from twisted.internet import reactor

    assert not await processes.ended(reactor, pid_file, 0.05)
    processes.kill(pid_file)
    assert await processes.ended(reactor, pid_file, 60.0)


# -- consoles


def test_the_last_lines_of_a_console(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert console.tail(log, None, 100) == ""
    log.write_bytes(b"one\r\ntwo\r\n\xff three")
    assert console.tail(log, None, 100) == "one\ntwo\n\ufffd three"
    assert [console.tail(log, lines, 100) for lines in (0, 1, 9)] == ["", "\ufffd three", "one\ntwo\n\ufffd three"]
    assert console.tail(log, None, 5) == "three"


def test_a_console_is_shortened_under_the_hands_of_its_writer(tmp_path: Path) -> None:
    log = tmp_path / "log"
    console.shorten(log, 10)
    with log.open("ab", buffering=0) as writer:
        writer.write(b"a" * 20)
        console.shorten(log, 10)
        assert log.read_bytes() == b"a" * 20
        writer.write(b"b" * 5)
        console.shorten(log, 10)
        writer.write(b"c")
        assert log.read_bytes() == b"aaaaabbbbbc"


async def test_consoles_are_kept_short_though_they_could_once_not_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    config = Config(hosts={"here": ""}, runtime_dir=tmp_path / "run", console_kib=1)
    driver = create(config, DriverResources(clock, "qemu", object(), tmp_path / "state"))
    await driver.watch_guests(lambda _: None)

    def unseen(_: Records) -> list[str]:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Records, "ids", unseen)
        clock.advance(hypervisor.TIDY_SECONDS)
    driver.records.put(Record(SPEC))
    log = driver.records.files(SPEC.id).console
    log.write_bytes(bytes(4096))
    clock.advance(hypervisor.TIDY_SECONDS)
    assert log.stat().st_size == 1024
    await driver.close()


# -- records

SPEC = GuestSpec(
    "an/odd id",
    "Straße 🦄",
    "here",
    vcpus=1,
    memory_mib=64,
    disk_gib=1,
    image=ImageSource("i", "/i", properties={"a": "b"}),
    ports=(PortSpec("p", "n", "fa:16:3e:00:00:01", address_pairs=(("192.0.2.0/24", "fa:16:3e:00:00:02"),)),),
    volumes=(VolumeConnection("v", {"driver_volume_type": "nbd", "data": {"server": {"type": "unix"}}}),),
    metadata={"ключ": "värde"},
    networks=(NetworkSpec("n", subnets=(SubnetSpec("s", "192.0.2.0/24"),)),),
)
RECORD = Record(
    SPEC, Power.SUSPENDED, {"volume-v": 5}, "token", True, True, ImageSource("r", None), base=ImageSource("b", None)
)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    records = Records(tmp_path, tmp_path / "run")
    assert (records.get(SPEC.id), records.ids()) == (None, [])
    records.put(RECORD)
    assert (records.get(SPEC.id), records.ids()) == (RECORD, [SPEC.id])
    assert records.files(SPEC.id).record.stat().st_mode & 0o077 == 0, "it holds the admin password"
    records.remove(SPEC.id)
    records.remove(SPEC.id)
    assert (records.get(SPEC.id), records.ids()) == (None, [])


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    records = Records(tmp_path, tmp_path / "run")
    records.put(RECORD)
    records.files(SPEC.id).record.write_text('{"spec": 1}')
    with pytest.raises(DriverError, match=r"guest\.json is damaged"):
        records.get(SPEC.id)


def test_sockets_have_room_in_their_address_and_differ_between_drivers(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    one, two = (Records(each, Path("/run/cloudctl")).files(SPEC.id) for each in (long, tmp_path))
    assert len(bytes(one.serial)) < 108
    assert one.qmp != two.qmp


@pytest.mark.parametrize("age", [0.0, 100.0])
def test_half_an_image_whose_maker_was_killed_is_swept_in_time(tmp_path: Path, age: float) -> None:
    none: Any = None  # no program is started
    made = disks.Disks(Programs(none, Clock()), None, tmp_path, keep_seconds=50.0, copy_timeout=60.0)
    half = tmp_path / "image.qcow2.new"
    half.touch()
    os.utime(half, (time.time() - age,) * 2)
    made.sweep(["image"])
    assert half.exists(), "somebody may be at it"
    made.sweep([])
    assert half.exists() == (age == 0)


async def test_a_copy_that_qemu_img_makes_has_as_long_as_configured(tmp_path: Path) -> None:
    given: list[float] = []

    class Noting:
        dry_run = False

        async def change(self, *arguments: Any, timeout: float, **_: Any) -> None:
            given.append(timeout)

    driver = create(Config(copy_timeout=7200.0), DriverResources(Clock(), "qemu", None, tmp_path))
    made = driver.machines.disks
    made.programs = cast(Any, Noting())
    await made.copy(tmp_path / "root", None, tmp_path / "captured")
    assert given == [7200.0]


# -- the rest


def test_a_swap_area_has_the_header_that_the_kernel_looks_for(tmp_path: Path) -> None:
    path = tmp_path / "swap"
    disks.ensure_swap(path, 1 << 20)
    assert path.stat().st_size == 1 << 20
    data = path.read_bytes()
    assert data[4086:4096] == b"SWAPSPACE2"
    assert int.from_bytes(data[1028:1032], "little") == 255, "the last page"
    disks.ensure_swap(path, 1 << 20)
    assert path.read_bytes() == data
    disks.ensure_swap(path, 0)
    assert not path.exists()


def test_the_host_is_what_the_kernel_says(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemFree: 1 kB\nMemTotal:       24643200 kB\n")
    (tmp_path / "cpuinfo").write_text(
        "vendor_id\t: Some\nmodel name\t: One 3.0\nflags\t\t: fpu sse\n\nvendor_id\t: Other\n"
    )
    assert host.memory_mib(tmp_path) == 24065
    found = host.cpu_info(tmp_path)
    assert (found["vendor"], found["model"], found["features"]) == ("Some", "One 3.0", ["fpu", "sse"])
    assert host.version_number("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright") == 7_002_022


@pytest.mark.parametrize("vnc", [True, False])
def test_screens_are_offered_if_guests_have_some(tmp_path: Path, vnc: bool) -> None:
    driver = create(Config(vnc=vnc), DriverResources(Clock(), "qemu", None, tmp_path))
    assert IVncConsole.providedBy(driver) is vnc
    assert ISerialConsole.providedBy(driver)


@pytest.mark.parametrize("config", [Config, LibvirtConfig])
def test_a_pause_that_qemu_does_not_take_is_refused(config: Any) -> None:
    """Otherwise every live migration would fail."""
    assert structure(config, {"migration_pause": 2000.0}, "here").migration_pause == 2000.0
    with pytest.raises(ConfigError, match=r"here\.migration_pause"):
        structure(config, {"migration_pause": 2000.1}, "here")


def test_it_refuses_to_work_without_root_or_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hypervisor, "require", lambda *names: None)
    clock = Clock()
    resources = DriverResources(clock, "qemu", reactor=object(), state_dir=tmp_path)
    config = Config(runtime_dir=tmp_path / "run")
    checks = [
        (config, evolve(resources, state_dir=None), 0, "needs a state directory"),
        (config, resources, 1000, "must run as root"),
        (evolve(config, runtime_dir=Path("/proc/cloudctl")), resources, 0, "cannot create"),
        (evolve(config, runtime_dir=Path("/proc/" + "x" * 90)), resources, 0, "shorter path"),
    ]
    for options, given, user, words in checks:
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        with pytest.raises(Unusable, match=words):
            checking = create(options, given).check()
            checking.send(None)


def test_without_hosts_there_is_one_with_this_machines_name() -> None:
    assert Config().namespaces == {socket.gethostname(): ""}
    assert Config(hosts={"a": "ns"}).namespaces == {"a": "ns"}


@pytest.mark.parametrize("hosts", [{"": ""}, {"a b": ""}, {"a": "../x"}])
def test_hosts_must_have_names(hosts: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        Config(hosts=hosts)


async def test_a_process_has_not_ended_while_its_pid_file_is_held(tmp_path: Path) -> None:
    """The kernel takes its arguments first."""
    clock, pid_file = Clock(), tmp_path / "guest.pid"
    pid_file.write_text("0")
    with pid_file.open("rb+") as file:
        # Of the open file, as QEMU's: a lock of this process would be no hindrance to it.
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        ending = ensureDeferred(processes.ended(clock, pid_file, 5.0))
        clock.advance(1.0)
        assert not ending.called
    clock.advance(1.0)
    assert await ending
    with pid_file.open("rb+") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        ending = ensureDeferred(processes.ended(clock, pid_file, 5.0))
        clock.pump([1.0] * 6)
        assert not await ending
