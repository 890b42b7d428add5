"""Which calls are on which connection; the connections are played."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from queue import Queue
from threading import Barrier, Semaphore, Thread
from typing import Any

import pytest
from attrs import define, field
from twisted.internet import task
from twisted.internet.defer import Deferred, ensureDeferred, gatherResults
from twisted.internet.task import Clock
from twisted.internet.threads import deferToThread
from twisted.logger import capturedLogs, formatEvent

from cloudctl.drivers.errors import HostDown, Unreachable, Unusable
from cloudctl.drivers.specs import DriverResources
from tests.drivers.libvirt import pki
from tests.drivers.qcow2.live import demand

libvirt: Any = pytest.importorskip("libvirt")

from cloudctl.drivers.libvirt.connections import HostConnection  # noqa: E402 - after the skip
from cloudctl.drivers.libvirt.options import Config  # noqa: E402 - after the skip


@define(eq=False)
class Played:
    alive: bool = True

    def isAlive(self) -> bool:
        return self.alive

    def close(self) -> None:
        self.alive = False


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Played]:
    """Those that were opened."""
    found: list[Played] = []

    def opened(*_: object) -> Played:
        found.append(Played())
        return found[-1]

    monkeypatch.setattr(HostConnection, "_open", opened)
    monkeypatch.setattr(HostConnection, "_plain", opened)
    return found


def a_host() -> HostConnection:
    from twisted.internet import reactor

    uri = "qemu+tls://east/system"
    return HostConnection("east", uri, Config(hosts={"east": uri}), reactor, reactor)


async def test_calls_at_the_same_time_have_a_connection_each_which_later_ones_use_again(made: list[Played]) -> None:
    host, together = a_host(), Barrier(3, timeout=30)

    def call(connection: Any) -> Any:
        together.wait()
        return connection

    used = await gatherResults([ensureDeferred(host.run(call)) for _ in range(3)])
    assert len({id(each) for each in used}) == len(made) == 3
    assert await host.run(lambda connection: connection) in made
    assert len(made) == 3
    await host.close()
    assert [each.alive for each in made] == [False] * 3


async def test_a_call_that_no_thread_could_be_started_for_occupies_no_place(
    made: list[Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = a_host()
    await host.run(lambda connection: connection)

    def fail(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", fail)
    for _ in range(host.config.calls):
        with pytest.raises(Unreachable, match="can't start new thread"):
            await host.run(lambda connection: connection)
    monkeypatch.undo()
    assert await host.run_within(30.0, lambda connection: connection) in made
    await host.close()


async def test_of_a_connection_that_broke_nothing_is_used_again(made: list[Played]) -> None:
    host = a_host()

    def broken(connection: Any) -> None:
        connection.alive = False
        raise libvirt.libvirtError("the cable is out")

    with pytest.raises(HostDown):
        await host.run(broken)
    assert not host.is_open
    assert await host.run(lambda connection: connection) is made[1]

    def refused(_connection: Any) -> None:
        raise libvirt.libvirtError("no such guest")

    with pytest.raises(libvirt.libvirtError, match="no such guest"):
        await host.run(refused)
    assert await host.run(lambda connection: connection) is made[1]
    await host.close()


async def test_who_lends_one_to_a_call_of_another_host_tells_which_of_both_is_down(made: list[Played]) -> None:
    east, west = a_host(), a_host()
    await west.opened()

    def broken(connection: Any) -> None:
        connection.alive = False
        raise libvirt.libvirtError("the cable is out")

    with pytest.raises(HostDown):
        await east.run(lambda _mine: west.alone(broken))
    assert east.is_open
    for host in (east, west):
        await host.close()


@define(eq=False)
class Late:
    """A reactor that is behind: what threads hand to it waits until it `turns`."""

    handed: Queue[Any]

    def callFromThread(self, fn: Any, *args: Any) -> None:
        self.handed.put(partial(fn, *args))

    def turns(self) -> None:
        self.handed.get(timeout=60)()


@pytest.mark.parametrize("apart", [False, True])
async def test_a_connection_that_comes_after_its_caller_has_given_up_is_closed(
    made: list[Played], apart: bool, reactor: Any
) -> None:
    host, late, clock = a_host(), Late(Queue()), Clock()
    host.reactor, host.clock = late, clock
    if apart:
        waiting = ensureDeferred(host.opened())
        late.turns()
        await waiting
    asking = ensureDeferred(host.apart(lambda connection: connection) if apart else host.opened())
    while late.handed.empty():
        await task.deferLater(reactor, 0.001)
    clock.advance(60)
    with pytest.raises(Unreachable if apart else HostDown):
        await asking
    late.turns()
    late.turns()  # with the end of what closes it
    assert [each.alive for each in made] == ([True, False] if apart else [False])


async def test_certificates_that_are_not_there_are_told_before_the_start_with_their_place(tmp_path: Path) -> None:
    """The host would count as down, and the log would not say which file is missing."""
    from twisted.internet import reactor

    from cloudctl.drivers.libvirt.hypervisor import create

    demand("genisoimage")
    pki.make(there := tmp_path / "pki")
    hosts = {"east": f"qemu+tls://east/system?pkipath={there}", "here": "qemu:///system"}
    driver = create(Config(hosts), DriverResources(reactor, "libvirt", reactor, tmp_path))
    await driver.check()
    (there / "clientkey.pem").unlink()
    for told in (f"No such file or directory: '{there}/clientkey.pem'", f"{there}/clientkey.pem is not the key of"):
        with pytest.raises(Unusable, match=f"host east .*{told}"):
            await driver.check()
        (there / "clientkey.pem").write_text("no key")


async def test_why_a_connection_is_lost_is_said_in_words(made: list[Played]) -> None:
    host = a_host()
    await host.run(lambda connection: connection)
    with capturedLogs() as lines:
        # As libvirt's library calls it, in a thread of its own.
        host._on_close(None, libvirt.VIR_CONNECT_CLOSE_REASON_KEEPALIVE, made[0])
        while host.is_open:
            await task.deferLater(host.reactor, 0.01)
    told = [formatEvent(each) for each in lines]
    assert told == ["host east does not answer: the connection is lost: 3 keepalives without an answer"]


async def test_a_host_that_is_down_is_told_of_once_and_so_is_its_return(monkeypatch: pytest.MonkeyPatch) -> None:
    host, clock, troubles = a_host(), Clock(), ["Connection refused"] * 3

    def opened(*_: object) -> Played:
        if troubles:
            raise OSError(troubles.pop())
        return Played()

    monkeypatch.setattr(HostConnection, "_open", opened)
    host.clock = clock
    with capturedLogs() as lines:
        for _ in range(3):
            with pytest.raises(HostDown):
                await host.opened()
            clock.advance(host.config.retry_seconds)
        await host.opened()
    told = [formatEvent(each) for each in lines]
    assert told == ["host east does not answer: Connection refused", "host east answers again"]


@define(eq=False)
class Busy(Played):
    """A host with a guest that is moved away, and does not go off, for ever."""

    done: list[str] = field(factory=list)
    looked: Semaphore = field(factory=partial(Semaphore, 0))

    def lookupByName(self, _id: str) -> Busy:
        return self

    def isPersistent(self) -> int:
        return 1

    def isActive(self) -> int:
        self.looked.release()
        return 1

    def state(self) -> list[int]:
        return [libvirt.VIR_DOMAIN_RUNNING, 0]

    def jobStats(self, _flags: int) -> dict[str, int]:
        return {
            "type": libvirt.VIR_DOMAIN_JOB_UNBOUNDED,
            "operation": libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT,
        }

    def abortJob(self) -> None:
        self.done.append("aborted")

    def shutdown(self) -> None:
        self.done.append("asked")

    def destroy(self) -> None:
        self.done.append("cut")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("call", "done"), [("wait", []), ("abort", ["aborted"]), ("stop", ["asked"])])
async def test_what_waits_for_a_guest_ends_with_its_caller(
    monkeypatch: pytest.MonkeyPatch, call: str, done: list[str], late: bool
) -> None:
    """It kept its place until a migration ended that nobody awaited, or cut the power of a guest behind its back."""
    from cloudctl.drivers.libvirt import guests, migration

    host, busy, clock = a_host(), Busy(), Clock()
    monkeypatch.setattr(HostConnection, "_open", lambda *_: busy)
    await host.opened()
    host.clock = clock
    calls: dict[str, Any] = {
        "wait": migration.wait, "abort": migration.abort, "stop": partial(guests.stop, timeout=600.0)
    }  # fmt: skip
    working: Deferred[None] = ensureDeferred(host.run(calls[call], "a guest"))
    await deferToThread(busy.looked.acquire)
    if late:
        clock.advance(host.config.answer_timeout)
    else:
        working.cancel()
    with pytest.raises(Unreachable):
        await working
    # All places are free once the thread has ended.
    for _ in range(host.config.calls):
        await host._calls.acquire().addTimeout(60.0, host.reactor)
    assert set(busy.done) == set(done)
