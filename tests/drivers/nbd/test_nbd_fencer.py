"""The fencer `nbd`, with real storage daemons and clients."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from attrs import evolve
from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.internet.task import Clock, deferLater
from twisted.internet.threads import deferToThread

from cloudctl.drivers.boundary import call
from cloudctl.drivers.errors import Busy, Unreachable, Unusable
from cloudctl.drivers.nbd.fenced import Fenced, Turn, turn, turn_file
from cloudctl.drivers.nbd.fencer import Config, create
from cloudctl.drivers.specs import DriverResources, SnapshotSpec, VolumeSpec
from cloudctl.testing.faults import with_faults
from cloudctl.testing.fencer_suite import fencer_suite
from tests.drivers.nbd.test_nbd_volumes import pids
from tests.drivers.qcow2.live import MIB, demand, inside, run
from tests.live.process import free_port

HOST, OTHER = "compute-1", "compute-2"


def offered(runtime_dir: Path) -> set[str]:
    """What the daemons that run offer, as their clients see it."""
    found = set()
    for socket_file in runtime_dir.glob("*.nbd"):
        told = run("qemu-nbd", "--list", f"--socket={socket_file}", check=False)
        found |= {line.split("'")[1] for line in told.splitlines() if line.startswith(" export: ")}
    return found


async def settled(method: Any, *args: Any) -> Any:
    """As the task engine does: a daemon that has just died is no daemon yet."""
    from twisted.internet import reactor

    while True:
        try:
            return await method(*args)
        except (Busy, Unreachable) as error:
            if "is fenced" in str(error):
                raise
            await deferLater(reactor, 0.01)


def fencer(state: Path, runtime_dir: Path, **options: Any) -> Any:
    from twisted.internet import reactor

    config = Config(**{"directory": str(state), "runtime_dir": runtime_dir, "hosts": [HOST, OTHER], **options})
    return create(config, DriverResources(clock=reactor, name="nbd", reactor=reactor))


# -- the public suite

_volumes: list[Any] = []


def make(_directory: Path) -> Any:
    from twisted.internet import reactor

    (volumes, runtime_dir) = _volumes
    return with_faults(fencer(volumes.records.root, runtime_dir), reactor)


async def is_fenced() -> bool:
    (volumes, runtime_dir) = _volumes
    try:
        await settled(volumes.connect, "v1", HOST)
    except Unreachable:
        assert f"v1/{HOST}" not in offered(runtime_dir)
        return True
    assert f"v1/{HOST}" in offered(runtime_dir)
    return False


class TestNbdFencer(fencer_suite(make, is_fenced, HOST)):
    @pytest.fixture(autouse=True)
    def _a_volume(self, open_driver: Callable[..., Any], runtime_dir: Path) -> None:
        demand("qemu-nbd")

        async def served() -> None:
            volumes = await open_driver()
            _volumes[:] = [volumes, runtime_dir]
            await volumes.ensure_created(VolumeSpec("v1", 1))
            await volumes.connect("v1", HOST)

        pytest_twisted.blockon(ensureDeferred(served()))


# -- guests


async def test_a_guest_that_was_connected_writes_nothing_after_the_proof_and_others_go_on(
    open_driver: Callable[..., Any], client: Any, runtime_dir: Path, reactor: Any
) -> None:
    volumes = await open_driver()
    for id in ("v1", "v2"):
        await volumes.ensure_created(VolumeSpec(id, 1))
    lost = client(await volumes.connect("v1", HOST), 1)
    beside, elsewhere = client(await volumes.connect("v1", OTHER)), client(await volumes.connect("v2", OTHER))
    untouched = await pid_of(volumes, "v2")

    writing = deferToThread(lost.writes_on)
    await beside.write("7", MIB)
    evidence = await fencer(volumes.records.root, runtime_dir).ensure_fenced(HOST)
    assert evidence == f"{HOST} is offered none of the 2 volumes in {volumes.records.root}"
    assert await beside.write("8", 2 * MIB) == f"wrote {MIB}/{MIB} bytes at offset {2 * MIB}"
    found = await deferToThread(lambda: beside.says("read -v 0 16", 1))
    last = await writing
    assert last > 1, "it could write before"
    again = await deferToThread(lambda: client(connection(volumes, "v1", OTHER)).says("read -v 0 16", 1))
    assert found == again, "what it was about to write did not come to the disk after the proof"
    assert await elsewhere.write("9") == f"wrote {MIB}/{MIB} bytes at offset 0"
    assert await pid_of(volumes, "v2") == untouched, "who offers nothing to the host is left alone"


def connection(volumes: Any, id: str, host: str) -> Any:
    return volumes.disks.connection(volumes.records.volume(id), host)


async def pid_of(volumes: Any, id: str) -> int:
    return int(volumes.disks.of(volumes.records.volume(id)).daemon.sockets.pid.read_text())


async def test_a_volume_that_only_fenced_hosts_have_is_still_there(
    open_driver: Callable[..., Any], runtime_dir: Path
) -> None:
    volumes = await open_driver()
    await volumes.ensure_created(VolumeSpec("v1", 1))
    await volumes.connect("v1", HOST)
    driver = fencer(volumes.records.root, runtime_dir)
    await driver.ensure_fenced(HOST)
    await settled(volumes.ensure_snapshot, SnapshotSpec("s1", "v1"))
    await settled(volumes.ensure_extended, "v1", 2)
    assert inside(volumes.records.disk("v1")) == ["s1"]
    assert offered(runtime_dir) == set()
    with pytest.raises(Unreachable, match=f"{HOST}, which is fenced"):
        await volumes.connect("v1", HOST)
    await volumes.connect("v1", OTHER)
    assert offered(runtime_dir) == {f"v1/{OTHER}"}
    await volumes.disconnect("v1", HOST)
    await volumes.disconnect("v1", OTHER)
    assert list(runtime_dir.iterdir()) == []


async def test_the_next_process_that_serves_volumes_offers_nothing_to_a_fenced_host(
    open_driver: Callable[..., Any], runtime_dir: Path
) -> None:
    volumes = await open_driver()
    await volumes.ensure_created(VolumeSpec("v1", 1))
    await gatherResults([call(volumes.connect, "v1", host) for host in (HOST, OTHER)])
    # Nobody looks after the daemon now, so nobody starts it again.
    await volumes.close()
    driver = fencer(volumes.records.root, runtime_dir)
    await driver.ensure_fenced(HOST)
    assert offered(runtime_dir) == set()
    following = await open_driver()
    await settled(following.connect, "v1", OTHER)
    assert offered(runtime_dir) == {f"v1/{OTHER}"}
    await driver.ensure_unfenced(HOST)
    await following.connect("v1", HOST)
    assert offered(runtime_dir) == {f"v1/{HOST}", f"v1/{OTHER}"}


async def test_volumes_on_tcp(open_driver: Callable[..., Any], client: Any, runtime_dir: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    volumes = await open_driver(listen=listen)
    await volumes.ensure_created(VolumeSpec("v1", 1))
    told = await volumes.connect("v1", HOST)
    await volumes.connect("v1", OTHER)
    await fencer(volumes.records.root, runtime_dir, listen=listen).ensure_fenced(HOST)
    assert await client(await settled(volumes.connect, "v1", OTHER)).holds(0)
    server = told["data"]["server"]
    refused = run("qemu-img", "info", f"nbd://{server['host']}:{server['port']}/v1/{HOST}", check=False)
    assert "not available" in refused
    # A process of another machine, or of another `runtime_dir`, cannot be ended from here.
    with pytest.raises(Unreachable, match="is offered to compute-2 by a process that is not found here"):
        await fencer(volumes.records.root, runtime_dir / "else", listen=listen).ensure_fenced(OTHER)


# -- who does not answer, and who has not finished


async def test_a_daemon_that_does_not_say_what_it_offers_is_ended(
    open_driver: Callable[..., Any], runtime_dir: Path
) -> None:
    volumes = await open_driver()
    await volumes.ensure_created(VolumeSpec("v1", 1))
    await volumes.connect("v1", HOST)
    before = await pid_of(volumes, "v1")
    os.kill(before, signal.SIGSTOP)
    await fencer(volumes.records.root, runtime_dir, answer_timeout=1.0).ensure_fenced(HOST)
    await settled(volumes.connect, "v1", OTHER)
    assert before not in pids(runtime_dir)
    assert offered(runtime_dir) == {f"v1/{OTHER}"}


async def test_one_who_began_to_withdraw_and_never_said_that_it_was_done_is_not_believed(
    open_driver: Callable[..., Any], runtime_dir: Path
) -> None:
    volumes = await open_driver()
    await volumes.ensure_created(VolumeSpec("v1", 1))
    await volumes.connect("v1", OTHER)
    before = await pid_of(volumes, "v1")
    driver = fencer(volumes.records.root, runtime_dir)
    await driver.ensure_fenced(HOST)
    assert await pid_of(volumes, "v1") == before
    file = turn_file(volumes.records, volumes.records.volume("v1"))
    os.truncate(file, 1)
    await driver.ensure_fenced(HOST)
    await settled(volumes.connect, "v1", OTHER)
    assert await pid_of(volumes, "v1") != before
    assert file.stat().st_size == 0


async def test_an_end_without_a_pid_is_an_end_all_the_same(open_driver: Callable[..., Any], runtime_dir: Path) -> None:
    """Who starts a daemon writes its number down when it answers, and may have been killed before."""
    volumes = await open_driver()
    await volumes.ensure_created(VolumeSpec("v1", 1))
    await volumes.connect("v1", HOST)
    before = await pid_of(volumes, "v1")
    volumes.disks.of(volumes.records.volume("v1")).daemon.sockets.pid.write_text(str(os.getpid()))
    await fencer(volumes.records.root, runtime_dir).ensure_fenced(HOST)
    with pytest.raises(ProcessLookupError):
        while True:
            os.kill(before, 0)
            os.waitpid(before, os.WNOHANG)


async def test_a_disconnection_is_noted_until_nothing_is_carried_out_any_more(
    open_driver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = await open_driver()
    await volumes.ensure_created(VolumeSpec("v1", 1))
    await gatherResults([call(volumes.connect, "v1", host) for host in (HOST, OTHER)])
    served = volumes.disks.of(volumes.records.volume("v1"))
    file, seen = turn_file(volumes.records, volumes.records.volume("v1")), []
    tell = served.daemon.tell

    async def telling(command: str, *args: Any, **kwargs: Any) -> Any:
        seen.append((command, file.stat().st_size))
        return await tell(command, *args, **kwargs)

    monkeypatch.setattr(type(served.daemon), "tell", lambda _self, *args, **kwargs: telling(*args, **kwargs))
    await volumes.disconnect("v1", HOST)
    assert seen == [("block-export-del", 1)]
    assert file.stat().st_size == 0


# -- kill -9

DIES = """
import os, signal, sys
from pathlib import Path
from twisted.internet import reactor
from twisted.internet.defer import ensureDeferred
from cloudctl.drivers.nbd import {module} as module
from cloudctl.drivers.nbd.{of} import Config, create
from cloudctl.drivers.specs import DriverResources

