"""Helpers for testing recoveries: machines that lose power, a watch over who writes, and the API that reports."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from attrs import define, field

from tests.live.cluster import HOSTS, Admin, Cluster, until
from tests.live.machine import Machine

PLUGIN = """
from cloudctl.drivers.maker import DriverMaker
plug = DriverMaker("fencer", "plug", "power_plug_of_the_tests", "Machines that are processes lose their power")
"""
# A file named after a machine holds its first process, and the one that holds that. While a file `stuck` exists the
# controller does not answer; `asked` names the last process that asked it. While a file `slow` exists it does not
# answer once the power is off; `off` names the machine.
MODULE = """
import os, signal, time
from pathlib import Path
from attrs import frozen
from twisted.internet.task import deferLater
from zope.interface import implementer
from cloudctl.drivers.errors import UnknownHost, Unreachable
from cloudctl.drivers.interfaces import IFencer

@frozen
class Config:
    directory: Path = Path("/nowhere")

def create(config, resources):
    return Plug(config.directory)

@implementer(IFencer)
class Plug:
    def __init__(self, directory):
        self.directory = directory

    async def check(self):
        pass

    async def close(self):
        pass

    async def ensure_fenced(self, host):
        file = self.directory / host
        if not file.exists():
            raise UnknownHost(host)
        (self.directory / "asked").write_text(str(os.getpid()))
        if (self.directory / "stuck").exists():
            raise Unreachable("the controller of the plugs does not answer")
        (self.directory / f"{host}.on").unlink(missing_ok=True)
        holder, first = file.read_text().split()
        try:
            os.kill(int(holder), signal.SIGKILL)
        except ProcessLookupError:
            pass
        end = time.monotonic() + 5
        while Path(f"/proc/{first}").exists():
            if time.monotonic() > end:
                raise Unreachable(f"process {first} is still there")
            time.sleep(0.01)
        (self.directory / "off").write_text(host)
        from twisted.internet import reactor
        while (self.directory / "slow").exists():
            await deferLater(reactor, 0.05)
        return f"process {first}, which was {host}, is gone"

    async def ensure_unfenced(self, host):
        (self.directory / f"{host}.on").touch()
"""
TOML = """
[driver.fencer.plug]
directory = "{plugs}"
[instance_ha]
unknown_silence = 3.0
unknown_interval = 2.0
fencing_interval = 1.0
"""


@define(eq=False)
class Plugs:
    """The power plugs of machines."""

    directory: Path

    @classmethod
    def made(cls, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Plugs:
        """Processes started from now on find the driver `plug`."""
        (directory / "twisted" / "plugins").mkdir(parents=True)
        (directory / "twisted" / "plugins" / "power_plug_plugin.py").write_text(PLUGIN)
        (directory / "power_plug_of_the_tests.py").write_text(MODULE)
        (directory / "plugs").mkdir()
        monkeypatch.setenv("PYTHONPATH", str(directory), prepend=os.pathsep)
        return cls(directory / "plugs")

    def put_in(self, cluster: Cluster, name: str) -> None:
        host = cluster.hosts[name]
        (self.directory / name).write_text(f"{host.process.pid} {host.first}")

    @contextmanager
    def being(self, what: str) -> Iterator[None]:
        """`stuck`, or `slow`: the caller waits for an answer, although the power is off by then."""
        file = self.directory / what
        file.touch()
        yield
        file.unlink()

    def is_off(self, name: str) -> bool:
        """Whether somebody switched it off, since `forget_off`."""
        file = self.directory / "off"
        return file.exists() and file.read_text() == name

    def forget_off(self) -> None:
        (self.directory / "off").unlink(missing_ok=True)

    def forget(self) -> None:
        """Forget who asked."""
        (self.directory / "asked").unlink(missing_ok=True)

    def was_asked(self) -> bool:
        """Whether any process asked since then."""
        return (self.directory / "asked").exists()

    def asked_by(self) -> str:
        """The last process that asked."""
        return (self.directory / "asked").read_text()

    def is_on(self, name: str) -> bool:
        return (self.directory / f"{name}.on").exists()


@define(eq=False)
class Writers:
    """Which QEMU processes have a guest's disk open, checked all the time, whatever any record says."""

    at_once: dict[str, int]  # guest → the most that were seen
    looks: int = 0
    end: Event = field(factory=Event)

    def look(self) -> None:
        while not self.end.wait(0.02):
            found = Counter(id for process in Path("/proc").glob("[0-9]*") for id in self._written(process))
            for id, count in found.items():
                self.at_once[id] = max(self.at_once[id], count)
            self.looks += 1

    def _written(self, process: Path) -> set[str]:
        """The guests whose disks it has open."""
        try:
            if not (process / "comm").read_text().startswith("qemu-system"):
                return set()
            files = {os.readlink(each).rpartition("/")[2] for each in (process / "fd").iterdir()}
        except OSError:
            return set()  # it has ended
        return {id for id in self.at_once if f"{id}.root" in files}