found = {owner}
right = getattr(found, {name!r})

def dies(*args, **kwargs):
    if {after}:
        right(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(found, {name!r}, dies)
config = Config(directory=sys.argv[1], runtime_dir=Path(sys.argv[2]), **{options})
driver = create(config, DriverResources(clock=reactor, name="nbd", reactor=reactor))

async def go():
    await driver.check()
    await driver.{call}

ensureDeferred(go()).addErrback(lambda failure: (print(failure), os._exit(3)))
reactor.run()
"""


def dies(state: Path, runtime_dir: Path, **how: Any) -> Any:
    """In a process of its own, which kills itself there."""
    program = DIES.format(**{"owner": "module", "after": False, **how})
    words = [sys.executable, "-c", program, str(state), str(runtime_dir)]

    def ran() -> None:
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr

    return deferToThread(ran)


@pytest.mark.parametrize(
    "where",
    [
        {"module": "fenced", "name": "put_in_place"},
        {"module": "fenced", "name": "put_in_place", "after": True},
        {"module": "fencer", "name": "told_to_end"},
        {"module": "fencer", "name": "told_to_end", "after": True},
        {"module": "fenced", "owner": "module.Turn", "name": "note"},
    ],
    ids=["unmarked", "marked", "before the end", "after the end", "before it is noted"],
)
async def test_a_fencer_that_is_killed_is_gone_on_with(
    open_driver: Callable[..., Any], runtime_dir: Path, where: Any
) -> None:
    volumes = await open_driver()
    await volumes.ensure_created(VolumeSpec("v1", 1))
    await gatherResults([call(volumes.connect, "v1", host) for host in (HOST, OTHER)])
    root = volumes.records.root
    wishes = {"of": "fencer", "options": {"hosts": [HOST]}, "call": f"ensure_fenced({HOST!r})"}
    await dies(root, runtime_dir, **wishes, **where)
    await fencer(root, runtime_dir).ensure_fenced(HOST)
    assert f"v1/{HOST}" not in offered(runtime_dir)
    await settled(volumes.connect, "v1", OTHER)
    assert offered(runtime_dir) == {f"v1/{OTHER}"}


@pytest.mark.parametrize("name", ["exports", "export_name"], ids=["before the marks", "after the marks"])
async def test_one_who_is_killed_while_it_offers_a_volume_keeps_nobody_waiting(
    open_driver: Callable[..., Any], runtime_dir: Path, name: str
) -> None:
    volumes = await open_driver()
    await volumes.ensure_created(VolumeSpec("v1", 1))
    root = volumes.records.root
    await volumes.close()
    how = {"module": "served", "name": name, "of": "driver", "options": {}, "call": f"connect('v1', {HOST!r})"}
    await dies(root, runtime_dir, **how)
    await fencer(root, runtime_dir).ensure_fenced(HOST)
    following = await open_driver()
    await settled(following.connect, "v1", OTHER)
    assert offered(runtime_dir) == {f"v1/{OTHER}"}


# -- races


async def test_whoever_offers_volumes_meanwhile_offers_none_after_the_proof(
    open_driver: Callable[..., Any], runtime_dir: Path
) -> None:
    volumes = await open_driver()
    ids = [f"v{number}" for number in range(4)]
    for id in ids:
        await volumes.ensure_created(VolumeSpec(id, 1))
    driver = fencer(volumes.records.root, runtime_dir)
    for _ in range(3):
        connecting = [call(settled, volumes.connect, id, host) for id in ids for host in (HOST, OTHER)]
        for each in connecting:
            each.addErrback(lambda failure: failure.trap(Unreachable))
        fenced = await gatherResults([call(driver.ensure_fenced, HOST), call(driver.ensure_fenced, HOST)])
        assert len(set(fenced)) == 1
        seen = offered(runtime_dir)
        await gatherResults(connecting)
        later = offered(runtime_dir)
        assert {each for each in seen | later if each.endswith(HOST)} == set()
        assert later == {f"{id}/{OTHER}" for id in ids}
        await driver.ensure_unfenced(HOST)
        await gatherResults([call(settled, volumes.connect, id, HOST) for id in ids])
        assert offered(runtime_dir) == {f"{id}/{host}" for id in ids for host in (HOST, OTHER)}
        await gatherResults([call(volumes.disconnect, id, host) for id in ids for host in (HOST, OTHER)])


def test_one_at_a_time_has_its_turn_and_the_next_one_does_not_wait_for_ever(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "turn"
    told: list[Any] = []

    async def having(name: str, seconds: float) -> None:
        async with turn(file, clock, 5.0) as ours:
            assert isinstance(ours, Turn)
            told.append(name)
            await deferLater(clock, seconds)

    outcomes: list[Any] = []
    for name, seconds in (("first", 2.0), ("second", 9.0), ("third", 0.0)):
        ensureDeferred(having(name, seconds)).addBoth(outcomes.append)
    assert told == ["first"]
    clock.pump([0.01] * 300)
    assert told == ["first", "second"]
    clock.pump([0.01] * 300)
    assert told == ["first", "second"] and outcomes[1].check(Busy)


async def test_a_volume_that_is_gone_needs_no_turn(tmp_path: Path) -> None:
    async with turn(tmp_path / "gone" / "turn", Clock(), 1.0) as ours:
        assert ours is None


# -- marks


async def test_a_mark_is_of_one_host_whatever_it_is_called(tmp_path: Path, reactor: Any) -> None:
    fenced = Fenced(tmp_path, reactor)
    for name in ("../../evil", "compute-1", "x" * 255):
        assert not fenced.has(name)
        await fenced.mark(name)
        await fenced.mark(name)
        assert fenced.has(name) and not fenced.has(f"{name}0")
    assert [each.name for each in tmp_path.iterdir()] == ["fenced"]
    assert len(list((tmp_path / "fenced").iterdir())) == 3
    await fenced.unmark("../../evil")
    await fenced.unmark("../../evil")
    assert not fenced.has("../../evil") and fenced.has("compute-1")


async def test_who_cannot_see_the_marks_offers_nothing(open_driver: Callable[..., Any], runtime_dir: Path) -> None:
    volumes = await open_driver()
    await volumes.ensure_created(VolumeSpec("v1", 1))
    (volumes.records.root / "fenced").write_text("not a directory")
    with pytest.raises(Unreachable, match="cannot see whether compute-1 is fenced"):
        await volumes.connect("v1", HOST)
    assert offered(runtime_dir) == set()
    with pytest.raises(Unreachable, match="cannot mark compute-1 as fenced"):
        await fencer(volumes.records.root, runtime_dir).ensure_fenced(HOST)


async def test_who_cannot_have_a_turn_is_told_to_come_again(tmp_path: Path) -> None:
    (tmp_path / "turn").mkdir()
    with pytest.raises(Unreachable, match="whose turn"):
        async with turn(tmp_path / "turn", Clock(), 1.0):
            raise AssertionError("it has one")


async def test_a_directory_that_is_none_of_volumes_proves_nothing(tmp_path: Path, runtime_dir: Path) -> None:
    driver = fencer(tmp_path, runtime_dir)
    with pytest.raises(Unusable, match="no directory of volumes"):
        await driver.check()
    with pytest.raises(Unreachable, match="no directory of volumes"):
        await driver.ensure_fenced(HOST)
    assert list(tmp_path.iterdir()) == []


def test_without_a_directory_it_is_that_of_the_volume_driver(tmp_path: Path, reactor: Any) -> None:
    resources = DriverResources(
        clock=reactor, name="nbd", reactor=reactor, state_dir=tmp_path / "drivers" / "fencer" / "nbd"
    )

    def root(config: Config) -> Path:
        (backend,) = create(config, resources).backends
        return backend.records.root

    assert root(Config()) == tmp_path / "drivers" / "volume" / "nbd"
    assert root(evolve(Config(), directory=str(tmp_path))) == tmp_path