@contextmanager
def never_twice(*ids: str) -> Iterator[None]:
    writers = Writers(dict.fromkeys(ids, 0))
    looking = Thread(target=writers.look)
    looking.start()
    try:
        yield
    finally:
        writers.end.set()
        looking.join()
    assert set(writers.at_once.values()) == {1}, f"{writers.at_once} at once"
    print(f"one writer at most, in {writers.looks} looks")


@define(eq=False)
class Ha:
    """The instance-HA API, on whichever process is alive."""

    cluster: Cluster

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        process = next(each for each in self.cluster.processes if each.alive)
        newest = {"OpenStack-API-Version": "instance-ha 1.3"}
        status, answer = process.ask(method, f"/instance-ha/v1{path}", body, "admin", **newest)
        assert status < 400, (status, answer)
        return answer

    def watched(self, names: Sequence[str] = HOSTS) -> dict[str, str]:
        """Make all hosts members of a segment. Returns their ids there."""
        new = {"name": "rack", "recovery_method": "auto", "service_type": "COMPUTE"}
        segment = self.ask("POST", "/segments", {"segment": new})["segment"]["uuid"]
        path, ids = f"/segments/{segment}/hosts", {}
        for name in names:
            member = {"name": name, "type": "COMPUTE", "control_attributes": "SSH"}
            ids[name] = f"{path}/{self.ask('POST', path, {'host': member})['host']['uuid']}"
        return ids

    def open_of(self, name: str) -> dict[str, Any] | None:
        """The last notification about this host."""
        found = self.ask("GET", "/notifications?sort_key=created_at&sort_dir=desc")["notifications"]
        return next((each for each in found if each["hostname"] == name), None)

    def told(self, name: str, status: str) -> dict[str, Any]:
        def seen() -> dict[str, Any] | None:
            found = self.open_of(name)
            return found if found is not None and found["status"] == status else None

        found: dict[str, Any] = until(f"the notification of {name} is {status}", seen)
        return found


def comes_back(admin: Admin, ha: Ha, plugs: Plugs, member: str, machine: Machine, *guests: str) -> None:
    """It has power once an operator says so, and is used once it has no guests that now run elsewhere."""
    assert not plugs.is_on(machine.name) and service(admin, machine.name).status == "disabled"
    ha.ask("PUT", member, {"host": {"on_maintenance": False}})
    until(f"{machine.name} gets its power", lambda: plugs.is_on(machine.name))
    assert service(admin, machine.name).status == "disabled", "it has not been seen yet"
    starts_again(admin, ha.cluster, plugs, machine)
    for guest in guests:
        assert machine.name not in ha.cluster.having(guest), "it has a copy of a guest that runs elsewhere"


def service(admin: Admin, host: str) -> Any:
    return next(each for each in admin.cloud.compute.services() if each.host == host)


def starts_again(admin: Admin, cluster: Cluster, plugs: Plugs, machine: Machine) -> None:
    host = machine.name
    machine.mend()
    machine.start()
    machine.wait()
    cluster.hosts[host] = machine
    plugs.put_in(cluster, host)

    def is_used() -> bool:
        found = service(admin, host)
        return bool(found.status == "enabled" and found.state == "up")

    until(f"{host} is used again", is_used)
